r"""Bandwidth per dimension of a hierarchical network: least time, least time x cost, or least cost, as linear programs.

Sets        DIMENSIONS j (and tau, see below); JOBS w; GROUPS g of a job (`hierarchical_timeline`); PATHS p of a job.
Parameters  u[g, j]: bytes per byte;  C[p] ns, a[p, g] bytes;  omega[w]: weights;  A, b: linear constraints;
            k[j]: US dollars for 1 GB/s in dimension j, over all NPUs;  c0: fixed cost.
Variables   X[j] >= 0: bandwidth, GB/s per NPU;  x[j] >= 1/X[j];  t[g]: ns per byte;  T[w]: ns;  M: worst weighted time.

    minimise    sum_w omega[w] T[w]   (or M)            objective time; or  k.X + c0  under (6): objective cost
    (1) path     T[w] - sum_g a[p, g] t[g] >= C[p]                            paths p known so far
    (2) slowest  t[g] - u[g, j] x[j] >= 0                                     u[g, j] > 0
    (3) tangent  x[j] + X[j] / s^2 >= 2 / s                                   points s known so far
    (4) limit    b_low <= A X <= b_high,   l <= X <= h
    (5) worst    M - omega[w] T[w] >= 0                                       fleet worst-case
    (6) in time  sum_w omega[w] T[w] <= limit   (or M <= limit)               objective cost

x X >= 1 is convex; (3) are its tangents (exact at X = s, below the curve elsewhere), so the program is a relaxation
whose X always satisfies (4): evaluating T there gives an upper bound, the duals a lower one
(`hierarchical_certificate`). The exact class is a second-order cone program; tangents added where the last X was leave
a gap of 1e-9 after few rounds.

Time x cost in one program (Charnes and Cooper 1962, with T homogeneous but for its constants): tau = 1/cost, Z = tau X,

    T cost = max_p C[p]/tau + sum_g a[p, g] max_j u[g, j]/Z[j],      k.Z + c0 tau = 1,   b_low tau <= A Z <= b_high tau.

So tau is one more column with a reciprocal, and a constant is a group that moves its nanoseconds over tau.

Size: 2 J + G + W columns; (2) has G J rows, (3) some tens a column. The class and its properties: Won et al., LIBRA
(ISPASS 2024), who solve it as a non-convex program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.hierarchy.hierarchical_timeline import Path
from formulations.parts.arrays import LpArrays
from topoopt.core.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Scale:
    """Units of the arrays: float64[J] of the columns, one of the objective and one of time, so that all are near 1."""

    columns: Floats
    objective: float
    time: float


@dataclass(frozen=True, eq=False)
class Blocks:
    """Where the columns and rows of the arrays are: columns X, x, t, T, M; rows (1), (2), (3), (4), (5), (6)."""

    columns: tuple[int, int, int, int, int]
    rows: tuple[int, int, int, int, int, int]
    path_job: Ints
    slowest_group: Ints
    slowest_column: Ints
    row_scale: Floats
    group_start: Ints
    bulk: Floats


@dataclass(frozen=True, eq=False)
class _Places:
    """First column of x, t, T, M; first group of each job (int64[W + 1]); bytes that scale each group (float64[G])."""

    x: int
    t: int
    job: int
    worst: int
    group_start: Ints
    bulk: Floats


class _Rows:
    """Rows low <= sum of coefficient x column <= high, collected one after the other."""

    def __init__(self) -> None:
        self.rows: list[Ints] = []
        self.places: list[Ints] = []
        self.values: list[Floats] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.names: list[str] = []
        self.starts: list[int] = []

    def begin(self) -> None:
        """The next family starts here."""
        self.starts.append(len(self.low))

    def add(self, cells: list[tuple[int, float]], least: float, most: float, name: str) -> None:
        """One row."""
        kept = [(place, value) for place, value in cells if value]
        self.rows.append(np.full(len(kept), len(self.low), dtype=np.int64))
        self.places.append(np.array([place for place, _ in kept], dtype=np.int64))
        self.values.append(np.array([value for _, value in kept], dtype=np.float64))
        self.low.append(least)
        self.high.append(most)
        self.names.append(name)

    def add_tangents(self, data: BandwidthProgram, tangents: list[Floats], columns: Floats, at_x: int) -> None:
        """(3) in scaled units, each row divided by its largest coefficient."""
        counts = [len(points) for points in tangents]
        owner = np.repeat(np.arange(len(columns)), counts)
        point = np.concatenate(tangents) / columns[owner]
        size = np.maximum(1.0, 1.0 / point**2)
        self.rows.append(np.tile(len(self.low) + np.arange(len(point)), 2))
        self.places.append(np.concatenate((at_x + owner, owner)))
        self.values.append(np.concatenate((1 / size, 1 / point**2 / size)))
        self.low += (2.0 / point / size).tolist()
        self.high += [np.inf] * len(point)
        self.names += [
            f"tangent[{data.names[j]},{number}]" for j, count in enumerate(counts) for number in range(count)
        ]

    def matrix(self, columns: int) -> csc_array:
        """All rows."""
        rows, places, values = (np.concatenate(parts) for parts in (self.rows, self.places, self.values))
        return csc_array((values, (rows, places)), shape=(len(self.low), columns))


def _add_paths(rows: _Rows, data: BandwidthProgram, paths: list[list[Path]], scale: Scale, at: _Places) -> Ints:
    """(1); the job of each row."""
    path_job = []
    for w, own in enumerate(paths):
        mine = slice(at.group_start[w], at.group_start[w + 1])
        for number, path in enumerate(own):
            cells = [(at.job + w, 1.0)]
            cells += [(at.t + int(at.group_start[w]) + g, -value) for g, value in enumerate(path.sizes / at.bulk[mine])]
            # The constant of a path is its compute, which in time x cost is carried by 1/tau.
            constant = path.compute_ns / scale.time
            if data.ratio:
                cells.append((at.x, -path.compute_ns / (scale.columns[0] * scale.objective)))
            rows.add(cells, 0.0 if data.ratio else constant, np.inf, f"path[{w},{number}]")
            path_job.append(w)
    return np.array(path_job, dtype=np.int64)


def _add_slowest(rows: _Rows, data: BandwidthProgram, scale: Scale, at: _Places) -> Ints:
    """(2); int64[rows, 2]: group and column of each row."""
    per_time = scale.objective if data.ratio else scale.time
    slowest: list[tuple[int, int]] = []
    for w, timeline in enumerate(data.timelines):
        for g, j in np.argwhere(timeline.volumes > 0).tolist():
            group, column = int(at.group_start[w]) + g, j + data.shift
            value = timeline.volumes[g, j] * at.bulk[group] / (scale.columns[column] * per_time)
            name = f"slowest[{w},{g},{data.names[column]}]"
            rows.add([(at.t + group, 1.0), (at.x + column, -value)], 0.0, np.inf, name)
            slowest.append((group, column))
    return np.array(slowest, dtype=np.int64).reshape(-1, 2)


def _add_limits(rows: _Rows, data: BandwidthProgram, scale: Scale) -> Floats:
    """(4), each divided by its largest coefficient; these."""
    scaled = data.rows * scale.columns
    row_scale: Floats = np.abs(scaled).max(axis=1, initial=0.0)
    row_scale[row_scale == 0] = 1.0
    for k, name in enumerate(data.row_names):
        cells = list(enumerate((scaled[k] / row_scale[k]).tolist()))
        rows.add(cells, data.row_lower[k] / row_scale[k], data.row_upper[k] / row_scale[k], name)
    return row_scale


def build_arrays(
    data: BandwidthProgram, tangents: list[Floats], paths: list[list[Path]], scale: Scale
) -> tuple[LpArrays, Blocks]:
    """The linear program in scaled units, with float64 points of tangents for each column and the paths of each job.

    The time of one byte of a group is scaled by the bytes of the job's first path in it, so that it is near 1 as well.
    """
    columns, jobs = len(data.names), len(data.timelines)
    group_start = np.cumsum([0, *(len(one.groups) for one in data.timelines)])
    groups = int(group_start[-1])
    bulk = np.concatenate([_bulk(own) for own in paths]) if groups else np.zeros(0)
    at_job = 2 * columns + groups
    at = _Places(columns, 2 * columns, at_job, at_job + jobs, group_start, bulk)
    rows = _Rows()
    rows.begin()
    path_job = _add_paths(rows, data, paths, scale, at)
    rows.begin()
    slowest = _add_slowest(rows, data, scale, at)
    rows.begin()
    rows.add_tangents(data, tangents, scale.columns, at.x)
    rows.begin()
    row_scale = _add_limits(rows, data, scale)
    rows.begin()
    for w in range(jobs if data.worst_case else 0):
        rows.add([(at.worst, 1.0), (at.job + w, -float(data.weights[w]))], 0.0, np.inf, f"worst[{w}]")
    rows.begin()
    fleet = [(at.worst, 1.0)] if data.worst_case else [(at.job + w, float(v)) for w, v in enumerate(data.weights)]
    total = at.worst + (1 if data.worst_case else 0)
    cost, lower, upper = np.zeros(total), np.zeros(total), np.full(total, np.inf)
    if data.time_limit_ns is not None:
        rows.add(fleet, -np.inf, data.time_limit_ns / scale.time, "time limit")
        cost[:columns] = data.price * scale.columns / scale.objective
    else:
        for place, value in fleet:
            cost[place] = value
    lower[:columns], upper[:columns] = data.lower / scale.columns, data.upper / scale.columns
    matrix = rows.matrix(total)
    arrays = LpArrays(
        cost=cost,
        lower=lower,
        upper=upper,
        row_lower=np.array(rows.low),
        row_upper=np.array(rows.high),
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=matrix.data,
        column_names=_column_names(data, group_start),
        row_names=tuple(rows.names),
    )
    blocks = Blocks(
        columns=(0, at.x, at.t, at.job, at.worst),
        rows=(rows.starts[0], rows.starts[1], rows.starts[2], rows.starts[3], rows.starts[4], rows.starts[5]),
        path_job=path_job,
        slowest_group=slowest[:, 0],
        slowest_column=slowest[:, 1],
        row_scale=row_scale,
        group_start=group_start,
        bulk=bulk,
    )
    return arrays, blocks


def _bulk(paths: list[Path]) -> Floats:
    """float64[G]: bytes that make the time of a group of order one."""
    sizes = np.max([path.sizes for path in paths], axis=0)
    return np.where(sizes > 0, sizes, 1.0)


def _column_names(data: BandwidthProgram, group_start: Ints) -> tuple[str, ...]:
    names = [f"bandwidth[{name}]" for name in data.names] + [f"reciprocal[{name}]" for name in data.names]
    names += [f"byte_time[{w},{g}]" for w, one in enumerate(data.timelines) for g in range(len(one.groups))]
    names += [f"time[{w}]" for w in range(len(data.timelines))]
    return (*names, "worst") if data.worst_case else tuple(names)
