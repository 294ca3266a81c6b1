"""Events in order where many come in rows: a heap of the first ones of rows, behind each the others in a list.

What a link that serves in order of arrival sends on, it sends on in order of time. Such events go in a *lane* each: the
heap holds the first of every lane only, some hundred in place of ten thousands, and stays in the fastest memory of the
processor. An event that would come before the last one of its lane goes in the heap by itself, so lanes need not be in
order for events to be: these come by time and, at equal times, by code, as of `queue`. No two events are alike in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.engine.queue import COUNT, DETAIL_BITS, HOLE, insert, pop, replace_first
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.views import borrowed

NO_LANE = 0
_SHIFT, _MADE, _FREE = 2, 3, 4
_IDLE, _ALONE = -2, -1
_KEY_BITS = 63

State = TypeVar("State")


class Lanes(NamedTuple):
    """Events that wait; a key is a code with the number of its lane below it.

    Attributes:
        time, key: of the heap.
        row_time, row_key, row_next: of events in lists, and which follows each; -1: none.
        behind: int32[lanes], the event behind the one in the heap; -1: none, -2: there is none in the heap either.
        last: int32[lanes], the last event of the list, if there is one.
        last_time, last_key: of the last event of each lane that is not empty.
        number: events in the heap, whether the first was taken already, bits of lanes in a key, places ever used in
            lists, the first that is free again or -1.
    """

    time: Floats
    key: Ints
    row_time: Floats
    row_key: Ints
    row_next: Int32s
    behind: Int32s
    last: Int32s
    last_time: Floats
    last_key: Ints
    number: Ints


class Lane(NamedTuple):
    """Where to insert events: a lane of some."""

    lanes: Lanes
    lane: int


@piece
def new_lanes(capacity: int, ranks: int, lanes: int) -> Lanes:
    """No events; codes have ranks below `ranks`. If keys have no room for all lanes, the last ones are none."""
    room, wanted = _KEY_BITS - DETAIL_BITS, 0
    while ranks >> (_KEY_BITS - DETAIL_BITS - room) > 0:
        room -= 1
    while lanes >> wanted > 0:
        wanted += 1
    shift = max(0, min(room, wanted))
    count = min(lanes, 1 << shift)
    number = np.zeros(5, dtype=np.int64)
    number[_SHIFT], number[_FREE] = shift, -1
    return Lanes(
        np.empty(capacity, dtype=np.float64),
        np.empty(capacity, dtype=np.int64),
        np.empty(capacity, dtype=np.float64),
        np.empty(capacity, dtype=np.int64),
        np.empty(capacity, dtype=np.int32),
        np.full(count, _IDLE, dtype=np.int32),
        np.empty(count, dtype=np.int32),
        np.empty(count, dtype=np.float64),
        np.empty(count, dtype=np.int64),
        number,
    )


@piece
def _is_crowded(q: Lanes, more: int) -> bool:
    """Whether there may be no room for so many events more."""
    return bool(max(q.number[COUNT], q.number[_MADE]) + more >= len(q.time))


@kernel
def _with_room(q: Lanes, more: int) -> Lanes:
    """The same events with room for so many more."""
    size = len(q.time) + more
    return Lanes(
        np.concatenate((q.time, np.empty(size, dtype=np.float64))),
        np.concatenate((q.key, np.empty(size, dtype=np.int64))),
        np.concatenate((q.row_time, np.empty(size, dtype=np.float64))),
        np.concatenate((q.row_key, np.empty(size, dtype=np.int64))),
        np.concatenate((q.row_next, np.empty(size, dtype=np.int32))),
        q.behind,
        q.last,
        q.last_time,
        q.last_key,
        q.number,
    )


@piece
def add(q: Lanes, at: float, code: int) -> None:
    """Insert an event that is in no lane; there must be room."""
    insert(q.time, q.key, q.number, at, code << q.number[_SHIFT])


@piece
def add_in(q: Lanes, lane: int, at: float, code: int) -> None:
    """Insert an event in a lane; there must be room."""
    if (lane == NO_LANE) | (lane >= len(q.behind)):
        add(q, at, code)
        return
    key = (code << q.number[_SHIFT]) | lane
    behind = q.behind[lane]
    if behind == _IDLE:
        q.behind[lane] = _ALONE
        insert(q.time, q.key, q.number, at, key)
    elif (at > q.last_time[lane]) | ((at == q.last_time[lane]) & (key > q.last_key[lane])):
        place = q.number[_FREE]
        if place >= 0:
            q.number[_FREE] = q.row_next[place]
        else:
            place = q.number[_MADE]
            q.number[_MADE] += 1
        q.row_time[place], q.row_key[place], q.row_next[place] = at, key, -1
        if behind == _ALONE:
            q.behind[lane] = place
        else:
            q.row_next[q.last[lane]] = place
        q.last[lane] = place
    else:
        add(q, at, code)
        return
    q.last_time[lane], q.last_key[lane] = at, key


@piece
def _take(q: Lanes) -> int:
    """The code of the first event; the next of its lane comes in its place, or that is left to the next one added."""
    key = q.key[0]
    lane = key & ((1 << q.number[_SHIFT]) - 1)
    q.number[HOLE] = 1
    if lane != NO_LANE:
        place = q.behind[lane]
        if place >= 0:
            q.behind[lane] = q.row_next[place]
            q.row_next[place] = q.number[_FREE]
            q.number[_FREE] = place
            q.number[HOLE] = 0
            replace_first(q.time, q.key, q.number[COUNT], q.row_time[place], q.row_key[place])
        else:
            q.behind[lane] = _IDLE
    return int(key >> q.number[_SHIFT])


@piece
def run_lanes(x: State, q: Lanes, limit: float, most: int, handle: Callable[[State, Lanes, float, int], bool]) -> float:
    """As `loop.run`, where nothing happens on the links by itself."""
    x = borrowed(x)
    while True:
        # What is borrowed of the owner never changes in the inner loop, or references to its arrays would be counted at
        # every event, which takes longer than the event.
        view = borrowed(q)
        while True:
            if view.number[HOLE]:
                view.number[HOLE] = 0
                view.number[COUNT] = pop(view.time, view.key, view.number[COUNT])
            if view.number[COUNT] == 0:
                return np.inf
            at = view.time[0]
            if at > limit:
                return float(at)
            if _is_crowded(view, most):
                break
            if handle(x, view, at, _take(view)):
                return -np.inf
        q = _with_room(q, most)
