"""Data of the programs of `hierarchical_bandwidth`: one design of a hierarchical problem under one objective.

hierarchical_timeline
---------------------
How long one iteration of a job takes on a hierarchical network, as a function of the times of its collectives.

Collectives of one kind on one communicator form a group g; the time of one byte of it is

    t_g = max_i u_gi / B_i,         u_gi: bytes moved in dimension i per byte of size,

since the chunks of a collective pipeline through the dimensions and the slowest one dominates (LIBRA). With m = 1 at
first, in order of the dimensions that the communicator extends over p_i > 1 ranks of:

    reduce-scatter  u_gi = m (p_i - 1)/p_i,    then m <- m/p_i;     all-reduce: twice that (up, and back down)
    all-gather      from the outermost inwards:  u_gi = m (p_i - 1),  then m <- m p_i    (size: the shard of a rank)
    all-to-all      u_gi = (p_i - 1)/p_i;      point-to-point: u_gi = 1

t_g is homogeneous, so equal groups merge by adding bytes, and an iteration is the longest of its paths:

    T = max over paths p of  C_p + sum_g a_pg t_g           [ns; C_p: compute of the path, a_pg: its bytes in group g].

`no-overlap` has one path, `dp-overlap` two branches a layer, `dag` the paths of the graph. Paths are asked for one by
one, the longest for given t first.

hierarchical_formula
--------------------
Lower bounds of a whole design from sums of bytes alone, so that most designs of a long list need no program.

With the bytes of every group shared over its dimensions in proportion to u, W[j] = sum_g a_g u[g, j]^2 / sum_i u[g, i],
and C the compute of the path that is longest without communication (Cauchy-Schwarz in each line):

    sum B <= total:     T >= C + (sum_j sqrt W[j])^2 / total
    cost <= cap:        T >= C + (sum_j sqrt(W[j] k[j]))^2 / (cap - c0)
    T <= limit:         cost >= c0 + (sum_j sqrt(W[j] k[j]))^2 / (limit - C)
    always:             T cost >= C (c0 + least total x cheapest price) + (sum_j sqrt(W[j] k[j]))^2

The first is the optimum itself where all jobs' communicators lie on dimensions of their own. Dependency graphs count
with their compute only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.hierarchy import (
    Collective,
    Design,
    HierarchicalProblem,
    HierarchicalWorkload,
    LayerPhase,
)


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
