"""Events in order: a binary heap by time and, at equal times, by the code of the event.

A code is a rank and a detail below it. The rank is what decides at equal times: the number of a task or a flow, or a
serial number for the order of insertion (`next_serial`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel, piece

DETAIL_BITS = 28
DETAIL = (1 << DETAIL_BITS) - 1
"""Mask of the detail of a code."""

COUNT, HOLE, _SERIAL = 0, 1, 2


class Queue(NamedTuple):
    """Events that wait; `number` has how many there are, whether the first was taken already, and the next serial."""

    time: Floats
    code: Ints
    number: Ints


@piece
def new_queue(capacity: int) -> Queue:
    """An empty queue."""
    return Queue(np.empty(capacity, dtype=np.float64), np.empty(capacity, dtype=np.int64), np.zeros(3, dtype=np.int64))


@piece
def is_crowded(q: Queue, more: int) -> bool:
    """Whether there is no room for so many events more."""
    return bool(q.number[COUNT] + more >= len(q.time))


@kernel
def with_room(q: Queue, more: int) -> Queue:
    """The queue with room for so many events more."""
    size = len(q.time) + more
    return Queue(
        np.concatenate((q.time, np.empty(size, dtype=np.float64))),
        np.concatenate((q.code, np.empty(size, dtype=np.int64))),
        q.number,
    )


@kernel
def push(time: Floats, code: Ints, count: int, at: float, what: int) -> int:
    """Insert an event in a heap of `count`; the arrays must have room. Returns the new count."""
    place, one = np.uint64(count), np.uint64(1)
    while place > 0:
        above = (place - one) >> one
        if (time[above] < at) | ((time[above] == at) & (code[above] < what)):
            break
        time[place], code[place] = time[above], code[above]
        place = above
    time[place], code[place] = at, what
    return count + 1


@kernel
def replace_first(time: Floats, code: Ints, count: int, at: float, what: int) -> None:
    """Put an event in the place of the first one of `count` events: half the work of a pop and a push.

    Many events are at the same time, so which child comes first cannot be predicted: it is computed without a branch.
    """
    place, one, last = np.uint64(0), np.uint64(1), np.uint64(max(count, 1) - 1)
    while True:
        child = place + place + one
        if child > last:
            break
        if child < last:
            left, right = time[child], time[child + one]
            child += np.uint64((right < left) | ((right == left) & (code[child + one] < code[child])))
        if (at < time[child]) | ((at == time[child]) & (what < code[child])):
            break
        time[place], code[place] = time[child], code[child]
        place = child
    time[place], code[place] = at, what


@kernel
def pop(time: Floats, code: Ints, count: int) -> int:
    """Remove the first event (read it before). Returns the new count."""
    last = count - 1
    replace_first(time, code, last, time[last], code[last])
    return last


@piece
def insert(time: Floats, code: Ints, number: Ints, at: float, what: int) -> None:
    """Insert an event in a heap of `number[COUNT]`, whose first was taken already if `number[HOLE]` says so."""
    if number[HOLE]:
        number[HOLE] = 0
        replace_first(time, code, number[COUNT], at, what)
    else:
        number[COUNT] = push(time, code, number[COUNT], at, what)


@piece
def add(q: Queue, at: float, code: int) -> None:
    """Insert an event; there must be room."""
    insert(q.time, q.code, q.number, at, code)


@piece
def first_time(q: Queue) -> float:
    """When the first event is; infinity if there is none."""
    if q.number[HOLE]:
        q.number[HOLE] = 0
        q.number[COUNT] = pop(q.time, q.code, q.number[COUNT])
    return float(q.time[0]) if q.number[COUNT] > 0 else np.inf


@piece
def take(q: Queue) -> int:
    """The code of the first event, after `first_time`; its place is left to the next event added."""
    q.number[HOLE] = 1
    return int(q.code[0])


@piece
def next_serial(q: Queue) -> int:
    """A rank higher than all before."""
    q.number[_SERIAL] += 1
    return int(q.number[_SERIAL])
