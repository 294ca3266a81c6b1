"""Bandwidth per dimension of a hierarchical network for least time, time times cost, or cost, as linear programs.

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

hierarchical_catalogue
----------------------
Catalogues of discrete speeds on top of `hierarchical_bandwidth`: binaries choose one speed a dimension.

Sets        SPEEDS s of dimension j, b[j, s] GB/s.          Variables   choose[j, s] in {0, 1};  part[j, s] >= 0.

    (7) one      sum_s choose[j, s] = 1
    (8) speed    X[j] = sum_s b[j, s] choose[j, s],    x[j] = sum_s choose[j, s] / b[j, s]    (no tangents needed)

For time x cost, where the columns are tau and Z = tau X, part[j, s] = tau choose[j, s] in linear terms:

    (9) speed    Z[j] = sum_s b[j, s] part[j, s],          tau = sum_s part[j, s],
    (10) link    part[j, s] <= h choose[j, s],             h: largest tau = 1 / cost of the cheapest speeds.

Size: one binary (and one part) a speed.

hierarchical_certificate
------------------------
Lower bounds on the programs of `hierarchical_bandwidth` from multipliers of any quality (weak duality).

Multipliers     lambda[p] >= 0 of (1),   mu[g, j] >= 0 of (2), bytes,   y[r] of (4) by rows, eta of (6).

With sum_p lambda[p] <= omega of the job and sum_j mu[g, j] <= sum_p lambda[p] a[p, g], every allowed X costs at least

    sum_p lambda[p] C[p] + sum_j min_{l <= X <= h} ( W[j] / X + r[j] X ) + sum_r max(y[r] b_low[r], y[r] b_high[r]),
    W[j] = sum_g mu[g, j] u[g, j],        r = -y A   (+ k for the objective cost),

whose minima are 2 sqrt(W r) inside the bounds. Tangents play no part, so this is at least as good as the linear program
the multipliers come from. For the objective cost, lambda sums to eta omega and c0 - eta limit is added; for time x cost
the constants lambda C are the W of tau. Fleet worst-case: the sums over lambda, each over its omega, are at most 1.

hierarchical_start
------------------
Which bandwidths the linear constraints of a hierarchical network allow at all.

Two linear programs on top of (4) of `hierarchical_bandwidth`, for columns without tau:

- `widest_arrays`: maximise s with X[j] >= s in every dimension that carries traffic: a point to start from, and the
  program whose infeasibility is explained to people.
- `endless_arrays`: maximise sum d[j] over directions 0 <= d <= 1 that no constraint stops; where d[j] > 0, bandwidth
  may grow for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.programs import Families, LpArrays
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.hierarchy import Collective, Design, HierarchicalProblem, HierarchicalWorkload, LayerPhase


def unit_volumes(collective: Collective, ranks: Sequence[int]) -> Floats:
    """float64[D], u_g: bytes moved in each dimension per byte of size."""
    volumes = np.zeros(len(ranks))
    mass = 1.0
    places = range(len(ranks))
    for level in reversed(places) if collective is Collective.ALL_GATHER else places:
        p = ranks[level]
        if p == 1:
            continue
        if collective is Collective.ALL_TO_ALL:
            volumes[level] = (p - 1) / p
        elif collective is Collective.POINT_TO_POINT:
            volumes[level] = 1.0
        elif collective is Collective.ALL_GATHER:
            volumes[level] = mass * (p - 1)
            mass *= p
        else:
            twice = 2.0 if collective is Collective.ALL_REDUCE else 1.0
            volumes[level] = twice * mass * (p - 1) / p
            mass /= p
    return volumes


@dataclass(frozen=True, eq=False)
class Path:
    """One path: its compute in ns, float64[G] its bytes in each group, and what it is made of.

    `steps`: dag: positions of its tasks; dp-overlap: positions of the layers where it takes the weight gradient;
    no-overlap: nothing.
    """

    compute_ns: float
    sizes: Floats
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class JobTimeline:
    """A job, its collectives grouped.

    Attributes:
        groups: (communicator, collective) of each group that moves anything.
        volumes: float64[G, D], u.
        base: what every path holds (all of it without overlap, nothing of a dag).
        branches: of dp-overlap: layers that are alike, with their two branches.
        tasks: of a dag: compute, sizes and predecessors of every task.
    """

    groups: tuple[tuple[int, Collective], ...]
    volumes: Floats
    base: Path
    branches: tuple[tuple[tuple[int, ...], Path, Path], ...] = ()
    tasks: tuple[Floats, Floats, tuple[tuple[int, ...], ...]] | None = None

    @property
    def all_sizes(self) -> Floats:
        """float64[G]: bytes of each group on all paths together."""
        if self.tasks is not None:
            return np.asarray(self.tasks[1].sum(axis=0))
        return sum((communication.sizes + two.sizes for _, communication, two in self.branches), start=self.base.sizes)

    def group_times(self, bandwidth: Floats) -> Floats:
        """float64[G], t at float64[D] bandwidths; infinite where a dimension with traffic has none."""
        return largest_ratio(self.volumes, bandwidth)

    def longest(self, times: Floats) -> Path:
        """The longest path for float64[G] times per byte."""
        if self.tasks is not None:
            return self._longest_of_tasks(times)
        compute, sizes, steps = self.base.compute_ns, self.base.sizes, list(self.base.steps)
        for layers, input_branch, weight_branch in self.branches:
            weight = weight_branch.compute_ns + weight_branch.sizes @ times
            later = weight > input_branch.compute_ns + input_branch.sizes @ times
            chosen = weight_branch if later else input_branch
            compute, sizes = compute + chosen.compute_ns, sizes + chosen.sizes
            steps += layers if later else ()
        return Path(compute, sizes, tuple(sorted(steps)))

    def _longest_of_tasks(self, times: Floats) -> Path:
        compute, sizes, after = self.tasks or (np.zeros(0), np.zeros((0, 0)), ())
        lasts = (compute + sizes @ times).tolist()
        came_from = [-1] * len(lasts)
        for task, before in enumerate(after):
            if before:
                latest = max(before, key=lasts.__getitem__)
                lasts[task] += lasts[latest]
                came_from[task] = latest
        task = max(range(len(lasts)), key=lasts.__getitem__)
        steps = []
        while task >= 0:
            steps.append(task)
            task = came_from[task]
        steps.reverse()
        return Path(float(compute[steps].sum()), sizes[steps].sum(axis=0), tuple(steps))

    def time_ns(self, bandwidth: Floats) -> float:
        """T at float64[D] bandwidths."""
        times = self.group_times(bandwidth)
        if not np.isfinite(times).all():
            return float("inf")
        path = self.longest(times)
        return path.compute_ns + float(path.sizes @ times)


def largest_ratio(volumes: Floats, bandwidth: Floats) -> Floats:
    """float64[G], max over i of volumes[g, i] / bandwidth[i], dimensions without volume left out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(volumes > 0, volumes / bandwidth, 0.0)
    largest: Floats = ratio.max(axis=1, initial=0.0)
    return largest


