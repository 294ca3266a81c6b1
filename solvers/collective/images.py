"""Schedules out of packings: every column is sent in all its images under the symmetries, in whole parts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from solvers.collective.columns import Column, Packing
from solvers.collective.limits import TreesDoNotFitError
from solvers.collective.schedules import backward, joined
from solvers.collective.symmetry import MergedNetwork, Symmetry
from topoopt.core.arrays import Bools, Floats, Ints, ranges, whole_shares
from topoopt.core.collective import CollectiveSchedule, Path, Sends, VectorBlocks

MOST_DENOMINATOR = 4096
"""Parts of a shard up to which shares are tried to be exact: exporters want few chunks."""

PARTS = 10**9
"""Parts of a shard where shares are not exact."""

CLOSE = 1e-9
"""By how much an exact share may be off: tolerances of linear programs."""


@dataclass(frozen=True, eq=False)
class _Images:
    """Trees or bundles of all roots, T of them, in nodes of the network; k messages together.

    Attributes:
        root: int64[T], ascending.
        share: float64[T], part of what the root sends.
        tree: int64[k], of every message, ascending.
        step: int64[k].
        paths: int64[k, longest], padded with -1.
    """

    root: Ints
    share: Floats
    tree: Ints
    step: Ints
    paths: Ints

    def used(self, units: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Units and roots of the trees that have some; tree, step and path of their messages."""
        kept = units > 0
        mine = kept[self.tree]
        return units[kept], self.root[kept], (np.cumsum(kept) - 1)[self.tree[mine]], self.step[mine], self.paths[mine]


def _images(merged: MergedNetwork, symmetry: Symmetry, columns: Sequence[Column]) -> _Images:
    """All different images of the columns; those of one root and column share its weight.

    Raises:
        TreesDoNotFitError: there are no columns, since rates of links are too unlike.
    """
    if not columns:
        raise TreesDoNotFitError("rates of links are too unlike")
    number = np.append(merged.numbers, -1)
    longest = max(column.paths.shape[1] for column in columns)
    total = np.bincount([column.orbit for column in columns], [column.weight for column in columns])
    roots: list[int] = []
    shares: list[float] = []
    steps, paths = [], []
    for column in columns:
        base = np.full((len(column.paths), longest), -1, dtype=np.int64)
        base[:, : column.paths.shape[1]] = column.paths
        share = column.weight / total[column.orbit]
        for root, elements in _different(symmetry.elements, column, base):
            for element in elements:
                roots.append(root)
                shares.append(share / len(elements))
                steps.append(column.step)
                paths.append(number[np.append(element, -1)[base]])
    order = np.argsort(merged.numbers[roots], kind="stable").tolist()
    sizes = [len(steps[tree]) for tree in order]
    return _Images(
        merged.numbers[roots][order],
        np.array(shares)[order],
        np.repeat(np.arange(len(order)), sizes),
        np.concatenate([steps[tree] for tree in order]),
        np.concatenate([paths[tree] for tree in order]),
    )


def _different(elements: Ints, column: Column, base: Ints) -> list[tuple[int, list[Ints]]]:
    """Elements of the group that take a column to different images, by the root of the image."""
    targets = elements[:, column.root]
    if len(np.unique(targets)) == len(elements):
        return [(int(root), [element]) for root, element in zip(targets, elements, strict=True)]
    images: dict[int, dict[bytes, Ints]] = {}
    for root, element in zip(targets.tolist(), elements, strict=True):
        image = np.append(element, -1)[base]
        images.setdefault(root, {}).setdefault(image[np.lexsort(image.T)].tobytes(), element)
    return [(root, list(different.values())) for root, different in images.items()]


