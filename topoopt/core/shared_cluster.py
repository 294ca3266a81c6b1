"""A cluster that many jobs share (kind `shared-cluster`): servers, fabrics, classes of jobs, scheduling, contention.

Time model of a job with V bytes sent by each of its servers in an iteration. On a fabric where a server alone reaches
rate R its iteration takes `iteration_ms`; at rate r it takes

    T(r) = c + max(0, V / r - h),     h = c + V / R - iteration_ms,

with c the compute time. h > 0 is communication hidden behind compute; h < 0 is time lost beyond compute and wire
(latency, forwarding, waiting for transfers), which no rate changes. T(R) is `iteration_ms`. A job whose V is 0 takes
`iteration_ms` anywhere. No iteration is shorter than V / R, so that V / r bounds T(r) from below too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Floats, Int32s, Ints
from topoopt.core.cluster import Cluster, OpticalLayer
from topoopt.core.data import Shown
from topoopt.core.job import CoOptimisation
from topoopt.core.search_settings import ProblemBase, SearchSettings

ROUNDING = 1e-9
"""Part of a time that is none."""

PARTITIONED = "partitioned"
"""Kind of a fabric of direct connections, where every job has its shard to itself."""

IDEAL_SWITCH = "ideal-switch"
"""Kind of a fabric that is one non-blocking switch."""

FAT_TREE = "fat-tree"
"""Kind of a fabric of three tiers of switches, shared by all jobs."""

WITH_FORMULA = (PARTITIONED, IDEAL_SWITCH, FAT_TREE)
"""Kinds of fabrics on which contention has a formula; flows run on any of the table of fabrics."""

ACROSS_GROUPS = ("spread", "exact")
"""Placements of partitions that know no groups; running jobs are not moved there."""

MOST_EXACT_SERVERS = 64
"""Of a cluster whose placement is exact."""


Contention = Literal["flows", "coinciding", "interleaved"]
"""What jobs that share links do to each other: flows simulated in full, or a formula of when they send.

`flows`: every transfer of every job, as the time model says; `coinciding`: all at once, all the time: an upper
bound on what they do to each other; `interleaved`: never needlessly at once: only average demands above a capacity
slow jobs down.
"""


QueueOrder = Literal["fifo", "backfill", "reserve"]
"""Which waiting jobs may start.