def timeline_of(workload: HierarchicalWorkload, dimensions: int) -> JobTimeline:
    """Group the collectives of a job; those that move nothing are dropped."""
    units: dict[tuple[int, Collective], Floats] = {}
    phases = [task.phase for task in workload.tasks]
    for layer in workload.layers:
        phases += (layer.forward, layer.input_gradient, layer.weight_gradient)
    for phase in phases:
        for communication in phase.communications:
            key = (communication.communicator, communication.collective)
            if key not in units:
                units[key] = unit_volumes(
                    communication.collective, workload.communicators[communication.communicator].ranks
                )
    moving = {key: position for position, key in enumerate(key for key, unit in units.items() if unit.any())}
    volumes = np.array([units[key] for key in moving]).reshape(len(moving), dimensions)

    def sizes_of(phase: LayerPhase) -> Floats:
        sizes = np.zeros(len(moving))
        for communication in phase.communications:
            index = moving.get((communication.communicator, communication.collective))
            if index is not None:
                sizes[index] += communication.size_bytes
        return sizes

    groups, nothing = tuple(moving), Path(0.0, np.zeros(len(moving)), ())
    if workload.loop == "dag":
        compute = np.array([task.phase.compute_ns for task in workload.tasks])
        sizes = np.array([sizes_of(task.phase) for task in workload.tasks]).reshape(len(compute), len(moving))
        return JobTimeline(
            groups, volumes, nothing, tasks=(compute, sizes, tuple(task.after for task in workload.tasks))
        )
    compute_ns, total = 0.0, np.zeros(len(moving))
    alike: dict[tuple[float, bytes, bytes], tuple[list[int], Path, Path]] = {}
    for index, layer in enumerate(workload.layers):
        forward, inputs, weights = (
            (phase.compute_ns * layer.repeat, sizes_of(phase) * layer.repeat)
            for phase in (layer.forward, layer.input_gradient, layer.weight_gradient)
        )
        compute_ns += forward[0] + inputs[0]
        total += forward[1]
        if workload.loop == "no-overlap" or not inputs[1].any():
            compute_ns += weights[0]
            total += inputs[1] + weights[1]
            continue
        key3 = (weights[0], inputs[1].tobytes(), weights[1].tobytes())
        alike.setdefault(key3, ([], Path(0.0, inputs[1], ()), Path(*weights, ())))[0].append(index)
    branches = tuple(
        (tuple(layers), _times(communication, len(layers)), _times(two, len(layers)))
        for layers, communication, two in alike.values()
    )
    return JobTimeline(groups, volumes, Path(compute_ns, total, ()), branches)


