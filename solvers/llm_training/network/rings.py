"""Orders of rings: in the order of the ranks, round the boxes of a torus, by the distances of TotientPerms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.llm_training_plan import RING_FAMILIES
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.regular_graphs import torus_steps
from topoopt.simulate.cycle_factors import most_cycles
from topoopt.simulate.llm_training.network.groups import BlockGroups, FamilyGroups


def rank_rings(servers: Ints) -> Ints:
    """One ring a group in the order of its blocks: int64[G, k] to int64[G, 1, k]."""
    return servers[:, None, :]


def orders_of(groups: FamilyGroups, places: Ints, rings: Callable[[Ints], Ints]) -> dict[F, tuple[Ints, ...]]:
    """Rings of all groups that pass bytes round, made of int64[G, k] servers by one rule."""

    def made(one: BlockGroups) -> Ints:
        return rings(places[one.blocks])

    return {
        family: tuple(made(one) for one in classes)
        for family, classes in groups.collectives.items()
        if family in RING_FAMILIES
    }


def both_ways(orders: Ints) -> Ints:
    """The rings, and each the other way round where that is another one."""
    if orders.shape[2] < 3:
        return orders
    return np.concatenate([orders, orders[:, :, ::-1]], axis=1)


def torus_rings(shape: Sequence[int]) -> Callable[[Ints], Ints]:
    """Rings round boxes of a torus, both ways; a group of another form goes in the order of its places.

    A box that spans several whole axes has as many link-disjoint rings as are found. Where groups have different
    numbers of rings, all have the least number that each divides: theirs, over and over.
    """
    sides = tuple(side for side in shape if side > 1)
    known: dict[tuple[tuple[int, ...], tuple[bool, ...]], Ints] = {}

    def form(row: Ints, at: Ints) -> Ints:
        spans = tuple(len(np.unique(at[:, axis])) for axis in range(len(sides)))
        if int(np.prod(spans)) != len(row):
            return np.arange(len(row))[None, :]
        used = tuple(span for span in spans if span > 1)
        whole = tuple(span == side for span, side in zip(spans, sides, strict=True) if span > 1)
        if (used, whole) not in known:
            known[used, whole] = box_cycles(used, whole)
        return known[used, whole]

    def rings(servers: Ints) -> Ints:
        rows = np.sort(servers, axis=1)
        at = np.stack(np.unravel_index(rows, sides), axis=2)
        forms = [form(row, place) for row, place in zip(rows, at, strict=True)]
        count = math.lcm(*(len(one) for one in forms))
        orders = np.stack([np.tile(one, (count // len(one), 1)) for one in forms])
        return both_ways(np.take_along_axis(rows[:, None, :], orders, axis=2))

    return rings


def box_cycles(sides: tuple[int, ...], whole: tuple[bool, ...]) -> Ints:
    """int64[R, k]: rings through all places of a box, numbered with the last axis fastest.

    Args:
        whole: whether links lead from the end of an axis to its begin.
    """
    if len(sides) > 1 and all(whole):
        steps = torus_steps(sides)
        found = most_cycles(np.stack([np.column_stack([step, np.argsort(step)]) for step in steps]))
        if found:
            return np.array(found, dtype=np.int64)
    line = np.arange(sides[0])[:, None]
    for side in sides[1:]:
        line = _product(line, side)
    return np.asarray(np.ravel_multi_index(tuple(line.T), sides)).astype(np.int64)[None, :]


def _product(line: Ints, side: int) -> Ints:
    """A way through line x axis that ends beside its begin where one of the two has an even number of places.

    One row is kept for the way back.
    """
    n = len(line)
    if n % 2 == 0 and side > 1:
        pairs = [(i, 0) for i in range(n)]
        for i in range(n - 1, -1, -1):
            row = range(1, side) if (n - 1 - i) % 2 == 0 else range(side - 1, 0, -1)
            pairs += [(i, j) for j in row]
        return np.array([[*line[i], j] for i, j in pairs])
    if side % 2 == 0:
        pairs = [(0, j) for j in range(side)]
        for j in range(side - 1, -1, -1):
            row = range(1, n) if (side - 1 - j) % 2 == 0 else range(n - 1, 0, -1)
            pairs += [(i, j) for i in row]
        return np.array([[*line[i], j] for i, j in pairs])
    pairs = [(i, j) for i in range(n) for j in (range(side) if i % 2 == 0 else range(side - 1, -1, -1))]
    return np.array([[*line[i], j] for i, j in pairs])
