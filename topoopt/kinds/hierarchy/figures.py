"""Figures that follow from the bandwidths of a hierarchical network: jobs, collectives, gains, the equal split."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from formulations.hierarchical_bandwidth import BandwidthProgram, plain_program
from topoopt.core.arrays import Floats
from topoopt.core.hierarchy import (
    Collective,
    Design,
    Dimension,
    HierarchicalPlan,
    HierarchicalProblem,
    fleet_time,
)
from topoopt.core.proofs import Tolerance
from topoopt.core.result import Columns, Objective, Result
from topoopt.verify.hierarchy import UNITS, BandwidthProof


@dataclass(frozen=True)
class CollectiveTime:
    """All collectives of one kind of a job on one communicator.

    Attributes
    ----------
    job, communicator, collective : which.
    size_bytes : in one iteration, on all paths together.
    times_ns : how long they take in each dimension, were nothing overlapped.
    """

    job: str
    communicator: str
    collective: Collective
    size_bytes: float
    times_ns: tuple[float, ...]

    @property
    def time_ns(self) -> float:
        """How long the collectives take in all dimensions together."""
        return max(self.times_ns)

    @property
    def slowest(self) -> tuple[int, ...]:
        """Indices of the dimensions that take longest; closer times are equal within the accuracy."""
        least = self.time_ns - Tolerance.TIE.of(self.time_ns)
        return tuple(index for index, time in enumerate(self.times_ns) if time > 0 and time >= least)


@dataclass(frozen=True)
class JobTime:
    """Iteration time of one job, its compute alone, and its time under the equal split."""

    name: str
    weight: float
    time_ns: float
    compute_ns: float
    equal_split_ns: float


@dataclass(frozen=True, eq=False)
class HierarchicalFigures:
    """The figures of a plan; arrays are by dimension, innermost first."""

    problem: HierarchicalProblem
    plan: HierarchicalPlan

    @property
    def design(self) -> Design:
        return self.problem.designs[self.plan.design]

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions of the network of that design."""
        return self.design.network.dimensions

    @cached_property
    def program(self) -> BandwidthProgram:
        """The program of the design, without tau."""
        return plain_program(self.design, self.problem)

    @cached_property
    def bandwidth(self) -> Floats:
        """float64[D], bandwidth of each dimension in GB/s per NPU."""
        return np.array(self.plan.bandwidth_gbytes_per_s, dtype=np.float64)

    @cached_property
    def equal(self) -> Floats:
        """float64[D], the total of the network, or else the sum of its bandwidths, in equal parts."""
        total, count = self.design.network.total_gbytes_per_s, len(self.bandwidth)
        return np.full(count, (float(self.bandwidth.sum()) if total is None else total) / count)

    @cached_property
    def cost_usd(self) -> float | None:
        """Of the network; None without prices."""
        return self.program.cost_of(self.bandwidth) if self.design.network.priced else None

    @cached_property
    def equal_cost_usd(self) -> float | None:
        """Cost of the equal split; None without prices."""
        return self.program.cost_of(self.equal) if self.design.network.priced else None

    @cached_property
    def objective(self) -> Objective:
        """Time, time x cost, or cost."""
        return objective_of(self.problem, self)

    @cached_property
    def jobs(self) -> tuple[JobTime, ...]:
        """The times of every job, here, without communication and under the equal split."""
        endless = np.full(len(self.bandwidth), np.inf)
        return tuple(
            JobTime(
                workload.name,
                workload.weight,
                timeline.time_ns(self.bandwidth),
                timeline.time_ns(endless),
                timeline.time_ns(self.equal),
            )
            for workload, timeline in zip(self.design.workloads, self.program.timelines, strict=True)
        )

    @cached_property
    def collectives(self) -> tuple[CollectiveTime, ...]:
        """What takes how long, by job, communicator and collective."""
        rows = []
        for workload, timeline in zip(self.design.workloads, self.program.timelines, strict=True):
            groups = zip(timeline.groups, timeline.volumes, timeline.all_sizes, strict=True)
            for (communicator, kind), volumes, size in groups:
                moved = size * volumes
                times = np.divide(moved, self.bandwidth, out=np.zeros_like(moved), where=moved > 0)
                name = workload.communicators[communicator].name
                rows.append(CollectiveTime(workload.name, name, kind, float(size), tuple(times.tolist())))
        return tuple(rows)

    def bound_by(self, collective: CollectiveTime) -> tuple[str, ...]:
        """Return the names of the dimensions that a collective takes longest in."""
        return tuple(self.dimensions[index].name for index in collective.slowest)

    @cached_property
    def gain_ns(self) -> tuple[float, ...]:
        """Time saved by 1 GB/s more in each dimension alone; 0 where it is rounding."""
        time = self.program.time_of(self.bandwidth)
        faster = (self.program.time_of(self.bandwidth + row) for row in np.eye(len(self.bandwidth)))
        rounding = Tolerance.ROUNDING.of(time)
        return tuple(gain if (gain := time - value) > rounding else 0.0 for value in faster)

    @cached_property
    def front(self) -> tuple[tuple[float, float], ...]:
        """Time, ns, and cost, US dollars, of the networks of the front."""
        points = [np.array(point.bandwidth_gbytes_per_s) for point in self.plan.front]
        return tuple((self.program.time_of(point), self.program.cost_of(point)) for point in points)

    @property
    def time_ns(self) -> float:
        """Time of the fleet, as the objective counts it."""
        return fleet_time(self.problem.fleet, [job.weight * job.time_ns for job in self.jobs])

    @property
    def equal_time_ns(self) -> float:
        """The same under the equal split of the same total."""
        return fleet_time(self.problem.fleet, [job.weight * job.equal_split_ns for job in self.jobs])

    @property
    def speedup_over_equal(self) -> float:
        """Time under the equal split over time."""
        return self.equal_time_ns / self.time_ns

    @property
    def perf_per_cost_gain(self) -> float | None:
        """Performance per cost over that of the equal split; None without prices, and where nothing costs anything."""
        if not self.cost_usd or self.equal_cost_usd is None:
            return None
        return self.equal_time_ns * self.equal_cost_usd / (self.time_ns * self.cost_usd)

    def columns(self) -> dict[str, Columns]:
        """Tables of dimensions and collectives, as columns."""
        return {
            "dimensions": {
                "name": [dimension.name for dimension in self.dimensions],
                "bandwidth_gbytes_per_s": self.bandwidth,
                "gain_ns": list(self.gain_ns),
            },
            "collectives": {
                "job": [row.job for row in self.collectives],
                "communicator": [row.communicator for row in self.collectives],
                "collective": [row.collective.value for row in self.collectives],
                "size_bytes": [row.size_bytes for row in self.collectives],
                "time_ns": [row.time_ns for row in self.collectives],
            },
        }