def _times(path: Path, count: int) -> Path:
    return Path(path.compute_ns * count, path.sizes * count, path.steps)


COST_CAP = "cost cap"


@dataclass(frozen=True, eq=False)
class BandwidthProgram:
    """Data of one design under one objective; J columns, which are dimensions, after tau for time x cost.

    Attributes:
        names: of the columns.
        timelines: of the jobs; their volumes have D columns.
        weights: float64[W], omega.
        worst_case: whether the largest weighted time counts, not the sum.
        rows: float64[R, J], A; row_lower, row_upper: float64[R]; row_names.
        lower, upper: float64[J], of X.
        price: float64[J] in US dollars, k (of tau: c0); fixed_cost: c0, US dollars.
        time_limit_ns: of (6); None where time is minimised.
        ratio: whether column 0 is tau.
        speeds: what each dimension may run at, ascending; empty: any.
    """

    names: tuple[str, ...]
    timelines: tuple[JobTimeline, ...]
    weights: Floats
    worst_case: bool
    rows: Floats
    row_lower: Floats
    row_upper: Floats
    row_names: tuple[str, ...]
    lower: Floats
    upper: Floats
    price: Floats
    fixed_cost: float
    time_limit_ns: float | None
    ratio: bool
    speeds: tuple[tuple[float, ...], ...]

    @property
    def shift(self) -> int:
        return int(self.ratio)

    @property
    def loaded(self) -> Bools:
        """bool[J]: columns with a reciprocal that counts."""
        used = np.zeros(len(self.names), dtype=np.bool_)
        for timeline in self.timelines:
            used[self.shift :] |= (timeline.volumes > 0).any(axis=0)
        if self.ratio:
            used[0] = any(_has_compute(timeline) for timeline in self.timelines)
        return used

    def bandwidth_of(self, columns: Floats) -> Floats:
        """float64[D] bandwidths of float64[J] columns."""
        return columns[1:] / columns[0] if self.ratio else columns

    def columns_of(self, bandwidth: Floats) -> Floats:
        """Inverse of `bandwidth_of`."""
        if not self.ratio:
            return bandwidth
        tau = 1.0 / (self.fixed_cost + float(self.price[1:] @ bandwidth))
        return np.concatenate(([tau], tau * bandwidth))

    def time_of(self, bandwidth: Floats) -> float:
        """Time of all jobs of the fleet together, in ns."""
        times = self.weights * [timeline.time_ns(bandwidth) for timeline in self.timelines]
        return float(times.max() if self.worst_case else times.sum())

    def cost_of(self, bandwidth: Floats) -> float:
        """US dollars."""
        return self.fixed_cost + float(self.price[self.shift :] @ bandwidth)

    def objective_of(self, bandwidth: Floats) -> float:
        """What is minimised, of a point within (4) and (6)."""
        if self.time_limit_ns is not None:
            return self.cost_of(bandwidth)
        time = self.time_of(bandwidth)
        return time * self.cost_of(bandwidth) if self.ratio else time


