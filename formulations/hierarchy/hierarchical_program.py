"""Data of the programs of `hierarchical_bandwidth`: one design of a hierarchical problem under one objective."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.hierarchy.hierarchical_timeline import JobTimeline, timeline_of
from topoopt.core.arrays import Bools, Floats
from topoopt.core.hierarchy import Design, Fleet, HierarchicalObjective, HierarchicalProblem

TAU = "1/cost"
COST_CAP = "cost cap"
NORMALISATION = "normalisation"


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
        """Columns before the dimensions."""
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
        """Time of the fleet, ns."""
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
    return with_ratio(plain) if problem.objective is HierarchicalObjective.TIME_TIMES_COST else plain


def plain_program(design: Design, problem: HierarchicalProblem) -> BandwidthProgram:
    """The same without tau: least time, or least cost under a limit on time; prices that are unknown count as 0."""
    network = design.network
    d = len(network.dimensions)
    price = network.npus * np.array([one.usd_per_gbytes_per_s or 0.0 for one in network.dimensions])
    rows = [(one.name, one.coefficients, one.at_least, one.at_most) for one in network.constraints]
    if problem.cost_cap_usd is not None:
        rows.append((COST_CAP, tuple(price.tolist()), -np.inf, problem.cost_cap_usd - network.fixed_cost_usd))
    return BandwidthProgram(
        names=tuple(one.name for one in network.dimensions),
        timelines=tuple(timeline_of(workload, d) for workload in design.workloads),
        weights=np.array([workload.weight for workload in design.workloads]),
        worst_case=problem.fleet is Fleet.WORST_CASE,
        rows=np.array([row[1] for row in rows], dtype=np.float64).reshape(len(rows), d),
        row_lower=np.array([row[2] for row in rows], dtype=np.float64),
        row_upper=np.array([row[3] for row in rows], dtype=np.float64),
        row_names=tuple(row[0] for row in rows),
        lower=np.array([one.min_gbytes_per_s for one in network.dimensions]),
        upper=np.array([one.max_gbytes_per_s for one in network.dimensions]),
        price=price,
        fixed_cost=network.fixed_cost_usd,
        time_limit_ns=problem.time_limit_ns,
        ratio=False,
        speeds=tuple(one.speeds_gbytes_per_s for one in network.dimensions),
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
    add(plain.fixed_cost, plain.price, 1.0, 1.0, NORMALISATION)
    return replace(
        plain,
        names=(TAU, *plain.names),
        rows=np.array(rows),
        row_lower=np.array([side[0] for side in sides]),
        row_upper=np.array([side[1] for side in sides]),
        row_names=tuple(side[2] for side in sides),
        lower=np.zeros(d + 1),
        upper=np.full(d + 1, np.inf),
        price=np.concatenate(([plain.fixed_cost], plain.price)),
        ratio=True,
    )
