"""The unit `flows`: filling, the models on flows, shared circuits, two-layer multipliers, each against other code."""

from __future__ import annotations

import math
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from tests.native import calls_flows as calls
from tests.support import plain_cases as cases
from tests.support.checked_times import checked_fluid
from tests.support.plain_flexnet import plain_flexnet_times
from topoopt.core.arrays import offsets
from topoopt.core.workload import TaskKind
from topoopt.native import StopFlag, Stopped, flows
from topoopt.simulate.network import graph_arrays, network_arrays


@pytest.mark.parametrize("seed", range(60))
def test_rates_are_those_of_single_flows(seed: int) -> None:
    """A route of some weight is as many flows."""
    first, link, rate, weight = calls.shared_links(np.random.default_rng(seed))
    routes = [link[a:b].tolist() for a, b in pairwise(first)]
    found = flows.max_min_rates(first, link, rate, weight)
    single = [(r, route) for r, route in enumerate(routes) if route for _ in range(weight[r])]
    lengths, links = [len(route) for _, route in single], [at for _, route in single for at in route]
    one_each = offsets(lengths), np.array(links, dtype=np.int32), rate, np.ones(len(single), dtype=np.int64)
    for (r, _), value in zip(single, flows.max_min_rates(*one_each), strict=True):
        assert found[r] == pytest.approx(value, rel=1e-9)
    assert all(found[r] == -1.0 for r, route in enumerate(routes) if not route)


@pytest.mark.parametrize("seed", range(30))
def test_fluid(seed: int) -> None:
    """Times are those of the checker, and every byte crosses each link of its route."""
    graph, network = cases.random_case(seed, with_ties=False)
    job_ptr = np.array([0, graph.tasks], dtype=np.int64)
    time_ms, begun, ended, _, _, moved, busy, left = flows.simulate_fluid(
        graph_arrays(graph, network), network_arrays(network), job_ptr, False
    )
    start, end = checked_fluid(graph, network)
    assert begun.tolist() == pytest.approx(start, rel=1e-9, abs=1e-8)
    assert ended.tolist() == pytest.approx(end, rel=1e-9, abs=1e-8)
    assert (time_ms, left) == (ended.max(), 0)
    carried = np.zeros(network.links)
    for t in np.flatnonzero(graph.kind == TaskKind.TRANSFER):
        pair = int(graph.source[t]) * network.servers + int(graph.target[t])
        for path in range(network.pair_ptr[pair], network.pair_ptr[pair + 1]):
            over = network.path_link[network.path_ptr[path] : network.path_ptr[path + 1]]
            np.add.at(carried, over, graph.bytes[t] * network.path_share[path])
    for t in np.flatnonzero((graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0)):
        k = len(graph.groups[graph.group[t]])
        for ring in range(network.group_ptr[graph.group[t]], network.group_ptr[graph.group[t] + 1]):
            members = network.member_ptr[network.ring_ptr[ring : ring + 2]]
            amount = 2 * (k - 1) / k * graph.bytes[t] * network.ring_share[ring]
            np.add.at(carried, network.member_link[members[0] : members[1]], amount)
    assert moved.tolist() == pytest.approx(carried.tolist(), rel=1e-9)
    assert busy.tolist() == (moved / network.link_rate).tolist()


@pytest.mark.parametrize("seed", range(30))
def test_flexnet(seed: int) -> None:
    """Times are those of plain Python, ties and directions of rings included, to the last bit."""
    graph, network = cases.random_case(seed, with_ties=seed % 2 == 0)
    directions = np.random.default_rng(seed).choice(np.array([-1, 1], dtype=np.int8), graph.tasks)
    job_ptr, opposite = np.array([0, graph.tasks], dtype=np.int64), calls.opposite_links(network)
    arrays = graph_arrays(graph, network), network_arrays(network)
    _, start, end, *_ = flows.simulate_flexnet(*arrays, directions, opposite, job_ptr)
    assert (start.tolist(), end.tolist()) == plain_flexnet_times(graph, network, directions.tolist())