def _has_compute(timeline: JobTimeline) -> bool:
    tasks = timeline.tasks is not None and bool(timeline.tasks[0].any())
    return tasks or timeline.base.compute_ns > 0 or any(weight.compute_ns > 0 for _, _, weight in timeline.branches)


def program_of(design: Design, problem: HierarchicalProblem) -> BandwidthProgram:
    """The program of a design under the objective of a problem."""
    plain = plain_program(design, problem)
    return with_ratio(plain) if problem.objective == "time-times-cost" else plain


def plain_program(design: Design, problem: HierarchicalProblem) -> BandwidthProgram:
    """The same without tau: least time, or least cost under a limit on time; prices that are unknown count as 0."""
    network = design.network
    d = len(network.dimensions)
    price = network.npus * np.array([dimension.usd_per_gbytes_per_s or 0.0 for dimension in network.dimensions])
    rows = [
        (dimension.name, dimension.coefficients, dimension.at_least, dimension.at_most)
        for dimension in network.constraints
    ]
    if problem.cost_cap_usd is not None:
        rows.append((COST_CAP, tuple(price.tolist()), -np.inf, problem.cost_cap_usd - network.fixed_cost_usd))
    return BandwidthProgram(
        names=tuple(dimension.name for dimension in network.dimensions),
        timelines=tuple(timeline_of(workload, d) for workload in design.workloads),
        weights=np.array([workload.weight for workload in design.workloads]),
        worst_case=problem.fleet == "worst-case",
        rows=np.array([row[1] for row in rows], dtype=np.float64).reshape(len(rows), d),
        row_lower=np.array([row[2] for row in rows], dtype=np.float64),
        row_upper=np.array([row[3] for row in rows], dtype=np.float64),
        row_names=tuple(row[0] for row in rows),
        lower=np.array([dimension.min_gbytes_per_s for dimension in network.dimensions]),
        upper=np.array([dimension.max_gbytes_per_s for dimension in network.dimensions]),
        price=price,
        fixed_cost=network.fixed_cost_usd,
        time_limit_ns=problem.time_limit_ns,
        ratio=False,
        speeds=tuple(dimension.speeds_gbytes_per_s for dimension in network.dimensions),
    )


