"""Which servers and which ranks are alike to the optical switches: what keeps programs over shards small.

Servers of one class are patched to the same switch in every plane; planes of one group sort the servers alike.
Interfaces of one group join the same sets of ranks (components of their arcs: such a set must lie under one switch);
ranks of one atom lie in the same component of every interface. A shard is a count of servers by atom and class, and a
plane group by interface group; which server of a class a rank gets makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Ints
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape


@dataclass(frozen=True, eq=False)
class LayerClasses:
    """Servers and planes of a layer, sorted.

    Attributes:
        class_of: int64[n], class of each server; classes are numbered by their first server.
        switch: int64[P, C], switch of each class in each group of planes, numbered by first appearance.
        plane_groups: planes of each group, ascending.
        classes: C.
    """

    class_of: Ints
    switch: Ints
    plane_groups: tuple[tuple[int, ...], ...]
    classes: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Planes of each group."""
        return tuple(len(group) for group in self.plane_groups)

    @cached_property
    def switches(self) -> tuple[int, ...]:
        """Switches of each group of planes."""
        return tuple(int(row.max()) + 1 for row in self.switch)

    @cached_property
    def members(self) -> tuple[Ints, ...]:
        """Servers of each class, ascending."""
        order = np.argsort(self.class_of, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(self.class_of, minlength=self.classes))[:-1]))

    def count(self, servers: Bools) -> Ints:
        """int64[C]: how many of the marked servers each class has."""
        return np.bincount(self.class_of[servers], minlength=self.classes)


@dataclass(frozen=True, eq=False)
class InterfaceGroup:
    """Interfaces that join the same sets of ranks.

    Attributes:
        interfaces: ascending.
        component: int64[Q], component of each atom; -1: the interfaces are dark there.
        components: how many.
    """

    interfaces: tuple[int, ...]
    component: Ints
    components: int


@dataclass(frozen=True, eq=False)
class ShapeParts:
    """Ranks and interfaces of a shape, sorted.

    Attributes:
        atoms: ranks of each atom, ascending; atoms are numbered by their first rank.
        groups: of the interfaces in use.
        dark: interfaces no rank uses.
        servers: k.
    """

    atoms: tuple[Ints, ...]
    groups: tuple[InterfaceGroup, ...]
    dark: tuple[int, ...]
    servers: int

    @cached_property
    def sizes(self) -> Ints:
        """int64[Q]: ranks of each atom."""
        return np.array([len(atom) for atom in self.atoms], dtype=np.int64)


def first_seen(labels: NDArray[np.integer]) -> Ints:
    """The same sets with labels 0, 1, ... in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[inverse]


def alike(table: NDArray[np.integer]) -> Ints:
    """Which columns of a table are equal: labels by first appearance."""
    _, inverse = np.unique(table, axis=1, return_inverse=True)
    return first_seen(inverse.ravel())


@lru_cache(maxsize=64)
def classes_of(layer: OpticalLayer) -> LayerClasses:
    """Servers and planes of a layer, sorted; kept for layers seen lately (by object: they never change)."""
    rows = np.array([first_seen(row) for row in layer.switch_of])
    groups: dict[bytes, list[int]] = {}
    for plane, row in enumerate(rows):
        groups.setdefault(row.tobytes(), []).append(plane)
    kept = rows[[planes[0] for planes in groups.values()]]
    class_of = alike(kept)
    classes = int(class_of.max()) + 1
    switch = np.empty((len(kept), classes), dtype=np.int64)
    switch[:, class_of] = kept
    return LayerClasses(class_of, switch, tuple(tuple(planes) for planes in groups.values()), classes)


@lru_cache(maxsize=1024)
def parts_of(shape: ShardShape) -> ShapeParts:
    """Ranks and interfaces of a shape, sorted; kept for shapes seen lately (by object: they never change)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    k = shape.servers
    groups: dict[bytes, tuple[list[int], Ints]] = {}
    dark = []
    for interface, row in enumerate(shape.arcs):
        tail = np.flatnonzero(row >= 0)
        if not len(tail):
            dark.append(interface)
            continue
        joined = coo_array((np.ones(len(tail)), (tail, row[tail])), shape=(k, k))
        _, found = connected_components(joined, directed=False)
        alone = np.bincount(found)[found] == 1
        label = np.full(k, -1, dtype=np.int64)
        label[~alone] = first_seen(found[~alone])
        groups.setdefault(label.tobytes(), ([], label))[0].append(interface)
    labels = np.array([label for _, label in groups.values()]).reshape(len(groups), k)
    atom_of = alike(labels) if groups else np.zeros(k, dtype=np.int64)
    atoms = tuple(np.flatnonzero(atom_of == atom) for atom in range(int(atom_of.max()) + 1))
    first = [int(atom[0]) for atom in atoms]
    return ShapeParts(
        atoms,
        tuple(
            InterfaceGroup(tuple(interfaces), label[first], int(label.max()) + 1)
            for interfaces, label in groups.values()
        ),
        tuple(dark),
        k,
    )


def planes_of(layer: LayerClasses, parts: ShapeParts, taken: NDArray[np.integer]) -> tuple[int, ...]:
    """Plane of every interface of a shape, from how many planes of each group each interface group takes.

    Args:
        layer, parts: whose.
        taken: int[G, P].

    Raises:
        ValueError: more than there are.
    """
    left = [list(group) for group in layer.plane_groups]
    chosen: dict[int, int] = {}
    for group, row in zip(parts.groups, taken.tolist(), strict=True):
        planes = [left[p].pop(0) for p, count in enumerate(row) for _ in range(count)]
        chosen |= zip(group.interfaces, planes, strict=True)
    rest = iter(sorted(plane for group in left for plane in group))
    try:
        chosen |= {interface: next(rest) for interface in parts.dark}
    except StopIteration:
        raise ValueError("a shape has more interfaces than the layer has planes") from None
    return tuple(chosen[interface] for interface in sorted(chosen))


def shard_of(
    layer: LayerClasses,
    parts: ShapeParts,
    counts: NDArray[np.integer],
    taken: NDArray[np.integer],
    pools: tuple[Ints, ...],
) -> Shard:
    """Servers and planes, from counts by atom and class.

    Args:
        layer, parts: whose.
        counts: int[Q, C], ranks of each atom in each class.
        taken: see `planes_of`.
        pools: servers to choose from in each class; the first ones are taken.
    """
    servers = np.empty(parts.servers, dtype=np.int64)
    begin = np.cumsum(counts, axis=0) - counts
    for q, c in np.argwhere(counts > 0).tolist():
        done, count = int(counts[q, :c].sum()), int(counts[q, c])
        servers[parts.atoms[q][done : done + count]] = pools[c][begin[q, c] : begin[q, c] + count]
    return Shard(tuple(servers.tolist()), planes_of(layer, parts, taken))
