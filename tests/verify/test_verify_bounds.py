"""Lower bounds: closed forms where they are tight, and never above what the simulator reaches."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.plan_bounds import best_bound, plan_bounds
from tests.support.verify_cases import (
    circulant,
    dense,
    four_servers,
    make_cluster,
    make_plan,
    sample_splits,
    split_index,
    two_layers,
    with_arrays,
)
from topoopt.core.cluster import LinkDirection
from topoopt.core.proofs import Argument
from topoopt.core.workload import Operator, OperatorInput, Placement, Split, Strategy, Workload, strided_groups
from topoopt.simulate.fabrics import direct_connect_network
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.time_models.evaluate import evaluate
from topoopt.verify.job.bounds import compute_bounds, instance_bounds, strategies_in_turn


def values(bounds):
    """Bounds by name."""
    return {bound.proved_by: bound.value for bound in bounds}


def strategy(*placements):
    """A strategy of (split, offset) pairs."""
    return Strategy(tuple(Placement(split, offset) for split, offset in placements))


def test_data_parallel_dense_layer_closed_form():
    """fw + bw + local AllReduce + 2 (k-1)/k S / (d B): 1 + 2 + 4.5 + 1.5 ms, whatever the rings."""
    cluster = make_cluster(4, 2, gpus_per_server=4, intra_server_gbps=8.0 / 3)
    layer = dense("layer", 4, (), (Split(4, 1.0, 2.0, 1),), [250_000])  # 1e6 bytes of gradients
    workload = Workload("one", 8, (layer,))
    network = 2 * 3 / 4 * 1e6 / 2e6
    local = 2 * 3 / 4 * 1e6 / (1e6 / 3)
    found = values(plan_bounds(cluster, workload, strategy((0, 0))))
    assert found["compute critical path"] == 3.0
    assert found["compute of one server"] == pytest.approx(3.0 + local + network)
    assert found["critical path with traffic"] == pytest.approx(3.0 + local + network)
    assert found["bytes sent by one server"] == pytest.approx(3.0 + local + network)
    assert best_bound(cluster, workload).value == pytest.approx(3.0 + local + network)
    ring = circulant(make_cluster(4, 2), [1])
    on_ring = values(plan_bounds(cluster, workload, strategy((0, 0)), ring))
    assert on_ring["bytes times hops over all links"] == pytest.approx(3.0 + local + network)


def test_unused_interfaces_tighten_the_bound_of_a_topology():
    """With one of two interfaces dark, the same AllReduce takes twice as long."""
    cluster = make_cluster(4, 2, LinkDirection.UNIDIRECTIONAL)
    workload = Workload("one", 8, (dense("layer", 4, (), (Split(4, 1.0, 2.0, 1),), [250_000]),))
    any_topology = values(plan_bounds(cluster, workload, strategy((0, 0))))
    half = values(plan_bounds(cluster, workload, strategy((0, 0)), circulant(cluster, [1])))
    assert any_topology["bytes sent by one server"] == pytest.approx(3.75)
    assert half["bytes sent by one server"] == pytest.approx(4.5)


def test_members_far_apart_count_their_hops():
    """Two opposite servers of a ring of four reduce over two hops each way: four times 1e6 bytes on 8e6 a ms."""
    cluster = make_cluster(4, 2)
    workload = Workload("one", 8, (dense("layer", 4, (), (Split(2, 1.0, 2.0, 1),), [250_000]),))
    found = values(plan_bounds(cluster, workload, strategy((0, 0)), circulant(cluster, [1])))
    assert found["bytes times hops over all links"] == pytest.approx(3.0 + 2 * 2 * 1e6 / 8e6)


def test_transfer_chain_closed_form():
    """Table on one server, layer on another: 1 + 0.48 + 1 forward, 2 + 0.48 + 2 backward at d B = 2e6 bytes/ms."""
    cluster = make_cluster(4, 2)
    table = dense("table", 240, (), sample_splits([1]))
    layer = dense("layer", 4, (0,), sample_splits([1]))
    workload = Workload("chain", 1000, (table, layer))
    found = values(plan_bounds(cluster, workload, strategy((0, 0), (0, 1))))
    assert found["critical path with traffic"] == pytest.approx(6.96)
    assert found["compute critical path"] == 6.0
    # On one server nothing is sent.
    found = values(plan_bounds(cluster, workload, strategy((0, 0), (0, 0))))
    assert found["critical path with traffic"] == found["compute of one server"] == 6.0
    # The instance bound knows only that the chain cannot be shortened.
    assert best_bound(cluster, workload).value == pytest.approx(6.0)


def test_fan_in_shares_the_receiver():
    """Three tables on three servers feed one: all three transfers share its interfaces, and so do those back."""
    cluster = make_cluster(4, 3)
    tables = tuple(dense(f"t{i}", 240, (), sample_splits([1])) for i in range(3))
    workload = Workload("fan", 1000, (*tables, dense("layer", 4, (0, 1, 2), sample_splits([1]))))
    found = values(plan_bounds(cluster, workload, strategy((0, 0), (0, 1), (0, 2), (0, 3))))
    once = 1000 * 240 * 4 / 3e6
    assert found["critical path with traffic"] == pytest.approx(6 + 3 * once + 3 * once)
    assert found["bytes received by one server"] == pytest.approx(6 + 6 * once)
    assert found["bytes sent by one server"] == pytest.approx(6 + 6 * once)


def test_compute_bounds_closed_forms():
    """Work is shared by all servers, the longest chain cannot be, and of five tables on four servers two share one."""
    tables = tuple(dense(f"t{i}", 4, (), sample_splits([1], 2.0, 1.0 + i / 4)) for i in range(5))
    top = dense("top", 4, tuple(range(5)), sample_splits([4], 8.0, 12.0))
    workload = Workload("job", 8, (*tables, top))
    found = values(compute_bounds(make_cluster(4, 2), workload))
    assert found["compute work"] == pytest.approx((3 + 3.25 + 3.5 + 3.75 + 4 + 20) / 4)
    assert found["compute critical path"] == pytest.approx(4 + 5)
    assert found["whole operators on one server"] == pytest.approx(3 + 3.25 + 5)
    assert found["pinned operators of one server"] == pytest.approx(5)
    pinned = tuple(replace(table, pinned_offset=index % 2) for index, table in enumerate(tables))
    found = values(compute_bounds(make_cluster(4, 2), Workload("job", 8, (*pinned, top))))
    assert found["pinned operators of one server"] == pytest.approx(3 + 3.5 + 4 + 5)


def test_a_faster_split_of_either_direction_is_not_taken_twice():
    """One split is fast forward, one fast backward: the turn at the top costs one of them, not the best of both."""
    splits = (Split(1, 1.0, 10.0, 1), Split(2, 10.0, 1.0, 1))
    workload = Workload("job", 8, (dense("op", 4, (), splits),))
    assert values(compute_bounds(make_cluster(4, 2), workload))["compute critical path"] == pytest.approx(11.0)


def test_no_plan_means_an_infinite_bound():
    """No legal split, or too little memory in all servers together."""
    cluster = make_cluster(4, 2, gpu_memory_bytes=10)
    odd = Workload("odd", 8, (dense("op", 4, (), (Split(3, 1.0, 1.0, 1),)),))
    assert best_bound(cluster, odd).value == float("inf")
    big = Workload("big", 8, (dense("op", 4, (), (Split(1, 1.0, 1.0, 11),)),))
    assert best_bound(cluster, big).argument is Argument.NO_LEGAL_SPLIT
    many = Workload("many", 8, tuple(dense(f"op{i}", 4, (), (Split(1, 1.0, 1.0, 9),)) for i in range(5)))
    assert best_bound(cluster, many).argument is Argument.TOO_LITTLE_MEMORY


def test_splitting_and_traffic_are_weighed_against_each_other():
    """Whole: 8 ms of work on one server. Split: 2 ms and 6e6 bytes to reduce. One operator: the better of both."""
    splits = (Split(1, 3.0, 5.0, 1), Split(4, 0.75, 1.25, 1))
    cluster = make_cluster(4, 2, links=LinkDirection.BIDIRECTIONAL)
    workload = Workload("job", 8, (dense("op", 4, (), splits, [1_000_000]),))
    # Split: 2 ms, then 2 * 3/4 * 4e6 bytes per server on 2e6 bytes/ms = 3 ms.
    assert best_bound(cluster, workload).value == pytest.approx(5.0)
    slow = replace(cluster, link_gbps=0.8)
    assert best_bound(slow, workload).value == pytest.approx(8.0)


def test_illegal_arguments_are_refused():
    """plan_bounds needs a legal strategy and a connected topology."""
    cluster, workload, plan = four_servers()
    with pytest.raises(ValueError, match="strategy-offset"):
        plan_bounds(cluster, workload, strategy((0, 9), (0, 0)))
    empty = with_arrays(plan.topology, arcs=plan.topology.arcs[:0], multiplicity=plan.topology.multiplicity[:0])
    with pytest.raises(ValueError, match="not-connected"):
        plan_bounds(cluster, workload, plan.strategy, empty)


def simulated(cluster, workload, plan, model):
    """Iteration time of the simulator."""
    graph = build_task_graph(cluster, workload, plan.strategy)
    network = direct_connect_network(cluster, plan.topology, plan.routes, plan.rings)
    return evaluate(graph, network, model).iteration_time_ms


def test_no_strategy_of_a_small_instance_beats_its_bounds():
    """All strategies of the two-layer job on three and four servers, on the ring and on the full mesh."""
    for servers, degree in ((3, 2), (4, 2), (4, 4)):
        cluster = make_cluster(servers, degree, link_gbps=0.01)
        workload = two_layers(servers, 12)
        free = instance_bounds(cluster, workload)
        best = float("inf")
        layer = workload.operators[1]
        for index, split in enumerate(layer.splits):
            for table, offset in product(range(servers), range(servers // split.parts)):
                plan = make_plan(
                    cluster,
                    [(0, table), (index, offset)],
                    [1] if degree == 2 else [1, 1],
                    strided_groups(servers),
                )
                time = simulated(cluster, workload, plan, "rounds")
                best = min(best, time)
                for bound in (
                    *plan_bounds(cluster, workload, plan.strategy),
                    *plan_bounds(cluster, workload, plan.strategy, plan.topology),
                ):
                    assert bound.value <= time * (1 + 1e-9), bound
        for bound in free:
            assert bound.value <= best * (1 + 1e-9), bound
        assert max(bound.value for bound in free) > 0.4 * best


@st.composite
def jobs(draw):
    """A random cluster, workload, strategy and circulant with all routes and rings."""
    n = draw(st.sampled_from([2, 3, 4, 6, 8]))
    links = draw(st.sampled_from(list(LinkDirection)))
    rings = 1 if n == 2 else draw(st.integers(1, 2))
    degree = rings * (2 if links is LinkDirection.BIDIRECTIONAL else 1)
    cluster = make_cluster(
        n,
        degree,
        links,
        link_gbps=draw(st.sampled_from([0.1, 1.0, 10.0])),
        gpus_per_server=draw(st.sampled_from([1, 4])),
        hop_latency_us=draw(st.sampled_from([0.0, 1.0])),
    )
    operators, placements = [], []
    for index in range(draw(st.integers(1, 5))):
        splits = []
        for _ in range(draw(st.integers(1, 3))):
            ways, left = [], n
            for _ in range(3):
                ways.append(draw(st.sampled_from([p for p in range(1, left + 1) if left % p == 0])))
                left //= ways[-1]
            forward, backward = draw(st.integers(0, 50)) / 100, draw(st.integers(0, 90)) / 100
            splits.append(Split(ways[0], forward, backward, 1, ways[1], ways[2]))
        edges = tuple(
            OperatorInput(u, draw(st.sampled_from([1.0, 0.3]))) for u in range(index) if draw(st.integers(0, 2)) == 0
        )
        operators.append(
            Operator(
                f"op{index}",
                "dense",
                draw(st.sampled_from([1, 3, 500])),
                draw(st.sampled_from([2, 4, 8])),
                draw(st.sampled_from([(), (7,), (90_000, 300)])),
                edges,
                tuple(splits),
                mixes_channels=draw(st.booleans()),
                locally_reduced=draw(st.booleans()),
            )
        )
        chosen = draw(st.integers(0, len(splits) - 1))
        placements.append((chosen, draw(st.integers(0, n // splits[chosen].parts - 1))))
    distances = [1] * rings if n == 2 else [1, draw(st.integers(1, n - 1))][:rings]
    plan = make_plan(cluster, placements, distances, strided_groups(n))
    return cluster, Workload("job", 2 * n, tuple(operators)), plan


@settings(max_examples=60)
@given(jobs(), st.sampled_from(["rounds", "hop"]))
def test_no_simulated_plan_beats_a_bound(job, model):
    """Bounds of the instance, of the strategy and of the topology are all below the simulated iteration time."""
    cluster, workload, plan = job
    time = simulated(cluster, workload, plan, model)
    for bound in (
        *instance_bounds(cluster, workload),
        *plan_bounds(cluster, workload, plan.strategy),
        *plan_bounds(cluster, workload, plan.strategy, plan.topology),
    ):
        assert bound.value <= time * (1 + 1e-9), bound


@settings(max_examples=25)
@given(jobs(), st.integers(2, 4))
def test_bounds_scale_with_time_and_bandwidth(job, factor):
    """Operators `factor` times slower on links `factor` times slower: every bound grows by that factor."""
    cluster, workload, _ = job
    slower = replace(
        cluster, link_gbps=cluster.link_gbps / factor, intra_server_gbps=cluster.intra_server_gbps / factor
    )
    operators = tuple(
        replace(
            operator,
            splits=tuple(
                replace(split, forward_ms=split.forward_ms * factor, backward_ms=split.backward_ms * factor)
                for split in operator.splits
            ),
        )
        for operator in workload.operators
    )
    before = values(instance_bounds(cluster, workload))
    after = values(instance_bounds(slower, replace(workload, operators=operators)))
    assert after == pytest.approx({name: factor * value for name, value in before.items()})


@settings(max_examples=25)
@given(jobs())
def test_more_interfaces_never_raise_a_bound(job):
    """A cluster with one interface more has bounds no higher."""
    cluster, workload, _ = job
    before = values(instance_bounds(cluster, workload))
    after = values(instance_bounds(replace(cluster, degree=cluster.degree + 1), workload))
    for name in ("compute work", "compute critical path", "critical path with AllReduce"):
        assert after[name] <= before[name] * (1 + 1e-12)


def test_names_of_splits_do_not_matter():
    """Listing the splits in another order leaves the bounds as they are."""
    cluster, workload, _ = four_servers()
    layer = workload.operators[1]
    assert split_index(layer, 4) != 0
    turned = replace(workload, operators=(workload.operators[0], replace(layer, splits=layer.splits[::-1])))
    assert values(instance_bounds(cluster, turned)) == pytest.approx(values(instance_bounds(cluster, workload)))


def three_layers():
    """A table on one of three servers, and two layers that read it and each other, whole or in three parts."""
    table = dense("table", 300, (), sample_splits([1]), [400])
    layer = dense("layer", 200, (0,), sample_splits([1, 3], 3.0, 6.0), [300_000])
    return make_cluster(3, 2), Workload("three", 24, (table, layer, dense("head", 1, (0, 1), sample_splits([1, 3]))))


def test_strategies_in_turn_are_the_least_of_all() -> None:
    """The least over every strategy of the best of its own bounds, and never above a simulated one."""
    cluster, workload = three_layers()
    topology = circulant(cluster, [1])
    own, simulated = [], []
    for splits in product(*(range(len(operator.splits)) for operator in workload.operators)):
        parts = [operator.splits[s].parts for operator, s in zip(workload.operators, splits, strict=True)]
        for offsets in product(*(range(3 // k) for k in parts)):
            chosen = strategy(*zip(splits, offsets, strict=True))
            own.append(max(bound.value for bound in plan_bounds(cluster, workload, chosen)))
            plan = make_plan(cluster, list(zip(splits, offsets, strict=True)), [1], strided_groups(3))
            network = direct_connect_network(cluster, topology, plan.routes, plan.rings)
            simulated.append(evaluate(build_task_graph(cluster, workload, chosen), network).iteration_time_ms)
    bound = strategies_in_turn(cluster, workload, on_rings=True)
    assert bound is not None
    assert bound.value == pytest.approx(min(own), rel=1e-9)
    assert best_bound(cluster, workload).value <= bound.value <= min(simulated)
    assert len(own) == 3 * 4 * 4


def test_no_strategies_in_turn_on_many_servers() -> None:
    """Six servers are too many, and one has no traffic."""
    _, workload = three_layers()
    assert strategies_in_turn(make_cluster(6, 2), workload, on_rings=True) is None
    assert strategies_in_turn(make_cluster(1, 2), workload, on_rings=True) is None
