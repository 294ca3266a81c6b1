"""Bounds on what any schedule of the jobs of a shared cluster can reach.

Iteration time: no job is faster than alone. Completion time, two arguments, of which the larger value counts: each job
takes at least its own length from its arrival on; and the servers together are one machine that does n server-seconds
of work a second, on which jobs of k p server-seconds can be interrupted and run in any shares: every schedule of the
cluster is one of this machine, where shortest remaining time first has the least total (Schrage, 1968).

Of a planned class only what holds for every plan counts, as another plan may be faster than the one at hand. Its jobs
change with the plan, too. Whoever asks for a length gets fewer iterations where one takes longer, and whoever asks for
a load gets later arrivals, on which the second argument then rests no more.
"""

from __future__ import annotations

import heapq

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.proofs import Argument, Bound
from topoopt.core.shared_cluster import PARTITIONED, Fabric, Goal, SharedCluster
from topoopt.core.shared_cluster_jobs import DrawnJobs, JobTable
from topoopt.core.units import BYTES_PER_MS_PER_GBPS
from topoopt.verify.shared_cluster.planned import least_alone_ms

MS = 1e-3


def alone_ms(problem: SharedCluster, fabric: Fabric, jobs: JobTable) -> Floats:
    """float64[J], iteration time of each job alone on a fabric (time model of `topoopt.core.shared_cluster`)."""
    if fabric.kind == PARTITIONED:
        return jobs.iteration_ms
    times = np.zeros(len(jobs))
    for j, c in enumerate(jobs.class_index):
        one = problem.classes[c]
        measured = dict(one.fabric_ms).get(fabric.name)
        if measured is not None:
            times[j] = max(measured, one.compute_ms)
            continue
        direct = one.sent_bytes / (problem.direct_gbps(one) * BYTES_PER_MS_PER_GBPS)
        here = one.sent_bytes / ((fabric.server_gbps or np.nan) * BYTES_PER_MS_PER_GBPS)
        hidden = one.compute_ms + direct - float(jobs.iteration_ms[j])
        times[j] = one.compute_ms + max(0.0, here - hidden)
    return times


def least_total_s(arrival_s: Floats, work_s: Floats) -> float:
    """Least sum of the times from arrival to end on one machine of speed 1; arrivals in order."""
    waiting: list[tuple[float, int]] = []
    now = total = 0.0
    place, count = 0, len(work_s)
    while place < count or waiting:
        if not waiting:
            now = max(now, float(arrival_s[place]))
        while place < count and arrival_s[place] <= now:
            heapq.heappush(waiting, (float(work_s[place]), place))
            place += 1
        left, job = heapq.heappop(waiting)
        following = float(arrival_s[place]) if place < count else np.inf
        if now + left <= following:
            now += left
            total += now - float(arrival_s[job])
        else:
            heapq.heappush(waiting, (left - (following - now), job))
            now = following
    return total


def shared_bound(problem: SharedCluster, fabric: Fabric, jobs: JobTable, counted: Bools) -> Bound:
    """Bound on the mean over the counted jobs; `problem.classes` and `fabric` have their figures."""
    alone = alone_ms(problem, fabric, jobs).copy()
    for index, one in enumerate(problem.classes):
        if one.lower_bounds is not None:
            alone[jobs.class_index == index] = least_alone_ms(problem, fabric, one)
    if problem.goal is Goal.ITERATION_TIME:
        return Bound(float(np.mean(alone[counted])), Argument.ALONE)
    seconds = _least_seconds(problem, fabric, jobs, alone)[counted]
    partitioned = fabric.kind == PARTITIONED
    switching = problem.layer.switching_time_s if partitioned else 0.0
    shortest = float(np.mean(seconds)) + switching  # circuits are set after the arrival, with look-ahead too
    if _arrivals_by_plans(problem):
        return Bound(shortest, Argument.ALONE_AT_ONCE)
    held = seconds + (0.0 if problem.look_ahead else switching)
    size = np.array([one.servers for one in problem.classes], dtype=np.float64)[jobs.class_index[counted]]
    area = least_total_s(jobs.arrival_s[counted], size * held / problem.servers) / len(seconds)
    return Bound(area, Argument.REMAINING_TIME) if area > shortest else Bound(shortest, Argument.ALONE_AT_ONCE)


def _least_seconds(problem: SharedCluster, fabric: Fabric, jobs: JobTable, alone: Floats) -> Floats:
    """float64[J], least length of each job alone, if an iteration takes no less than `alone`, ms.

    A job of a planned class that asks for a length L does max(1, round(L / t)) iterations of t each, 2 L / 3 at least
    (at t just above 2 L / 3). That k iterations of t' are done with the plan at hand says that L >= (k - 1 / 2) t'.
    """
    by_length = np.array([one.lower_bounds is not None and one.duration_s is not None for one in problem.classes])
    open_count = by_length[jobs.class_index]
    if isinstance(problem.jobs, tuple):
        open_count &= np.array([job.iterations is None for job in problem.jobs])
    seconds: Floats = jobs.iterations * alone * MS
    asked = np.where(jobs.iterations > 1, (jobs.iterations - 0.5) * jobs.iteration_ms * MS, 0.0)
    rounded = asked * (2 / 3 if fabric.kind == PARTITIONED else 0.0)
    return np.where(open_count, np.maximum(alone * MS, rounded), seconds)


def _arrivals_by_plans(problem: SharedCluster) -> bool:
    """Whether jobs arrive at a rate that follows from times of plans."""
    jobs = problem.jobs
    if not isinstance(jobs, DrawnJobs) or jobs.load is None:
        return False
    mixed = [problem.classes[index] for index, _ in jobs.mix]
    return any(one.lower_bounds is not None and one.duration_s is None for one in mixed)
