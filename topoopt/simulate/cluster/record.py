"""The stays of jobs on servers, written down as they happen."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster_runs import Stays


class Record:
    """Stays in the making; `open_stay[job]` is the last one of a running job."""

    def __init__(self) -> None:
        self.job: list[int] = []
        self.held_from: list[float] = []
        self.work_from: list[float] = []
        self.work_to: list[float] = []
        self.held_to: list[float] = []
        self.servers: list[Ints] = []
        self.open_stay: dict[int, int] = {}

    def begin(self, job: int, servers: Ints, held_from: float, work_from: float) -> None:
        """A job gets servers."""
        self.open_stay[job] = len(self.job)
        self.job.append(job)
        self.held_from.append(held_from)
        self.work_from.append(work_from)
        self.work_to.append(np.inf)
        self.held_to.append(np.inf)
        self.servers.append(servers)

    def finish(self, job: int, work_to: float, held_to: float) -> Ints:
        """The last stay of a job ends; its servers."""
        stay = self.open_stay.pop(job)
        self.work_to[stay], self.held_to[stay] = work_to, held_to
        return self.servers[stay]

    def stays(self, horizon: float) -> Stays:
        """All of them; what lies beyond the horizon is cut off."""
        begun = np.array(self.held_from)
        order = np.array(sorted(range(len(begun)), key=lambda s: (begun[s], self.job[s])), dtype=np.int64)
        order = order[begun[order] <= horizon] if len(order) else order
        counts = [len(self.servers[s]) for s in order]
        cut = [np.minimum(np.array(each, dtype=np.float64)[order], horizon) for each in self._times()]
        work_to = np.maximum(cut[2], cut[1])  # cut off before the work began
        return Stays(
            job=np.array(self.job, dtype=np.int64)[order],
            held_from_s=cut[0],
            work_from_s=cut[1],
            work_to_s=work_to,
            held_to_s=cut[3],
            low=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
            servers=np.concatenate([self.servers[s] for s in order]) if len(order) else np.zeros(0, dtype=np.int64),
        )

    def _times(self) -> tuple[list[float], ...]:
        return self.held_from, self.work_from, self.work_to, self.held_to