def plain_steps(first, successor, waits, duration, volume, channel, rate):
    """Start and end of steps: all that is under way goes on until the next of it is done."""
    n, now = len(waits), 0.0
    left = {i: float(volume[i]) if i < len(volume) else float(duration[i]) for i in range(n)}
    blocked, start, end = waits.tolist(), [0.0] * n, [0.0] * n
    under_way = {i for i in range(n) if not blocked[i]}
    while under_way:
        sharing = Counter(int(channel[i]) for i in under_way if i < len(volume))
        speed = {i: rate[channel[i]] / sharing[channel[i]] if i < len(volume) else 1.0 for i in under_way}
        span = min(left[i] / speed[i] for i in under_way)
        done = {i for i in under_way if left[i] / speed[i] <= span + 1e-9}
        now += span
        for i in under_way:
            left[i] -= speed[i] * span
        under_way -= done
        for i in done:
            end[i] = now
            for after in successor[first[i] : first[i + 1]].tolist():
                blocked[after] -= 1
                if not blocked[after]:
                    start[after] = now
                    under_way.add(after)
    return start, end


@pytest.mark.parametrize("seed", range(120))
def test_steps_over_shared_circuits(seed: int) -> None:
    """Transfers of a channel share it equally."""
    rng = np.random.default_rng(seed)
    case = calls.steps(rng)
    circuits, rate = rng.integers(1, 4, case[-1]), float(rng.integers(1, 3))
    graph = flows.SharedCircuits(*case)
    start, end = graph.follow(circuits, rate)
    expected = plain_steps(*case[:-1], np.repeat(circuits, 2) * rate)
    assert start.tolist() == pytest.approx(expected[0], abs=1e-6)
    assert end.tolist() == pytest.approx(expected[1], abs=1e-6)
    assert graph.makespan(circuits, rate) == end.max()


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 2), (7, 2), (8, 3), (13, 4)])
def test_two_layer_multipliers(n: int, d: int) -> None:
    """Two runs find what one does. `tests/verify/test_topology_bounds.py` has the bounds that they prove."""
    demand = np.random.default_rng(n).random((n, n)).astype(np.float32)
    np.fill_diagonal(demand, 0.0)
    once, twice = flows.TwoLayerSearch(d, demand), flows.TwoLayerSearch(d, demand)
    once.run(40)
    twice.run(33)
    twice.run(7)
    for one, other in zip(once.multipliers(), twice.multipliers(), strict=True):
        assert (one >= 0).all()
        np.testing.assert_array_equal(one, other)


def test_refusals() -> None:
    """Schedules, a missing path, directions without opposite links, numbers that are none."""
    graph, network = cases.random_case(5, with_ties=False)
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    job_ptr, backwards = np.array([0, graph.tasks], dtype=np.int64), np.full(graph.tasks, -1, dtype=np.int8)
    assert (graph.kind == TaskKind.ALLREDUCE).any()
    with pytest.raises(ValueError, match="opposite"):
        flows.simulate_flexnet(arrays, links, backwards, np.zeros(0, dtype=np.int32), job_ptr)
    with pytest.raises(ValueError, match="link_rate"):
        flows.simulate_fluid(arrays, links._replace(link_rate=np.full(network.links, math.nan)), job_ptr, False)
    bare = links._replace(
        pair_ptr=np.zeros_like(links.pair_ptr),
        path_share=np.zeros(0),
        path_ptr=np.zeros(1, dtype=np.int64),
        path_link=np.zeros(0, dtype=np.int32),
    )
    with pytest.raises(ValueError, match="path is missing"):
        flows.simulate_flexnet(arrays, bare, -backwards, np.zeros(0, dtype=np.int32), job_ptr)
    with pytest.raises(ValueError, match="job_ptr"):
        flows.simulate_fluid(arrays, links, job_ptr + 1, False)


def test_an_endless_run_ends_when_nobody_waits() -> None:
    """A job begins again and again beside one whose tasks wait for each other."""
    network = cases.network_of(2, {(0, 1): 1.0}, {})
    tasks = [(TaskKind.FORWARD, 0, -1, -1, 1.0, 0)] * 3
    graph = cases.graph_of(2, tasks, {(1, 2), (2, 1)})
    flag = StopFlag()
    flag.watch()
    timer = threading.Timer(0.05, flag.set)
    timer.start()
    try:
        with pytest.raises(Stopped):
            flows.simulate_fluid(
                graph_arrays(graph, network), network_arrays(network), np.array([0, 1, 3], dtype=np.int64), True
            )
    finally:
        flag.unwatch()
        timer.join()
