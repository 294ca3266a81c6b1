"""What became of the jobs of a shared cluster on each fabric. Times of iterations are ms, all others seconds.

Wall-clock times are kept out, so that the same seed gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.proofs import Bound
from topoopt.core.shared_cluster import Fabric
from topoopt.core.shared_cluster_jobs import JobClass, JobTable
from topoopt.core.solution import SolutionHead
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


@dataclass(frozen=True)
class Tail:
    """Mean and tail of a list of figures; p of q percent is element floor(q N / 100) of the sorted list."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float


@dataclass(frozen=True)
class Metrics:
    """Figures of the finished jobs of a fabric, and of the servers over the time simulated.

    Attributes:
        finished: jobs.
        iteration_ms: time at work over iterations, of the finished jobs.
        waiting_s: from arrival until the servers are the job's.
        completion_s: from arrival to the end.
        slowdown: completion time over that on a shard of its own that is ready at once.
        makespan_s: first arrival to the last end.
        utilisation: held server-seconds over all, within the makespan.
        goodput: server-seconds at work over all, within the makespan.
        queue_length: waiting jobs, averaged over the makespan.
        waiting_free: free servers while a job waits, averaged over the makespan.
        stranded: free servers while the first waiting job asks for no more than are free.
        largest_share: largest group of free servers a shard can be cut from over all free servers, averaged over the
            time in which there are any; 1: no fragmentation.
        reconfigurations: circuits set for a job.
        moves: of running jobs.
        dark_s: time in which jobs held servers and did no work, all together.
    """

    finished: int
    iteration_ms: Tail
    waiting_s: Tail
    completion_s: Tail
    slowdown: Tail
    makespan_s: float
    utilisation: float
    goodput: float
    queue_length: float
    waiting_free: float
    stranded: float
    largest_share: float
    reconfigurations: int
    moves: int
    dark_s: float


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
        simulated_s: time until which it was simulated; jobs that run then end there unfinished.
        whole: every job has ended.
        finished: bool[J].
        stays: of the jobs that started.
        metrics: None when no job ended.
        decisions: of a run whose placement is exact; None: any other.
    """

    fabric: Fabric
    queue: str
    defragment: bool
    simulated_s: float
    whole: bool
    finished: Bools
    stays: Stays
    metrics: Metrics | None
    decisions: Decisions | None = None

    def rounding(self, value: float) -> float:
        """What may be rounding of a mean `value`: every time is a difference of two moments, each rounded."""
        mean_s = np.spacing(1.0) if self.metrics is None else max(self.metrics.completion_s.mean, np.spacing(1.0))
        return float(4 * np.spacing(self.simulated_s) / mean_s * abs(value))


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


@dataclass(frozen=True)
class LoadStatistics:
    """Iteration times of all jobs of all repetitions on one fabric at one load.

    Attributes:
        fabric, load, jobs: which, and how many times there are.
        iteration_ms: of them.
        over_alone: mean over jobs of the time over the time of its class alone on this fabric.
        over_first: mean time over the mean time of the same jobs on the first fabric.
        p99_over_first: the same of the 99th percentiles.
    """

    fabric: str
    load: int
    jobs: int
    iteration_ms: Tail
    over_alone: float
    over_first: float
    p99_over_first: float


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
        statistics: for every load every fabric.
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
    statistics: tuple[LoadStatistics, ...] = ()

    kind: str = field(default="shared-cluster", init=False)

    @property
    def at_once(self) -> bool:
        """Whether the jobs were at once."""
        return bool(self.draws)
