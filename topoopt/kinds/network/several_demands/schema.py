"""Shape of files of `topoopt robust`: a network instance whose demand is a set of matrices."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from topoopt.files.fields import MAX_SERVERS, FileModel, FileName, Rate, SchemaVersion, Seed
from topoopt.files.network_sections import Amount, Servers, TopologySection
from topoopt.workloads.demand_traces import LAWS

MAX_STEPS = 1000

Unit = Literal["link", "gbps"]
_UNIT = "capacity of one link, or Gbit/s"
MatrixRows = Annotated[list[Annotated[list[Amount], Field(max_length=MAX_SERVERS)]], Field(max_length=MAX_SERVERS)]


class SetDemand(FileModel):
    """Matrices in the file."""

    set: Annotated[list[MatrixRows], Field(min_length=1, max_length=MAX_STEPS)] = Field(
        description="demand matrices; row i, column j: what server i sends to server j"
    )
    unit: Unit = Field(default="link", description=_UNIT)


class TraceDemand(FileModel):
    """Matrices from a file."""

    file: str = Field(
        min_length=1,
        max_length=1000,
        description="relative to the folder of this file: .npz or .npy (one matrix or a stack of them an array)",
    )
    unit: Unit = Field(default="link", description=_UNIT)


class ListedDemand(FileModel):
    """Matrices from files, one each."""

    files: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(min_length=1, max_length=MAX_STEPS)
    ] = Field(description="in the order of the steps: .csv, .npy or .parquet, relative to the folder of this file")
    unit: Unit = Field(default="link", description=_UNIT)


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
    unit: Unit = Field(default="link", description=_UNIT)


def trace_shape(value: object) -> str:
    """Which shape of demand is meant; the answer names the class."""
    if isinstance(value, SetDemand | TraceDemand | ListedDemand | HotExpertsDemand):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    shapes = {"set": "SetDemand", "file": "TraceDemand", "files": "ListedDemand"}
    return next((name for key, name in shapes.items() if key in keys), "HotExpertsDemand")


TraceSection = Annotated[
    Annotated[SetDemand, Tag("SetDemand")]
    | Annotated[TraceDemand, Tag("TraceDemand")]
    | Annotated[ListedDemand, Tag("ListedDemand")]
    | Annotated[HotExpertsDemand, Tag("HotExpertsDemand")],
    Discriminator(trace_shape),
]


class RobustSearchFile(FileModel):
    """How hard to search."""

    time_limit_s: float | None = Field(default=None, gt=0, le=1e7, description="wall-clock limit; null: none")
    seed: Seed = 0


class RobustFile(FileModel):
    """One network for a set of demand matrices, least worst theta."""

    schema_version: SchemaVersion
    kind: Literal["robust-network"]
    name: FileName
    topology: TopologySection | None = Field(
        default=None, description="given links: a mapping with one of family, links and file; null: to be found"
    )
    servers: Servers | None = Field(default=None, description="n, where links are to be found")
    degree: int | None = Field(default=None, ge=1, le=64, description="d, where links are to be found")
    links: Literal["bidirectional", "unidirectional"] | None = Field(
        default=None, description="fibre pairs (default) or single fibres, where links are to be found"
    )
    demand: TraceSection = Field(description="a mapping with one of set, file, files and family")
    link_gbps: Rate | None = Field(default=None, description="rate of one link, Gbit/s; needed by a demand in gbps")
    routing: Literal["common", "adapted"] = Field(
        default="common", description="one routing for all matrices, or one for each"
    )
    step_ms: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        default=None, description="time a matrix stands for; gives delays of reconfiguration in milliseconds"
    )
    search: RobustSearchFile = RobustSearchFile()
