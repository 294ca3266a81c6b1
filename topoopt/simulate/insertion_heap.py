"""A binary heap of events in three parallel arrays, ordered by time and, at equal times, by insertion.

For the two models that compare with others; the searching models use the leaner `heap`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.simulate.jit import kernel


@kernel
def push(
    keys: NDArray[np.float64],
    order: NDArray[np.int64],
    values: NDArray[np.int64],
    count: int,
    key: float,
    serial: int,
    value: int,
) -> int:
    """Insert an event; the arrays must have room. Returns the new count."""
    at = count
    while at > 0:
        above = (at - 1) >> 1
        if keys[above] < key or (keys[above] == key and order[above] < serial):
            break
        keys[at], order[at], values[at] = keys[above], order[above], values[above]
        at = above
    keys[at], order[at], values[at] = key, serial, value
    return count + 1


@kernel
def pop(keys: NDArray[np.float64], order: NDArray[np.int64], values: NDArray[np.int64], count: int) -> int:
    """Remove the first event (read it before). Returns the new count."""
    last = count - 1
    key, serial, value = keys[last], order[last], values[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (keys[right] < keys[child] or (keys[right] == keys[child] and order[right] < order[child])):
            child = right
        if key < keys[child] or (key == keys[child] and serial < order[child]):
            break
        keys[at], order[at], values[at] = keys[child], order[child], values[child]
        at = child
    keys[at], order[at], values[at] = key, serial, value
    return last
