"""What is decided on a shared cluster: plans of the classes, and who holds which servers from when until when.

Jobs are not decided: they stand in the instance, or are drawn from the seed. Neither are times of iterations: they
follow from the plans, and from who shares links with whom.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le, Len, Lt

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.data import MAX_SERVERS, STRICT, Array, Pattern, Shown
from topoopt.core.plan import MAX_SCHEDULES, Plan, StoredSchedule, StoredStrategy
from topoopt.core.routing import GroupRings, PathTable, Ring
from topoopt.core.shared_cluster import Fabric
from topoopt.core.topology import Topology

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

        Raises
        ------
        ValueError, IndexError
            The rows are no plan of so many servers.
        """
        return Plan(
            self.strategy,
            self._topology(cluster),
            self._routes(cluster.servers),
            tuple(self._rings()),
            self.schedules,
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
