"""What jobs run together took, and what follows. Times are ms; every time was simulated (or drawn from given ones)."""

from __future__ import annotations

from dataclasses import dataclass, field

from topoopt.core.solution import SolutionHead
from topoopt.core.strategy import Strategy


@dataclass(frozen=True)
class ClassPlan:
    """How the jobs of a class run on a fabric.

    Attributes:
        fabric, job_class: names.
        alone_ms: iteration time of one job that has the fabric to itself; on shared fabrics on the first placement
            drawn. The mean of the given times of a class without a plan.
        bound_ms: proven lower bound on any iteration time of the class on the fabric.
        bound_by: by which argument.
        strategy: None for a class without a plan.
        topology: of a shard, for people; empty on shared fabrics.
    """

    fabric: str
    job_class: str
    alone_ms: float
    bound_ms: float
    bound_by: str
    strategy: Strategy | None
    topology: str = ""


@dataclass(frozen=True)
class Together:
    """One draw of jobs, run together on every fabric.

    Attributes:
        load: number of jobs.
        repetition: from 0.
        classes: of each job, index in the problem.
        servers: of each job, in rank order; all different.
        times_ms: for each fabric the first iteration of each job.
    """

    load: int
    repetition: int
    classes: tuple[int, ...]
    servers: tuple[tuple[int, ...], ...]
    times_ms: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LoadStatistics:
    """Iteration times of all jobs of all repetitions on one fabric at one load.

    Attributes:
        fabric, load, jobs: which, and how many times there are.
        mean_ms: arithmetic mean.
        p50_ms, p90_ms, p95_ms, p99_ms: element floor(q N) of the N times in ascending order.
        slowdown: mean over jobs of the time over the time of its class alone on this fabric.
        over_first: mean time over the mean time of the same jobs on the first fabric.
        p99_over_first: the same of the 99th percentiles.
    """

    fabric: str
    load: int
    jobs: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    slowdown: float
    over_first: float
    p99_over_first: float


@dataclass(frozen=True, repr=False)
class SharedLoadSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `shared-load`.

    Attributes, besides those of `SolutionHead`:
        objective: mean iteration time on the first fabric at the largest load.
        bound: the same mean of the bounds of the classes.
        fabrics: (name, what it is) in the order of the problem.
        class_names: in the order of the problem.
        plans: for every fabric every class.
        runs: draws, by repetition, then load; fewer than asked for when interrupted.
        statistics: for every load every fabric.
    """

    servers: int
    time_model: str
    placement: str
    rank_order: str
    fabrics: tuple[tuple[str, str], ...]
    class_names: tuple[str, ...]
    plans: tuple[ClassPlan, ...]
    runs: tuple[Together, ...]
    statistics: tuple[LoadStatistics, ...]

    kind: str = field(default="shared-load", init=False)
