"""Who has a link: a transfer of 16.8 MB between neighbours on a ring of eight servers, against eight AllReduces.

Packets of the simulator of the TopoOpt artifact took 38.99 ms with an initial window of 100 packets, 15.73 with 10 and
13.98 with 3.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulate.test_events import allreduce, make_graph, transfer
from tests.support.plain_cases import network_of
from topoopt.core.arrays import MIB
from topoopt.core.cluster import LinkSharing
from topoopt.core.workload import GroupRings, Ring
from topoopt.simulate.time_models.evaluate import simulate

SERVERS, ALLREDUCES = 8, 8
SENT_BYTES, REDUCED_BYTES = 16 * MIB, 32 * MIB
BYTES_PER_MS = 100e9 / 8 / 1000
ALONE_MS = SENT_BYTES / BYTES_PER_MS


def arrival_ms(sharing: LinkSharing, time_model: str = "rounds") -> float:
    """When the transfer ends; links of 100 Gbit/s without latency."""
    order = tuple(range(SERVERS))
    hops = tuple((i, (i + 1) % SERVERS) for i in order)
    rings = (GroupRings(order, (Ring(order, 1.0, hops),)),)
    network = network_of(SERVERS, dict.fromkeys(hops, BYTES_PER_MS), {(0, 1): [((0, 1), 1.0)]}, rings)
    tasks = [*(allreduce(0, REDUCED_BYTES) for _ in range(ALLREDUCES)), transfer(0, 1, SENT_BYTES)]
    graph = make_graph(SERVERS, tasks, [], network.groups)
    return float(simulate(graph, replace(network, link_sharing=sharing), time_model).end_ms[-1])


def test_turns_lie_where_small_windows_put_it() -> None:
    """Each segment waits for one of every AllReduce: nine times as long as alone, 12.08 ms, as with fair shares."""
    fair_ms = arrival_ms(LinkSharing.FAIR)
    assert fair_ms == pytest.approx((1 + ALLREDUCES) * ALONE_MS, rel=1e-3)
    assert 12.0 < fair_ms < 16.0
    assert fair_ms == pytest.approx(arrival_ms(LinkSharing.FAIR, "fluid"), rel=0.01)


def test_order_of_arrival_is_what_large_windows_give() -> None:
    """Whole rounds of 4.2 MB go first."""
    assert arrival_ms(LinkSharing.FIFO) == pytest.approx(38.99, rel=0.01)


def test_transfers_first_wait_for_nothing() -> None:
    assert arrival_ms(LinkSharing.TRANSFERS_FIRST) == pytest.approx(ALONE_MS, rel=1e-9)
