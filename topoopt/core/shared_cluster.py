"""A cluster that many jobs share (kind `shared-cluster`): servers, fabrics, jobs, scheduling, contention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster
from topoopt.core.optical_layer import OpticalLayer
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shared_cluster_jobs import DrawnJobs, JobClass, JobsAtOnce, TracedJob
from topoopt.core.stated import Stated
from topoopt.core.units import BYTES_PER_MS_PER_GBPS

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


class Contention(StrEnum):
    """What jobs that share links do to each other: flows simulated in full, or a formula of when they send."""

    FLOWS = "flows"  # every transfer of every job, as the time model says
    COINCIDING = "coinciding"  # all at once, all the time: an upper bound on what they do to each other
    INTERLEAVED = "interleaved"  # never needlessly at once: only average demands above a capacity slow jobs down


class QueueOrder(StrEnum):
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
    oversubscribed_at: str | None = None
    paths: str = "even"
    shape: tuple[int, ...] | None = None
    placement: str = "random"

    @property
    def rack_ratio(self) -> float:
        """Downlink over uplink bandwidth of the racks of a fat-tree."""
        return 1.0 if self.oversubscribed_at == "aggregation" else self.oversubscription or 1.0

    @property
    def pod_ratio(self) -> float:
        """The same of its pods."""
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

    queue: QueueOrder = QueueOrder.FIFO
    depth: int = 100
    defragment: bool = False
    checkpoint_s: float = 30.0
    open: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class SharedCluster(Stated):
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
    contention: Contention = Contention.COINCIDING
    time_model: str = "fluid"
    goal: Goal = Goal.ITERATION_TIME
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "shared-cluster"

    @property
    def servers(self) -> int:
        """n."""
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
