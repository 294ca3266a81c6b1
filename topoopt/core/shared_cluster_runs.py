"""What became of the jobs of a shared cluster: which servers they held on a fabric and when, how long they took.

Times of iterations are ms, all others seconds. Wall-clock times are kept out, so that the same seed gives the same
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.proofs import Bound
from topoopt.core.shared_cluster import Fabric
from topoopt.core.strategy import Strategy


@dataclass(frozen=True, eq=False)
class Stays:
    """Which servers each job held and when; a job that was moved has several stays. All times in seconds.

    Attributes:
        job: int64[S], ordered by `held_from_s`, then job.
        held_from_s, held_to_s: float64[S], the servers are the job's.
        work_from_s, work_to_s: float64[S], within it iterations are done.
        low: int64[S + 1], the servers of stay s are servers[low[s]:low[s + 1]].
        servers: int64, ascending within a stay.
    """

    job: Ints
    held_from_s: Floats
    work_from_s: Floats
    work_to_s: Floats
    held_to_s: Floats
    low: Ints
    servers: Ints

    def __len__(self) -> int:
        return len(self.job)

    def servers_of(self, stay: int) -> Ints:
        """Servers of a stay."""
        return self.servers[self.low[stay] : self.low[stay + 1]]

    def first(self, count: int) -> Stays:
        """So many of them."""
        low = self.low[: count + 1]
        times = (self.held_from_s, self.work_from_s, self.work_to_s, self.held_to_s)
        held_from, work_from, work_to, held_to = (column[:count] for column in times)
        return Stays(self.job[:count], held_from, work_from, work_to, held_to, low, self.servers[: low[-1]])


@dataclass(frozen=True)
class Decisions:
    """Questions which jobs get which servers: with an answer proven to be the best, and with one that is not."""

    proven: int
    unproven: int


@dataclass(frozen=True, eq=False)
class FabricRun:
    """The jobs on one fabric.

    Attributes:
        fabric: with its server rate filled in.
        queue, defragment: how jobs were scheduled.
        finished: bool[J]; others that started end unfinished where the run was cut short.
        stays: of the jobs that started.
        decisions: of a run whose placement is exact; None: any other.
    """

    fabric: Fabric
    queue: str
    defragment: bool
    finished: Bools
    stays: Stays
    decisions: Decisions | None = None

    @property
    def whole(self) -> bool:
        """Whether every job has ended."""
        return bool(self.finished.all())

    @property
    def until_s(self) -> float:
        """The last moment at which a job held servers."""
        return float(self.stays.held_to_s.max(initial=0.0))


@dataclass(frozen=True)
class ClassPlan:
    """How jobs at once of a class run on a fabric.

    Attributes:
        fabric, job_class: names.
        alone_ms: iteration time of one job that has the fabric to itself; on shared fabrics on the first placement
            drawn. The mean of the given times of a class without a plan.
        bound: lower bound on any iteration time of the class on the fabric, ms.
        strategy: None for a class without a plan.
        topology: of a shard, for people; empty on shared fabrics.
    """

    fabric: str
    job_class: str
    alone_ms: float
    bound: Bound
    strategy: Strategy | None
    topology: str = ""


@dataclass(frozen=True)
class DrawnRun:
    """One draw of jobs at once, run together on every fabric.

    Attributes:
        load: number of jobs.
        repetition: from 0.
        classes: of each job, index in the problem.
        servers: of each job, in rank order; all different.
        times_ms: for each fabric the first iteration of each job.
        shard_ms: of each job on a shard of its own, from which its times follow by the formula; empty for flows.
    """

    load: int
    repetition: int
    classes: tuple[int, ...]
    servers: tuple[tuple[int, ...], ...]
    times_ms: tuple[tuple[float, ...], ...]
    shard_ms: tuple[float, ...] = ()
