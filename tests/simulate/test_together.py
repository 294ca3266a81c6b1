"""Jobs together: restarts against an unrolled graph, contention in closed form, conservation, jobs apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import plain_cases as cases
from tests.support.simulated import times
from topoopt.core.cluster import Cluster
from topoopt.core.workload import GroupRings, Ring, TaskGraph, TaskKind
from topoopt.simulate.cluster_rates import (
    first_iterations,
    job_view,
    merge_jobs,
    shared_network,
    simulate_together,
)
from topoopt.simulate.fabrics import FABRICS, FabricOptions, Group
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.evaluate import fluid_outcome, simulate

TRANSFER, ALLREDUCE, FORWARD = TaskKind.TRANSFER, TaskKind.ALLREDUCE, TaskKind.FORWARD
CLUSTER = Cluster(servers=54, gpus_per_server=1, degree=4, link_gbps=100.0)
"""A fat-tree of k = 6 is full with 54 servers."""


def dumbbell(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Servers 0 and 2 reach 1 and 3 over one link of 10 bytes/ms from node 4 to node 5."""
    links = {(0, 4): 100.0, (2, 4): 100.0, (4, 5): 10.0, (5, 1): 100.0, (5, 3): 100.0}
    paths = {(0, 1): [((0, 4, 5, 1), 1.0)], (2, 3): [((2, 4, 5, 3), 1.0)]}
    return replace(cases.network_of(6, links, paths), servers=6)


def one_transfer(size: int) -> TaskGraph:
    """Server 0 sends to server 1."""
    return cases.graph_of(2, [(TRANSFER, 0, 1, -1, 0.0, size)], set())


def ring_job(members: int, payload: int, compute_ms: float = 1.0) -> TaskGraph:
    """Every server computes, then all of them reduce."""
    group = tuple(range(members))
    tasks = [(FORWARD, server, -1, -1, compute_ms, 0) for server in group]
    tasks.append((ALLREDUCE, -1, -1, 0, 0.0, payload))
    return cases.graph_of(members, tasks, {(server, members) for server in group}, (group,))


def all_to_all(members: int, size: int) -> TaskGraph:
    """Every server sends to every other."""
    tasks = [(TRANSFER, i, j, -1, 0.0, size) for i in range(members) for j in range(members) if i != j]
    return cases.graph_of(members, tasks, set())


def two_jobs(first: int, second: int) -> list[tuple[TaskGraph, tuple[int, ...]]]:
    """A transfer each on the two sides of the dumbbell."""
    return [(one_transfer(first), (0, 1)), (one_transfer(second), (2, 3))]


def test_two_jobs_share_a_bottleneck_as_long_as_one_has_not_finished() -> None:
    """1000 and 3000 bytes over a link of 10: each gets 5 all the time, as the short one begins again: 200 and 600."""
    cluster = replace(CLUSTER, servers=6)
    times = simulate_together(two_jobs(1000, 3000), cluster, dumbbell, FabricOptions(), "fluid")
    assert times.tolist() == pytest.approx([200.0, 600.0])


def test_without_restarts_the_long_job_ends_alone() -> None:
    """The same with one iteration each: 200, then 2000 bytes at rate 10: 400. All bytes cross their three links."""
    cluster = replace(CLUSTER, servers=6)
    graph, job_ptr = merge_jobs(two_jobs(1000, 3000), 6)
    network = shared_network(graph, cluster, dumbbell, FabricOptions())
    _, _, _, _, first_end, carried, _, _ = fluid_outcome(graph, network, job_ptr, restart=False)
    assert first_end.tolist() == pytest.approx([200.0, 400.0])
    assert carried.tolist() == pytest.approx([1000.0, 3000.0, 4000.0, 1000.0, 3000.0])


def test_fifo_rounds_share_a_bottleneck_too() -> None:
    """Two equal jobs of many segments take turns on the link, so both end within a segment of twice the time alone."""
    cluster = replace(CLUSTER, servers=6)
    size = 40 * 256 * 1024
    times = simulate_together(two_jobs(size, size), cluster, dumbbell, FabricOptions(), "rounds")
    assert times.tolist() == pytest.approx([2 * size / 10.0] * 2, rel=0.03)


def chained(graph: TaskGraph, copies: int) -> TaskGraph:
    """Iterations one after another: no task of a copy begins before all of the one before have ended."""
    tasks = graph.tasks
    edges = set()
    for t in range(tasks):
        for s in graph.successor[graph.successor_ptr[t] : graph.successor_ptr[t + 1]]:
            edges |= {(copy * tasks + t, copy * tasks + int(s)) for copy in range(copies)}
    led = set(graph.successor.tolist())
    roots = [t for t in range(tasks) if t not in led]
    sinks = [t for t in range(tasks) if graph.successor_ptr[t] == graph.successor_ptr[t + 1]]
    for copy in range(copies - 1):
        edges |= {(copy * tasks + a, (copy + 1) * tasks + b) for a in sinks for b in roots}
    rows = [
        (
            TaskKind(graph.kind[t]),
            int(graph.source[t]),
            int(graph.target[t]),
            int(graph.group[t]),
            float(graph.duration_ms[t]),
            int(graph.bytes[t]),
        )
        for t in range(tasks)
    ]
    return cases.graph_of(graph.servers, rows * copies, edges, graph.groups)


