"""Well-known graphs by arithmetic on the server numbers: tori, meshes, generalized Kautz and de Bruijn graphs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import LinkDirection

UNDECIDED_MOORE_DEGREE = 57
"""The one degree for which nobody knows whether a Moore graph of diameter 2 exists."""


@dataclass(frozen=True)
class MooreBound:
    """What no network of so many servers and links betters: diameter, and sum of distances from a server."""

    diameter: int
    distances: int


def moore_bound(servers: int, degree: int, links: LinkDirection) -> MooreBound:
    """The Moore bound.

    Within k hops a server reaches d + d^2 + ... + d^k others at most over single fibres, and
    d + d (d - 1) + ... + d (d - 1)^(k-1) over fibre pairs, as one of the d links leads back. The networks that would
    reach just so many within a diameter of 2 or more are known not to exist, but for one-way and two-way rings, and
    fibre pairs of diameter 2 with degree 3, 7 and perhaps 57 (Bridges and Toueg 1980; Hoffman and Singleton 1960;
    Bannai and Ito 1973; Damerell 1973): there the diameter is one more.

    Raises:
        ValueError: this degree cannot connect so many servers.
    """
    spread = degree if links is LinkDirection.UNIDIRECTIONAL else degree - 1
    left, layer, hops, total = servers - 1, degree, 0, 0
    while left > 0:
        hops += 1
        reached = min(left, layer)
        if reached <= 0:
            raise ValueError(f"{degree} links a server cannot connect {servers} servers")
        total += hops * reached
        left -= reached
        if left == 0 and reached == layer and hops > 1 and spread > 1:
            known = hops == 2 and degree in (3, 7, UNDECIDED_MOORE_DEGREE)
            if links is LinkDirection.UNIDIRECTIONAL or not known:
                return MooreBound(hops + 1, total)
        layer *= spread
    return MooreBound(hops, total)


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


def mesh_arcs(dims: tuple[int, ...]) -> Ints:
    """int64[m, 2]: neighbours along the axes of a grid without wrap-around, both ways; the last axis runs fastest."""
    place = np.arange(math.prod(dims), dtype=np.int64).reshape(dims)
    parts = []
    for axis, size in enumerate(dims):
        low, high = (np.take(place, range(begin, begin + size - 1), axis).ravel() for begin in (0, 1))
        parts += [np.column_stack((low, high)), np.column_stack((high, low))]
    return np.concatenate(parts)


def kautz_arcs(servers: int, degree: int, *, joined: bool = True) -> Ints:
    """int64[m, 2]: arcs i -> -(d i + a) modulo n, a = 1..d (Imase and Itoh 1981), none of a server to itself; d < n.

    Where n is no multiple of d + 1 the rule gives some servers an arc to themselves, led elsewhere or dropped
    (`without_loops`).
    """
    tail = np.repeat(np.arange(servers, dtype=np.int64), degree)
    head = (-(degree * tail) - np.tile(np.arange(1, degree + 1, dtype=np.int64), servers)) % servers
    return without_loops(tail, head, joined=joined)


def de_bruijn_arcs(servers: int, degree: int, *, joined: bool = True) -> Ints:
    """int64[m, 2]: arcs i -> d i + a modulo n, a = 0..d-1 (Reddy, Pradhan and Kuhl 1980), loops as above; d < n."""
    tail = np.repeat(np.arange(servers, dtype=np.int64), degree)
    head = (degree * tail + np.tile(np.arange(degree, dtype=np.int64), servers)) % servers
    return without_loops(tail, head, joined=joined)


def without_loops(tail: Ints, head: Ints, *, joined: bool) -> Ints:
    """int64[m, 2]: arcs of which at most one of each server leads to itself, without these.

    Joined: they are led round a ring of just these servers instead, or, if there is but one, exchanged with another
    arc, so that every degree stays. Otherwise they are dropped.
    """
    loops = np.flatnonzero(tail == head)
    if not joined:
        return np.delete(np.column_stack((tail, head)), loops, axis=0)
    head[loops] = np.roll(tail[loops], -1)
    if len(loops) == 1:
        alone = tail[loops[0]]
        other = np.flatnonzero((tail != alone) & (head != alone))[0]
        head[[loops[0], other]] = head[[other, loops[0]]]
    return np.column_stack((tail, head))
