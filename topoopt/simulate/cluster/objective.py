"""What a simulated cluster is sought for, to be small."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.shared_cluster import Goal
from topoopt.core.shared_cluster_figures import LoadStatistics, finished_times
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.shared_cluster_runs import FabricRun
from topoopt.core.solution import Objective


def objective_of(goal: Goal, run: FabricRun, jobs: JobTable) -> Objective:
    """The objective of a run in which a job has ended."""
    times = finished_times(run, jobs)
    if goal is Goal.ITERATION_TIME:
        return Objective("mean_iteration_time", float(np.mean(times.iteration_ms)), "ms")
    return Objective("mean_completion_time", float(np.mean(times.completion_s)), "s")


def load_objective(statistics: Sequence[LoadStatistics]) -> Objective:
    """The objective of jobs at once: on the first fabric at the largest load."""
    largest = max(row.load for row in statistics)
    return Objective("mean_iteration_time", next(r.iteration_ms.mean for r in statistics if r.load == largest), "ms")
