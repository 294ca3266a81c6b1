r"""Bandwidth per dimension of a hierarchical network for least time, time times cost, or cost, as linear programs.

Sets        DIMENSIONS j (and tau, see below); JOBS w; GROUPS g of a job (`hierarchical_timeline`); PATHS p of a job.
Parameters  u[g, j]: bytes per byte;  C[p] ns, a[p, g] bytes;  omega[w]: weights;  A, b: linear constraints;
            k[j]: US dollars for 1 GB/s in dimension j, over all NPUs;  c0: fixed cost.
Variables   X[j] >= 0: bandwidth, GB/s per NPU;  x[j] >= 1/X[j];  t[g]: ns per byte;  T[w]: ns;  M: worst weighted time.

    minimise    sum_w omega[w] T[w], or M            objective time
    minimise    sum_j k[j] X[j] + c0                 objective cost, under (6)
    (1) path     T[w] - sum_g a[p, g] t[g] >= C[p]                            paths p known so far
    (2) slowest  t[g] - u[g, j] x[j] >= 0                                     u[g, j] > 0
    (3) tangent  x[j] + X[j] / s^2 >= 2 / s                                   points s known so far
    (4) limit    b_low <= A X <= b_high, l <= X <= h
    (5) worst    M - omega[w] T[w] >= 0                                       fleet worst-case
    (6) in_time  sum_w omega[w] T[w] <= limit, or M <= limit                  objective cost

x X >= 1 is convex; (3) are its tangents (exact at X = s, below the curve elsewhere), so the program is a relaxation
whose X always satisfies (4): evaluating T there gives an upper bound, the duals a lower one
(`hierarchical_certificate`). The exact class is a second-order cone program; tangents added where the last X was leave
a gap of 1e-9 after few rounds.

Time times cost in one program (Charnes and Cooper 1962, with T homogeneous but for its constants): tau = 1/cost,
Z = tau X,

    T cost = max_p C[p]/tau + sum_g a[p, g] max_j u[g, j]/Z[j]
    sum_j k[j] Z[j] + c0 tau = 1
    b_low tau <= A Z <= b_high tau

So tau is one more column with a reciprocal, and a constant is a group that moves its nanoseconds over tau.

Size: 2 J + G + W columns; (2) has G J rows, (3) some tens a column. The class and its properties: Won et al., LIBRA
(ISPASS 2024), who solve it as a non-convex program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.hierarchy.hierarchical_timeline import Path
from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
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
class _Columns:
    """Numbers of the columns by family, int64 each; those of t by group."""

    bandwidth: Ints
    inverse: Ints
    byte_time: Ints
    time: Ints
    worst: Ints


def build_arrays(
    data: BandwidthProgram, tangents: list[Floats], paths: list[list[Path]], scale: Scale
) -> tuple[LpArrays, Blocks]:
    """The linear program in scaled units, with float64 points of tangents for each column and the paths of each job.

    The time of one byte of a group is scaled by the bytes of the job's first path in it, so that it is near 1 as well.
    """
    columns, jobs = len(data.names), len(data.timelines)
    group_start = np.cumsum([0, *(len(one.groups) for one in data.timelines)])
    bulk = np.concatenate([_bulk(own) for own in paths]) if group_start[-1] else np.zeros(0)
    made = Families()
    x = _add_columns(made, data, scale)
    starts = [0]
    path_job = _add_paths(made, data, paths, scale, x, bulk)
    starts.append(made.row_count)
    slowest = _add_slowest(made, data, scale, x, bulk)
    starts.append(made.row_count)
    _add_tangents(made, data, tangents, scale, x)
    starts.append(made.row_count)
    scaled = data.rows * scale.columns
    row_scale = np.abs(scaled).max(axis=1, initial=0.0)
    row_scale[row_scale == 0] = 1.0
    limit = made.rows(len(scaled), data.row_lower / row_scale, data.row_upper / row_scale, data.row_names)
    made.terms(limit[:, None], x.bandwidth, scaled / row_scale[:, None])
    starts.append(made.row_count)
    if data.worst_case:
        above = made.rows(jobs, 0.0, np.inf, [f"worst[{w}]" for w in range(jobs)])
        made.terms(above, x.worst, 1.0)
        made.terms(above, x.time, -data.weights)
    starts.append(made.row_count)
    if data.time_limit_ns is not None:
        soon = made.rows(1, -np.inf, data.time_limit_ns / scale.time, ["time limit"])
        made.terms(soon, x.worst if data.worst_case else x.time, 1.0 if data.worst_case else data.weights)
    at_job = 2 * columns + int(group_start[-1])
    blocks = Blocks(
        columns=(0, columns, 2 * columns, at_job, at_job + jobs),
        rows=(starts[0], starts[1], starts[2], starts[3], starts[4], starts[5]),
        path_job=path_job,
        slowest_group=slowest[0],
        slowest_column=slowest[1],
        row_scale=row_scale,
        group_start=group_start,
        bulk=bulk,
    )
    return made.arrays(), blocks


def _add_columns(made: Families, data: BandwidthProgram, scale: Scale) -> _Columns:
    capped, jobs = data.time_limit_ns is not None, range(len(data.timelines))
    groups = [f"byte_time[{w},{g}]" for w in jobs for g in range(len(data.timelines[w].groups))]
    return _Columns(
        bandwidth=made.columns(
            len(data.names),
            lower=data.lower / scale.columns,
            upper=data.upper / scale.columns,
            cost=data.price * scale.columns / scale.objective if capped else 0.0,
            names=[f"bandwidth[{name}]" for name in data.names],
        ),
        inverse=made.columns(len(data.names), names=[f"reciprocal[{name}]" for name in data.names]),
        byte_time=made.columns(len(groups), names=groups),
        time=made.columns(
            len(jobs), cost=0.0 if capped or data.worst_case else data.weights, names=[f"time[{w}]" for w in jobs]
        ),
        worst=made.columns(int(data.worst_case), cost=float(not capped), names=["worst"] * data.worst_case),
    )


def _add_paths(
    made: Families, data: BandwidthProgram, paths: list[list[Path]], scale: Scale, x: _Columns, bulk: Floats
) -> Ints:
    """Rows (1); the job of each."""
    first = 0
    for w, own in enumerate(paths):
        mine = slice(first, first := first + len(data.timelines[w].groups))
        for number, path in enumerate(own):
            # The constant of a path is its compute, which in time x cost is carried by 1/tau.
            least = 0.0 if data.ratio else path.compute_ns / scale.time
            late = made.rows(1, least, np.inf, [f"path[{w},{number}]"])
            made.terms(late, x.time[w], 1.0)
            made.terms(late, x.byte_time[mine], -path.sizes / bulk[mine])
            if data.ratio:
                made.terms(late, x.inverse[0], -path.compute_ns / (scale.columns[0] * scale.objective))
    return np.repeat(np.arange(len(paths)), [len(own) for own in paths])


def _add_slowest(made: Families, data: BandwidthProgram, scale: Scale, x: _Columns, bulk: Floats) -> Ints:
    """Rows (2); int64[2, rows]: group and column of each."""
    per_time = scale.objective if data.ratio else scale.time
    slowest = [np.zeros((2, 0), dtype=np.int64)]
    first = 0
    for w, timeline in enumerate(data.timelines):
        g, j = np.nonzero(timeline.volumes > 0)
        group, column = first + g, j + data.shift
        first += len(timeline.groups)
        value = timeline.volumes[g, j] * bulk[group] / (scale.columns[column] * per_time)
        pairs = zip(g.tolist(), column.tolist(), strict=True)
        slow = made.rows(len(g), 0.0, np.inf, [f"slowest[{w},{k},{data.names[c]}]" for k, c in pairs])
        made.terms(slow, x.byte_time[group], 1.0)
        made.terms(slow, x.inverse[column], -value)
        slowest.append(np.array((group, column)))
    return np.concatenate(slowest, axis=1)


def _add_tangents(made: Families, data: BandwidthProgram, tangents: list[Floats], scale: Scale, x: _Columns) -> None:
    """Rows (3), each divided by its largest coefficient."""
    counts = [len(points) for points in tangents]
    owner = np.repeat(np.arange(len(tangents)), counts)
    point = np.concatenate(tangents) / scale.columns[owner]
    size = np.maximum(1.0, 1.0 / point**2)
    names = [f"tangent[{data.names[j]},{number}]" for j, count in enumerate(counts) for number in range(count)]
    tangent = made.rows(len(point), 2.0 / point / size, np.inf, names)
    made.terms(tangent, x.inverse[owner], 1 / size)
    made.terms(tangent, x.bandwidth[owner], 1 / point**2 / size)


def _bulk(paths: list[Path]) -> Floats:
    """float64[G]: bytes that make the time of a group of order one."""
    sizes = np.max([path.sizes for path in paths], axis=0)
    return np.where(sizes > 0, sizes, 1.0)
