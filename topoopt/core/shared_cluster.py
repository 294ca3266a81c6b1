"""A cluster that many jobs share (kind `shared-cluster`): servers, fabrics, job classes, arrivals, scheduling.

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
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from topoopt.core.job import CoOptimisation
from topoopt.core.optical_layer import OpticalLayer
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Displayed, Shown
from topoopt.core.units import BYTES_PER_MS_PER_GBPS

ROUNDING = 1e-9
"""Part of a time that is none."""


ACROSS_GROUPS = ("spread", "exact")
"""Placements of partitions that know no groups; running jobs are not moved there."""

MOST_EXACT_SERVERS = 64
"""Of a cluster whose placement is exact."""


class FabricKind(StrEnum):
    """What joins the servers."""

    PARTITIONED = "partitioned"  # direct connect: every job has its shard to itself
    IDEAL_SWITCH = "ideal-switch"  # one non-blocking switch
    FAT_TREE = "fat-tree"  # three tiers, shared by all jobs


class Contention(StrEnum):
    """When jobs that share a link are taken to send."""

    COINCIDING = "coinciding"  # all at once, all the time: an upper bound on what they do to each other
    INTERLEAVED = "interleaved"  # never needlessly at once: only average demands above a capacity slow jobs down


class Queue(StrEnum):
    """Which waiting jobs may start."""

    FIFO = "fifo"  # only the first
    BACKFILL = "backfill"  # any that fits, in order of arrival
    RESERVE = "reserve"  # any that does not delay the expected start of the first (EASY backfilling)


class Goal(StrEnum):
    """Objective, to be small."""

    ITERATION_TIME = "mean-iteration-time"
    COMPLETION_TIME = "mean-completion-time"


@dataclass(frozen=True)
class Fabric:
    """One way to join the servers.

    Attributes:
        name: unique in the instance.
        kind: what it is.
        server_gbps: rate of a server; None (fat-tree): the rate at which it costs as much as the direct connections.
        oversubscription: downlink over uplink bandwidth, at least 1 (fat-tree).
        oversubscribed_at: `rack` or `aggregation`, the layer whose uplinks are thinned.
        paths: `even`: flows spread over all equal-cost paths; `hashed`: a flow takes one of them (ECMP).
        placement: of partitions `best-fit` or `first-fit` over the groups of servers that share a switch in every
            plane, or `spread` over all servers that share one in as many planes as the job has interfaces, or `exact`:
            the same for all jobs that may start, together; of shared fabrics `random` or `packed` (lowest numbers
            first).
    """

    name: str
    kind: FabricKind
    server_gbps: float | None = None
    oversubscription: float = 1.0
    oversubscribed_at: str = "rack"
    paths: str = "even"
    placement: str = "random"


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
        plan: co-optimisation to solve for the times and bytes; they are 0 until then.
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
    arrival_s: NDArray[np.float64]
    class_index: NDArray[np.int32]
    iterations: NDArray[np.int64]
    iteration_ms: NDArray[np.float64]

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


@dataclass(frozen=True)
class Scheduling:
    """Who starts when.

    Attributes:
        queue: which waiting jobs may start.
        depth: waiting jobs behind the first that are looked at.
        defragment: move running jobs out of a group when that lets the first waiting job start sooner than the pauses
            of the moved ones cost together.
        checkpoint_s: time in which a job that is moved saves its state, on its old servers.
    """

    queue: Queue = Queue.FIFO
    depth: int = 100
    defragment: bool = False
    checkpoint_s: float = 30.0


@dataclass(frozen=True, eq=False, repr=False)
class SharedCluster(Displayed):
    """Kind `shared-cluster`.

    Attributes:
        name: of the instance.
        degree, link_gbps: d and B of a server; a server of a shard sends at d B at most.
        layer: optical switches of the partitioned fabric.
        look_ahead: circuits of a waiting job are set on a second plane while it waits.
        fabrics: compared; the objective is that of the first.
        classes: of the jobs.
        jobs: listed or drawn.
        scheduling: of all fabrics.
        contention: on shared fabrics.
        goal: objective.
        search: method (a way of scheduling), seed, time limit.
        sha256: of the canonical instance.
        notes: for people.
    """

    name: str
    degree: int
    link_gbps: float
    layer: OpticalLayer
    look_ahead: bool
    fabrics: tuple[Fabric, ...]
    classes: tuple[JobClass, ...]
    jobs: tuple[TracedJob, ...] | DrawnJobs
    scheduling: Scheduling = field(default_factory=Scheduling)
    contention: Contention = Contention.COINCIDING
    goal: Goal = Goal.ITERATION_TIME
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "shared-cluster"

    @property
    def servers(self) -> int:
        """n."""
        return self.layer.servers

    def direct_gbps(self, job_class: JobClass) -> float:
        """R of the direct connections: all interfaces together that a server of the job uses."""
        return (self.degree if job_class.interfaces is None else job_class.interfaces) * self.link_gbps


def too_short(job_class: JobClass, direct_gbps: float, fabrics: Sequence[Fabric]) -> list[tuple[str, float, float]]:
    """Iteration times in which a server cannot send its bytes: (field, ms, ms that sending takes at least).

    Fabrics whose rate is not known yet are passed over.
    """
    rates = {fabric.name: fabric.server_gbps for fabric in fabrics}
    rows = [("iteration_ms", min(job_class.iteration_ms), direct_gbps)]
    rows += [(f"fabric_ms.{name}", time, rates.get(name) or np.inf) for name, time in job_class.fabric_ms]
    wire = [(key, time, job_class.sent_bytes / (rate * BYTES_PER_MS_PER_GBPS)) for key, time, rate in rows]
    return [(key, time, least) for key, time, least in wire if time < least * (1 - ROUNDING)]


def server_groups(layer: OpticalLayer) -> NDArray[np.int64]:
    """int64[n], number of the group of each server; servers of a group share a switch in every plane.

    Any shard within a group is realisable, whatever its topology.
    """
    _, group = np.unique(layer.switch_of, axis=1, return_inverse=True)
    return group.reshape(-1).astype(np.int64)