def whole_parts(amounts: Sequence[Floats]) -> list[Ints] | None:
    """Least whole numbers in the proportions of some rows of amounts, the same scale for all; None: no small ones."""
    values = np.unique(np.round(np.concatenate(amounts), 12))
    for scale in range(1, MOST_DENOMINATOR + 1):
        if np.abs(values * scale - np.round(values * scale)).max() <= CLOSE * scale:
            rows = [np.round(row * scale).astype(np.int64) for row in amounts]
            if min(int(row.min()) for row in rows) > 0:
                return rows
    return None


def _sums(root: Ints, units: Ints) -> dict[int, int]:
    """Units of every root."""
    ranks, index = np.unique(root, return_inverse=True)
    sums = np.zeros(len(ranks), dtype=np.int64)
    np.add.at(sums, index, units)
    return dict(zip(ranks.tolist(), sums.tolist(), strict=True))


def _sent_units(images: _Images, merged: MergedNetwork, symmetry: Symmetry) -> Ints:
    """Whole parts of every tree, as many of all roots of a process group, in proportion to what they send."""
    sent = dict(zip(merged.numbers.tolist(), symmetry.parts.tolist(), strict=True))
    exact = whole_parts([images.share * np.array([sent[root] for root in images.root.tolist()])])
    if exact is not None:
        sums = _sums(images.root, exact[0])
        if len({Fraction(units, sent[root]) for root, units in sums.items()}) == 1:
            return exact[0]
    parts = max(PARTS // max(sent.values()), 1)
    return _units(images.root, images.share, {root: sent[root] * parts for root in images.root.tolist()})


def _units(root: Ints, share: Floats, parts: dict[int, int]) -> Ints:
    """Whole parts of every tree, those of a root adding up to what it sends."""
    bounds = np.flatnonzero(np.diff(root, prepend=-1, append=-1))
    rows = [whole_shares(share[a:b], parts[int(root[a])]) for a, b in itertools.pairwise(bounds.tolist())]
    return np.array([units for row in rows for units in row], dtype=np.int64)


def gather_schedule(merged: MergedNetwork, symmetry: Symmetry, columns: Sequence[Column]) -> CollectiveSchedule:
    """Return the AllGather of trees, with equal shards."""
    images = _images(merged, symmetry, columns)
    return _of_trees(images, _sent_units(images, merged, symmetry), merged)


def allreduce_schedule(merged: MergedNetwork, symmetry: Symmetry, packed: Packing) -> CollectiveSchedule:
    """Return the AllReduce of trees up and down; roots have shares of their own."""
    largest = float(packed.shares.max())
    by_orbit = np.zeros(int(symmetry.node_orbit.max()) + 1)
    shares = np.where(packed.shares > CLOSE * largest, packed.shares / largest, 0.0)
    by_orbit[symmetry.node_orbit[[rank for rank, _ in symmetry.rank_orbits]]] = shares
    part = by_orbit[symmetry.node_orbit]
    node = {int(number): index for index, number in enumerate(merged.numbers)}
    used = set(np.flatnonzero(shares).tolist())
    up, down = (
        _images(merged, symmetry, [column for column in columns if column.orbit in used])
        for columns in (packed.up, packed.down)
    )
    amounts = [own.share * part[[node[rank] for rank in own.root.tolist()]] for own in (up, down)]
    exact = whole_parts(amounts)
    if exact is None or not _vectors_fit(merged, symmetry, *map(_sums, (up.root, down.root), exact)):
        whole: dict[int, int] = {}
        for members, vector in zip(symmetry.members, symmetry.vectors, strict=True):
            own_parts = whole_shares(part[members].tolist(), PARTS // max(symmetry.vectors) * vector)
            whole |= dict(zip(merged.numbers[members].tolist(), own_parts, strict=True))
        exact = [_units(own.root, own.share, whole) for own in (up, down)]
    schedule = joined(backward(_of_trees(up, exact[0], merged)), _of_trees(down, exact[1], merged))
    assert schedule is not None
    return schedule


def _vectors_fit(merged: MergedNetwork, symmetry: Symmetry, up: dict[int, int], down: dict[int, int]) -> bool:
    """Whether as much is summed at every root as leaves it, and the vectors of process groups are in proportion."""
    sums = [sum(up.get(rank, 0) for rank in merged.numbers[own].tolist()) for own in symmetry.members]
    return up == down and len({Fraction(*own) for own in zip(sums, symmetry.vectors, strict=True)}) == 1


def _of_trees(images: _Images, units: Ints, merged: MergedNetwork) -> CollectiveSchedule:
    own, roots, tree, step, paths = images.used(units)
    blocks = VectorBlocks(own, roots.astype(np.int32), np.full(len(own), -1, dtype=np.int32))
    return routed(blocks, tree, step, paths, merged)


def routed(blocks: VectorBlocks, block: Ints, step: Ints, paths: Ints, merged: MergedNetwork) -> CollectiveSchedule:
    """Return the schedule of messages that take paths, int64[k, longest], padded with -1."""
    rows = np.ascontiguousarray(paths, dtype=np.int32)
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, route = np.unique(keys, return_index=True, return_inverse=True)
    length = (rows >= 0).sum(axis=1)
    routes: tuple[Path, ...] = tuple(
        tuple(row[:long]) for row, long in zip(rows[first].tolist(), length[first].tolist(), strict=True)
    )
    head = rows[np.arange(len(rows)), length - 1]
    narrow = (block.astype(np.int32), rows[:, 0].copy(), head.astype(np.int32), step.astype(np.int32))
    sends = Sends(*narrow, np.zeros(len(rows), dtype=np.bool_), route.astype(np.int32))
    return CollectiveSchedule(blocks, sends.sorted(), routes, merged.groups)


def bundle_schedule(merged: MergedNetwork, symmetry: Symmetry, columns: Sequence[Column]) -> CollectiveSchedule:
    """Return the All-to-All of bundles; a path is cut at the ranks on it, and what a rank sends itself stays."""
    images = _images(merged, symmetry, columns)
    units, roots, bundle, _, paths = images.used(_sent_units(images, merged, symmetry))
    length = (paths >= 0).sum(axis=1)
    target = paths[np.arange(len(paths)), length - 1]
    sums = _sums(roots, units)
    ranks = np.array(list(sums))
    owner = np.concatenate((roots[bundle], ranks))
    blocks = VectorBlocks(
        np.concatenate((units[bundle], list(sums.values()))),
        owner.astype(np.int32),
        np.concatenate((target, ranks)).astype(np.int32),
    )
    stops = _stops(paths, merged, symmetry)
    block, step, hops = _legs(paths, stops)
    return routed(blocks, block, step, hops, merged)


def _stops(paths: Ints, merged: MergedNetwork, symmetry: Symmetry) -> Bools:
    """bool[k, longest]: members of the group of the sender, where a path is cut."""
    group = np.full(merged.source.nodes + len(merged.groups), -1, dtype=np.int64)
    for number, members in enumerate(symmetry.members):
        group[merged.numbers[members]] = number
    inside: Bools = (paths >= 0) & (group[np.maximum(paths, 0)] == group[paths[:, :1]])
    return inside


def _legs(paths: Ints, stops: Bools) -> tuple[Ints, Ints, Ints]:
    """Path, step and nodes of every message between two stops of a path."""
    row, position = np.nonzero(stops)
    same = row[1:] == row[:-1]
    begin, end, path = position[:-1][same], position[1:][same], row[:-1][same]
    first = np.searchsorted(path, path)
    step = np.arange(len(path)) - first
    width = int((end - begin).max(initial=1)) + 1
    legs = np.full((len(path), width), -1, dtype=np.int64)
    count = end - begin + 1
    column = ranges(np.zeros(len(path), dtype=np.int64), count)
    line = np.repeat(np.arange(len(path)), count)
    legs[line, column] = paths[path[line], begin[line] + column]
    return path, step, legs
