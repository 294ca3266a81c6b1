"""Max-min fair flows: closed forms, the certificate of max-min fairness, the checker, the reference's figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import plain_cases as cases
from tests.support.checked_times import checked_fluid
from tests.support.simulated import times
from topoopt.core.errors import InputError
from topoopt.core.workload import GroupRings, Ring, TaskKind
from topoopt.native import flows as native

TRANSFER, ALLREDUCE = TaskKind.TRANSFER, TaskKind.ALLREDUCE


def rates_of(flows: list[list[int]], capacity: list[float]) -> list[float]:
    """Rates of flows given as lists of links."""
    first = np.cumsum([0] + [len(links) for links in flows]).astype(np.int64)
    link = np.array([link for links in flows for link in links], dtype=np.int32)
    return native.max_min_rates(first, link, np.array(capacity), np.ones(len(flows), dtype=np.int64)).tolist()


def test_a_flow_bottlenecked_elsewhere_leaves_the_rest() -> None:
    """Flow A crosses links of 10 and 4, flow B the link of 10 only: A gets 4, B 6."""
    assert rates_of([[0, 1], [0]], [10.0, 4.0]) == [4.0, 6.0]


def test_a_link_used_twice_counts_twice() -> None:
    """A ring that crosses a link of 9 twice shares it with one flow: the level is 3, the ring takes 6."""
    assert rates_of([[0, 0], [0]], [9.0]) == [3.0, 3.0]


@given(st.data())
@settings(max_examples=150)
def test_rates_are_max_min_fair(data: st.DataObject) -> None:
    """No link is overfull, and every flow has a full link on which no flow is faster (the definition of max-min)."""
    capacity = data.draw(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=6))
    link = st.integers(0, len(capacity) - 1)
    flows = data.draw(st.lists(st.lists(link, min_size=1, max_size=5), min_size=1, max_size=8))
    rates = rates_of(flows, capacity)
    load = [sum(rate * links.count(x) for rate, links in zip(rates, flows, strict=True)) for x in range(len(capacity))]
    for x, room in enumerate(capacity):
        assert load[x] <= room * (1 + 1e-9)
    for rate, links in zip(rates, flows, strict=True):
        assert any(
            load[x] >= capacity[x] * (1 - 1e-9)
            and rate >= max(r for r, other in zip(rates, flows, strict=True) if x in other) * (1 - 1e-9)
            for x in links
        )


@given(seed=st.integers(0, 10**9))
@settings(max_examples=60)
def test_compiled_agrees_with_the_checker_on_random_graphs(seed: int) -> None:
    """Compiled simulation and checker give the same times up to rounding."""
    graph, network = cases.random_case(seed, False)
    start, end = times(graph, network, "fluid")
    expected_start, expected_end = checked_fluid(graph, network)
    np.testing.assert_allclose(start, expected_start, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(end, expected_end, rtol=1e-9, atol=1e-8)


def test_two_transfers_share_a_link() -> None:
    """100 and 300 bytes over a link of 10: the short one ends at 20, the long one at 40, plus one latency each."""
    network = cases.network_of(2, {(0, 1): 10.0}, {(0, 1): [((0, 1), 1.0)]}, hop_latency_ms=0.5)
    graph = cases.graph_of(2, [(TRANSFER, 0, 1, -1, 0.0, 100), (TRANSFER, 0, 1, -1, 0.0, 300)], set())
    _, end = times(graph, network, "fluid")
    assert end.tolist() == pytest.approx([20.5, 40.5])


def test_transfer_split_over_two_paths() -> None:
    """A transfer ends with its slower path: 30 bytes at rate 10 directly, 10 bytes at rate 2 over two hops."""
    links = {(0, 1): 10.0, (0, 2): 2.0, (2, 1): 100.0}
    network = cases.network_of(3, links, {(0, 1): [((0, 1), 0.75), ((0, 2, 1), 0.25)]}, hop_latency_ms=0.1)
    graph = cases.graph_of(3, [(TRANSFER, 0, 1, -1, 0.0, 40)], set())
    _, end = times(graph, network, "fluid")
    assert end.tolist() == pytest.approx([10 / 2 + 2 * 0.1])


def test_allreduce_time() -> None:
    """A ring AllReduce takes its local time, 2 (k-1)/k S / B, and 2 (k-1) round latencies."""
    ring = Ring((0, 1, 2), 1.0, ((0, 1), (1, 2), (2, 0)))
    links = {(0, 1): 10.0, (1, 2): 10.0, (2, 0): 5.0}
    network = cases.network_of(3, links, {}, (GroupRings((0, 1, 2), (ring,)),), 0.0, 0.25)
    graph = cases.graph_of(3, [(ALLREDUCE, -1, -1, 0, 2.0, 300)], set(), ((0, 1, 2),))
    start, end = times(graph, network, "fluid")
    assert start.tolist() == [0.0]
    assert end.tolist() == pytest.approx([2.0 + 2 * 2 / 3 * 300 / 5.0 + 4 * 0.25])


def test_compute_is_serial_per_server() -> None:
    """Two operators of one server run one after the other, that of another server beside them."""
    tasks = [(TaskKind.FORWARD, server, -1, -1, ms, 0) for server, ms in ((0, 1.0), (0, 2.0), (1, 2.5))]
    start, end = times(cases.graph_of(2, tasks, set()), cases.network_of(2, {(0, 1): 1.0}, {}), "fluid")
    assert start.tolist() == [0.0, 1.0, 0.0]
    assert end.tolist() == [1.0, 3.0, 2.5]


@given(seed=st.integers(0, 10**9), factor=st.sampled_from([0.25, 2.0, 3.0, 10.0]))
@settings(max_examples=40)
def test_scaling_all_speeds_scales_time(seed: int, factor: float) -> None:
    """With all rates times c, all durations and latencies over c, every time is divided by c."""
    graph, network = cases.random_case(seed, False)
    scaled = replace(
        network,
        link_rate=network.link_rate * factor,
        hop_latency_ms=network.hop_latency_ms / factor,
        ring_round_latency_ms=network.ring_round_latency_ms / factor,
    )
    _, end = times(graph, network, "fluid")
    _, scaled_end = times(replace(graph, duration_ms=graph.duration_ms / factor), scaled, "fluid")
    np.testing.assert_allclose(scaled_end * factor, end, rtol=1e-6, atol=1e-6)


def test_late_events_do_not_stall() -> None:
    """A byte left at a time where the clock's rounding exceeds a picosecond still arrives."""
    network = cases.network_of(2, {(0, 1): 1e9}, {(0, 1): [((0, 1), 1.0)]})
    tasks = [(TaskKind.FORWARD, 0, -1, -1, 3e9, 0), (TRANSFER, 0, 1, -1, 0.0, 1)]
    _, end = times(cases.graph_of(2, tasks, {(0, 1)}), network, "fluid")
    assert end.tolist() == pytest.approx([3e9, 3e9])


def test_refuses_a_transfer_without_a_path() -> None:
    """A transfer between servers the network does not join is named."""
    network = cases.network_of(3, {(0, 1): 1.0}, {(0, 1): [((0, 1), 1.0)]})
    graph = cases.graph_of(3, [(TRANSFER, 1, 2, -1, 0.0, 5)], set())
    with pytest.raises(InputError, match="no path from server 1 to 2"):
        times(graph, network, "fluid")


def test_refuses_a_circle_of_tasks() -> None:
    """Tasks that wait for each other are refused."""
    network = cases.network_of(2, {(0, 1): 1.0}, {})
    graph = cases.graph_of(2, [(TaskKind.FORWARD, 0, -1, -1, 1.0, 0)] * 2, {(0, 1), (1, 0)})
    with pytest.raises(InputError, match="2 of 2 tasks can never run"):
        times(graph, network, "fluid")
