"""Shape of instance files of the kinds `routing` and `topology`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.files.fields import FileModel, FileName, Rate, SchemaVersion
from topoopt.files.network_sections import MAX_LINKS, ArcRows, DemandSection, Hops, Servers, TopologySection
from topoopt.files.search_section import RobustSearchFile, SearchFile

_TOPOLOGY = "a mapping with one of family, links and file"
_DEMAND = "a mapping with one of family, matrix and file"


class RoutingFile(FileModel):
    """Route a demand over a given topology so that the largest link utilisation is least."""

    schema_version: SchemaVersion
    kind: Literal["routing"]
    name: FileName
    topology: TopologySection = Field(description=_TOPOLOGY)
    demand: DemandSection = Field(description=_DEMAND)
    link_gbps: Rate | None = Field(default=None, description="rate of one link, Gbit/s; needed by a demand in gbps")
    max_hops: Hops | None = Field(default=None, description="longest path allowed, in links; null: any")
    objective: Literal["throughput", "completion-time"] = Field(
        default="throughput",
        description="least theta, the largest link utilisation; or least theta + hop_price * mean hops of the demand",
    )
    hop_price: Annotated[float, Field(gt=0, le=1e12)] | None = Field(
        default=None,
        description="completion-time only: time of one hop, in units of the time a link takes for one unit of demand",
    )
    search: SearchFile = SearchFile()


class TopologyFile(FileModel):
    """Choose the links between servers, and route a demand over them."""

    schema_version: SchemaVersion
    kind: Literal["topology"]
    name: FileName
    servers: Servers = Field(description="n")
    degree: int = Field(ge=1, le=64, description="d, links out of, and into, a server")
    links: Literal["bidirectional", "unidirectional"] = Field(
        default="bidirectional", description="a link takes an interface at both ends, or its fibres are patched apart"
    )
    demand: DemandSection = Field(description=_DEMAND)
    link_gbps: Rate | None = Field(default=None, description="rate of one link, Gbit/s; needed by a demand in gbps")
    max_hops: Hops | None = Field(default=None, description="every server within so many hops of every other")
    forbidden: ArcRows = Field(
        default=[], description="pairs (tail, head) that may not be linked; both ways if bidirectional"
    )
    kept: ArcRows = Field(
        default=[], description="links of the network as it stands; both ways if bidirectional, repeated for parallel"
    )
    max_changed: int | None = Field(
        default=None, ge=0, le=MAX_LINKS, description="most links of kept that may be given up; null: any"
    )
    parallel_links: bool = Field(default=True, description="whether more than one link may join a pair")
    search: RobustSearchFile = RobustSearchFile()
