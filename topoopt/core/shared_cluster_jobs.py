"""Jobs of a shared cluster: their classes, and which of them there are.

Time model of a job with V bytes sent by each of its servers in an iteration. On a fabric where a server alone reaches
rate R its iteration takes `iteration_ms`; at rate r it takes

    T(r) = c + max(0, V / r - h),     h = c + V / R - iteration_ms,

with c the compute time. h > 0 is communication hidden behind compute; h < 0 is time lost beyond compute and wire
(latency, forwarding, waiting for transfers), which no rate changes. T(R) is `iteration_ms`. A job whose V is 0 takes
`iteration_ms` anywhere. No iteration is shorter than V / R, so that V / r bounds T(r) from below too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.job import CoOptimisation
from topoopt.core.shown import Shown


@dataclass(frozen=True)
class TimeBounds:
    """What no plan of a job beats, ms.

    Attributes:
        iteration_ms: an iteration on a shard of its own.
        compute_ms: what the busiest server computes in it.
    """

    iteration_ms: float
    compute_ms: float


@dataclass(frozen=True, repr=False)
class JobClass(Shown):
    """Jobs of one model on one number of servers.

    Attributes:
        name: unique in the instance.
        servers: k.
        iteration_ms: time of an iteration on a shard of its own; several: each job takes one of them at random.
        compute_ms: part of it a server computes.
        allreduce_bytes: sent by each server in an iteration around rings of all servers of the job.
        all_to_all_bytes: sent by each server in an iteration, evenly to all other servers of the job.
        fabric_ms: (name of a fabric, iteration time) of a job alone there, where it is not what the model makes of
            `iteration_ms`.
        iterations: of a job.
        duration_s: time of a job on a shard of its own, instead of iterations.
        interfaces: of a server that the job uses on a shard; None: all.
        plan: co-optimisation to solve for the times and bytes, which are 0 until then, or for the flows of the jobs.
        lower_bounds: proven for the plan, once they are worked out; None: of a class whose times are given.
    """

    name: str
    servers: int
    iteration_ms: tuple[float, ...]
    compute_ms: float = 0.0
    allreduce_bytes: float = 0.0
    all_to_all_bytes: float = 0.0
    fabric_ms: tuple[tuple[str, float], ...] = ()
    iterations: int | None = None
    duration_s: float | None = None
    interfaces: int | None = None
    plan: CoOptimisation | None = field(default=None, compare=False)
    lower_bounds: TimeBounds | None = field(default=None, compare=False)

    @property
    def sent_bytes(self) -> float:
        """V."""
        return self.allreduce_bytes + self.all_to_all_bytes


@dataclass(frozen=True, eq=False)
class JobTable:
    """Jobs in order of arrival.

    Attributes:
        names: of each job, distinct.
        arrival_s: float64[J], not falling.
        class_index: int32[J].
        iterations: int64[J], at least 1.
        iteration_ms: float64[J], on a shard of its own.
    """

    names: tuple[str, ...]
    arrival_s: Floats
    class_index: Int32s
    iterations: Ints
    iteration_ms: Floats

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class TracedJob:
    """A line of a trace; `iterations` None: as the class says."""

    name: str
    arrival_s: float
    class_index: int
    iterations: int | None = None


@dataclass(frozen=True)
class DrawnJobs:
    """Jobs drawn from a mix.

    Attributes:
        count: J.
        mix: (class index, weight).
        rate_per_s: of a Poisson process; None with `load` None: all arrive at time 0.
        load: offered server-seconds over those of the cluster, instead of a rate.
        spread: `fixed` lengths, or `exponential` ones with the same mean.
    """

    count: int
    mix: tuple[tuple[int, float], ...]
    rate_per_s: float | None = None
    load: float | None = None
    spread: str = "fixed"


class JobPlacement(StrEnum):
    """Which servers a job gets: any, without replacement, or consecutive ones of racks taken in random order."""

    RANDOM = "random"
    RACK_LOCAL = "rack-local"


class RankOrder(StrEnum):
    """Which of its servers is server i of a job, and so the order of its rings: as drawn, or ascending."""

    RANDOM = "random"
    SORTED = "sorted"


@dataclass(frozen=True)
class JobsAtOnce:
    """Jobs drawn from a mix that all begin together (TopoOpt, NSDI'23, section 5.6 and Fig 16).

    Attributes:
        loads: numbers of jobs at once.
        repetitions: draws of jobs and servers for each load.
        mix: (class index, weight).
        placement, rank_order: on fabrics that jobs share, the same on each.
        rack_servers: of one rack, for rack-local placement.
    """

    loads: tuple[int, ...]
    repetitions: int
    mix: tuple[tuple[int, float], ...]
    placement: JobPlacement = JobPlacement.RANDOM
    rank_order: RankOrder = RankOrder.RANDOM
    rack_servers: int = 1
