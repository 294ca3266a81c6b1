"""The event loop: jobs arrive, wait, start, are moved, end.

All that happens at one moment is taken together: ends, then servers that become free, then arrivals, then starts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools
from topoopt.core.shared_cluster import QueueOrder
from topoopt.core.shared_cluster_runs import Stays
from topoopt.core.verdict import StopReason
from topoopt.simulate.cluster.backfill import start_others
from topoopt.simulate.cluster.defragment import make_room
from topoopt.simulate.cluster.jointly import JointPlacer, start_jointly
from topoopt.simulate.cluster.state import ClusterState

ASKED_EVERY = 64
"""Moments between two questions whether to stop; where jobs are placed together, which takes long, it is one."""


@dataclass(frozen=True, eq=False)
class ClusterRun:
    """What happened.

    Attributes:
        stays: of all jobs that started.
        finished: bool[J].
        stopped_by: None when every job has ended.
    """

    stays: Stays
    finished: Bools
    stopped_by: StopReason | None


def start_waiting(cluster: ClusterState) -> None:
    """Start every waiting job that may."""
    if isinstance(cluster.placer, JointPlacer):
        start_jointly(cluster, cluster.placer)
        return
    while cluster.queue:
        job = cluster.queue[0]
        servers = cluster.placer.place(cluster.free, cluster.size[job], cluster.kind[job])
        if servers is None:
            break
        cluster.start(job, servers)
        del cluster.queue[0]
    if not cluster.queue:
        return
    if cluster.scheduling.defragment and make_room(cluster):
        del cluster.queue[0]
        start_waiting(cluster)
        return
    if cluster.scheduling.queue is not QueueOrder.FIFO and len(cluster.queue) > 1:
        start_others(cluster)


def simulate(cluster: ClusterState, reason: Callable[[], StopReason | None]) -> ClusterRun:
    """Run until every job has ended, or `reason` says why to stop."""
    jobs = len(cluster.jobs)
    finished = np.zeros(jobs, dtype=bool)
    arrived = moments = 0
    stopped_by: StopReason | None = None
    every = 1 if isinstance(cluster.placer, JointPlacer) else ASKED_EVERY
    while True:
        if moments % every == 0:
            stopped_by = reason()
            if stopped_by is not None:
                break
        moments += 1
        end, job = cluster.work.next_end()
        arrival = cluster.arrival[arrived] if arrived < jobs else np.inf
        release = cluster.releases[0][0] if cluster.releases else np.inf
        moment = max(min(end, arrival, release), cluster.now)
        if moment == np.inf:
            break
        cluster.work.advance(moment)
        cluster.now = moment
        while end <= moment:
            cluster.end(job)
            finished[job] = True
            end, job = cluster.work.next_end()
        while cluster.releases and cluster.releases[0][0] <= moment:
            cluster.free[heapq.heappop(cluster.releases)[2]] = True
        while arrived < jobs and cluster.arrival[arrived] <= moment:
            cluster.queue.append(arrived)
            arrived += 1
        start_waiting(cluster)
        cluster.work.refresh()
    return ClusterRun(cluster.record.stays(cluster.now), finished, stopped_by)