def objective_of(problem: HierarchicalProblem, figures: HierarchicalFigures) -> Objective:
    """Return time, time x cost, or cost."""
    time, cost = figures.program.time_of(figures.bandwidth), figures.cost_usd or 0.0
    value = {
        "time": time,
        "time-times-cost": time * cost,
        "cost": cost,
    }[problem.objective]
    return Objective(problem.objective, value, UNITS[problem.objective])


def marginal_ns(result: Result[HierarchicalProblem, HierarchicalPlan]) -> tuple[float, ...] | None:
    """Return ns per GB/s in each dimension at the margin, or None for a list of speeds and without a proof.

    The other dimensions that hold up the same collectives grow with it. This is the dual price of its bandwidth:
    W / B^2 with W the bytes that the certificate of the design holds against the dimension for one unit of time.
    """
    figures: HierarchicalFigures = result.figures
    program, plan = figures.program, result.plan
    if any(program.speeds):
        return None
    proofs = (BandwidthProof.of(figures.problem, certificate) for certificate in result.certificates)
    proof = next((p for p in proofs if p.design == plan.design and p.point is None and not p.too_slow), None)
    if proof is None:
        return None
    shares = {(share.job, share.communicator, share.collective): share.bytes_by_dimension for share in proof.shares}
    bytes_held, units = np.zeros(len(figures.bandwidth)), []
    for job, (timeline, weight) in enumerate(zip(program.timelines, program.weights.tolist(), strict=True)):
        none = (0.0,) * len(figures.bandwidth)
        rows = np.array([shares.get((job, *group), none) for group in timeline.groups]).reshape(-1, len(none))
        bytes_held += (rows * timeline.volumes).sum(axis=0)
        units.append(float(np.array([path.weight for path in proof.paths if path.job == job]).sum()) / weight)
    unit = sum(units) if program.worst_case else max(units)
    if unit <= 0:
        return (0.0,) * len(figures.bandwidth)
    bandwidth = figures.bandwidth
    held = np.divide(bytes_held / unit, bandwidth**2, out=np.zeros_like(bandwidth), where=bandwidth > 0)
    return tuple(held.tolist())
