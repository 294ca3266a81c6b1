"""Short rings through all members of a group under given distances: the pricing step of ring column generation.

Exact by dynamic programming over subsets up to `EXACT_SIZE` members; beyond, nearest neighbour and given orders
improved by moving segments (which needs no symmetry of the distances).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.native import jobs

EXACT_SIZE = 12
ARITHMETIC_ORDERS = 8

Distances = Floats


def short_ring(distance: Distances, starts: Sequence[Ints] = ()) -> tuple[float, Ints]:
    """Length and order (positions 0..k-1, 0 first) of a ring; the shortest one up to `EXACT_SIZE` members.

    Args:
        distance: float64[k, k], from member to member, finite off the diagonal.
        starts: orders to begin with; used beyond `EXACT_SIZE`.
    """
    size = len(distance)
    if size <= EXACT_SIZE:
        order = jobs.exact_ring(distance)
        return ring_length(distance, order), order
    best: tuple[float, Ints] | None = None
    for start in (*starts, *(nearest_neighbour(distance, first) for first in range(0, size, max(1, size // 8)))):
        order = jobs.move_segments(distance, np.array(start, dtype=np.int64))
        length = ring_length(distance, order)
        if best is None or length < best[0]:
            best = (length, order)
    assert best is not None
    return best[0], np.roll(best[1], -int(np.flatnonzero(best[1] == 0)[0]))


def ring_length(distance: Distances, order: Ints) -> float:
    """Length once round."""
    return float(distance[order, np.roll(order, -1)].sum())


def arithmetic_orders(size: int) -> list[tuple[int, ...]]:
    """0, q, 2 q, ... mod size for the first few q coprime to it and their reversals (TotientPerms)."""
    units = [q for q in range(1, size) if gcd(q, size) == 1]
    chosen = sorted({*units[:ARITHMETIC_ORDERS], *units[-ARITHMETIC_ORDERS:]})
    return [tuple(q * i % size for i in range(size)) for q in chosen]


def nearest_neighbour(distance: Distances, first: int) -> Ints:
    """Order that always goes on to the nearest member left."""
    left = np.ones(len(distance), dtype=np.bool_)
    order = [first]
    left[first] = False
    while left.any():
        order.append(int(np.argmin(np.where(left, distance[order[-1]], np.inf))))
        left[order[-1]] = False
    return np.array(order, dtype=np.int64)
