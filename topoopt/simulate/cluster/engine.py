"""The event loop: jobs arrive, wait, start, are moved, end.

All that happens at one moment is taken together: ends, then servers that become free, then arrivals, then starts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.shared_cluster import JobClass, JobTable, Queue, Scheduling
from topoopt.core.shared_cluster_solution import Stays
from topoopt.core.verdict import StopReason
from topoopt.simulate.cluster.backfill import start_others
from topoopt.simulate.cluster.defragment import make_room
from topoopt.simulate.cluster.jointly import JointPlacer, start_jointly
from topoopt.simulate.cluster.placers import Placer
from topoopt.simulate.cluster.record import Record
from topoopt.simulate.cluster.work import Work

ASKED_EVERY = 64
"""Moments between two questions whether to stop; where jobs are placed together, which takes long, it is one."""


@dataclass(frozen=True)
class Switching:
    """Circuits of partitions.

    Attributes:
        seconds: to set those of a job; 0 on shared fabrics.
        look_ahead: they are set on the second plane as soon as the job waits and the plane is free, that is, since the
            last job on each of the servers took over the other plane.
    """

    seconds: float = 0.0
    look_ahead: bool = False


@dataclass(frozen=True, eq=False)
class Outcome:
    """What happened.

    Attributes:
        stays: of all jobs that started.
        finished: bool[J].
        simulated_s: the last moment.
        stopped_by: None when every job has ended.
    """

    stays: Stays
    finished: NDArray[np.bool_]
    simulated_s: float
    stopped_by: StopReason | None


class Cluster:
    """State of the servers and the queue at one moment."""

    def __init__(
        self,
        jobs: JobTable,
        classes: tuple[JobClass, ...],
        free: NDArray[np.bool_],
        placer: Placer,
        work: Work,
        switching: Switching,
        scheduling: Scheduling,
    ) -> None:
        self.jobs, self.placer, self.work = jobs, placer, work
        self.switching, self.scheduling = switching, scheduling
        self.size = np.array([one.servers for one in classes], dtype=np.int64)[jobs.class_index].tolist()
        self.kind = jobs.class_index.tolist()
        self.arrival = jobs.arrival_s.tolist()
        self.now = 0.0
        self.free = free
        self.queue: list[int] = []
        self.record = Record()
        self.taken_at = np.full(len(free), -np.inf)  # when the last job of each server took it
        self.releases: list[tuple[float, int, NDArray[np.int64]]] = []
        self.reservation: tuple[int, float, NDArray[np.bool_]] | None = None

    def dark_s(self, servers: NDArray[np.int64], ready: float, held_from: float) -> float:
        """Time after `held_from` in which circuits are still being set, for a job known since `ready`."""
        if not self.switching.look_ahead:
            return self.switching.seconds
        prepared = max(ready, float(self.taken_at[servers].max()))
        return max(0.0, self.switching.seconds - max(0.0, held_from - prepared))

    def start(self, job: int, servers: NDArray[np.int64], held_from: float | None = None) -> None:
        """Give a job its servers, now or from a later moment on."""
        begin = self.now if held_from is None else held_from
        work_from = begin + self.dark_s(servers, self.arrival[job], begin)
        self.free[servers] = False
        self.taken_at[servers] = begin
        self.record.begin(job, servers, begin, work_from)
        self.work.start(job, servers, work_from)

    def end(self, job: int) -> None:
        """A job is done."""
        self.free[self.record.finish(job, self.now, self.now)] = True
        self.work.end(job)

    def release_later(self, servers: NDArray[np.int64], at: float) -> None:
        """Servers become free then."""
        heapq.heappush(self.releases, (at, len(self.record.job) + len(self.releases), servers))

    def start_waiting(self) -> None:
        """Start every waiting job that may."""
        if isinstance(self.placer, JointPlacer):
            start_jointly(self, self.placer)
            return
        while self.queue:
            job = self.queue[0]
            servers = self.placer.place(self.free, self.size[job], self.kind[job])
            if servers is None:
                break
            self.start(job, servers)
            del self.queue[0]
        if not self.queue:
            return
        if self.scheduling.defragment and make_room(self):
            del self.queue[0]
            self.start_waiting()
            return
        if self.scheduling.queue is not Queue.FIFO and len(self.queue) > 1:
            start_others(self)


def simulate(cluster: Cluster, reason: Callable[[], StopReason | None]) -> Outcome:
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
        cluster.start_waiting()
        cluster.work.refresh()
    return Outcome(cluster.record.stays(cluster.now), finished, cluster.now, stopped_by)