def beside(first: TaskGraph, second: TaskGraph) -> tuple[TaskGraph, np.ndarray]:
    """Both graphs in one on the same servers, and where each begins."""
    merged = TaskGraph(
        servers=first.servers,
        **{
            name: np.concatenate((getattr(first, name), getattr(second, name)))
            for name in ("kind", "source", "target", "group", "duration_ms", "bytes", "operator")
        },
        successor_ptr=np.concatenate((first.successor_ptr, second.successor_ptr[1:] + len(first.successor))),
        successor=np.concatenate((first.successor, second.successor + np.int32(first.tasks))),
        groups=first.groups,
    )
    return merged, np.array([0, first.tasks, merged.tasks], dtype=np.int64)


def random_pair(seed: int) -> tuple[TaskGraph, TaskGraph, Network]:
    """A random graph, and the same three times as long."""
    graph, network = cases.random_case(seed, False)
    return graph, replace(graph, duration_ms=3.1 * graph.duration_ms, bytes=3 * graph.bytes), network


@given(seed=st.integers(0, 10**9))
@settings(max_examples=40)
def test_restarts_are_copies_one_after_another(seed: int) -> None:
    """Fluid: the long job ends as it does beside six copies of the short one, chained, in a simulation without jobs."""
    short, long, network = random_pair(seed)
    merged, job_ptr = beside(short, long)
    first = first_iterations("fluid", merged, network, job_ptr)
    unrolled, start = beside(chained(short, 6), long)
    _, end = times(unrolled, network, "fluid")
    if first[1] <= end[: start[1]].max():
        assert first[1] == pytest.approx(end[start[1] :].max(), rel=1e-9)
    assert first[0] == pytest.approx(end[: short.tasks].max(), rel=1e-9)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=40)
def test_restarts_of_rounds_are_copies_too(seed: int) -> None:
    """The same of `rounds`; a job that has no task that moves or takes time is left out."""
    short, long, network = random_pair(seed)
    merged, job_ptr = beside(short, long)
    first = first_iterations("rounds", merged, network, job_ptr)
    unrolled, start = beside(chained(short, 6), long)
    end = simulate(unrolled, network).end_ms
    assert first[0] == pytest.approx(end[: short.tasks].max(), rel=1e-9)
    if first[1] <= end[: start[1]].max():
        assert first[1] == pytest.approx(end[start[1] :].max(), rel=1e-9)


def placed(seed: int, jobs: Sequence[TaskGraph]) -> list[tuple[TaskGraph, tuple[int, ...]]]:
    """Jobs on random servers of the cluster."""
    order = np.random.default_rng(seed).permutation(CLUSTER.servers).tolist()
    first = np.cumsum([0] + [graph.servers for graph in jobs])
    return [(graph, tuple(order[a:b])) for graph, a, b in zip(jobs, first[:-1], first[1:], strict=True)]


@pytest.mark.parametrize("model", ["fluid", "rounds"])
@pytest.mark.parametrize(
    "fabric", ["ideal-switch", "fat-tree", "oversubscribed-fat-tree", "torus-2d", "random-regular"]
)
def test_an_idle_job_changes_nothing(fabric: str, model: str) -> None:
    """A job that only computes, or none at all, leaves the others' times alone, on every fabric."""
    busy = placed(3, [ring_job(6, 40_000_000), all_to_all(6, 2_000_000), ring_job(4, 30_000_000)])
    taken = {server for _, own in busy for server in own}
    free = tuple(server for server in range(54) if server not in taken)[:3]
    idle = cases.graph_of(3, [(FORWARD, server, -1, -1, 0.5, 0) for server in range(3)], set())
    options = FabricOptions(seed=5)
    without = simulate_together(busy, CLUSTER, FABRICS[fabric].build, options, model)
    beside_idle = simulate_together([*busy, (idle, free)], CLUSTER, FABRICS[fabric].build, options, model)
    assert beside_idle[:3].tolist() == pytest.approx(without.tolist(), rel=1e-9)
    assert beside_idle[3] == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(6))
