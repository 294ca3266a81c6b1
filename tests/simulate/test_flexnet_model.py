"""The reference search's segment model: equal to plain Python to the bit, and to the reference's own figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import plain_cases as cases
from tests.support import plain_flexnet as plain
from tests.support.simulated import times
from tests.support.taskgraphs import shared
from topoopt.analyses.replay import REPLAY_FABRICS
from topoopt.core.errors import InputError
from topoopt.core.workload import GroupRings, Ring, TaskKind
from topoopt.simulate.time_models.evaluate import simulate_flexnet


@given(seed=st.integers(0, 10**9), with_ties=st.booleans(), turned=st.booleans())
@settings(max_examples=150)
def test_compiled_equals_plain_on_random_graphs(seed: int, with_ties: bool, turned: bool) -> None:
    """Compiled and plain models agree to the last bit, ties and ring directions included."""
    graph, network = cases.random_case(seed, with_ties)
    directions = np.random.default_rng(seed).choice([-1, 1], graph.tasks).astype(np.int8) if turned else None
    done = simulate_flexnet(graph, network, directions)
    expected = plain.plain_flexnet_times(graph, network, None if directions is None else directions.tolist())
    assert done.start_ms.tolist() == expected[0]
    assert done.end_ms.tolist() == expected[1]


@pytest.mark.parametrize("model", ["dlrm", "transformer", "vgg", "candle"])
@pytest.mark.parametrize("gbps", [100, 400])
def test_compiled_equals_plain_on_shared_graphs(model: str, gbps: int) -> None:
    """Compiled and plain models agree to the last bit on the artifact's 16-server graphs."""
    file = shared(f"{gbps}{model}_16")
    network = REPLAY_FABRICS["ideal-switch"](file, float(gbps))
    start, end = times(file.graph, network, "flexnet")
    assert (start.tolist(), end.tolist()) == plain.plain_flexnet_times(file.graph, network)


def test_compiled_equals_plain_on_a_direct_connect_graph() -> None:
    """Compiled and plain models agree to the last bit on the artifact's 12-server plan, with multi-hop routes."""
    file = shared("topoopt_12")
    network = REPLAY_FABRICS["direct-connect"](file, 5.0)
    start, end = times(file.graph, network, "flexnet")
    assert (start.tolist(), end.tolist()) == plain.plain_flexnet_times(file.graph, network)


@pytest.mark.parametrize(
    ("model", "gbps", "replayed_ms", "packet_ms"),
    [
        ("dlrm", 100, 60.25, 61.155),
        ("dlrm", 400, 20.9, 20.779),
        ("transformer", 100, 63.82, 63.969),
        ("transformer", 400, 61.59, 61.434),
        ("vgg", 100, 212.0, 210.404),
        ("vgg", 400, 100.48, 100.481),
        ("candle", 100, 471.8, 512.880),
        ("candle", 400, 165.3, 180.968),
    ],
)
def test_replay_meets_the_reference(model: str, gbps: int, replayed_ms: float, packet_ms: float) -> None:
    """On the ideal switch the replay gives the known replay figures (CANDLE: ring directions matter up to 2 %)."""
    file = shared(f"{gbps}{model}_16")
    _, end = times(file.graph, REPLAY_FABRICS["ideal-switch"](file, float(gbps)), "flexnet")
    mixed_model_parallel = model == "candle"
    assert end.max() == pytest.approx(replayed_ms, rel=0.02 if mixed_model_parallel else 1e-3)
    assert end.max() == pytest.approx(packet_ms, rel=0.10 if mixed_model_parallel else 0.05)


