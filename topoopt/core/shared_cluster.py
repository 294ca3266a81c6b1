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
from functools import cached_property
from itertools import groupby
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le, Len, Lt

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Bools, Floats, Int32s, Ints
from topoopt.core.cluster import Cluster, LinkSharing, OpticalLayer
from topoopt.core.data import MAX_SERVERS, STRICT, Array, Pattern, Shown
from topoopt.core.job import MAX_SCHEDULES, CoOptimisation, FabricChoice, Plan, StoredSchedule, StoredStrategy
from topoopt.core.result import ProblemBase, SearchSettings
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, PathTable, Ring

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

    @property
    def choice(self) -> FabricChoice:
        """The same for flows that are simulated; a seed draws their paths unless another rule is given."""
        return FabricChoice(
            fabric=self.kind,
            nic_gbps=self.server_gbps,
            oversubscription=self.oversubscription,
            layer=self.oversubscribed_at,
            shape=self.shape,
            ecmp=self.paths if self.paths in ("spread", "sprayed") else None,
        )


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


MAX_JOBS = 100_000
MAX_CLASSES = 1000
MAX_FABRICS = 16
MAX_SECONDS = 1e10
MAX_DRAWN_JOBS = 1_000_000
"""Of jobs at once, in all draws."""

MAX_STAYS = 10_000_000
MAX_INTERFACES = 64

