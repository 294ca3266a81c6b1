"""A job over several classes of servers by depth-first search, planes given: complete unless it is cut off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from formulations.shards.shard_classes import LayerClasses, ShapeParts
from topoopt.core.arrays import Bools, Ints
from topoopt.native import pipeline


@dataclass(frozen=True, eq=False)
class Bench:
    """What searches over the same free servers share.

    Attributes:
        layer, parts: whose.
        counts: int64[C], free servers.
        room: int64[P, S], free servers under each switch.
    """

    layer: LayerClasses
    parts: ShapeParts
    counts: Ints
    room: Ints


def bench_of(layer: LayerClasses, parts: ShapeParts, counts: Ints) -> Bench:
    """Ready for searches."""
    room = np.zeros((len(layer.widths), max(layer.switches)), dtype=np.int64)
    for row, switch in zip(room, layer.switch, strict=True):
        row[:] = np.bincount(switch, counts, minlength=len(row))
    return Bench(layer, parts, counts, room)


def seat_ranks(bench: Bench, taken: Ints, preference: Ints, nodes: int) -> tuple[Ints | None, bool]:
    """int64[Q, C], ranks of each atom in each class, or None; and whether None is a proof for these planes.

    Args:
        bench: of the search.
        taken: int64[G, P], planes of each interface group.
        preference: int64[C], classes in the order they are tried.
        nodes: seats tried at most.
    """
    lines = _lines(bench.parts)
    groups, owners = np.nonzero(taken)
    wide = [lines.sizes[g] for g in groups.tolist()]
    begin = np.cumsum([0, *(len(sizes) for sizes in wide[:-1])])
    rows = lines.component[groups]
    component = np.where(rows >= 0, rows + begin[:, None], -1)
    seated, complete = pipeline.seat_ranks(
        bench.layer.switch[owners], component, np.concatenate(wide), bench.counts, bench.room[owners],
        lines.alike, preference, nodes,
    )  # fmt: skip
    if seated is None:
        return None, complete
    table = np.zeros((len(bench.parts.atoms), bench.layer.classes), dtype=np.int64)
    np.add.at(table, (lines.atom, seated), 1)
    return table, True


@dataclass(frozen=True, eq=False)
class _Lines:
    """Ranks in the order they are seated.

    Attributes:
        atom: int64[K], of each rank.
        alike: bool[K], of the same atom as the one before.
        component: int64[G, K], by interface group; -1: dark.
        sizes: ranks of each component, by interface group.
    """

    atom: Ints
    alike: Bools
    component: Ints
    sizes: tuple[Ints, ...]


@lru_cache(maxsize=1024)
def _lines(parts: ShapeParts) -> _Lines:
    """Kept for shapes seen lately."""
    order = _order(parts)
    atom = np.repeat(order, parts.sizes[order])
    inside = [group.component >= 0 for group in parts.groups]
    return _Lines(
        atom,
        np.concatenate(([False], atom[1:] == atom[:-1])),
        np.array([group.component[atom] for group in parts.groups]),
        tuple(
            np.bincount(group.component[there], parts.sizes[there]).astype(np.int64)
            for group, there in zip(parts.groups, inside, strict=True)
        ),
    )


def _order(parts: ShapeParts) -> Ints:
    """int64[Q]: atoms in an order in which those that share components stand near each other."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    atoms, begin = len(parts.atoms), len(parts.atoms)
    tail, head = [], []
    for group in parts.groups:
        inside = np.flatnonzero(group.component >= 0)
        tail.append(inside)
        head.append(begin + group.component[inside])
        begin += group.components
    row, column = np.concatenate(tail), np.concatenate(head)
    both = (np.concatenate((row, column)), np.concatenate((column, row)))
    graph = coo_array((np.ones(2 * len(row)), both), shape=(begin, begin)).tocsr()
    order = np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.int64)
    return order[order < atoms]