def with_ratio(plain: BandwidthProgram) -> BandwidthProgram:
    """The program of time x cost: columns (tau, tau X), rows made homogeneous, bounds turned into rows."""
    d = len(plain.names)
    rows: list[Floats] = []
    sides: list[tuple[float, float, str]] = []

    def add(of_tau: float, of_dimensions: Floats, low: float, high: float, name: str) -> None:
        rows.append(np.concatenate(([of_tau], of_dimensions)))
        sides.append((low, high, name))

    for row, low, high, name in zip(plain.rows, plain.row_lower, plain.row_upper, plain.row_names, strict=True):
        if low == high:
            add(-low, row, 0.0, 0.0, name)
            continue
        if np.isfinite(low):
            add(-low, row, 0.0, np.inf, f"{name} at least")
        if np.isfinite(high):
            add(-high, row, -np.inf, 0.0, f"{name} at most")
    for j in range(d):
        if plain.lower[j] > 0:
            add(-plain.lower[j], np.eye(d)[j], 0.0, np.inf, f"least {plain.names[j]}")
        if np.isfinite(plain.upper[j]):
            add(-plain.upper[j], np.eye(d)[j], -np.inf, 0.0, f"most {plain.names[j]}")
    add(plain.fixed_cost, plain.price, 1.0, 1.0, "normalisation")
    return replace(
        plain,
        names=("1/cost", *plain.names),
        rows=np.array(rows),
        row_lower=np.array([side[0] for side in sides]),
        row_upper=np.array([side[1] for side in sides]),
        row_names=tuple(side[2] for side in sides),
        lower=np.zeros(d + 1),
        upper=np.full(d + 1, np.inf),
        price=np.concatenate(([plain.fixed_cost], plain.price)),
        ratio=True,
    )


def formula_bound(plain: BandwidthProgram, *, ratio: bool) -> float:
    """The bound for a program without tau; `ratio`: of time x cost."""
    parts: list[tuple[float, Floats]] = []
    for timeline, weight in zip(plain.timelines, plain.weights, strict=True):
        path = timeline.longest(np.zeros(len(timeline.groups)))
        whole = timeline.volumes.sum(axis=1, keepdims=True)
        spread = path.sizes @ (timeline.volumes**2 / whole) if timeline.tasks is None else np.zeros(len(plain.names))
        parts.append((float(weight) * path.compute_ns, weight * spread))
    if not plain.worst_case:
        parts = [(sum(constant for constant, _ in parts), np.sum([own for _, own in parts], axis=0))]
    return max(_bound(plain, ratio, compute, spread) for compute, spread in parts)


def _bound(plain: BandwidthProgram, ratio: bool, compute: float, spread: Floats) -> float:
    even = float(np.square(np.sqrt(spread).sum()))
    priced = float(np.square(np.sqrt(spread * plain.price).sum()))
    total = (plain.rows == 1.0).all(axis=1)
    if plain.time_limit_ns is not None:
        left = plain.time_limit_ns - compute
        return plain.fixed_cost + priced / left if left > 0 else np.inf
    if ratio:
        least = float(plain.row_lower[total].max(initial=0.0))
        return compute * (plain.fixed_cost + least * float(plain.price.min())) + priced
    bound = compute + even / float(plain.row_upper[total].min(initial=np.inf))
    if COST_CAP in plain.row_names:
        left = float(plain.row_upper[plain.row_names.index(COST_CAP)])
        bound = max(bound, compute + priced / left if left > 0 else np.inf)
    return bound


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


_Columns = dict[str, Ints]
"""Numbers of the columns by family; those of t by group."""


