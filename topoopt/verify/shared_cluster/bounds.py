"""Bounds on what any schedule of the jobs of a shared cluster can reach.

Iteration time: no job is faster than alone. Completion time, two arguments, of which the larger value counts:
each job takes at least its own length from its arrival on; and the servers together are one machine that does n
server-seconds of work a second, on which jobs of k p server-seconds can be interrupted and run in any shares: every
schedule of the cluster is one of this machine, where shortest remaining time first has the least total (Schrage, 1968).
"""

from __future__ import annotations

import heapq

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.proofs import Argument, Bound
from topoopt.core.shared_cluster import PARTITIONED, Fabric, Goal, SharedCluster
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.units import BYTES_PER_MS_PER_GBPS

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
    alone = alone_ms(problem, fabric, jobs)[counted]
    if problem.goal is Goal.ITERATION_TIME:
        return Bound(float(np.mean(alone)), Argument.ALONE)
    seconds = jobs.iterations[counted] * alone * MS
    partitioned = fabric.kind == PARTITIONED
    switching = problem.layer.switching_time_s if partitioned else 0.0
    shortest = float(np.mean(seconds)) + switching  # circuits are set after the arrival, with look-ahead too
    held = seconds + (0.0 if problem.look_ahead else switching)
    size = np.array([one.servers for one in problem.classes], dtype=np.float64)[jobs.class_index[counted]]
    area = least_total_s(jobs.arrival_s[counted], size * held / problem.servers) / len(seconds)
    return Bound(area, Argument.REMAINING_TIME) if area > shortest else Bound(shortest, Argument.ALONE_AT_ONCE)
