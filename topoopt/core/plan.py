"""A plan: everything needed to patch the switches, set the routes and launch the job.

The annotations say how a plan stands in a file. Topologies stand there as the settings of the switches, routes as
shares and servers, rings as the way from each member to the next; arcs, pairs and orders follow from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le, Len, Lt

from topoopt.core.cluster import LinkDirection
from topoopt.core.collective import CollectiveSchedule, GroupSchedule
from topoopt.core.data import MAX_SERVERS, STRICT, Label, Pattern, Server, Shown, Stored
from topoopt.core.errors import InputError, Problem
from topoopt.core.routing import GroupRings, PathTable, Ring
from topoopt.core.topology import Topology
from topoopt.core.workload import Placement, Strategy

MAX_DEGREE = 64
MAX_OPERATORS = 20_000
MAX_SPLITS = 10_000
MAX_ROUTES = MAX_SERVERS * MAX_SERVERS
MAX_RINGS = 1000
MAX_GROUPS = 100_000
MAX_SCHEDULES = 10_000
MAX_PIECES = 4096
MAX_STEPS = (1 << 16) - 1
"""Steps of a schedule that are simulated."""
MAX_BLOCKS = 2_000_000
MAX_SENDS = 4_000_000
MAX_UNITS = 1 << 40
MAX_PAYLOAD = 1 << 60

Origin = Annotated[str, Len(0, 20_000), Pattern(r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
Share = Annotated[float, Gt(0), Le(1 + 1e-9)]
Path = Annotated[tuple[Server, ...], Len(2, MAX_SERVERS)]

PlacementRow = tuple[Annotated[int, Ge(0), Le(MAX_SPLITS)], Server]
"""Split and offset of an operator."""

StrategyRows = Annotated[tuple[PlacementRow, ...], Len(0, MAX_OPERATORS)]

RouteRows = Annotated[tuple[tuple[Share, Path], ...], Len(0, MAX_ROUTES)]
"""Share of the traffic of a pair, and servers from its source to its target; pairs ascend."""

RingRow = tuple[Share, Annotated[tuple[Annotated[tuple[Server, ...], Len(1, MAX_SERVERS)], ...], Len(1, MAX_SERVERS)]]
"""Share of the payload; for each member, in the order of the ring, itself and the servers that pass on to the next."""

RingRows = Annotated[tuple[Annotated[tuple[RingRow, ...], Len(1, MAX_RINGS)], ...], Len(0, MAX_GROUPS)]
"""Rings of each group."""


@dataclass(frozen=True)
class SwitchRows:
    """A topology in a file: what each optical switch joins."""

    __pydantic_config__ = STRICT

    links: LinkDirection
    """whether a link takes an interface at both ends, or its two fibres are patched apart"""
    origin: Origin
    """how the topology was made, for people"""
    switches: Annotated[
        tuple[Annotated[tuple[Annotated[int, Ge(-1), Lt(MAX_SERVERS)], ...], Len(2, MAX_SERVERS)], ...],
        Len(1, MAX_DEGREE),
    ]
    """a row a switch: the server that each server sends to, -1 for none"""

    @classmethod
    def of(cls, topology: Topology) -> SwitchRows:
        """Return the settings of a topology, all of whose links are on switches."""
        return cls(topology.links, topology.origin, tuple(map(tuple, topology.switches.tolist())))

    def topology(self) -> Topology:
        """Return the topology, its arcs those of the switches.

        Raises
        ------
        ValueError
            Rows of different lengths, a server that does not exist, no link at all.
        """
        n = len(self.switches[0])
        if any(len(row) != n for row in self.switches):
            raise ValueError("the switches have different numbers of servers")
        switches = np.array(self.switches, dtype=np.int32)
        if switches.max() >= n:
            raise ValueError(f"a switch joins server {switches.max()}, there are servers 0 to {n - 1}")
        row, tail = np.nonzero(switches >= 0)
        arcs = np.column_stack((tail, switches[row, tail])).astype(np.int64)
        if not len(arcs):
            raise ValueError("the switches join no servers")
        made = Topology.of_arcs(n, arcs, degree=len(switches), links=self.links, origin=self.origin)
        return replace(made, switches=switches)


@dataclass(frozen=True)
class ScheduleRows:
    """A schedule of AllReduces in a file."""

    __pydantic_config__ = STRICT

    members: Annotated[tuple[Server, ...], Len(0, MAX_SERVERS)]
    """servers of the group"""
    from_bytes: Annotated[int, Ge(0), Le(MAX_PAYLOAD)]
    """least payload that runs on it"""
    below_bytes: Annotated[int, Ge(1), Le(MAX_PAYLOAD)] | None
    """larger payloads do not; null: any payload does"""
    method: Label
    """what made it"""
    pieces: Annotated[int, Ge(1), Le(MAX_PIECES)]
    """of every block, each a step behind the one before"""
    blocks: Annotated[
        tuple[tuple[Annotated[int, Ge(1), Le(MAX_UNITS)], Server, Annotated[int, Ge(-1), Lt(MAX_SERVERS)]], ...],
        Len(1, MAX_BLOCKS),
    ]
    """units, owner, and target or -1"""
    routes: Annotated[tuple[Annotated[tuple[Server, ...], Len(2, 1024)], ...], Len(0, MAX_SENDS)]
    """servers that messages pass"""
    sends: Annotated[
        tuple[
            tuple[
                Annotated[int, Ge(0), Lt(MAX_SENDS)],
                Annotated[int, Ge(0), Lt(MAX_BLOCKS)],
                Annotated[int, Ge(0), Lt(MAX_SENDS)],
                Annotated[int, Ge(0), Le(1)],
            ],
            ...,
        ],
        Len(0, MAX_SENDS),
    ]
    """step, block, route, and 1 where the receiver adds"""

    @classmethod
    def of(cls, schedule: GroupSchedule) -> ScheduleRows:
        """Return the rows of a schedule."""
        blocks, sends = schedule.schedule.rows()
        head = (schedule.members, schedule.from_bytes, schedule.below_bytes, schedule.method, schedule.pieces)
        return cls(*head, blocks, schedule.schedule.routes, sends)

    def schedule(self) -> GroupSchedule:
        """Return the schedule.

        Raises
        ------
        ValueError
            A block or route that does not exist, steps out of order, too many steps or units.
        """
        step, block, route, _ = np.array(self.sends, dtype=np.int64).reshape(-1, 4).T
        if max(block.max(initial=-1) - len(self.blocks), route.max(initial=-1) - len(self.routes)) >= 0:
            raise ValueError("a message of a block or on a route that does not exist")
        if (np.diff(step) < 0).any() or step.max(initial=0) + self.pieces > MAX_STEPS:
            raise ValueError(f"messages out of the order of their steps, or more than {MAX_STEPS} steps")
        if sum(units for units, _, _ in self.blocks) > MAX_PAYLOAD:
            raise ValueError("blocks of more units than can be counted")
        schedule = CollectiveSchedule.of_rows(self.blocks, self.routes, self.sends)
        return GroupSchedule(self.members, self.from_bytes, self.below_bytes, self.method, self.pieces, schedule)


def _strategy_rows(strategy: Strategy) -> list[tuple[int, int]]:
    return [(placement.split, placement.offset) for placement in strategy.placements]


def _strategy(rows: Sequence[tuple[int, int]]) -> Strategy:
    return Strategy(tuple(Placement(split, offset) for split, offset in rows))


def _route_rows(routes: PathTable) -> list[tuple[float, list[int]]]:
    node, first = routes.node.tolist(), routes.path_ptr.tolist()
    return [(share, node[first[p] : first[p + 1]]) for p, share in enumerate(routes.share.tolist())]


def _routes(rows: Sequence[tuple[float, tuple[int, ...]]]) -> PathTable:
    """Return the table of paths; paths of a pair follow each other, and the pairs ascend."""
    endpoints = np.array([(path[0], path[-1]) for _, path in rows], dtype=np.int32).reshape(-1, 2)
    key = endpoints[:, 0].astype(np.int64) * MAX_SERVERS + endpoints[:, 1]
    if (np.diff(key) < 0).any():
        raise ValueError("the pairs of the routes do not ascend")
    first = np.flatnonzero(np.diff(key, prepend=-1))
    node = np.array([server for _, path in rows for server in path], dtype=np.int32)
    return PathTable(
        nodes_total=int(node.max(initial=0)) + 1,
        source=endpoints[first, 0],
        target=endpoints[first, 1],
        pair_ptr=np.append(first, len(rows)).astype(np.int64),
        share=np.array([share for share, _ in rows], dtype=np.float64),
        path_ptr=np.array([0, *accumulate([len(path) for _, path in rows])], dtype=np.int64),
        node=node,
    )


def _ring_rows(groups: Sequence[GroupRings]) -> list[list[tuple[float, list[tuple[int, ...]]]]]:
    return [[(ring.share, [path[:-1] for path in ring.paths]) for ring in group.rings] for group in groups]


def _rings(groups: Sequence[Sequence[tuple[float, tuple[tuple[int, ...], ...]]]]) -> tuple[GroupRings, ...]:
    made = []
    for group in groups:
        rings = []
        for share, hops in group:
            order = tuple(path[0] for path in hops)
            following = (*order[1:], order[0])
            rings.append(Ring(order, share, tuple((*path, to) for path, to in zip(hops, following, strict=True))))
        made.append(GroupRings(tuple(sorted(rings[0].order)), tuple(rings)))
    return tuple(made)


StoredStrategy = Annotated[Strategy, Stored(StrategyRows, _strategy_rows, _strategy)]
StoredTopology = Annotated[Topology, Stored(SwitchRows, SwitchRows.of, SwitchRows.topology)]
StoredRoutes = Annotated[PathTable, Stored(RouteRows, _route_rows, _routes)]
StoredRings = Annotated[tuple[GroupRings, ...], Stored(RingRows, _ring_rows, _rings)]
StoredSchedule = Annotated[GroupSchedule, Stored(ScheduleRows, ScheduleRows.of, ScheduleRows.schedule)]


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Shown):
    """Strategy, topology, routes of every pair with model-parallel demand, and what AllReduces run on."""

    __pydantic_config__ = STRICT

    strategy: StoredStrategy
    """split and offset of every operator, in the order of the workload"""
    topology: StoredTopology
    """links of the servers"""
    routes: StoredRoutes
    """of every pair with model-parallel demand"""
    rings: StoredRings
    """of every group with an AllReduce that no schedule covers"""
    schedules: Annotated[tuple[StoredSchedule, ...], Len(0, MAX_SCHEDULES)] = ()
    """what runs otherwise, by group and size of the payload"""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Add the rules on several fields to the schema of the fields."""
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": _on_its_servers},
            "schema": handler(source),
        }

    def require_rings(self, what: str) -> None:
        """Refuse a plan with AllReduces that are not on rings, for what knows rings only.

        Raises
        ------
        InputError
            The message says what, and what to ask for instead.
        """
        if self.schedules:
            methods = ", ".join(sorted({schedule.method for schedule in self.schedules}))
            text, allowed = f"{what}: AllReduces on rings only", "a plan found with search.allreduce: rings"
            raise InputError([Problem(text, path="plan.schedules", value=methods, allowed=allowed)])


def _on_its_servers(plan: Plan) -> Plan:
    """Return a plan from a file with its routes on the servers of the topology."""
    n = plan.topology.servers
    listed = {
        "an operator": max((placement.offset for placement in plan.strategy.placements), default=0),
        "a route": plan.routes.nodes_total - 1,
        "a ring": max((max(path) for group in plan.rings for ring in group.rings for path in ring.paths), default=0),
        "a schedule": max((_highest(schedule) for schedule in plan.schedules), default=0),
    }
    for what, server in listed.items():
        if server >= n:
            raise ValueError(f"{what} on server {server}, the topology has servers 0 to {n - 1}")
    return replace(plan, routes=replace(plan.routes, nodes_total=n))


def _highest(schedule: GroupSchedule) -> int:
    blocks = schedule.schedule.blocks
    named = [max(schedule.members, default=0), *(max(route) for route in schedule.schedule.routes)]
    return max(*named, int(blocks.owner.max(initial=0)), int(blocks.target.max(initial=0)))
