"""Short rings through all members of a group under given distances: the pricing step of ring column generation.

Exact by dynamic programming over subsets up to `EXACT_SIZE` members; beyond, nearest neighbour and given orders
improved by moving segments (which needs no symmetry of the distances).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel

EXACT_SIZE = 12
ARITHMETIC_ORDERS = 8
SEGMENT = 3

Distances = Floats


def short_ring(distance: Distances, starts: Sequence[Ints] = ()) -> tuple[float, Ints]:
    """Length and order (positions 0..k-1, 0 first) of a ring; the shortest one up to `EXACT_SIZE` members.

    Args:
        distance: float64[k, k], from member to member, finite off the diagonal.
        starts: orders to begin with; used beyond `EXACT_SIZE`.
    """
    size = len(distance)
    if size <= EXACT_SIZE:
        order = np.empty(size, dtype=np.int64)
        exact_ring(distance, order)
        return ring_length(distance, order), order
    best: tuple[float, Ints] | None = None
    for start in (*starts, *(nearest_neighbour(distance, first) for first in range(0, size, max(1, size // 8)))):
        order = np.array(start, dtype=np.int64)
        move_segments(distance, order)
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


@kernel
def exact_ring(distance: Floats, order: Ints) -> None:  # pragma: no cover - compiled
    """Fill `order` with a shortest ring, member 0 first: best[set, v] over paths from 0 through the set to v."""
    rest = len(distance) - 1
    order[0] = 0
    if rest == 0:
        return
    full = (1 << rest) - 1
    best = np.full((full + 1, rest), np.inf)
    before = np.zeros((full + 1, rest), dtype=np.int64)
    for v in range(rest):
        best[1 << v, v] = distance[0, v + 1]
    for members in range(1, full + 1):
        for v in range(rest):
            reach = best[members, v]
            if reach == np.inf:
                continue
            for w in range(rest):
                if members >> w & 1:
                    continue
                value = reach + distance[v + 1, w + 1]
                if value < best[members | 1 << w, w]:
                    best[members | 1 << w, w] = value
                    before[members | 1 << w, w] = v
    last = 0
    for v in range(rest):
        if best[full, v] + distance[v + 1, 0] < best[full, last] + distance[last + 1, 0]:
            last = v
    members = full
    for place in range(rest, 0, -1):
        order[place] = last + 1
        previous = before[members, last]
        members ^= 1 << last
        last = previous


@kernel
def move_segments(distance: Floats, order: Ints) -> None:  # pragma: no cover - compiled
    """Move segments of up to `SEGMENT` members elsewhere in the ring while that shortens it (first improvement)."""
    size = len(order)
    held = np.empty(SEGMENT, dtype=np.int64)
    tolerance = 1e-12 * distance.max()
    again = True
    while again:
        again = False
        for length in range(1, min(SEGMENT, size - 2) + 1):
            for start in range(size):
                first, last = order[start], order[(start + length - 1) % size]
                before, after = order[start - 1], order[(start + length) % size]
                gain = distance[before, first] + distance[last, after] - distance[before, after]
                if gain <= tolerance:
                    continue
                for ahead in range(size - length - 1):
                    u = order[(start + length + ahead) % size]
                    v = order[(start + length + ahead + 1) % size]
                    if distance[u, first] + distance[last, v] - distance[u, v] < gain - tolerance:
                        for k in range(length):
                            held[k] = order[(start + k) % size]
                        for k in range(ahead + 1):
                            order[(start + k) % size] = order[(start + length + k) % size]
                        for k in range(length):
                            order[(start + ahead + 1 + k) % size] = held[k]
                        again = True
                        break
