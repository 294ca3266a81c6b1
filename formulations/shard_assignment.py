"""Which waiting jobs get a shard now, and under which switches.

Decided: which jobs are placed, and for each of them how many ranks of each atom go to each class of servers, and which
planes its interfaces take. Servers of a class and ranks of an atom are alike (`shard_classes`), so counts decide
everything; which server of a class a rank gets is free.

Sets        JOBS k; ATOMS q of k; GROUPS g of k: interfaces that join the same ranks; COMPONENTS e of g: sets of atoms
            that a circuit may join;  PLANES p: groups of planes alike;  SWITCHES s of p;  CLASSES c of servers.
Parameters  size[k, q]: ranks of an atom;  lines[k, g]: interfaces of a group;  width[p]: planes of a group;
            switch[p, c]: switch of the servers of class c;  free[c]: servers that are free;  worth[k] >= 0: of
            placing a job.
Variables   place[k] in {0, 1};  ranks[k, q, c] in 0, 1, ..;
            assign[k, g, p] in 0, 1, ..: interfaces of the group on planes p;  open[k, g, p] in {0, 1}: there are some;
            at[k, g, e, p, s] in {0, 1}: the component stands under switch s of planes p.

    maximise    sum_k worth[k] place[k]
    (1) seat        sum_c ranks[k, q, c] = size[k, q] place[k]                          all k, q
    (2) fit         sum_kq ranks[k, q, c] <= free[c]                                    all c
    (3) spread      sum_p assign[k, g, p] = lines[k, g] place[k]                        all k, g
    (4) use         assign[k, g, p] <= min(lines[k, g], width[p]) open[k, g, p]         all k, g, p
    (5) planes      sum_g assign[k, g, p] <= width[p] place[k]                          all k, p
    (6) locate      sum_s at[k, g, e, p, s] = open[k, g, p]                             all k, g, e, p
    (7) gather      sum_{c: switch[p, c] = s} ranks[k, q, c] >= size[k, q] at[k, g, e, p, s]    q of e, all s
    (8) order       place[twin[k]] >= place[k]         k that equals an earlier job, its twin

Bounds: ranks[k, q, c] <= min(size[k, q], free[c]);  at = 0 where free servers under s are fewer than the ranks of e.
Interfaces without arcs take what planes are left, so k has no more interfaces than there are planes.

Exact, up to which plane an interface takes: the planes of an interface are the same for all ranks, as in `Shard`.
Symmetry: by classes, atoms, interface and plane groups (merged), and equal jobs (8). Size: for a job of one atom whose
interfaces join all ranks, |CLASSES| + |PLANES| (2 + |SWITCHES|) + 1 columns. Related: packing of vectors with
conflicts; for blocks alike in all planes and rings it is the multiple knapsack problem.

shard_classes
-------------
Which servers and which ranks are alike to the optical switches: what keeps programs over shards small.

Servers of one class are patched to the same switch in every plane; planes of one group sort the servers alike.
Interfaces of one group join the same sets of ranks (components of their arcs: such a set must lie under one switch);
ranks of one atom lie in the same component of every interface. A shard is a count of servers by atom and class, and a
plane group by interface group; which server of a class a rank gets makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from formulations.programs import Key, LpArrays, Rows
from topoopt.core.arrays import Bools, Floats, Ints
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
        return tuple(len(group) for group in self.plane_groups)

    @cached_property
    def switches(self) -> tuple[int, ...]:
        return tuple(int(row.max()) + 1 for row in self.switch)

    @cached_property
    def members(self) -> tuple[Ints, ...]:
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
    rank_of = np.empty(len(first), dtype=np.int64)
    rank_of[np.argsort(first)] = np.arange(len(first))
    return rank_of[inverse]


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
        _, component = connected_components(joined, directed=False)
        alone = np.bincount(component)[component] == 1
        label = np.full(k, -1, dtype=np.int64)
        label[~alone] = first_seen(component[~alone])
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


@dataclass(frozen=True, eq=False)
class ShardJob:
    """A job of the program.

    Attributes:
        parts: of its shape; no more interfaces than the layer has planes.
        gain: of placing it.
        twin: index of an earlier job that is the same in everything; None: none.
    """

    parts: ShapeParts
    gain: float
    twin: int | None = None


@dataclass(frozen=True, eq=False)
class ShardAssignment:
    """Data of the problem.

    Attributes:
        layer: classes of servers and groups of planes.
        free: int64[C], servers that are free.
        jobs: waiting.
    """

    layer: LayerClasses
    free: Ints
    jobs: tuple[ShardJob, ...]

    def free_servers(self, plane: int) -> Ints:
        """int64[S]: free servers under each switch of a group of planes."""
        return np.bincount(self.layer.switch[plane], self.free).astype(np.int64)

    @property
    def columns(self) -> int:
        """Variables of the program, before it is built."""
        switches, planes, classes = sum(self.layer.switches), len(self.layer.widths), self.layer.classes
        return sum(
            1 + len(job.parts.atoms) * classes
            + sum(2 * planes + group.components * switches for group in job.parts.groups)
            for job in self.jobs
        )  # fmt: skip

    def arcs_of(self, k: int) -> Iterator[tuple[int, int, Ints]]:
        """(group, component, its atoms) of a job."""
        for g, group in enumerate(self.jobs[k].parts.groups):
            for e in range(group.components):
                yield g, e, np.flatnonzero(group.component == e)


Choice = tuple[bool, Ints, Ints]
"""What a solution decides for a job: whether it gets a shard, int64[Q, C] ranks by atom and class, and int64[G, P]
interfaces by group and planes."""


def waiting_jobs(shapes: Sequence[ShardShape], gains: Sequence[float]) -> tuple[ShardJob, ...]:
    """Jobs that wait, each knowing the one like it before."""
    seen: dict[tuple[bytes, tuple[int, ...], float], int] = {}
    jobs = []
    for k, (shape, value) in enumerate(zip(shapes, gains, strict=True)):
        key = (shape.arcs.tobytes(), shape.arcs.shape, float(value))
        jobs.append(ShardJob(parts_of(shape), float(value), twin=seen.get(key)))
        seen[key] = k
    return tuple(jobs)


def build_arrays(data: ShardAssignment) -> LpArrays:
    """The program (minimising the negative); columns and rows job by job, rows (2) last."""
    rows = Rows()
    layer, classes = data.layer, range(data.layer.classes)
    rooms = [data.free_servers(p) for p in range(len(layer.widths))]
    under = [
        [np.flatnonzero(row == s).tolist() for s in range(len(slots))]
        for row, slots in zip(layer.switch, rooms, strict=True)
    ]
    fit: list[list[tuple[int, float]]] = [[] for _ in classes]
    objective: dict[Key, float] = {}
    for k, job in enumerate(data.jobs):
        sizes, groups = job.parts.sizes.tolist(), job.parts.groups
        rows.column("place", k, upper=1.0, integer=True)
        placed = rows.at("place", k)
        objective["place", k] = -job.gain
        for q, size in enumerate(sizes):
            for c in classes:
                rows.column("ranks", k, q, c, upper=float(min(size, data.free[c])), integer=True)
                fit[c].append((rows.at("ranks", k, q, c), 1.0))
            seated = [(rows.at("ranks", k, q, c), 1.0) for c in classes]
            rows.row(f"seat_{k}_{q}", 0.0, 0.0, [*seated, (placed, -float(size))])
        for g, group in enumerate(groups):
            lines = len(group.interfaces)
            for p, width in enumerate(layer.widths):
                most = float(min(lines, width))
                rows.column("assign", k, g, p, upper=most, integer=True)
                rows.column("open", k, g, p, upper=1.0, integer=True)
                rows.row(
                    f"use_{k}_{g}_{p}", -np.inf, 0.0,
                    [(rows.at("assign", k, g, p), 1.0), (rows.at("open", k, g, p), -most)],
                )  # fmt: skip
            spread = [(rows.at("assign", k, g, p), 1.0) for p in range(len(layer.widths))]
            rows.row(f"spread_{k}_{g}", 0.0, 0.0, [*spread, (placed, -float(lines))])
        for p, width in enumerate(layer.widths):
            used = [(rows.at("assign", k, g, p), 1.0) for g in range(len(groups))]
            if used:
                rows.row(f"planes_{k}_{p}", -np.inf, 0.0, [*used, (placed, -float(width))])
        for g, e, atoms in data.arcs_of(k):
            joined = sum(sizes[q] for q in atoms.tolist())
            for p, slots in enumerate(rooms):
                for s, here in enumerate(slots.tolist()):
                    rows.column("at", k, g, e, p, s, upper=float(here >= joined), integer=True)
                located = [(rows.at("at", k, g, e, p, s), 1.0) for s in range(len(slots))]
                rows.row(f"locate_{k}_{g}_{e}_{p}", 0.0, 0.0, [*located, (rows.at("open", k, g, p), -1.0)])
                for q in atoms.tolist():
                    for s in range(len(slots)):
                        gathered = [(rows.at("ranks", k, q, c), 1.0) for c in under[p][s]]
                        there = (rows.at("at", k, g, e, p, s), -float(sizes[q]))
                        rows.row(f"gather_{k}_{g}_{e}_{p}_{s}_{q}", 0.0, np.inf, [*gathered, there])
        if job.twin is not None:
            rows.row(f"order_{k}", 0.0, np.inf, [(rows.at("place", job.twin), 1.0), (placed, -1.0)])
    for c in classes:
        rows.row(f"fit_{c}", -np.inf, float(data.free[c]), fit[c])
    return rows.program(objective)


def choices_of(data: ShardAssignment, program: LpArrays, x: Floats) -> tuple[Choice, ...]:
    """What a solution decides, job by job; values are rounded, and have to be checked by whoever uses them."""
    names = program.column_names
    assert names is not None
    value = dict(zip(names, np.rint(x).astype(np.int64).tolist(), strict=True))
    classes, planes = range(data.layer.classes), range(len(data.layer.widths))
    return tuple(
        (
            value[f"place_{k}"] == 1,
            np.array([[value[f"ranks_{k}_{q}_{c}"] for c in classes] for q in range(len(job.parts.atoms))]),
            np.array(
                [[value[f"assign_{k}_{g}_{p}"] for p in planes] for g in range(len(job.parts.groups))], dtype=np.int64
            ).reshape(len(job.parts.groups), len(planes)),
        )
        for k, job in enumerate(data.jobs)
    )
