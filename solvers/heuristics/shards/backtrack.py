"""A job over several classes of servers by depth-first search, planes given: complete unless it is cut off."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from formulations.shard_classes import Ints, LayerClasses, ShapeParts
from solvers.heuristics.shards.backtrack_kernels import EXHAUSTED, FOUND, seat


def seat_ranks(
    layer: LayerClasses, parts: ShapeParts, taken: Ints, counts: Ints, preference: Ints, nodes: int
) -> tuple[Ints | None, bool]:
    """int64[Q, C], ranks of each atom in each class, or None; and whether None is a proof for these planes.

    Args:
        layer, parts: whose.
        taken: int64[G, P], planes of each interface group.
        counts: int64[C], free servers.
        preference: int64[C], classes in the order they are tried.
        nodes: seats tried at most.
    """
    order = _order(parts)
    atom = np.repeat(order, parts.sizes[order])
    rows, owners, sizes, begin = [], [], [], 0
    for g, group in enumerate(parts.groups):
        inside = group.component >= 0
        wide = np.bincount(group.component[inside], parts.sizes[inside]).astype(np.int64)
        for p in np.flatnonzero(taken[g]).tolist():
            rows.append(np.where(inside, group.component + begin, -1)[atom])
            owners.append(p)
            sizes.append(wide)
            begin += len(wide)
    switch = layer.switch[owners]
    room = np.zeros((len(owners), int(switch.max()) + 1), dtype=np.int64)
    np.add.at(room, (np.arange(len(owners))[:, None], switch), counts)
    alike = np.concatenate(([False], atom[1:] == atom[:-1]))
    seated = np.zeros(len(atom), dtype=np.int64)
    status = seat(
        switch, np.array(rows), np.concatenate(sizes), counts.copy(), room, alike, preference, nodes, seated
    )  # fmt: skip
    if status != FOUND:
        return None, status == EXHAUSTED
    table = np.zeros((len(parts.atoms), layer.classes), dtype=np.int64)
    np.add.at(table, (atom, seated), 1)
    return table, True


@lru_cache(maxsize=1024)
def _order(parts: ShapeParts) -> Ints:
    """int64[Q]: atoms in an order in which those that share components stand near each other."""
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
