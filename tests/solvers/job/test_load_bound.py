"""The bound on the load of links: never above a simulated time, never below the time that the busiest link is busy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.job.annealing import graph_shape
from solvers.job.realise import realise
from solvers.job.starts import data_parallel
from solvers.network.routes import circulant_topology
from tests.support.cli_cases import chain, job, run, write
from topoopt.core.cluster import Cluster, LinkDirection, LinkSharing
from topoopt.core.workload import Operator, OperatorInput, Placement, Split, Strategy, Workload, strided_groups
from topoopt.kinds.files import read_instance, read_solution
from topoopt.native import jobs
from topoopt.simulate.fabrics import plan_network
from topoopt.simulate.network import build_task_graph, graph_arrays, network_arrays, strategy_arrays, workload_arrays
from topoopt.simulate.time_models.evaluate import simulate


def layers(n: int, elements: int) -> Workload:
    """Four layers of these elements a sample, one after another, with weights of 4 and 0.04 MB."""
    splits = tuple(Split(p, 1.0 / p, 2.0 / p, 0) for p in range(1, n + 1) if n % p == 0)
    return Workload(
        "layers",
        12 * n,
        tuple(
            Operator(f"op{i}", "dense", elements, 4, (1_000_000, 10_000), (OperatorInput(i - 1),) if i else (), splits)
            for i in range(4)
        ),
    )


def holds(graph, network) -> None:
    """The bound is not above either time, no task misses a deadline, and the busiest link counts in full."""
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    for model in ("rounds", "hop"):
        simulation = simulate(graph, network, model)
        time_ms = simulation.iteration_time_ms
        longer, deadline = jobs.load_bound(arrays, links, time_ms)
        assert not longer
        assert (simulation.end_ms <= deadline).all()
        assert (deadline <= time_ms * (1 + 1e-8)).all()
        rounds = model == "rounds"
        assert jobs.simulate(arrays, links, rounds, threshold=time_ms, deadline=deadline)[0] == time_ms
        busy = float((simulation.link_bytes / network.link_rate).max())
        if busy > 0:
            assert jobs.load_bound(arrays, links, 0.999 * busy)[0]


@settings(max_examples=30)
@given(
    n=st.sampled_from([2, 4, 6, 8]),
    seed=st.integers(0, 2**32),
    elements=st.sampled_from([10, 1000, 100_000]),
    sharing=st.sampled_from(list(LinkSharing)),
)
def test_the_bound_is_between_the_busiest_link_and_the_time(
    n: int, seed: int, elements: int, sharing: LinkSharing
) -> None:
    """Random strategies, light and heavy transfers, all ways of sharing links."""
    workload, cluster = layers(n, elements), Cluster(n, 1, 4 if n > 4 else 2, 25.0)
    topology = circulant_topology(n, cluster.degree, LinkDirection.BIDIRECTIONAL, (1, 3) if n > 4 else (1,))
    network = replace(realise(cluster, topology, strided_groups(n)).network, link_sharing=sharing)
    arrays, shape = workload_arrays(cluster, workload), graph_shape(workload)
    split, offset = strategy_arrays(data_parallel(n, workload))
    rng = np.array([seed], dtype=np.uint64)
    for _ in range(20):
        jobs.propose(arrays, shape, split, offset, rng)
    strategy = Strategy(tuple(Placement(int(s), int(o)) for s, o in zip(split, offset, strict=True)))
    holds(build_task_graph(cluster, workload, strategy), network)


def test_an_allreduce_after_its_layer() -> None:
    """Two servers, one layer: its AllReduce sends 2 (2-1)/2 of 5 000 000 B over a link of 3.125 MB/ms, 1.6 ms, after
    3/2 ms of compute; 3.1 ms is just not sure to be exceeded but for the fixed costs, which are not in the bound."""
    splits = tuple(Split(p, 1.0 / p, 2.0 / p, 0) for p in (1, 2))
    workload = Workload("one", 24, (Operator("op", "dense", 10, 4, (1_250_000,), (), splits),))
    cluster = Cluster(2, 1, 1, 25.0)
    topology = circulant_topology(2, 1, LinkDirection.BIDIRECTIONAL, (1,))
    network = realise(cluster, topology, strided_groups(2)).network
    graph = build_task_graph(cluster, workload, data_parallel(2, workload))
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    assert jobs.load_bound(arrays, links, 3.0999)[0]
    longer, deadline = jobs.load_bound(arrays, links, 3.1001)
    assert not longer
    # Forward of 0.5 ms and backward of 1 ms on each server, then the AllReduce.
    assert deadline[[0, 2]] == pytest.approx([2.1001, 3.1001])
    early = np.array([0.4, 9.0, 9.0, 9.0, 9.0])
    assert jobs.simulate(arrays, links, False, threshold=9.0, deadline=early)[0] == np.inf


def test_nothing_to_do_takes_no_time() -> None:
    """No compute and no bytes: 0 ms is not exceeded, and due by then; so is a limit beyond all numbers."""
    splits = tuple(Split(p, 0.0, 0.0, 0) for p in (1, 2))
    inputs = ((), (OperatorInput(0),))
    operators = tuple(Operator(f"op{i}", "dense", 0, 4, (0,), own, splits) for i, own in enumerate(inputs))
    workload, cluster = Workload("none", 2, operators), Cluster(2, 1, 1, 25.0)
    topology = circulant_topology(2, 1, LinkDirection.BIDIRECTIONAL, (1,))
    network = realise(cluster, topology, strided_groups(2)).network
    links = network_arrays(network)
    apart = Strategy((Placement(0, 0), Placement(0, 1)))
    for strategy in (apart, data_parallel(2, workload)):
        arrays = graph_arrays(build_task_graph(cluster, workload, strategy), network)
        for limit in (0.0, np.finfo(np.float64).max):
            longer, deadline = jobs.load_bound(arrays, links, limit)
            assert not longer
            assert (deadline >= limit).all()


@pytest.mark.parametrize("choice", ["trees", "bfb"])
def test_allreduces_on_schedules(tmp_path, choice) -> None:
    """What a schedule sends over each link counts as what rings send."""
    operators = chain(6, 3, weights=1000)
    operators[1]["weight_elements"] = [10_000_000, 300]
    search = {"budget": 20, "method": "alternating", "allreduce": choice}
    case = write(tmp_path, job(6, 3, operators, search=search) | {"baselines": {"fabrics": []}}, "case.json")
    assert run("solve", case, "--output", tmp_path / "out").code == 0
    instance, plan = read_instance(case), read_solution(tmp_path / "out" / "solution.json").plan
    assert plan.schedules
    graph = build_task_graph(instance.cluster, instance.workload, plan.strategy)
    holds(graph, plan_network(instance.cluster, plan))