Server = Annotated[int, Ge(0), Lt(MAX_SERVERS)]
Share = Annotated[float, Ge(0), Le(1 + 1e-9)]
Nodes = Annotated[tuple[Server, ...], Len(1, MAX_SERVERS)]
ServerRanges = Annotated[str, Len(1, 40_000), Pattern(r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")]
Jobs = Annotated[Ints, Array(Annotated[int, Ge(0), Lt(MAX_JOBS)], np.int64, MAX_STAYS)]
Seconds = Annotated[Floats, Array(Annotated[float, Ge(0), Le(1e30)], np.float64, MAX_STAYS)]


@dataclass(frozen=True, repr=False)
class ShardPlan(Shown):
    """The plan of a job on a shard of its own, as it stands in files; links follow from the switches."""

    __pydantic_config__ = STRICT

    strategy: StoredStrategy
    """split and offset of each operator"""
    switches: Annotated[
        tuple[Annotated[tuple[Annotated[int, Ge(-1), Lt(MAX_SERVERS)], ...], Len(1, MAX_SERVERS)], ...],
        Len(1, MAX_INTERFACES),
    ]
    """by interface, the server that each server sends to; -1: none"""
    paths: Annotated[tuple[tuple[Share, Nodes], ...], Len(0, 16_000_000)]
    """share of the bytes of a pair, and the servers from its source to its target; by pair"""
    rings: Annotated[tuple[tuple[Share, Annotated[tuple[Nodes, ...], Len(2, MAX_SERVERS)]], ...], Len(0, 1_000_000)]
    """share of the payload of a group, and the path from each member to the next; by group"""
    schedules: Annotated[tuple[StoredSchedule, ...], Len(0, MAX_SCHEDULES)] = ()
    """what other AllReduces run on"""
    origin: Annotated[str, Len(0, 20_000)] = ""
    """how the topology was made, for people"""

    @classmethod
    def of(cls, plan: Plan) -> ShardPlan:
        """Return the rows of a plan."""
        routes = plan.routes
        return cls(
            plan.strategy,
            tuple(map(tuple, plan.topology.switches.tolist())),
            tuple((share, routes.path(index)) for index, share in enumerate(routes.share.tolist())),
            tuple((ring.share, ring.paths) for group in plan.rings for ring in group.rings),
            plan.schedules,
            plan.topology.origin,
        )

    def plan(self, cluster: Cluster) -> Plan:
        """Return the plan on the servers of a job.

        Raises:
            ValueError, IndexError: The rows are no plan of so many servers.
        """
        return Plan(
            self.strategy, self._topology(cluster), self._routes(cluster.servers), tuple(self._rings()), self.schedules
        )

    def _topology(self, cluster: Cluster) -> Topology:
        n, switches = cluster.servers, np.array(self.switches, dtype=np.int32)
        if switches.shape != (cluster.degree, n) or switches.max(initial=-1) >= n:
            raise ValueError(f"switches must be integers [{cluster.degree}, {n}] below {n}")
        interface, tail = np.nonzero(switches >= 0)
        arcs = np.column_stack((tail, switches[interface, tail])).astype(np.int64)
        topology = Topology.of_arcs(n, arcs, degree=cluster.degree, links=cluster.links, origin=self.origin)
        fields = {name: getattr(topology, name) for name in ("arcs", "multiplicity", "offsets")}
        return Topology(n, cluster.degree, cluster.links, switches=switches, origin=self.origin, **fields)

    def _routes(self, servers: int) -> PathTable:
        counts = [(pair, len(list(rows))) for pair, rows in groupby((path[0], path[-1]) for _, path in self.paths)]
        pairs = np.array([pair for pair, _ in counts], dtype=np.int32).reshape(-1, 2)
        return PathTable(
            nodes_total=servers,
            source=pairs[:, 0],
            target=pairs[:, 1],
            pair_ptr=np.cumsum([0, *(count for _, count in counts)], dtype=np.int64),
            share=np.array([share for share, _ in self.paths], dtype=np.float64),
            path_ptr=np.cumsum([0, *(len(path) for _, path in self.paths)], dtype=np.int64),
            node=np.array([server for _, path in self.paths for server in path], dtype=np.int32),
        )

    def _rings(self) -> list[GroupRings]:
        rings = [Ring(tuple(path[0] for path in paths), share, paths) for share, paths in self.rings]
        grouped = groupby(rings, lambda ring: tuple(sorted(ring.order)))
        return [GroupRings(members, tuple(rows)) for members, rows in grouped]


@dataclass(frozen=True, repr=False)
class ClassPlan(Shown):
    """How jobs of a class run whose instance names a job to plan."""

    __pydantic_config__ = STRICT

    shard: ShardPlan | None
    """on a shard of its own; null where no fabric has shards and flows are simulated"""
    strategies: Annotated[tuple[StoredStrategy, ...], Len(0, MAX_FABRICS)] = ()
    """where flows are simulated, the strategy on each fabric that jobs share, in the order of the instance"""
    link_sharing: LinkSharing | None = None
    """how links of a shard are shared; null: as the cluster says"""


@dataclass(frozen=True, eq=False, repr=False)
class FabricSchedule(Shown):
    """Who holds which servers of a fabric, by start, then job; a job that is moved has several stays."""

    __pydantic_config__ = STRICT

    job: Jobs
    """in the order of arrival"""
    start_s: Seconds
    """when the job gets the servers"""
    end_s: Seconds
    """when work on them ends: of the job, before a move, or of the simulation"""
    servers: Annotated[tuple[ServerRanges, ...], Len(0, MAX_STAYS)]
    """of each stay, as 0-15,32"""
    unfinished: Jobs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """jobs that were at work when the simulation was cut short"""
    cut_s: Annotated[float, Ge(0), Le(1e30)] | None = None
    """when that was"""

    def __len__(self) -> int:
        return len(self.job)

    @cached_property
    def lists(self) -> tuple[Ints, Ints]:
        """int64[S + 1] and int64: the servers of stay s are those from the s-th pointer to the next."""
        lists = [servers_of_text(text) for text in self.servers]
        low = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        return low, np.array([server for servers in lists for server in servers], dtype=np.int64)

    def finished_jobs(self, count: int) -> Bools:
        """bool[J], jobs that have ended, of so many."""
        finished = np.zeros(count, dtype=bool)
        finished[self.job] = True
        finished[self.unfinished] = False
        return finished


@dataclass(frozen=True, eq=False, repr=False)
class SharedClusterPlan(Shown):
    """What is decided on a shared cluster."""

    __pydantic_config__ = STRICT

    classes: Annotated[tuple[ClassPlan, ...], Len(0, MAX_CLASSES)] = ()
    """of the classes that name a job to plan, in the order of the instance"""
    schedules: Annotated[tuple[FabricSchedule, ...], Len(0, MAX_FABRICS)] = ()
    """of jobs that arrive, for each fabric, in the order of the instance; those that were not reached are left out"""
    draws: Annotated[int, Ge(0), Le(MAX_DRAWN_JOBS)] = 0
    """of jobs at once, how many were run, all loads in turn"""


@dataclass(frozen=True, eq=False)
class Stays:
    """The stays of a schedule with all their times, seconds.

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
        return self.servers[self.low[stay] : self.low[stay + 1]]


@dataclass(frozen=True, eq=False)
class FabricRun:
    """The jobs on one fabric.

    Attributes:
        fabric: with its server rate filled in.
        finished: bool[J]; others that started end unfinished where the run was cut short.
        stays: of the jobs that started.
    """

    fabric: Fabric
    finished: Bools
    stays: Stays

    @property
    def whole(self) -> bool:
        """Whether every job of the run has ended."""
        return bool(self.finished.all())

    @property
    def until_s(self) -> float:
        """The last moment at which a job held servers."""
        return float(self.stays.held_to_s.max(initial=0.0))

    def schedule(self) -> FabricSchedule:
        stays = self.stays
        started = np.zeros(len(self.finished), dtype=bool)
        started[stays.job] = True
        unfinished = np.flatnonzero(started & ~self.finished)
        return FabricSchedule(
            stays.job,
            stays.held_from_s,
            stays.work_to_s,
            tuple(ranges_text(stays.servers_of(stay)) for stay in range(len(stays))),
            unfinished,
            self.until_s if len(unfinished) else None,
        )


def ranges_text(servers: Ints) -> str:
    """Ascending servers as `0-15,32`."""
    breaks = np.flatnonzero(np.diff(servers) != 1)
    low, high = servers[np.append(0, breaks + 1)], servers[np.append(breaks, -1)]
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in ends)


def servers_of_text(text: str) -> list[int]:
    """Inverse of `ranges_text`; ends beyond any cluster are cut so that no text makes a long list."""
    servers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first[:9]), int((last or first)[:9])
        servers.extend(range(low, min(high, low + 100_000) + 1))
    return servers
