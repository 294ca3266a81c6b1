"""A job over several classes of servers: its ranks are cut where interfaces stay under common switches.

Planes given, the ranks are dealt with as a whole, from the top: a single class if one has room; else the interfaces
that join all of them fix one region; else the parts that no interface joins are packed apart, the largest first; else
some interface is made to keep all ranks under one switch, so that the others may be cut. Not every shard is within
reach: nothing is proven by a failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from formulations.shard_classes import Ints, LayerClasses, ShapeParts, alike
from solvers.heuristics.shards.regions import best_fit, fill

MOST_STEPS = 400
"""Steps of one search over given planes; a job of many small parts has one step for each at least."""

Piece = tuple[int, int, int]
"""Atom, class, servers."""


@dataclass
class Spread:
    """A search over given planes.

    Attributes:
        layer, parts: whose.
        plane_sets: plane groups of each interface group.
        steps: left.
    """

    layer: LayerClasses
    parts: ShapeParts
    plane_sets: tuple[tuple[int, ...], ...]
    steps: int = field(default=MOST_STEPS)

    def run(self, counts: Ints) -> Ints | None:
        """int64[Q, C]: ranks of each atom in each class, or None."""
        self.steps = max(MOST_STEPS, 4 * len(self.parts.atoms))
        every = np.arange(self.layer.classes)
        found = self._fit(np.arange(len(self.parts.atoms)), tuple(range(len(self.parts.groups))), every, counts)
        if found is None:
            return None
        table = np.zeros((len(self.parts.atoms), self.layer.classes), dtype=np.int64)
        for atom, c, servers in found:
            table[atom, c] += servers
        return table

    def _fit(self, atoms: Ints, groups: tuple[int, ...], classes: Ints, counts: Ints) -> list[Piece] | None:
        """Atoms to classes; `groups` are the interface groups not yet sure to stay under one switch."""
        self.steps -= 1
        sizes = self.parts.sizes[atoms]
        wanted = int(sizes.sum())
        room = counts[classes]
        if self.steps < 0 or int(room.sum()) < wanted:
            return None
        if (best := best_fit(room, wanted)) is not None:
            c = int(classes[best])
            return list(zip(atoms.tolist(), [c] * len(atoms), sizes.tolist(), strict=True))
        labels = {g: self.parts.groups[g].component[atoms] for g in groups}
        groups = tuple(g for g in groups if (labels[g] >= 0).any())
        whole = tuple(g for g in groups if labels[g][0] >= 0 and (labels[g] == labels[g][0]).all())
        if whole:
            return self._keep(whole, atoms, groups, classes, counts)
        if not groups:
            return self._fill(atoms, classes, counts)
        parts = _joint([labels[g] for g in groups])
        if parts.max() > 0:
            return self._pack(parts, atoms, groups, classes, counts)
        widest = sorted(groups, key=lambda g: -int(np.bincount(labels[g][labels[g] >= 0], sizes[labels[g] >= 0]).max()))
        for g in widest:
            if (found := self._keep((g,), atoms, groups, classes, counts)) is not None:
                return found
        return None

    def _keep(
        self, kept: tuple[int, ...], atoms: Ints, groups: tuple[int, ...], classes: Ints, counts: Ints
    ) -> list[Piece] | None:
        """All atoms under one switch in the planes of some groups: regions with room, the fullest first."""
        planes = sorted({p for g in kept for p in self.plane_sets[g]})
        region = alike(self.layer.switch[planes][:, classes])
        room = np.bincount(region, counts[classes])
        wanted = int(self.parts.sizes[atoms].sum())
        rest = tuple(g for g in groups if g not in kept)
        for r in np.argsort(room, kind="stable").tolist():
            if room[r] < wanted:
                continue
            if (found := self._fit(atoms, rest, classes[region == r], counts)) is not None:
                return found
        return None

    def _pack(
        self, parts: Ints, atoms: Ints, groups: tuple[int, ...], classes: Ints, counts: Ints
    ) -> list[Piece] | None:
        """Parts that no interface joins, the largest first, each where it fits best."""
        left = counts.copy()
        pieces: list[Piece] = []
        room = np.bincount(parts, self.parts.sizes[atoms])
        for part in np.argsort(-room, kind="stable").tolist():
            found = self._fit(atoms[parts == part], groups, classes, left)
            if found is None:
                return None
            for _, c, servers in found:
                left[c] -= servers
            pieces += found
        return pieces

    def _fill(self, atoms: Ints, classes: Ints, counts: Ints) -> list[Piece]:
        """Atoms that no interface holds together, anywhere."""
        left = counts.copy()
        pieces: list[Piece] = []
        for atom in atoms.tolist():
            for c, servers in fill(left, classes, int(self.parts.sizes[atom])):
                left[c] -= servers
                pieces.append((atom, c, servers))
        return pieces


def _joint(labels: list[Ints]) -> Ints:
    """Which atoms hang together by any of the interfaces, directly or through others."""
    atoms = len(labels[0])
    table = np.array(labels)
    owner, atom = np.nonzero(table >= 0)
    stride = int(table.max()) + 1
    hub = atoms + owner * stride + table[owner, atom]
    nodes = atoms + len(labels) * stride
    joined = coo_array((np.ones(len(atom)), (atom, hub)), shape=(nodes, nodes))
    _, found = connected_components(joined, directed=False)
    _, part = np.unique(found[:atoms], return_inverse=True)
    return part.astype(np.int64)
