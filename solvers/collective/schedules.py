"""Schedules made of trees; reductions are gathers on the transposed network, backward."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from solvers.collective.forest import RoutedArc, RoutedTrees, TreePacking
from topoopt.core.arrays import Int32s, Ints
from topoopt.core.collective import CollectiveSchedule, Path, Sends, VectorBlocks

Row = tuple[int, int, int, int, int, bool]
"""Block, tail, head, step, route, whether the head adds it to what it has."""

Ways = tuple[tuple[Path, int], ...]
"""Paths, and how many trees take each."""


def backward(schedule: CollectiveSchedule) -> CollectiveSchedule:
    """Every copy turned round in time and direction, to a sum: a gather becomes a reduction to the same owners."""
    sends = schedule.sends
    turned = Sends(
        sends.block, sends.head, sends.tail, schedule.steps - 1 - sends.step, np.ones(len(sends), np.bool_), sends.route
    )
    return CollectiveSchedule(schedule.blocks, turned.sorted(), tuple(route[::-1] for route in schedule.routes))


def one_after_other(first: CollectiveSchedule, second: CollectiveSchedule) -> CollectiveSchedule:
    """Two schedules of the same blocks, the second when the first has ended: a reduction and a gather, an AllReduce."""
    routes = {route: place for place, route in enumerate(dict.fromkeys((*first.routes, *second.routes)))}
    parts = []
    for one, later in ((first, 0), (second, first.steps)):
        number = np.array([routes[route] for route in one.routes], dtype=np.int32)
        parts.append(replace(one.sends, step=one.sends.step + np.int32(later), route=number[one.sends.route]))
    joined = (np.concatenate([getattr(part, name) for part in parts]) for name in Sends.__dataclass_fields__)
    return CollectiveSchedule(first.blocks, Sends(*joined).sorted(), tuple(routes))


def of_rows(
    units: Iterable[int], owner: Iterable[int], rows: list[Row], routes: tuple[Path, ...]
) -> CollectiveSchedule:
    """A schedule of rows."""
    sizes = np.fromiter(units, dtype=np.int64)
    blocks = VectorBlocks(sizes, np.fromiter(owner, dtype=np.int32), np.full(len(sizes), -1, dtype=np.int32))
    return of_columns(blocks, np.array(rows, dtype=np.int32).reshape(-1, 6).T, routes)


def of_columns(blocks: VectorBlocks, columns: Iterable[Ints | Int32s], routes: tuple[Path, ...]) -> CollectiveSchedule:
    """A schedule of what rows have, in columns."""
    block, tail, head, step, route, adds = (column.astype(np.int32) for column in columns)
    return CollectiveSchedule(blocks, Sends(block, tail, head, step, adds > 0, route).sorted(), routes)


def of_forest(forest: TreePacking, pieces: int) -> CollectiveSchedule:
    """Copies along trees: every block in so many pieces, one step behind each other."""
    return of_trees([(tree.root, tree.count, (), tree.arcs) for tree in forest.batches], pieces)


def of_two_forests(reductions: TreePacking, broadcasts: TreePacking, pieces: int) -> CollectiveSchedule:
    """An AllReduce: every piece goes up a tree of the first, to a root, and down a tree of the second from there.

    Args:
        reductions: on the transposed network, with as many trees from every rank as the other.
        pieces: of every block; they follow each other, so that both trees are in use at once.

    Raises:
        ValueError: another number of trees from some rank.
    """
    if reductions.trees != broadcasts.trees:
        raise ValueError("as many trees up as down are needed at every rank")
    rows: list[TreePair] = []
    for root in sorted(root for root, count in broadcasts.trees.items() if count):
        both = [
            _laid_out([batch for batch in forest.batches if batch.root == root]) for forest in (reductions, broadcasts)
        ]
        ends = sorted({*(end for _, end in both[0]), *(end for _, end in both[1])})
        for low, high in zip([0, *ends[:-1]], ends, strict=True):
            up, down = (next(_from(batch, low - end + batch.count) for batch, end in own if low < end) for own in both)
            rows.append((root, high - low, up, down))
    return of_trees(rows, pieces)


TreePair = tuple[int, int, tuple[RoutedArc, ...], tuple[RoutedArc, ...]]
"""Root, number of trees, arcs of the tree that is summed along (on the transposed network), of the one copied along."""


def _laid_out(batches: list[RoutedTrees]) -> list[tuple[RoutedTrees, int]]:
    """Batches one after the other, with where each ends."""
    return list(zip(batches, np.cumsum([batch.count for batch in batches]).tolist(), strict=True))


def _from(batch: RoutedTrees, skipped: int) -> tuple[RoutedArc, ...]:
    """Arcs of the trees of a batch after the first ones."""
    return tuple(RoutedArc(arc.tail, arc.head, _without(arc.paths, skipped)) for arc in batch.arcs)


def _without(paths: Ways, skipped: int) -> Ways:
    rest = []
    for path, count in paths:
        rest += [(path, count - skipped)] if skipped < count else []
        skipped = max(skipped - count, 0)
    return tuple(rest)


def of_trees(trees: list[TreePair], pieces: int) -> CollectiveSchedule:
    """Blocks in order of their roots; trees whose arcs part over several routes are divided as they are."""
    routes: dict[Path, int] = {}
    rows: list[Row] = []
    units: list[int] = []
    owner: list[int] = []
    summed = max((max(_depths(root, up).values()) for root, _, up, _ in trees), default=0)
    for root, count, up, down in sorted(trees, key=lambda one: one[0]):
        ends = {end for arc in (*up, *down) for end in np.cumsum([some for _, some in arc.paths]).tolist()}
        ordered = sorted(end for end in {*ends, count} if end <= count)
        above, below = _depths(root, up), _depths(root, down)
        for low, high in zip([0, *ordered[:-1]], ordered, strict=True):
            ways = [
                (arc.head, arc.tail, summed - 1 - above[arc.tail], True, _path_at(arc.paths, low)[::-1]) for arc in up
            ]
            ways += [(arc.tail, arc.head, summed + below[arc.tail], False, _path_at(arc.paths, low)) for arc in down]
            for piece in range(pieces):
                rows += [
                    (len(units), tail, head, step + piece, routes.setdefault(path, len(routes)), adds)
                    for tail, head, step, adds, path in ways
                ]
                units.append(high - low)
                owner.append(root)
    return of_rows(units, owner, rows, tuple(routes))


def _depths(root: int, arcs: tuple[RoutedArc, ...]) -> dict[int, int]:
    depth = {root: 0}
    for arc in arcs:
        depth[arc.head] = depth[arc.tail] + 1
    return depth


def _path_at(paths: Ways, place: int) -> Path:
    """The path of the tree at a place in its batch."""
    for path, count in paths:
        if place < count:
            return path
        place -= count
    raise ValueError("a place outside the batch")
