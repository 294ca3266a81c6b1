"""Ways to give groups of planes to groups of interfaces: all of them if they are few, else some."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

import numpy as np

from formulations.shards.shard_classes import InterfaceGroup, LayerClasses, ShapeParts
from solvers.shards.regions import regions_of
from topoopt.core.arrays import Ints


def spans(group: InterfaceGroup) -> bool:
    """Whether the interfaces join all ranks."""
    return group.components == 1 and bool((group.component == 0).all())


def taken_by(parts: ShapeParts, order: list[int], plane_groups: int) -> Ints:
    """int64[G, P]: planes taken when interface groups help themselves from a list of plane groups."""
    table = np.zeros((len(parts.groups), plane_groups), dtype=np.int64)
    begin = 0
    for g, group in enumerate(parts.groups):
        end = begin + len(group.interfaces)
        np.add.at(table[g], order[begin:end], 1)
        begin = end
    return table


def plane_choices(
    classes: LayerClasses, parts: ShapeParts, counts: Ints, rng: np.random.Generator, tries: int
) -> tuple[list[Ints], bool]:
    """int64[G, P] tables of planes taken, distinct, and whether they are all there are.

    Of many, `tries` are drawn: for interfaces that join all ranks, planes with a region that has room for them.
    """
    widths = classes.widths
    if (few := _few(classes, parts, tries)) is not None:
        return list(few), True
    spanning = [spans(group) for group in parts.groups]
    needed = sum(len(g.interfaces) for g, all_of in zip(parts.groups, spanning, strict=True) if all_of)
    sets: list[tuple[int, ...]] = [()]
    if needed:
        regions = regions_of(classes, needed)
        room = regions.free(counts)
        fitting = [int(r) for r in np.argsort(room, kind="stable") if room[r] >= parts.servers]
        sets = list(dict.fromkeys(regions.sets[int(regions.set_of[r])] for r in fitting))
    every = [p for p, width in enumerate(widths) for _ in range(width)]
    drawn: dict[bytes, Ints] = {}
    for attempt in range(tries if sets else 0):
        pool = every if attempt == 0 else rng.permutation(every).tolist()
        chosen = sets[attempt % len(sets)]
        front = [p for p in pool if p in chosen][:needed]
        back = list(pool)
        for p in front:
            back.remove(p)
        order: list[int] = []
        for group, all_of in zip(parts.groups, spanning, strict=True):
            source = front if all_of else back
            order += source[: len(group.interfaces)]
            del source[: len(group.interfaces)]
        taken = taken_by(parts, order, len(widths))
        drawn.setdefault(taken.tobytes(), taken)
    return list(drawn.values()), False


@lru_cache(maxsize=1024)
def _few(classes: LayerClasses, parts: ShapeParts, tries: int) -> tuple[Ints, ...] | None:
    """All tables, or None when there are more than `tries`."""
    shape = (len(parts.groups), len(classes.widths))
    tables = [
        np.array(rows, dtype=np.int64).reshape(shape)
        for rows in islice(_all_choices([len(g.interfaces) for g in parts.groups], classes.widths), tries + 1)
    ]
    return tuple(tables) if len(tables) <= tries else None


def _all_choices(lines: list[int], left: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Rows for interface groups of so many lines, with what is left of every group of planes."""
    if not lines:
        yield []
        return
    for row in _shares(lines[0], left):
        for rows in _all_choices(lines[1:], tuple(m - n for n, m in zip(row, left, strict=True))):
            yield [row, *rows]


def _shares(lines: int, left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All ways to take so many lines, the first planes first."""
    if not left:
        if lines == 0:
            yield ()
        return
    for first in range(min(lines, left[0]), max(lines - sum(left[1:]), 0) - 1, -1):
        for rest in _shares(lines - first, left[1:]):
            yield (first, *rest)
