r"""Which waiting jobs get a shard now, and under which switches.

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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Key, Rows
from formulations.shards.shard_classes import LayerClasses, ShapeParts, parts_of
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import ShardShape


@dataclass(frozen=True, eq=False)
class ShardJob:
    """A job of the program.

    Attributes:
        parts: of its shape; no more interfaces than the layer has planes.
        worth: of placing it.
        twin: index of an earlier job that is the same in everything; None: none.
    """

    parts: ShapeParts
    worth: float
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

    def room(self, plane: int) -> Ints:
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


@dataclass(frozen=True, eq=False)
class Choice:
    """What a solution decides for a job.

    Attributes:
        placed: it gets a shard.
        counts: int64[Q, C], ranks by atom and class.
        taken: int64[G, P], interfaces by group and planes.
    """

    placed: bool
    counts: Ints
    taken: Ints


def waiting_jobs(shapes: Sequence[ShardShape], worth: Sequence[float]) -> tuple[ShardJob, ...]:
    """Jobs that wait, each knowing the one like it before."""
    seen: dict[tuple[bytes, tuple[int, ...], float], int] = {}
    jobs = []
    for k, (shape, value) in enumerate(zip(shapes, worth, strict=True)):
        key = (shape.arcs.tobytes(), shape.arcs.shape, float(value))
        jobs.append(ShardJob(parts_of(shape), float(value), twin=seen.get(key)))
        seen[key] = k
    return tuple(jobs)


def build_arrays(data: ShardAssignment) -> LpArrays:
    """The program (minimising the negative); columns and rows job by job, rows (2) last."""
    rows = Rows()
    layer, classes = data.layer, range(data.layer.classes)
    rooms = [data.room(p) for p in range(len(layer.widths))]
    under = [
        [np.flatnonzero(row == s).tolist() for s in range(len(room))]
        for row, room in zip(layer.switch, rooms, strict=True)
    ]
    fit: list[list[tuple[int, float]]] = [[] for _ in classes]
    objective: dict[Key, float] = {}
    for k, job in enumerate(data.jobs):
        sizes, groups = job.parts.sizes.tolist(), job.parts.groups
        rows.column("place", k, upper=1.0, integer=True)
        placed = rows.at("place", k)
        objective["place", k] = -job.worth
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
            for p, room in enumerate(rooms):
                for s, here in enumerate(room.tolist()):
                    rows.column("at", k, g, e, p, s, upper=float(here >= joined), integer=True)
                located = [(rows.at("at", k, g, e, p, s), 1.0) for s in range(len(room))]
                rows.row(f"locate_{k}_{g}_{e}_{p}", 0.0, 0.0, [*located, (rows.at("open", k, g, p), -1.0)])
                for q in atoms.tolist():
                    for s in range(len(room)):
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
        Choice(
            placed=value[f"place_{k}"] == 1,
            counts=np.array([[value[f"ranks_{k}_{q}_{c}"] for c in classes] for q in range(len(job.parts.atoms))]),
            taken=np.array(
                [[value[f"assign_{k}_{g}_{p}"] for p in planes] for g in range(len(job.parts.groups))], dtype=np.int64
            ).reshape(len(job.parts.groups), len(planes)),
        )
        for k, job in enumerate(data.jobs)
    )