def test_an_ideal_switch_is_never_slower_than_the_fat_tree_of_its_rate(seed: int) -> None:
    """Rings and all-to-alls of equal sizes: links above the servers can only take away (fluid)."""
    jobs = placed(
        seed, [ring_job(8, 50_000_000), all_to_all(8, 3_000_000), ring_job(8, 20_000_000), ring_job(9, 10**7)]
    )
    options = FabricOptions(seed=seed)
    ideal = simulate_together(jobs, CLUSTER, FABRICS["ideal-switch"].build, options, "fluid")
    tree = simulate_together(jobs, CLUSTER, FABRICS["full-fat-tree"].build, options, "fluid")
    # The fat-tree has a higher fixed cost of ring rounds and more hops, too.
    assert (tree >= ideal * (1 - 1e-9)).all()


def test_jobs_on_an_ideal_switch_do_not_touch() -> None:
    """Every server has its link to itself, so each job takes the time it takes alone."""
    jobs = placed(1, [ring_job(8, 50_000_000), all_to_all(8, 3_000_000), ring_job(5, 20_000_000)])
    together = simulate_together(jobs, CLUSTER, FABRICS["ideal-switch"].build, FabricOptions(), "fluid")
    for job, time in zip(jobs, together, strict=True):
        alone = simulate_together([job], CLUSTER, FABRICS["ideal-switch"].build, FabricOptions(), "fluid")
        assert time == pytest.approx(float(alone[0]), rel=1e-9)


def shard_rings(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Every group is a shard: a ring of direct links of 1000 bytes/ms."""
    links, rings = {}, []
    for group in groups:
        hops = list(zip(group, (*group[1:], group[0]), strict=True))
        links.update(dict.fromkeys(hops, 1000.0))
        rings.append(GroupRings(group, (Ring(group, 1.0, tuple(hops)),)))
    return cases.network_of(cluster.servers, links, {}, tuple(rings), 0.001, 0.002)


@pytest.mark.parametrize("model", ["fluid", "rounds"])
def test_isolated_shards_take_their_time_alone_exactly(model: str) -> None:
    """Jobs whose links are their own: together, and alone on a cluster of their size, to the last bit."""
    graphs = [ring_job(4, 5_000_000, 1.25), ring_job(7, 9_000_000, 0.3), ring_job(3, 1_000_000)]
    together = simulate_together(placed(9, graphs), CLUSTER, shard_rings, FabricOptions(), model)
    for graph, time in zip(graphs, together, strict=True):
        cluster = replace(CLUSTER, servers=graph.servers)
        own = (graph, tuple(range(graph.servers)))
        assert simulate_together([own], cluster, shard_rings, FabricOptions(), model)[0] == time


@pytest.mark.parametrize("model", ["fluid", "rounds"])
@pytest.mark.parametrize("fabric", ["ideal-switch", "fat-tree", "full-fat-tree"])
def test_the_view_of_a_job_is_the_fabric_it_runs_on(fabric: str, model: str) -> None:
    """A job alone on the whole fabric and on its own view of it takes the same time."""
    options = FabricOptions(seed=2, oversubscription=3.0)
    for graph in (ring_job(6, 40_000_000), all_to_all(6, 2_000_000)):
        job = placed(4, [graph])[0]
        alone = simulate_together([job], CLUSTER, FABRICS[fabric].build, options, model)[0]
        view = job_view(job[1], CLUSTER, FABRICS[fabric].build, options)
        seen = times(graph, view, "fluid")[1].max() if model == "fluid" else simulate(graph, view).iteration_time_ms
        assert seen == pytest.approx(float(alone), rel=1e-12)
        assert view.links <= 2 * (54 + 2 * 54)


def test_routes_do_not_depend_on_which_pairs_are_asked_for() -> None:
    """A fat-tree restricted to some pairs has the routes of the whole one."""
    whole = FABRICS["fat-tree"].build(CLUSTER, [], FabricOptions(seed=7))
    pairs = np.array([3, 54 * 7 + 40, 54 * 53 + 1], dtype=np.int64)
    some = FABRICS["fat-tree"].build(CLUSTER, [], FabricOptions(seed=7, pairs=pairs))
    assert len(some.path_share) == 3
    for row, pair in enumerate(pairs.tolist()):
        path = int(whole.pair_ptr[pair])
        expected = whole.path_link[whole.path_ptr[path] : whole.path_ptr[path + 1]]
        assert some.path_link[some.path_ptr[row] : some.path_ptr[row + 1]].tolist() == expected.tolist()


def test_refuses_jobs_on_the_same_server() -> None:
    """Two jobs on one server, and a server the cluster has not."""
    graph = one_transfer(10)
    with pytest.raises(ValueError, match="servers of their own"):
        merge_jobs([(graph, (0, 1)), (graph, (1, 2))], 6)
    with pytest.raises(ValueError, match="servers of their own"):
        merge_jobs([(graph, (5, 6))], 6)
