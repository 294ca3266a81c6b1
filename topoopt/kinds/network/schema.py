"""Shape of instance files of the kinds `routing` and `topology`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from topoopt.files.fields import FileModel, FileName, Rate, SchemaVersion, Seed
from topoopt.files.network_sections import (
    MAX_LINKS,
    UNIT,
    ArcRows,
    DemandSection,
    FamilyDemand,
    FileDemand,
    Hops,
    MatrixDemand,
    Servers,
    TopologySection,
    demand_shape,
)
from topoopt.files.search_section import RobustSearchFile, SearchFile
from topoopt.workloads.demand_traces import LAWS

_TOPOLOGY = "a mapping with one of family, links and file"
_DEMAND = "a mapping with one of family, matrix and file"
_DEMANDS = (
    "in place of demand: several matrices, one there at a time, the worst of which counts; an entry is as demand, "
    "where a file (.npy, .npz) may hold a stack of matrices, or of family hot-experts, which gives one a step"
)
MAX_STEPS = 1000


class HotExpertsDemand(FileModel):
    """Generated: all-to-all traffic of a mixture of experts whose hot experts move."""

    family: Literal["hot-experts"]
    steps: int = Field(ge=1, le=MAX_STEPS, description="matrices")
    seed: Seed = Field(default=0, description="of the generator; nothing to do with the seed of the search")
    experts_per_server: int = Field(default=1, ge=1, le=1024)
    law: str = Field(default="zipf", json_schema_extra={"enum": [*LAWS]}, description="popularity of experts")
    skew: float = Field(default=1.0, gt=0, le=1000, description="exponent of Zipf, concentration of Dirichlet")
    affinity: float = Field(default=0.0, ge=0, le=1, description="part of a server's tokens with a law of their own")
    scale: float = Field(default=1.0, gt=0, le=1e12, description="mean demand of an ordered pair")
    unit: Literal["link", "gbps"] = Field(default="link", description=UNIT)


def demands_shape(value: object) -> str:
    """Which shape of an entry of several demands is meant; the answer names the class."""
    hot = isinstance(value, dict) and value.get("family") == "hot-experts"
    return "HotExpertsDemand" if hot or isinstance(value, HotExpertsDemand) else demand_shape(value)


DemandsEntry = Annotated[
    Annotated[FamilyDemand, Tag("FamilyDemand")]
    | Annotated[MatrixDemand, Tag("MatrixDemand")]
    | Annotated[FileDemand, Tag("FileDemand")]
    | Annotated[HotExpertsDemand, Tag("HotExpertsDemand")],
    Discriminator(demands_shape),
]


LINK_RATE = "rate of one link, or of one unit of capacities, Gbit/s; needed by a demand in gbps"


class WithDemandFile(FileModel):
    """What files of both kinds say of their demand."""

    demand: DemandSection | None = Field(default=None, description=_DEMAND)
    demands: Annotated[list[DemandsEntry], Field(min_length=1, max_length=MAX_STEPS)] | None = Field(
        default=None, description=_DEMANDS
    )
    routing: Literal["common", "adapted"] = Field(
        default="common", description="of several demands: one for all, or one for each"
    )
    step_ms: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        default=None, description="time each of several demands stands for; topoopt reconfigure needs it"
    )
    link_gbps: Rate | None = Field(default=None, description=LINK_RATE)


class RoutingFile(WithDemandFile):
    """Route a demand over a given topology so that the largest link utilisation is least."""

    schema_version: SchemaVersion
    kind: Literal["routing"]
    name: FileName
    topology: TopologySection = Field(description=_TOPOLOGY)
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


class TopologyFile(WithDemandFile):
    """Choose the links between servers, and route a demand over them."""

    schema_version: SchemaVersion
    kind: Literal["topology"]
    name: FileName
    servers: Servers = Field(description="n")
    degree: int = Field(ge=1, le=64, description="d, links out of, and into, a server")
    links: Literal["bidirectional", "unidirectional"] = Field(
        default="bidirectional", description="a link takes an interface at both ends, or its fibres are patched apart"
    )
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
