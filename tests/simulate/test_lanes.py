"""Events in lanes come as from a sorted list, whatever their lanes."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.engine.lanes import Lanes, add_in, new_lanes, run_lanes
from topoopt.simulate.engine.queue import DETAIL_BITS
from topoopt.simulate.jit import kernel, piece

Script = tuple[Floats, Ints, Ints, Ints, Ints]
"""Delays, lanes, times taken, ranks taken, how many were taken and made so far."""


@piece
def _more(x: Script, q: Lanes, now: float, code: int) -> bool:
    """Note an event; every event makes two more until there are as many as delays."""
    delay, lane, _, taken, count = x
    x[2][count[0]] = np.int64(now)
    taken[count[0]] = code >> DETAIL_BITS
    count[0] += 1
    for _ in range(2):
        rank = count[1]
        if rank < len(delay):
            count[1] += 1
            add_in(q, lane[rank], now + delay[rank], rank << DETAIL_BITS)
    return False


@kernel
def _run(delay: Floats, lane: Ints, lanes: int, capacity: int, ranks: int, limit: float) -> Script:
    """The first event is at 0, without a lane."""
    q = new_lanes(capacity, ranks, lanes)
    x = (delay, lane, np.zeros(len(delay), dtype=np.int64), np.zeros(len(delay), dtype=np.int64), np.array([0, 1]))
    add_in(q, 0, 0.0, 0)
    run_lanes(x, q, limit, 2, _more)
    return x


def _plain(delay: Floats, limit: float) -> list[tuple[float, int]]:
    waiting, made, taken = [(0.0, 0)], 1, []
    while waiting and waiting[0][0] <= limit:
        at, rank = heapq.heappop(waiting)
        taken.append((at, rank))
        for _ in range(2):
            if made < len(delay):
                heapq.heappush(waiting, (at + delay[made], made))
                made += 1
    return taken


@pytest.mark.parametrize(("capacity", "ranks"), [(4, 700), (2000, 700), (4, 1 << 33), (4, 1 << 35)])
@pytest.mark.parametrize("limit", [np.inf, 9.0])
def test_events_come_by_time_and_rank(capacity: int, ranks: int, limit: float) -> None:
    """With many ties, lanes in any order, lanes for which keys have no room, and room that has to be made."""
    rng = np.random.default_rng(3)
    for lanes in (1, 2, 9):
        delay = rng.integers(0, 4, 700).astype(np.float64)
        lane = rng.integers(0, lanes, 700)
        _, _, times, taken, count = _run(delay, lane, lanes, capacity, ranks, limit)
        expected = _plain(delay, limit)
        assert [*zip(times[: count[0]], taken[: count[0]], strict=True)] == expected
