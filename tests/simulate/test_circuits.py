"""Circuits that change during an iteration: conservation, closed forms, dark time, stages."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import plain_cases as cases
from tests.support.simulated import times
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.native import circuits
from topoopt.simulate.circuits import (
    DYNAMIC_FABRICS,
    Phase,
    pair_chunks,
    phases_of,
    simulate_circuits,
    simulate_stages,
)

FORWARD, BACKWARD, TRANSFER, ALLREDUCE = TaskKind.FORWARD, TaskKind.BACKWARD, TaskKind.TRANSFER, TaskKind.ALLREDUCE
SIP, OCS = DYNAMIC_FABRICS["sip-ml"], DYNAMIC_FABRICS["ocs-reconfig"]
B = 12_500_000.0
"""Bytes per ms of a 100 Gbit/s circuit."""


def cluster(n: int, d: int, hop_us: float = 0.0) -> Cluster:
    """n servers with d circuits of 100 Gbit/s, without fixed costs of ring rounds."""
    return Cluster(n, 1, d, 100.0, hop_latency_us=hop_us, ring_round_latency_us=0.0)


def transfers(n: int, pairs: dict[tuple[int, int], int]) -> TaskGraph:
    """Transfers that all begin at once."""
    return cases.graph_of(n, [(TRANSFER, i, j, -1, 0.0, size) for (i, j), size in pairs.items()], set())


@given(
    seed=st.integers(0, 10**6),
    fabric=st.sampled_from(sorted(DYNAMIC_FABRICS)),
    delay=st.sampled_from([0.0, 0.001, 0.02, 1.0, 50.0]),
)
@settings(max_examples=60)
def test_bytes_are_conserved(seed: int, fabric: str, delay: float) -> None:
    """What every server sends to every other is what the transfers and the ring AllReduces ask for, none lost."""
    graph, _ = cases.random_case(seed, False)
    n = graph.servers
    wanted = np.zeros((n, n))
    policy = DYNAMIC_FABRICS[fabric]
    for t in range(graph.tasks):
        if graph.kind[t] == TRANSFER and graph.source[t] != graph.target[t]:
            wanted[graph.source[t], graph.target[t]] += graph.bytes[t]
        if graph.kind[t] == ALLREDUCE and graph.group[t] >= 0:
            members = graph.groups[graph.group[t]]
            k = len(members)
            ways = [1] if policy.directed or k == 2 else [1, -1]
            for place in range(k):
                for way in ways:
                    wanted[members[place], members[(place + way) % k]] += 2 * (k - 1) / k * graph.bytes[t] / len(ways)
    run = simulate_circuits(graph, cluster(n, 2, hop_us=1.0), policy, delay, seed=seed)
    assert run.sent_bytes == pytest.approx(wanted, rel=1e-9, abs=1e-3)
    assert run.carried_bytes >= wanted.sum() * (1 - 1e-9)
    assert (run.end_ms >= run.start_ms - 1e-9).all()
    if policy.directed:
        assert run.carried_bytes == pytest.approx(wanted.sum(), rel=1e-9)


@pytest.mark.parametrize(("name", "each"), [("sip-ml", 4), ("ocs-reconfig", 2)])
def test_a_permutation_comes_near_a_dedicated_network(name: str, each: int) -> None:
    """Each server sends to the next only: without delay, time is that of all d circuits (fibre pairs: d/2) to it."""
    n, size = 7, 2_000_000_000
    graph = transfers(n, {(i, (i + 1) % n): size for i in range(n)})
    dedicated = size / (each * B)
    times = [
        simulate_circuits(graph, cluster(n, 4), DYNAMIC_FABRICS[name], delay).iteration_time_ms
        for delay in (0.0, 1e-4, 1e-3, 1e-2)
    ]
    assert dedicated <= times[0] * (1 + 1e-9)
    assert times[0] == pytest.approx(dedicated, rel=2e-3)
    assert times[1] == pytest.approx(dedicated, rel=2e-2)
    assert times == sorted(times)


@pytest.mark.parametrize(("delay", "period"), [(1.0, 4.0), (0.5, 3.0), (2.0, None), (7.0, 1.0)])
def test_dark_time_is_counted_exactly(delay: float, period: float | None) -> None:
    """Two servers, one circuit, one transfer of 10 ms: its windows of light, and a delay between any two of them."""
    size = int(10 * B)
    run = simulate_circuits(transfers(2, {(0, 1): size}), cluster(2, 1), SIP, delay, period)
    window = 4 * delay if period is None else period
    gaps = math.ceil(10.0 / window - 1e-9) - 1
    assert run.reconfigurations == gaps
    assert run.dark_ms == pytest.approx(gaps * delay, rel=1e-12)
    assert run.iteration_time_ms == pytest.approx(10.0 + gaps * delay, rel=1e-9)


def test_draining_lets_what_is_on_the_way_arrive() -> None:
    """The same over fibre pairs with a hop latency of 2 us: each change also costs one hop, and the end one more."""
    size = int(10 * B)
    run = simulate_circuits(transfers(2, {(0, 1): size}), cluster(2, 1, 2.0), OCS, 1.0, 4.0)
    assert run.reconfigurations == 2
    assert run.dark_ms == pytest.approx(2 * 1.002, rel=1e-12)
    assert run.iteration_time_ms == pytest.approx(10.0 + 2 * 1.002 + 0.002, rel=1e-9)


def test_compute_goes_on_in_the_dark_and_nothing_waits_for_nothing() -> None:
    """A transfer of 1 ms that begins after 9.5 ms of compute: no change before, and circuits of two servers fit."""
    tasks = [(FORWARD, 0, -1, -1, 9.5, 0), (TRANSFER, 0, 1, -1, 0.0, int(B))]
    graph = cases.graph_of(2, tasks, {(0, 1)})
    run = simulate_circuits(graph, cluster(2, 1), SIP, 1.0, 4.0)
    assert run.reconfigurations == 0
    assert run.iteration_time_ms == pytest.approx(10.5, rel=1e-9)
    later = replace(graph, duration_ms=np.array([11.5, 0.0]))
    run = simulate_circuits(later, cluster(2, 1), SIP, 1.0, 4.0)
    assert (run.reconfigurations, run.iteration_time_ms) == (1, pytest.approx(13.5, rel=1e-9)), "a look at 12 ms"


def test_iterations_go_on_with_the_circuits_of_the_last() -> None:
    """After the first iteration the circuits fit, so the second of a permutation needs no change."""
    n, size = 9, int(2 * B)
    pairs = [(i, (i + 4) % n) for i in range(n)]
    seed = next(seed for seed in range(99) if not any(circuits.random_circuits(n, 1, seed)[pair] for pair in pairs))
    graph = transfers(n, dict.fromkeys(pairs, size))
    run = simulate_circuits(graph, cluster(n, 1), SIP, 1.0, 5.0, seed=seed, iterations=2)
    assert run.times_ms == pytest.approx((8.0, 2.0), rel=1e-9), "5 ms of other circuits, 1 dark, 2 of sending; 2"
    assert run.sent_bytes.sum() == pytest.approx(2 * n * size, rel=1e-12)


def test_the_same_seed_gives_the_same_run() -> None:
    """Two runs agree to the last bit; another seed begins with other circuits."""
    graph, _ = cases.random_case(11, False)
    runs = [simulate_circuits(graph, cluster(graph.servers, 2, 1.0), OCS, 0.01, seed=seed) for seed in (4, 4)]
    assert runs[0].times_ms == runs[1].times_ms
    assert (runs[0].end_ms == runs[1].end_ms).all()


def test_refusals() -> None:
    """A delay below 0 or not finite, a period of 0, one interface with forwarding, no iteration."""
    for delay, period in ((-1.0, None), (math.nan, None), (math.inf, None), (1.0, 0.0), (1.0, math.inf)):
        with pytest.raises(InputError, match=r"delay|period"):
            simulate_circuits(transfers(2, {(0, 1): 1000}), cluster(2, 1), SIP, delay, period)
    graph = transfers(3, {(0, 1): 1000})
    with pytest.raises(InputError, match="cannot connect"):
        simulate_circuits(graph, cluster(3, 1), OCS, 1.0)
    with pytest.raises(InputError, match="iteration"):
        simulate_circuits(graph, cluster(3, 1), SIP, 1.0, iterations=0)
    circle = cases.graph_of(2, [(FORWARD, 0, -1, -1, 1.0, 0), (FORWARD, 1, -1, -1, 1.0, 0)], {(0, 1), (1, 0)})
    with pytest.raises(InputError, match="circle"):
        simulate_circuits(circle, cluster(2, 1), SIP, 1.0)


def test_no_traffic_costs_no_time() -> None:
    """A graph without transfers takes its compute time and changes nothing."""
    graph = cases.graph_of(3, [(FORWARD, 2, -1, -1, 3.0, 0)], set())
    for policy in DYNAMIC_FABRICS.values():
        run = simulate_circuits(graph, cluster(3, 2), policy, 60_000.0)
        assert (run.iteration_time_ms, run.reconfigurations, run.bandwidth_tax) == (3.0, 0, 1.0)


def test_both_ways_shares_a_ring() -> None:
    """Four members send 3/2 S: all to the next, or half to either side."""
    graph = cases.graph_of(4, [(ALLREDUCE, -1, -1, 0, 0.0, 4000)], set(), ((0, 1, 2, 3),))
    for both, pairs, each in ((False, 4, 6000.0), (True, 8, 3000.0)):
        (_, _, amount), used = pair_chunks(graph, mirrored=both)
        assert len(used) == pairs
        assert amount.tolist() == [each] * pairs


STAGED = [
    (FORWARD, 0, -1, -1, 1.0, 0),
    (TRANSFER, 0, 1, -1, 0.0, 2000),
    (FORWARD, 1, -1, -1, 1.0, 0),
    (BACKWARD, 1, -1, -1, 1.0, 0),
    (TRANSFER, 1, 0, -1, 0.0, 3000),
    (BACKWARD, 0, -1, -1, 1.0, 0),
    (ALLREDUCE, -1, -1, 0, 0.0, 4000),
]
STAGED_EDGES = {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (3, 6), (5, 6)}


def two_servers(rate: float) -> object:
    """A link each way of so many bytes per ms, and the ring of both."""
    from topoopt.core.workload import GroupRings, Ring

    ring = GroupRings((0, 1), (Ring((0, 1), 1.0, ((0, 1), (1, 0))),))
    return cases.network_of(
        2, {(0, 1): rate, (1, 0): rate}, {(0, 1): [((0, 1), 1.0)], (1, 0): [((1, 0), 1.0)]}, (ring,)
    )


def test_phases_are_told_apart() -> None:
    """Transfers after forward, transfers after backward, AllReduces."""
    graph = cases.graph_of(2, STAGED, STAGED_EDGES, ((0, 1),))
    traffic = graph.kind >= TRANSFER
    assert phases_of(graph)[traffic].tolist() == [Phase.FORWARD, Phase.BACKWARD, Phase.ALLREDUCE]


def test_stages_wait_for_their_network() -> None:
    """Chain of 1 compute, 2 forward, 2 compute, 3 backward, 1 compute, 4 AllReduce ms at 1000 bytes per ms."""
    graph = cases.graph_of(2, STAGED, STAGED_EDGES, ((0, 1),))
    slow, fast = two_servers(1000.0), two_servers(2000.0)
    all_phases = tuple(Phase)
    for delay in (0.0, 3.0):
        assert simulate_stages(graph, [(all_phases, slow)], delay)[0] == pytest.approx(13.0)
    # Three networks: dark until 3; forward 3..5; dark to 8, while compute ends at 7; backward 8..11; dark to 14;
    # AllReduce 14..18.
    three = [((phase,), two_servers(1000.0)) for phase in Phase]
    assert simulate_stages(graph, three, 3.0)[:3] == (pytest.approx(18.0), 9.0, 3)
    # A faster network for the AllReduce: dark until 0.5 and 9..9.5 (compute until 10), AllReduce 10..12.
    two = [((Phase.FORWARD, Phase.BACKWARD), slow), ((Phase.ALLREDUCE,), fast)]
    assert simulate_stages(graph, two, 0.5)[:3] == (pytest.approx(11.0), 1.0, 2)
    # The last stage on the first network again: nothing to set at the start.
    again = [((Phase.FORWARD,), slow), ((Phase.BACKWARD,), fast), ((Phase.ALLREDUCE,), slow)]
    assert simulate_stages(graph, again, 0.5)[:3] == (pytest.approx(11.5), 1.0, 2)


def test_stages_want_every_phase_once() -> None:
    """A phase left out or twice is refused."""
    graph = cases.graph_of(2, STAGED, STAGED_EDGES, ((0, 1),))
    with pytest.raises(ValueError, match="every phase"):
        simulate_stages(graph, [((Phase.FORWARD,), two_servers(1.0))], 0.0)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_one_stage_is_the_fluid_model(seed: int) -> None:
    """Transfers that all begin at once, one a pair, without latency: the max-min fair times of `fluid`."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, 7))
    network = cases.random_network(draw, (), n)
    sizes = draw.integers(1, 10**7, size=(n, n))
    graph = transfers(n, {(i, j): int(sizes[i, j]) for i in range(n) for j in range(n) if i != j})
    network = replace(network, hop_latency_ms=0.0)
    expected = float(times(graph, network, "fluid")[1].max())
    time_ms, dark_ms, *_ = simulate_stages(graph, [(tuple(Phase), network)], 1.0)
    assert time_ms == pytest.approx(expected, rel=1e-9)
    assert dark_ms == 0.0
