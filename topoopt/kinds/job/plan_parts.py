"""Shape of a plan in solution files: strategy, topology, routes and rings, and the demand of the job."""

from __future__ import annotations

from itertools import accumulate
from typing import Annotated, Any

import numpy as np
from pydantic import Field, Strict

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.demand import AllReduceDemand, Demand
from topoopt.core.plan import Plan
from topoopt.core.routing import GroupRings, PathTable, Ring
from topoopt.core.strategy import Placement, Strategy
from topoopt.files.fields import MAX_OPERATORS, MAX_SERVERS
from topoopt.files.file_part import ArrayOf, FilePart, Listed, RowOf, is_empty
from topoopt.files.group_schedule_part import GroupSchedulePart
from topoopt.files.solution_head import Amount, Text
from topoopt.files.topology_part import LinksPart, Server, Switches

MAX_NODES = 2 * MAX_SERVERS
"""Servers and switches of a fabric; link tables take the square of it."""

MAX_DEGREE = 64

Share = Annotated[float, Field(ge=0, le=1 + 1e-9)]
Node = Annotated[int, Field(ge=0, lt=MAX_NODES)]
Servers = Annotated[Listed[Server], Field(max_length=MAX_SERVERS)]
Nodes = Annotated[Listed[Node], Field(min_length=1, max_length=MAX_NODES)]

# A row is a list in the file and a tuple once read; what is in it stays strict.
ArcRow = Annotated[
    tuple[Server, Server, Annotated[int, Field(ge=1, le=MAX_DEGREE)]], Strict(False)
]  # tail, head, multiplicity
PlacementRow = Annotated[
    Placement, RowOf(Placement, tuple[Annotated[int, Field(ge=0, le=10_000)], Server])
]  # split, offset
PathRow = Annotated[tuple[Share, Nodes], Strict(False)]  # share, nodes
PairRow = Annotated[tuple[Server, Server, list[PathRow]], Strict(False)]  # source, target, paths
TrafficRow = Annotated[tuple[Server, Server, Amount], Strict(False)]  # source, target, bytes
AllReduceRow = Annotated[tuple[Amount, Servers], Strict(False)]  # payload bytes, members


class PatchedTopologyPart(LinksPart):
    """Arcs and the permutation of every switch."""

    degree: int = Field(ge=1, le=MAX_DEGREE)
    arcs: Annotated[Int32s, ArrayOf(ArcRow, np.int32, (-1, 3), MAX_DEGREE * MAX_SERVERS)]
    switches: Switches
    offsets: Servers
    origin: Text


class RoutesPart(FilePart):
    """Paths of ordered pairs."""

    core = PathTable

    nodes_total: int = Field(ge=1, le=MAX_NODES)
    pairs: list[PairRow]

    @classmethod
    def attributes(cls, value: PathTable) -> dict[str, Any]:
        """The paths of each pair behind it."""
        node, share = value.node.tolist(), value.share.tolist()
        starts, pairs = value.path_ptr.tolist(), value.pair_ptr.tolist()
        paths = [(share[p], node[starts[p] : starts[p + 1]]) for p in range(len(share))]
        ends = zip(value.source.tolist(), value.target.tolist(), strict=True)
        rows = [(source, target, paths[pairs[i] : pairs[i + 1]]) for i, (source, target) in enumerate(ends)]
        return {"nodes_total": value.nodes_total, "pairs": rows}

    def arguments(self) -> dict[str, Any]:
        """One table of all paths."""
        paths = [path for _, _, of_pair in self.pairs for path in of_pair]
        return {
            "nodes_total": self.nodes_total,
            "source": np.array([source for source, _, _ in self.pairs], dtype=np.int32),
            "target": np.array([target for _, target, _ in self.pairs], dtype=np.int32),
            "pair_ptr": _starts([len(of_pair) for _, _, of_pair in self.pairs]),
            "share": np.array([share for share, _ in paths], dtype=np.float64),
            "path_ptr": _starts([len(nodes) for _, nodes in paths]),
            "node": np.array([node for _, nodes in paths for node in nodes], dtype=np.int32),
        }


def _starts(lengths: list[int]) -> Ints:
    return np.array([0, *accumulate(lengths)], dtype=np.int64)


class RingPart(FilePart):
    """One ring order."""

    core = Ring

    order: Servers
    share: Share
    paths: Annotated[Listed[Nodes], Field(max_length=MAX_SERVERS)]


class GroupRingsPart(FilePart):
    """Rings of one group."""

    core = GroupRings

    members: Servers
    rings: Annotated[Listed[RingPart], Field(max_length=1000)]


class PlanPart(FilePart):
    """Strategy, topology, routes, rings, and schedules of AllReduces that are not on rings."""

    core = Plan

    strategy: Annotated[Listed[PlacementRow], Field(max_length=MAX_OPERATORS)]
    topology: PatchedTopologyPart
    routes: RoutesPart
    rings: Listed[GroupRingsPart]
    schedules: Annotated[Listed[GroupSchedulePart], Field(max_length=10_000)] = Field(default=(), exclude_if=is_empty)

    @classmethod
    def attributes(cls, value: Plan) -> dict[str, Any]:
        """The strategy as its rows."""
        return {**super().attributes(value), "strategy": value.strategy.placements}

    def arguments(self) -> dict[str, Any]:
        """The strategy of its rows."""
        return {**super().arguments(), "strategy": Strategy(self.strategy)}


class DemandPart(FilePart):
    """Network demand."""

    core = Demand

    servers: int = Field(ge=2, le=MAX_SERVERS)
    model_parallel_bytes: list[TrafficRow]
    allreduce: Listed[AllReduceRow]

    @classmethod
    def attributes(cls, value: Demand) -> dict[str, Any]:
        """Only the pairs that send something."""
        traffic = value.model_parallel_bytes
        source, target = np.nonzero(traffic)
        rows = zip(source.tolist(), target.tolist(), traffic[source, target].tolist(), strict=True)
        groups = [(group.payload_bytes, group.members) for group in value.allreduce]
        return {"servers": value.servers, "model_parallel_bytes": list(rows), "allreduce": groups}

    def arguments(self) -> dict[str, Any]:
        """The whole matrix."""
        traffic = np.zeros((self.servers, self.servers), dtype=np.float64)
        for source, target, amount in self.model_parallel_bytes:
            traffic[source, target] = amount
        groups = tuple(AllReduceDemand(members, payload) for payload, members in self.allreduce)
        return {"model_parallel_bytes": traffic, "allreduce": groups}