def test_one_transfer_in_segments() -> None:
    """2.5 MiB over two links of 1 MiB/ms: cut-through after one latency, each segment pays the latency of both hops."""
    mib = 1024 * 1024
    links = {(0, 1): float(mib), (1, 2): float(mib)}
    network = cases.network_of(3, links, {(0, 2): [((0, 1, 2), 1.0)]}, hop_latency_ms=0.01)
    graph = cases.graph_of(3, [(TaskKind.TRANSFER, 0, 2, -1, 0.0, 5 * mib // 2)], set())
    _, end = times(graph, network, "flexnet")
    # The second link is free one latency after the first and then waits a latency per segment: 2.5 + 4 * 0.01.
    assert end[0] == pytest.approx(2.54, abs=1e-12)


def test_ring_allreduce_without_contention() -> None:
    """A ring AllReduce on private links takes 2 (k-1)/k S / B and its local time."""
    links = {(i, (i + 1) % 4): 1000.0 for i in range(4)}
    ring = Ring((0, 1, 2, 3), 1.0, ((0, 1), (1, 2), (2, 3), (3, 0)))
    network = cases.network_of(4, links, {}, (GroupRings((0, 1, 2, 3), (ring,)),))
    graph = cases.graph_of(4, [(TaskKind.ALLREDUCE, -1, -1, 0, 0.25, 4000)], set(), ((0, 1, 2, 3),))
    _, end = times(graph, network, "flexnet")
    assert end[0] == pytest.approx(0.25 + 2 * 3 / 4 * 4000 / 1000.0)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=40)
def test_twice_the_speed_is_half_the_time(seed: int) -> None:
    """Doubling all rates and halving all durations and latencies halves every time exactly."""
    graph, network = cases.random_case(seed, False)
    fast = replace(network, link_rate=network.link_rate * 2, hop_latency_ms=network.hop_latency_ms / 2)
    _, end = times(graph, network, "flexnet")
    _, fast_end = times(replace(graph, duration_ms=graph.duration_ms / 2), fast, "flexnet")
    assert (fast_end * 2).tolist() == end.tolist()


def test_refuses_a_transfer_without_a_path() -> None:
    """A transfer between servers the network does not join is named."""
    network = cases.network_of(3, {(0, 1): 1.0}, {(0, 1): [((0, 1), 1.0)]})
    graph = cases.graph_of(3, [(TaskKind.TRANSFER, 1, 2, -1, 0.0, 5)], set())
    with pytest.raises(InputError, match="no path from server 1 to 2"):
        times(graph, network, "flexnet")


def test_refuses_a_circle_of_tasks() -> None:
    """Tasks that wait for each other are refused rather than silently left out."""
    network = cases.network_of(2, {(0, 1): 1.0}, {})
    graph = cases.graph_of(2, [(TaskKind.FORWARD, 0, -1, -1, 1.0, 0)] * 2, {(0, 1), (1, 0)})
    with pytest.raises(InputError, match="2 of 2 tasks can never run"):
        times(graph, network, "flexnet")


def test_refuses_a_network_of_another_size() -> None:
    """A graph of three servers does not run on a network of two."""
    network = cases.network_of(2, {(0, 1): 1.0}, {})
    graph = cases.graph_of(3, [(TaskKind.FORWARD, 2, -1, -1, 1.0, 0)], set())
    with pytest.raises(InputError, match="3 servers on a network of 2"):
        times(graph, network, "flexnet")


def test_refuses_to_turn_a_ring_of_one_way_links() -> None:
    """The other direction of a ring needs the opposite links."""
    ring = Ring((0, 1, 2), 1.0, ((0, 1), (1, 2), (2, 0)))
    links = {(0, 1): 1.0, (1, 2): 1.0, (2, 0): 1.0}
    network = cases.network_of(3, links, {}, (GroupRings((0, 1, 2), (ring,)),))
    graph = cases.graph_of(3, [(TaskKind.ALLREDUCE, -1, -1, 0, 0.0, 9)], set(), ((0, 1, 2),))
    with pytest.raises(ValueError, match="no link opposite to"):
        simulate_flexnet(graph, network, np.array([-1], dtype=np.int8))


def test_refuses_more_traffic_than_it_can_work_through() -> None:
    """Two petabytes in segments of 1 MiB would take minutes and are refused at once."""
    network = cases.network_of(2, {(0, 1): 1.0}, {(0, 1): [((0, 1), 1.0)]})
    graph = cases.graph_of(2, [(TaskKind.TRANSFER, 0, 1, -1, 0.0, 1 << 51)], set())
    with pytest.raises(InputError, match="too much traffic"):
        times(graph, network, "flexnet")