def build_arrays(
    data: BandwidthProgram, tangents: list[Floats], paths: list[list[Path]], scale: Scale
) -> tuple[LpArrays, Blocks]:
    """The linear program in scaled units, with float64 points of tangents for each column and the paths of each job.

    The time of one byte of a group is scaled by the bytes of the job's first path in it, so that it is near 1 as well.
    """
    columns, jobs = len(data.names), len(data.timelines)
    group_start = np.cumsum([0, *(len(timeline.groups) for timeline in data.timelines)])
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
    made.terms(limit[:, None], x["bandwidth"], scaled / row_scale[:, None])
    starts.append(made.row_count)
    if data.worst_case:
        above = made.rows(jobs, 0.0, np.inf, [f"worst[{w}]" for w in range(jobs)])
        made.terms(above, x["worst"], 1.0)
        made.terms(above, x["time"], -data.weights)
    starts.append(made.row_count)
    if data.time_limit_ns is not None:
        soon = made.rows(1, -np.inf, data.time_limit_ns / scale.time, ["time limit"])
        made.terms(soon, x["worst"] if data.worst_case else x["time"], 1.0 if data.worst_case else data.weights)
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
    return {
        "bandwidth": made.columns(
            len(data.names),
            lower=data.lower / scale.columns,
            upper=data.upper / scale.columns,
            cost=data.price * scale.columns / scale.objective if capped else 0.0,
            names=[f"bandwidth[{name}]" for name in data.names],
        ),
        "inverse": made.columns(len(data.names), names=[f"reciprocal[{name}]" for name in data.names]),
        "byte_time": made.columns(len(groups), names=groups),
        "time": made.columns(
            len(jobs), cost=0.0 if capped or data.worst_case else data.weights, names=[f"time[{w}]" for w in jobs]
        ),
        "worst": made.columns(int(data.worst_case), cost=float(not capped), names=["worst"] * data.worst_case),
    }


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
            made.terms(late, x["time"][w], 1.0)
            made.terms(late, x["byte_time"][mine], -path.sizes / bulk[mine])
            if data.ratio:
                made.terms(late, x["inverse"][0], -path.compute_ns / (scale.columns[0] * scale.objective))
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
        made.terms(slow, x["byte_time"][group], 1.0)
        made.terms(slow, x["inverse"][column], -value)
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
    made.terms(tangent, x["inverse"][owner], 1 / size)
    made.terms(tangent, x["bandwidth"][owner], 1 / point**2 / size)


def _bulk(paths: list[Path]) -> Floats:
    """float64[G]: bytes that make the time of a group of order one."""
    sizes = np.max([path.sizes for path in paths], axis=0)
    return np.where(sizes > 0, sizes, 1.0)


def with_catalogue(program: LpArrays, blocks: Blocks, data: BandwidthProgram, scale: Scale) -> LpArrays:
    """The arrays with columns choose (then part) and rows (7) to (10) appended, in the same scaled units."""
    labels = [[f"[{data.names[j + data.shift]},{b:g}]" for b in speeds] for j, speeds in enumerate(data.speeds)]
    flat = [label for own in labels for label in own]
    made = Families.extending(program)
    choose = made.columns(len(flat), upper=1.0, integer=True, names=[f"choose{label}" for label in flat])
    part = made.columns(len(flat) * data.ratio, names=[f"part{label}" for label in flat * data.ratio])
    offset = np.cumsum([0, *(len(own) for own in labels)])
    tau = float(scale.columns[0])
    for j, speeds in enumerate(data.speeds):
        if not speeds:
            continue
        mine, b = slice(offset[j], offset[j + 1]), np.array(speeds)
        column = j + data.shift
        unit, name = float(scale.columns[column]), data.names[column]
        made.terms(made.rows(1, 1.0, 1.0, [f"one[{name}]"]), choose[mine], 1.0)
        speed = made.rows(1, 0.0, 0.0, [f"speed[{name}]"])
        made.terms(speed, column, 1.0)
        if not data.ratio:
            made.terms(speed, choose[mine], -b / unit)
            if data.loaded[column]:
                reciprocal = made.rows(1, 0.0, 0.0, [f"reciprocal[{name}]"])
                made.terms(reciprocal, blocks.columns[1] + column, 1.0)
                made.terms(reciprocal, choose[mine], -unit / b)
            continue
        made.terms(speed, part[mine], -b * tau / unit)
        parts = made.rows(1, 0.0, 0.0, [f"parts[{name}]"])
        made.terms(parts, 0, 1.0)
        made.terms(parts, part[mine], -1.0)
        link = made.rows(len(b), -np.inf, 0.0, [f"link{label}" for label in labels[j]])
        made.terms(link, part[mine], 1.0)
        least = [min(speeds) if speeds else 0.0 for speeds in data.speeds]
        made.terms(link, choose[mine], -(1.0 / data.cost_of(np.array(least))) / tau)
    return made.arrays()


