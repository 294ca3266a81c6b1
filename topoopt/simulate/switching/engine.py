"""The passes of a pipeline whose circuits may be dark: when each begins, what is sent when, and when ports are set.

Ranks do their passes in order. What a pass sends begins when the pass is through and both ends have set their circuits
between stages. A rank whose ports are *apart* serves either what passes exchange inside or its neighbours: behind a
pass it sets its ports to the pipeline, sends what the pass made and takes what the next pass needs, then sets them
back; no circuit is cut while anything moves on it. Other ranks have the circuits of the pipeline all the time from the
first that is needed. Every time is a largest value of sums of earlier ones: no time falls when another one rises.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel, piece

UNKNOWN = -1e300
"""A time that is not known yet; a circuit that was always there."""

BEGIN, END, SENT, ARRIVED, TO_PIPELINE, TO_INSIDE = range(6)
"""Rows of the times of passes: the last two are when setting ports begins, behind and before the pass."""


IDLE, PASSED, BEGUN, UP, LAST = range(5)
"""Rows of the state of ranks: since when their passes use no circuits, when the last one ended, whether one did; when
they have the first circuits of the pipeline; when the last transfer between stages ended."""


@piece
def _circuits_up(
    rank: int, needed: float, apart: Ints, demand: bool, state: Floats, first: Floats, delay: Floats
) -> float:  # pragma: no cover - compiled
    """When a rank has its circuits of the pipeline; `needed`: when something can be sent over them."""
    if apart[rank] == 1 and state[BEGUN, rank] > 0.0:
        return float((state[PASSED, rank] if demand else state[IDLE, rank]) + delay[0, rank])
    if first[rank] >= 0.0 and state[UP, rank] == UNKNOWN:
        state[UP, rank] = (max(state[IDLE, rank], needed) if demand else state[IDLE, rank]) + first[rank]
    return float(state[UP, rank])


@piece
def _send(
    place: int,
    source: int,
    target: int,
    times: Floats,
    hops: Floats,
    last: Floats,
    apart: Ints,
    demand: bool,
    state: Floats,
    first: Floats,
    delay: Floats,
) -> None:  # pragma: no cover - compiled
    """Send what a pass made: both ends are known to be ready."""
    needed = times[END, place]
    begin = max(needed, last[source, target])
    begin = max(begin, _circuits_up(source, needed, apart, demand, state, first, delay))
    begin = max(begin, _circuits_up(target, needed, apart, demand, state, first, delay))
    end = begin + hops[source, target]
    times[SENT, place] = begin
    times[ARRIVED, place] = last[source, target] = end
    state[LAST, source], state[LAST, target] = max(state[LAST, source], end), max(state[LAST, target], end)


@piece
def _inside_up(
    rank: int,
    needed: float,
    used: float,
    demand: bool,
    state: Floats,
    inside: Floats,
    delay: Floats,
) -> tuple[float, float]:  # pragma: no cover - compiled
    """When ports begin to be set to what passes exchange (`UNKNOWN`: they are), and when they are."""
    if used > UNKNOWN:
        begin = max(used, needed) if demand else used
        return begin, begin + delay[1, rank]
    if state[BEGUN, rank] == 0.0 and inside[rank] >= 0.0:
        begin = max(state[IDLE, rank], needed) if demand else state[IDLE, rank]
        return begin, begin + inside[rank]
    return UNKNOWN, UNKNOWN


@kernel
def follow_passes(
    start: Ints,
    links: Ints,
    durations: Floats,
    exchanged: Ints,
    lead: Floats,
    floor: Floats,
    hops: Floats,
    idle: Floats,
    first: Floats,
    inside: Floats,
    delay: Floats,
    apart: Ints,
    demand: bool,
    blocking: bool,
) -> tuple[Floats, Floats, bool]:  # pragma: no cover - compiled
    """Do all passes as early as circuits, orders and data allow.

    Args:
        start: where the passes of each rank begin, as in `PassOrders`.
        links: int64[2, n]: the pass that each one waits for (-1: none), and the rank that gets what it makes (-1: none,
            or its own).
        durations: float64[n] seconds of the passes.
        exchanged: int64[n]: 1: it exchanges something over the rail.
        lead: float64[2, n]: seconds before its first exchange, and behind its last.
        floor: float64[n]: earliest begin.
        hops: float64[p, p] seconds of what is sent.
        idle: float64[p]: since when the ports serve nothing of the step before.
        first: float64[p]: delay of the first circuits of the pipeline; negative: they are there.
        inside: float64[p]: the same of those inside passes.
        delay: float64[2, p]: of later ones, to the pipeline and back.
        apart: int64[p]: 1: ports serve the pipeline and passes in turn.
        demand: circuits are asked for when they are needed.

    Returns:
        float64[6, n]: see `BEGIN` and those behind; float64[5, p]: see `IDLE` and those
        behind; and whether all passes could be done.
    """
    ranks, count = len(start) - 1, len(durations)
    times, last = np.full((6, count), UNKNOWN), np.full((ranks, ranks), UNKNOWN)
    state = np.zeros((5, ranks))
    state[IDLE], state[PASSED], state[UP], state[LAST] = idle, idle, UNKNOWN, idle
    at, free = start[:-1].copy(), np.zeros(ranks)
    owner, sender = np.zeros(count, dtype=np.int64), np.full(ranks, -1, dtype=np.int64)
    for rank in range(ranks):
        owner[start[rank] : start[rank + 1]] = rank
    left, moved = count, True
    while left > 0 and moved:
        moved = False
        for turn in range(2 * ranks):
            rank = turn if turn < ranks else 2 * ranks - 1 - turn
            while at[rank] < start[rank + 1]:
                place = at[rank]
                source, target, sent = links[0, place], links[1, place], sender[rank]
                waits = apart[rank] == 1 and exchanged[place] == 1
                ready, used = max(free[rank], floor[place]), UNKNOWN
                if source >= 0:
                    if times[END, source] == UNKNOWN:
                        break
                    ready = max(ready, times[END, source])
                    if owner[source] != rank:
                        if times[ARRIVED, source] == UNKNOWN:
                            _send(source, owner[source], rank, times, hops, last, apart, demand, state, first, delay)
                            moved = True
                        used = times[ARRIVED, source]
                        ready = max(ready, used)
                if sent >= 0 and (blocking or waits):
                    if times[ARRIVED, sent] == UNKNOWN:
                        break
                    used = max(used, times[ARRIVED, sent])
                    ready = max(ready, times[ARRIVED, sent]) if blocking else ready
                    sender[rank] = -1
                end = ready + durations[place]
                needed = ready + lead[0, place]
                if exchanged[place] == 1 and not waits:
                    up = _circuits_up(rank, needed, apart, demand, state, first, delay)
                    end += max(0.0, up - needed)
                if waits:
                    times[TO_INSIDE, place], up = _inside_up(rank, needed, used, demand, state, inside, delay)
                    end += max(0.0, up - needed)
                    times[TO_PIPELINE, place] = end if demand else end - lead[1, place]
                    state[BEGUN, rank] = 1.0
                if exchanged[place] == 1:
                    state[IDLE, rank], state[PASSED, rank] = end - lead[1, place], end
                times[BEGIN, place], times[END, place] = ready, end
                free[rank] = end
                if target >= 0:
                    if apart[target] == 0:
                        _send(place, rank, target, times, hops, last, apart, demand, state, first, delay)
                    sender[rank] = place
                at[rank] += 1
                left -= 1
                moved = True
    return times, state, left == 0
