"""State of the servers and the queue at one moment, and what may happen to a job: it starts, it ends."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.core.shared_cluster import Scheduling
from topoopt.core.shared_cluster_jobs import JobClass, JobTable
from topoopt.simulate.cluster.placers import Placer
from topoopt.simulate.cluster.record import Record
from topoopt.simulate.cluster.work import RunningWork


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


class ClusterState:
    """State of the servers and the queue at one moment."""

    def __init__(
        self,
        jobs: JobTable,
        classes: tuple[JobClass, ...],
        free: Bools,
        placer: Placer,
        work: RunningWork,
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
        self.releases: list[tuple[float, int, Ints]] = []
        self.reservation: tuple[int, float, Bools] | None = None

    def dark_s(self, servers: Ints, ready: float, held_from: float) -> float:
        """Time after `held_from` in which circuits are still being set, for a job known since `ready`."""
        if not self.switching.look_ahead:
            return self.switching.seconds
        prepared = max(ready, float(self.taken_at[servers].max()))
        return max(0.0, self.switching.seconds - max(0.0, held_from - prepared))

    def start(self, job: int, servers: Ints, held_from: float | None = None) -> None:
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

    def release_later(self, servers: Ints, at: float) -> None:
        """Servers become free then."""
        heapq.heappush(self.releases, (at, len(self.record.job) + len(self.releases), servers))
