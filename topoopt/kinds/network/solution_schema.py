"""Shape of solution files of the kinds `routing` and `topology`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from topoopt.files.fields import MAX_SERVERS, FileModel, Rate
from topoopt.files.solution_head import Amount, BoundFile, Number, ReachedFile, SolutionHeadFile, Text
from topoopt.files.topology_families import MAX_ARCS

Server = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
Arc = Annotated[int, Field(ge=0, lt=MAX_ARCS)]
ArcRow = Annotated[tuple[Server, Server, Annotated[int, Field(ge=1, le=MAX_ARCS)]], Strict(False)]  # tail, head, links
FlowRow = Annotated[tuple[list[Arc], list[Amount]], Strict(False)]  # arcs, amount on each
SwitchRow = list[Annotated[int, Field(ge=-1, lt=MAX_SERVERS)]]


class NetworkTopologyFile(FileModel):
    """Arcs, and the permutation of every switch where there are any."""

    servers: int = Field(ge=2, le=MAX_SERVERS)
    degree: int = Field(ge=1, le=MAX_ARCS)
    links: Literal["bidirectional", "unidirectional"]
    arcs: Annotated[list[ArcRow], Field(min_length=1, max_length=MAX_ARCS)]
    switches: Annotated[list[SwitchRow], Field(max_length=64)] | None
    offsets: Annotated[list[Server], Field(max_length=MAX_SERVERS)]
    origin: Text


class ListedNetworkFile(FileModel):
    """A network that a bound by enumeration rests on."""

    heads: list[list[Server]]
    lengths: list[list[Amount]]


class RobustnessFile(FileModel):
    """How the topology stands the failure of any single link, and what that costs."""

    worst_theta: Amount
    worst_link: Annotated[tuple[Server, Server], Strict(False)]
    bound: BoundFile
    within_percent: Amount | None
    nominal_theta: Amount
    nominal_worst_theta: Amount | None


class RoutingBoundFile(ReachedFile):
    """What is proven on this topology alone."""

    routing_bound: Number


class NetworkSolutionFile(SolutionHeadFile, RoutingBoundFile):
    """Result of `topoopt solve` on an instance of kind `routing` or `topology`."""

    kind: Literal["routing-solution", "topology-solution"]
    diameter: int | None = Field(ge=1)
    mean_hops: Number | None
    robustness: RobustnessFile | None = Field(default=None, description="of method robust")
    link_gbps: Rate | None = Field(default=None, description="rate of one link, Gbit/s; null where none was given")
    instance_sha256: Text
    versions: dict[str, Text]
    notes: list[Text]
    topology: NetworkTopologyFile
    lengths: Annotated[list[Amount], Field(max_length=MAX_ARCS)] = Field(
        description="one for each arc; they prove routing_bound by linear-programming duality"
    )
    flow: Annotated[list[FlowRow], Field(max_length=MAX_SERVERS)] = Field(description="one row for each source")
    hop_flow: Annotated[list[list[FlowRow]], Field(max_length=MAX_SERVERS)] | None = Field(
        default=None, description="under a hop limit: the flow that goes over hop 1, 2, ... of its way, as `flow` each"
    )
    enumeration: Annotated[list[ListedNetworkFile], Field(max_length=10_000)] | None = Field(
        default=None, description="all networks with few hops, each with lengths of its links that bound theta on it"
    )