`fifo`: only the first; `backfill`: any that fits, in order of arrival; `reserve`: any that does not delay the
expected start of the first (EASY backfilling).
"""


Goal = Literal["mean-iteration-time", "mean-completion-time"]
"""Objective, to be small."""


@dataclass(frozen=True)
class Fabric:
    """One way to join the servers.

    Attributes:
        name: unique in the instance.
        kind: `PARTITIONED`, or a name in the table of fabrics.
        server_gbps: rate of a server; None: what the fabric has by itself, of a fat-tree the rate at which it costs as
            much as the direct connections.
        oversubscription: downlink over uplink bandwidth, at least 1; None: what the fabric has by itself.
        oversubscribed_at: `rack` or `aggregation`, the layer whose uplinks are thinned; None: of the fabric, or racks.
        paths: `even`: flows spread over all equal-cost paths; `hashed`: a flow takes one of them (ECMP). Where flows
            are simulated: `hashed`, `spread` or `sprayed`, as `ecmp` of `FabricChoice`.
        shape: servers along each axis of a torus.
        placement: of partitions `best-fit` or `first-fit` over the groups of servers that share a switch in every
            plane, or `spread` over all servers that share one in as many planes as the job has interfaces, or `exact`:
            the same for all jobs that may start, together; of shared fabrics `random` or `packed` (lowest numbers
            first). Of jobs at once that of the jobs.
    """

    name: str
    kind: str
    server_gbps: float | None = None
    oversubscription: float | None = None
    oversubscribed_at: Literal["rack", "aggregation"] | None = None
    paths: Literal["even", "hashed", "spread", "sprayed"] = "even"
    shape: tuple[int, ...] | None = None
    placement: str = "random"

    @property
    def rack_ratio(self) -> float:
        """Downlink over uplink bandwidth of the racks of a fat-tree."""
        return 1.0 if self.oversubscribed_at == "aggregation" else self.oversubscription or 1.0

    @property
    def pod_ratio(self) -> float:
        return self.oversubscription or 1.0 if self.oversubscribed_at == "aggregation" else 1.0


@dataclass(frozen=True)
class Scheduling:
    """Who starts when.

    Attributes:
        queue: which waiting jobs may start.
        depth: waiting jobs behind the first that are looked at.
        defragment: move running jobs out of a group when that lets the first waiting job start sooner than the pauses
            of the moved ones cost together.
        checkpoint_s: time in which a job that is moved saves its state, on its old servers.
        open: nobody asked for this queue: method `auto` takes the best of all ways of scheduling.
    """

    queue: QueueOrder = "fifo"
    depth: int = 100
    defragment: bool = False
    checkpoint_s: float = 30.0
    open: bool = False


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
        lower_bounds: of an iteration on a shard of its own, and of what the busiest server computes, ms; proven for
            the plan, once they are worked out; None: of a class whose times are given.
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
    lower_bounds: tuple[float, float] | None = field(default=None, compare=False)

    @property
    def sent_bytes(self) -> float:
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


JobPlacement = Literal["random", "rack-local"]
"""Which servers a job gets: any, without replacement, or consecutive ones of racks taken in random order."""


RankOrder = Literal["random", "sorted"]
"""Which of its servers is server i of a job, and so the order of its rings: as drawn, or ascending."""


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
    placement: JobPlacement = "random"
    rank_order: RankOrder = "random"
    rack_servers: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class SharedCluster(ProblemBase):
    """Kind `shared-cluster`.

    Attributes:
        name: of the instance.
        cluster: all servers; a server of a shard sends at d B at most. GPUs and their memory are those of the classes.
        layer: optical switches of the partitioned fabric.
        look_ahead: circuits of a waiting job are set on a second plane while it waits.
        fabrics: compared; the objective is that of the first.
        classes: of the jobs.
        jobs: that arrive, listed or drawn, or at once.
        scheduling: of jobs that arrive, on all fabrics.
        contention: on shared fabrics; of jobs at once FLOWS, of jobs that arrive another.
        time_model: of the flows, `fluid` (max-min fair) or `rounds`.
        goal: objective.
        search: method, seed, time limit; the method is a way of scheduling, or of jobs at once that of their plans.
        sha256: of the canonical instance.
        notes: for people.
    """

    name: str
    cluster: Cluster
    layer: OpticalLayer
    look_ahead: bool
    fabrics: tuple[Fabric, ...]
    classes: tuple[JobClass, ...]
    jobs: tuple[TracedJob, ...] | DrawnJobs | JobsAtOnce
    scheduling: Scheduling = field(default_factory=Scheduling)
    contention: Contention = "coinciding"
    time_model: str = "fluid"
    goal: Goal = "mean-iteration-time"
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "shared-cluster"

    @property
    def servers(self) -> int:
        return self.cluster.servers

    @property
    def at_once(self) -> JobsAtOnce | None:
        """The jobs, if they are at once."""
        return self.jobs if isinstance(self.jobs, JobsAtOnce) else None

    def direct_gbps(self, job_class: JobClass) -> float:
        """R of the direct connections: all interfaces together that a server of the job uses."""
        used = self.cluster.degree if job_class.interfaces is None else job_class.interfaces
        return used * self.cluster.link_gbps


def too_short(job_class: JobClass, direct_gbps: float, fabrics: Sequence[Fabric]) -> list[tuple[str, float, float]]:
    """Iteration times in which a server cannot send its bytes: (field, ms, ms that sending takes at least).

    Fabrics whose rate is not known yet are passed over.
    """
    rates = {fabric.name: fabric.server_gbps for fabric in fabrics}
    rows = [("iteration_ms", min(job_class.iteration_ms), direct_gbps)]
    rows += [(f"fabric_ms.{name}", time, rates.get(name) or np.inf) for name, time in job_class.fabric_ms]
    wire = [(key, time, job_class.sent_bytes / (rate * BYTES_PER_MS_PER_GBPS)) for key, time, rate in rows]
    return [(key, time, least) for key, time, least in wire if time < least * (1 - ROUNDING)]


def server_groups(layer: OpticalLayer) -> Ints:
    """int64[n], number of the group of each server; servers of a group share a switch in every plane.

    Any shard within a group is realisable, whatever its topology.
    """
    _, group = np.unique(layer.switch_of, axis=1, return_inverse=True)
    return group.reshape(-1).astype(np.int64)
