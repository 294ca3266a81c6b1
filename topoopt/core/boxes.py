"""Boxes of rings whose translations keep links and demand: tori, and whatever else looks the same from every place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.turned_rows import RingBox

_MOST_LINKS = 64
"""Out of a server; each dimension of a torus takes two."""

_MOST_TRIES = 200
"""Sizes of dimensions tried: most networks that are no box fail at all sizes of the last one."""


def boxes_of(servers: int, tail: Ints, head: Ints) -> Iterator[RingBox]:
    """Boxes of two dimensions and more whose translations keep arcs, large last dimensions first.

    Args:
        tail, head: int64[m], sorted by tail.
    """
    degree = len(tail) // servers
    if not degree or degree > _MOST_LINKS or not np.array_equal(tail, np.repeat(np.arange(servers), degree)):
        return
    tries = iter(range(_MOST_TRIES))
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        dims = waiting.pop()
        left = servers // RingBox(dims).servers
        if left == 1:
            yield RingBox(dims)
            continue
        sizes = [size for size in range(2, left + 1) if left % size == 0 and (dims or size < servers)]
        for size in sizes:  # the largest one is tried on first
            if next(tries, None) is None:
                return
            longer = (size, *dims)
            if _kept(RingBox(longer), tail, head, degree):
                waiting.append(longer)


def _kept(inner: RingBox, tail: Ints, head: Ints, degree: int) -> bool:
    """Whether every server has the same arcs, seen from itself, as far as the inner dimensions tell."""
    n = inner.servers
    steps = np.sort(inner.products(inner.inverses(tail % n), head % n).reshape(-1, degree), axis=1)
    return bool((steps == steps[0]).all())