def chosen_speeds(data: BandwidthProgram, choose: Floats) -> dict[int, float]:
    """Speed of each dimension with a catalogue, from the values of the binaries."""
    resulting, offset = {}, 0
    for j, speeds in enumerate(data.speeds):
        if speeds:
            resulting[j] = speeds[int(np.argmax(choose[offset : offset + len(speeds)]))]
            offset += len(speeds)
    return resulting


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Of one program: per job a float64[P] lambda beside its paths, float64[G, J] mu, float64[R] y."""

    path_weights: tuple[Floats, ...]
    paths: tuple[tuple[Path, ...], ...]
    shares: Floats
    prices: Floats


def multipliers_of(
    data: BandwidthProgram, blocks: Blocks, scale: Scale, paths: list[list[Path]], row_dual: Floats
) -> Multipliers:
    """Multipliers in their own units from the row duals of the scaled arrays, made to satisfy what they must."""
    unit = scale.objective / (scale.objective if data.ratio else scale.time)
    first, slowest, _, limits, worst, _ = blocks.rows
    tangents = blocks.rows[2]
    weights = np.maximum(row_dual[first:slowest], 0.0) * unit
    by_job = tuple(weights[blocks.path_job == job] for job in range(len(data.timelines)))
    bulk = blocks.bulk
    shares = np.zeros((len(bulk), len(data.names)))
    duals = np.maximum(row_dual[slowest:tangents], 0.0)
    shares[blocks.slowest_group, blocks.slowest_column] = duals * bulk[blocks.slowest_group] * unit
    prices = row_dual[limits:worst] * scale.objective / blocks.row_scale
    prices = np.where((prices > 0) & np.isinf(data.row_lower), 0.0, prices)
    prices = np.where((prices < 0) & np.isinf(data.row_upper), 0.0, prices)
    multipliers = Multipliers(by_job, tuple(tuple(own) for own in paths), shares, prices)
    return _tight(data, blocks, multipliers)


def _tight(data: BandwidthProgram, blocks: Blocks, multipliers: Multipliers) -> Multipliers:
    """The same with path weights that add up to what they may, and shares to the bytes on the paths."""
    sums = np.array([weights.sum() for weights in multipliers.path_weights])
    weights = multipliers.path_weights
    if data.time_limit_ns is None:
        if data.worst_case:
            total = float((sums / data.weights).sum())
            factors = np.full(len(sums), 1.0 / total if total > 0 else 0.0)
        else:
            factors = np.divide(data.weights, sums, out=np.zeros_like(sums), where=sums > 0)
        weights = tuple(own * factor for own, factor in zip(weights, factors, strict=True))
    shares = multipliers.shares.copy()
    for job, (own, paths) in enumerate(zip(weights, multipliers.paths, strict=True)):
        expected = sum((weight * path.sizes for weight, path in zip(own, paths, strict=True)), start=0.0)
        mine = slice(blocks.group_start[job], blocks.group_start[job + 1])
        given = shares[mine].sum(axis=1)
        ratio = np.divide(expected, given, out=np.zeros_like(given), where=given > 0)
        shares[mine] *= ratio[:, None]
    return replace(multipliers, path_weights=weights, shares=shares)


def lower_bound(
    data: BandwidthProgram, multipliers: Multipliers, group_start: Ints, best: float
) -> tuple[float, Floats]:
    """What the multipliers prove, and float64[J] the columns where the minima are (the next tangents).

    `best` is the objective of a point that is allowed (or infinite).
    """
    weights = np.zeros(len(data.names))
    constant, eta = 0.0, 0.0
    for job, (own, paths) in enumerate(zip(multipliers.path_weights, multipliers.paths, strict=True)):
        constant += float(sum(weight * path.compute_ns for weight, path in zip(own, paths, strict=True)))
        part = float(own.sum()) / float(data.weights[job])
        eta = eta + part if data.worst_case else max(eta, part)
        volumes = data.timelines[job].volumes
        shares = multipliers.shares[group_start[job] : group_start[job + 1], data.shift :]
        weights[data.shift :] += (shares * volumes).sum(axis=0)
    reduced = -multipliers.prices @ data.rows if len(multipliers.prices) else np.zeros(len(data.names))
    if data.ratio:
        weights[0], constant = constant, 0.0
    if data.time_limit_ns is not None:
        reduced = reduced + data.price
        constant += data.fixed_cost - eta * data.time_limit_ns
    with np.errstate(invalid="ignore"):
        sides = np.where(
            multipliers.prices > 0, multipliers.prices * data.row_lower, multipliers.prices * data.row_upper
        )
    total = constant + float(np.where(multipliers.prices == 0, 0.0, sides).sum())
    minima = list(map(_least, weights, reduced, data.lower, implied_upper(data, best)))
    return total + sum(value for value, _ in minima), np.array([point for _, point in minima])


def _least(weight: float, slope: float, low: float, high: float) -> tuple[float, float]:
    """min of weight / X + slope X over low <= X <= high, and where it is."""
    if weight <= 0:
        point = low if slope >= 0 else high
        return (slope * point if slope else 0.0), point
    if slope <= 0:
        return weight / high + (slope * high if slope < 0 else 0.0), high
    point = min(max(float(np.sqrt(weight / slope)), low), high)
    return weight / point + slope * point, point


def implied_upper(data: BandwidthProgram, best: float = np.inf) -> Floats:
    """float64[J]: upper bounds that the linear rows (and, for the objective cost, a known solution) imply."""
    rows, high = [data.rows, -data.rows], [data.row_upper, -data.row_lower]
    if data.time_limit_ns is not None and np.isfinite(best):
        rows.append(data.price[None, :])
        high.append(np.array([best - data.fixed_cost]))
    matrix, most = np.concatenate(rows), np.concatenate(high)
    upper = data.upper.copy()
    for _ in range(len(upper) + 1):
        before = upper.copy()
        for row, side in zip(matrix[np.isfinite(most)], most[np.isfinite(most)], strict=True):
            with np.errstate(invalid="ignore"):
                least = np.where(row > 0, row * data.lower, np.where(row < 0, row * upper, 0.0))
            for j in np.flatnonzero(row > 0):
                others = least.sum() - least[j] if np.isfinite(least).all() else -np.inf
                upper[j] = min(upper[j], max((side - others) / row[j], data.lower[j]))
        if (upper == before).all():
            break
    return upper


def widest_arrays(data: BandwidthProgram, upper: Floats, loaded: Bools) -> LpArrays:
    """Columns X then s; float64[J] `upper` bounds of X."""
    used = np.flatnonzero(loaded)
    finite = upper[loaded][np.isfinite(upper[loaded])]
    most = finite.max() if len(finite) else 1.0
    made = Families()
    names = [f"bandwidth of {name}" for name in data.names]
    bandwidth = made.columns(len(names), lower=data.lower, upper=upper, names=names)
    least = made.columns(1, upper=most, cost=-1.0, names=["least bandwidth"])
    limit = made.rows(len(data.rows), data.row_lower, data.row_upper, data.row_names)
    above = made.rows(len(used), 0.0, np.inf, [f"at least the least in {data.names[j]}" for j in used])
    made.terms(limit[:, None], bandwidth, data.rows)
    made.terms(above, bandwidth[used], 1.0)
    made.terms(above, least, -1.0)
    return made.arrays()


def endless_arrays(data: BandwidthProgram, loaded: Bools) -> LpArrays:
    made = Families()
    closed = np.isfinite(data.upper) | np.array([bool(speed) for speed in data.speeds])
    names = [f"growth of {name}" for name in data.names]
    growth = made.columns(len(names), upper=np.where(closed, 0.0, 1.0), cost=-loaded.astype(np.float64), names=names)
    low, high = np.where(np.isfinite((data.row_lower, data.row_upper)), 0.0, [[-np.inf], [np.inf]])
    made.terms(made.rows(len(data.rows), low, high, data.row_names)[:, None], growth, data.rows)
    return made.arrays()
