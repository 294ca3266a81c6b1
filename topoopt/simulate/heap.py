"""A binary heap of events in two parallel arrays, ordered by time and, at equal times, by the code of the event."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.simulate.jit import kernel


@kernel
def push(keys: NDArray[np.float64], values: NDArray[np.int64], count: int, key: float, value: int) -> int:
    """Insert an event; the arrays must have room. Returns the new count."""
    at = count
    while at > 0:
        above = (at - 1) >> 1
        if keys[above] < key or (keys[above] == key and values[above] < value):
            break
        keys[at], values[at] = keys[above], values[above]
        at = above
    keys[at], values[at] = key, value
    return count + 1


@kernel
def pop(keys: NDArray[np.float64], values: NDArray[np.int64], count: int) -> int:
    """Remove the first event (read it before). Returns the new count."""
    last = count - 1
    replace_first(keys, values, last, keys[last], values[last])
    return last


@kernel
def replace_first(keys: NDArray[np.float64], values: NDArray[np.int64], last: int, key: float, value: int) -> None:
    """Put an event in the place of the first one of `last` events: half the work of a pop and a push."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            keys[right] < keys[child] or (keys[right] == keys[child] and values[right] < values[child])
        ):
            child = right
        if key < keys[child] or (key == keys[child] and value < values[child]):
            break
        keys[at], values[at] = keys[child], values[child]
        at = child
    keys[at], values[at] = key, value


@kernel
def put(keys: NDArray[np.float64], values: NDArray[np.int64], count: int, hole: bool, key: float, value: int) -> int:
    """Insert an event, in the place of the first one if that has been dealt with (`hole`). Returns the new count."""
    if hole:
        replace_first(keys, values, count, key, value)
        return count
    return int(push(keys, values, count, key, value))
