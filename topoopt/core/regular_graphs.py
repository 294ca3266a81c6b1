"""Well-known regular graphs by arithmetic on the server numbers: tori, twisted tori, generalized Kautz graphs."""

from __future__ import annotations

import math

import numpy as np

from topoopt.core.arrays import Ints


def torus_steps(dims: tuple[int, ...], *, twisted: bool = False) -> Ints:
    """int64[axes, n]: the server one step on along each axis of a torus; the last axis is numbered fastest.

    Twisted (Camara et al., IEEE TPDS 2010, for n x 2n, n x n x 2n and n x 2n x 2n): wrapping round a shortest axis also
    goes half the way along every longest one, which evens out the distances. Without a shorter axis nothing changes.
    """
    place = np.indices(dims).reshape(len(dims), -1)
    steps = np.empty((len(dims), math.prod(dims)), dtype=np.int64)
    shortest, longest = min(dims), max(dims)
    for axis, size in enumerate(dims):
        after = place.copy()
        after[axis] = (after[axis] + 1) % size
        if twisted and size == shortest < longest:
            wraps = place[axis] == size - 1
            for other, length in enumerate(dims):
                if length == longest:
                    after[other, wraps] = (after[other, wraps] + length // 2) % length
        steps[axis] = np.ravel_multi_index(tuple(after), dims)
    return steps


def kautz_arcs(servers: int, degree: int) -> Ints:
    """int64[n d, 2]: arcs i -> -(d i + a) modulo n, a = 1..d (Imase and Itoh 1981), none of a server to itself; d < n.

    Where n is no multiple of d + 1 the rule gives some servers an arc to themselves; those arcs are led round a ring
    of just these servers instead, or, if there is but one, exchanged with another arc, so every degree stays d.
    """
    n, d = servers, degree
    tail = np.repeat(np.arange(n, dtype=np.int64), d)
    head = (-(d * tail) - np.tile(np.arange(1, d + 1, dtype=np.int64), n)) % n
    loops = np.flatnonzero(tail == head)
    # With d < n a server has at most one such arc, so the ring of those that have one has no repeated server.
    head[loops] = np.roll(tail[loops], -1)
    if len(loops) == 1:
        alone = tail[loops[0]]
        other = np.flatnonzero((tail != alone) & (head != alone))[0]
        head[[loops[0], other]] = head[[other, loops[0]]]
    return np.column_stack((tail, head))
