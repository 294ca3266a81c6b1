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
    first = np.cumsum([0, columns, columns, groups, jobs])
    at_x, at_t, at_job, at_worst = (int(first[k]) for k in (1, 2, 3, 4))
    entries: list[tuple[list[int], list[int], list[float]]] = []
    low: list[float] = []
    high: list[float] = []
    names: list[str] = []
    starts = []

    def row(cells: list[tuple[int, float]], least: float, most: float, name: str) -> None:
        kept = [(place, value) for place, value in cells if value]
        entries.append(([len(low)] * len(kept), [place for place, _ in kept], [value for _, value in kept]))
        low.append(least)
        high.append(most)
        names.append(name)

    starts.append(0)
    path_job = []
    for w, own in enumerate(paths):
        mine = slice(group_start[w], group_start[w + 1])
        for number, path in enumerate(own):
            cells = [(at_job + w, 1.0)]
            cells += [(at_t + group_start[w] + g, -value) for g, value in enumerate(path.sizes / bulk[mine])]
            # The constant of a path is its compute, which in time x cost is carried by 1/tau.
            constant = path.compute_ns / scale.time
            if data.ratio:
                cells.append((at_x, -path.compute_ns / (scale.columns[0] * scale.objective)))
            row(cells, 0.0 if data.ratio else constant, np.inf, f"path[{w},{number}]")
            path_job.append(w)
    starts.append(len(low))
    per_time = scale.objective if data.ratio else scale.time
    slowest: list[tuple[int, int]] = []
    for w, timeline in enumerate(data.timelines):
        for g, j in np.argwhere(timeline.volumes > 0).tolist():
            group, column = int(group_start[w]) + g, j + data.shift
            value = timeline.volumes[g, j] * bulk[group] / (scale.columns[column] * per_time)
            row([(at_t + group, 1.0), (at_x + column, -value)], 0.0, np.inf, f"slowest[{w},{g},{data.names[column]}]")
            slowest.append((group, column))
    starts.append(len(low))
    counts = [len(points) for points in tangents]
    owner = np.repeat(np.arange(columns), counts)
    point = np.concatenate(tangents) / scale.columns[owner]
    # Each row is divided by its largest coefficient.
    size = np.maximum(1.0, 1.0 / point**2)
    first_tangent = len(low)
    low += (2.0 / point / size).tolist()
    high += [np.inf] * len(point)
    names += [f"tangent[{data.names[j]},{number}]" for j, count in enumerate(counts) for number in range(count)]
    at = first_tangent + np.arange(len(point))
    bulk_entries = (
        np.tile(at, 2),
        np.concatenate((at_x + owner, owner)),
        np.concatenate((1 / size, 1 / point**2 / size)),
    )
    starts.append(len(low))
    scaled = data.rows * scale.columns
    row_scale = np.abs(scaled).max(axis=1, initial=0.0)
    row_scale[row_scale == 0] = 1.0
    for k, name in enumerate(data.row_names):
        cells = list(enumerate((scaled[k] / row_scale[k]).tolist()))
        row(cells, data.row_lower[k] / row_scale[k], data.row_upper[k] / row_scale[k], name)
    starts.append(len(low))
    if data.worst_case:
        for w in range(jobs):
            row([(at_worst, 1.0), (at_job + w, -float(data.weights[w]))], 0.0, np.inf, f"worst[{w}]")
    starts.append(len(low))
    fleet = [(at_worst, 1.0)] if data.worst_case else [(at_job + w, float(v)) for w, v in enumerate(data.weights)]
    if data.time_limit_ns is not None:
        row(fleet, -np.inf, data.time_limit_ns / scale.time, "time limit")
    total = at_worst + (1 if data.worst_case else 0)
    cost = np.zeros(total)
    if data.time_limit_ns is not None:
        cost[:columns] = data.price * scale.columns / scale.objective
    else:
        for place, value in fleet:
            cost[place] = value
    small = [np.array([cell for row in part for cell in row]) for part in zip(*entries, strict=True)]
    rows_of, places, values = (np.concatenate((one, two)) for one, two in zip(small, bulk_entries, strict=True))
    matrix = csc_array((values, (rows_of.astype(np.int64), places.astype(np.int64))), shape=(len(low), total))
    lower, upper = np.zeros(total), np.full(total, np.inf)
    lower[:columns], upper[:columns] = data.lower / scale.columns, data.upper / scale.columns
    arrays = LpArrays(
        cost=cost,
        lower=lower,
        upper=upper,
        row_lower=np.array(low),
        row_upper=np.array(high),
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=matrix.data,
        column_names=_column_names(data, group_start),
        row_names=tuple(names),
    )
    pairs = np.array(slowest, dtype=np.int64).reshape(-1, 2)
    blocks = Blocks(
        columns=(0, at_x, at_t, at_job, at_worst),
        rows=(starts[0], starts[1], starts[2], starts[3], starts[4], starts[5]),
        path_job=np.array(path_job, dtype=np.int64),
        slowest_group=pairs[:, 0],
        slowest_column=pairs[:, 1],
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
