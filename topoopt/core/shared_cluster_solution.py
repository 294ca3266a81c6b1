"""The solution of a shared cluster: what became of its jobs on each fabric, and the figures that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster_figures import LoadStatistics, Metrics, load_statistics, metrics_of
from topoopt.core.shared_cluster_jobs import JobClass, JobTable
from topoopt.core.shared_cluster_runs import ClassPlan, DrawnRun, FabricRun
from topoopt.core.solution import SolutionHead

NO_JOBS = JobTable((), np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, eq=False, repr=False)
class SharedClusterSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `shared-cluster`.

    Attributes, besides those of `SolutionHead`:
        objective: mean on the first fabric, over the finished jobs, or over the jobs of the largest load.
        bound: smallest value any schedule of these jobs can have, or the mean of the bounds of the classes.
        servers, degree, link_gbps, contention: of the instance.
        classes: with times and bytes filled in where the formula needs them.

    Of jobs that arrive:
        look_ahead, switching_time_s, checkpoint_s: of the instance.
        jobs: as they arrived.
        groups: int64[n], group of each server; a shard within a group is always realisable.
        runs: one a fabric, in the order of the instance; fabrics not reached are left out.

    Of jobs at once:
        time_model: of flows; empty where contention follows a formula.
        placement, rank_order: of the instance.
        fabrics: (name, what it is) in the order of the instance.
        rates_gbps: of a server on each fabric, from which times follow by the formula; empty for flows.
        plans: for every fabric every class.
        draws: by repetition, then load; fewer than asked for when interrupted.
    """

    servers: int
    degree: int
    link_gbps: float
    contention: str
    classes: tuple[JobClass, ...]
    look_ahead: bool = False
    switching_time_s: float = 0.0
    checkpoint_s: float = 0.0
    jobs: JobTable = NO_JOBS
    groups: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    runs: tuple[FabricRun, ...] = ()
    time_model: str = ""
    placement: str = ""
    rank_order: str = ""
    fabrics: tuple[tuple[str, str], ...] = ()
    rates_gbps: tuple[float, ...] = ()
    plans: tuple[ClassPlan, ...] = ()
    draws: tuple[DrawnRun, ...] = ()

    kind: str = field(default="shared-cluster", init=False)

    @property
    def at_once(self) -> bool:
        """Whether the jobs were at once."""
        return bool(self.draws)

    @cached_property
    def metrics(self) -> tuple[Metrics | None, ...]:
        """Of each run; None where no job ended."""
        switching_s = self.switching_time_s
        return tuple(metrics_of(run, self.jobs, self.classes, self.groups, switching_s) for run in self.runs)

    @cached_property
    def statistics(self) -> tuple[LoadStatistics, ...]:
        """Of jobs at once: for every load, ascending, every fabric."""
        names = [name for name, _ in self.fabrics]
        return load_statistics(names, [one.name for one in self.classes], self.plans, self.draws)
