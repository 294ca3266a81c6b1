"""Shape of instance files of kind `collective`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.files.fields import MAX_SERVERS, FileModel, FileName, LatencyUs, SchemaVersion
from topoopt.files.rated_sections import RatedSection
from topoopt.files.search_section import SearchFile

SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)? ?(B|[kKMGT]i?B)$"
SizeText = Annotated[str, Field(pattern=SIZE_PATTERN, max_length=40)]


class LatencySection(FileModel):
    """What a message takes besides its bytes."""

    link: LatencyUs = Field(default=0.0, description="us on each link")
    message: LatencyUs = Field(default=0.0, description="us of each message, whatever its way")


class SwitchSection(FileModel):
    """What switches can do."""

    multicast: bool = Field(default=False, description="they copy a message to several links")


class LimitSection(FileModel):
    """What a schedule may come to."""

    trees_per_root: int | None = Field(default=None, ge=1, le=256, description="as the best rate needs, by default")
    steps: int | None = Field(default=None, ge=1, le=100_000, description="synchronous rounds")


class CollectiveFile(FileModel):
    """A collective on a network with switches and rates."""

    schema_version: SchemaVersion
    kind: Literal["collective"]
    name: FileName
    topology: RatedSection
    collective: Literal["allreduce", "allgather", "reduce-scatter", "all-to-all", "broadcast", "reduce"]
    bytes: int | SizeText = Field(description="the whole vector: a number of bytes, or text like 1GiB or 16 MB")
    root: int = Field(default=0, ge=0, lt=MAX_SERVERS, description="rank of a broadcast or reduction")
    latency_us: LatencySection = LatencySection()
    switches: SwitchSection = SwitchSection()
    relaying: bool = Field(default=True, description="ranks pass on what is not for them, or not from them")
    objective: Literal["time", "throughput", "latency", "pareto"] = Field(
        default="time",
        description="least time, most bytes a second without latencies, fewest steps, or least time by size",
    )
    limits: LimitSection = LimitSection()
    search: SearchFile = SearchFile()
