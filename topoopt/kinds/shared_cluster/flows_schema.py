"""Shape of instance files of kind `shared-load`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.files.fabric_section import FabricEntry
from topoopt.files.fields import MAX_SERVERS, FileModel, FileName, LatencyUs, Rate, SchemaVersion
from topoopt.files.search_section import SearchFile

MAX_CLASSES = 100
MAX_LOADS = 100
MAX_FABRICS = 20
MAX_REPETITIONS = 10_000
MAX_JOBS = 1_000_000
"""Jobs in all: loads times repetitions."""

PositiveMs = Annotated[float, Field(gt=0, le=1e9)]
Servers = Annotated[int, Field(ge=2, le=MAX_SERVERS)]


class SharedClusterFile(FileModel):
    """The servers, and their interfaces; the same for all classes, whatever their own files say."""

    servers: Servers = Field(description="of the whole cluster")
    degree: int = Field(ge=1, le=64, description="d, optical interfaces of a server")
    link_gbps: Rate = Field(description="rate of one interface in each direction, Gbit/s")
    links: Literal["bidirectional", "unidirectional"] = "bidirectional"
    hop_latency_us: LatencyUs = Field(default=1.0, description="latency of one hop, microseconds")
    ring_round_latency_us: LatencyUs = Field(default=2.1, description="of one ring round on direct links, microseconds")
    rack_servers: Annotated[int, Field(ge=1, le=MAX_SERVERS)] | None = Field(
        default=None, description="servers of a rack, for rack-local placement; null: those of a fat-tree of this size"
    )


class JobClassFile(FileModel):
    """A kind of job: an instance file, or iteration times measured on its own shard."""

    name: FileName
    share: float = Field(gt=0, le=1e6, description="of this class among the jobs; shares are scaled to sum to 1")
    file: str | None = Field(
        default=None, min_length=1, max_length=1000, description="co-optimisation instance, relative to this file"
    )
    times_ms: Annotated[list[PositiveMs], Field(min_length=1, max_length=100_000)] | None = Field(
        default=None, description="instead of file: one of these is drawn for each job; direct-connect only"
    )
    servers: Servers | None = Field(default=None, description="of one job; beside times_ms only")


class SharedLoadFile(FileModel):
    """Run a fixed number of jobs together: isolated shards against fabrics they share."""

    schema_version: SchemaVersion
    kind: Literal["shared-load"]
    name: FileName
    cluster: SharedClusterFile
    classes: Annotated[list[JobClassFile], Field(min_length=1, max_length=MAX_CLASSES)]
    loads: Annotated[list[Annotated[int, Field(ge=1, le=MAX_SERVERS)]], Field(min_length=1, max_length=MAX_LOADS)] = (
        Field(description="numbers of jobs at once")
    )
    repetitions: int = Field(default=5, ge=1, le=MAX_REPETITIONS, description="draws of jobs and servers per load")
    fabrics: Annotated[list[FabricEntry], Field(min_length=1, max_length=MAX_FABRICS)] = Field(
        description="direct-connect (a shard for each job) and fabrics that jobs share; compared with the first"
    )
    placement: Literal["random", "rack-local"] = Field(
        default="random", description="any servers, or consecutive ones of racks in random order"
    )
    rank_order: Literal["random", "sorted"] = Field(
        default="random", description="order of a job's servers, and so of its rings; as drawn, or ascending"
    )
    time_model: str = Field(
        default="fluid", min_length=1, max_length=50, description="fluid (max-min fair) or rounds (first come)"
    )
    search: SearchFile = SearchFile()
