"""Shape of solution files of kind `placement`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from topoopt.files.fields import MAX_OPERATORS, MAX_SERVERS, Bytes, FileModel, KindName, Label, Rate
from topoopt.files.solution_head import Amount, BoundFile, Number, SolutionHeadFile, Text
from topoopt.kinds.placement.schema import (
    MAX_DEVICES,
    MAX_LINKS,
    MAX_TENSORS,
    HostName,
    LatencyFile,
    LinkFile,
    ThroughputFile,
)

Server = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
DeviceIndex = Annotated[int, Field(ge=0, lt=MAX_SERVERS * MAX_DEVICES)]
OperatorRow = Annotated[tuple[Label, DeviceIndex], Strict(False)]  # name, device
StageIndex = Annotated[int, Field(ge=0, lt=MAX_OPERATORS)]
TransferRow = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=MAX_TENSORS)], DeviceIndex, Number, Number], Strict(False)
]  # tensor, target device, start ms, end ms
ShareRow = Annotated[
    tuple[Server, Server, Annotated[int, Field(ge=0, lt=MAX_LINKS)], Amount], Strict(False)
]  # source server, target server, link of the source, Gbit/s
RateRow = Annotated[list[Amount], Field(max_length=MAX_SERVERS)]
Times = Annotated[list[Number], Field(max_length=MAX_OPERATORS)]


class SolutionServerFile(FileModel):
    """A server of the instance."""

    name: HostName
    links: Annotated[list[LinkFile], Field(max_length=MAX_LINKS)]
    intra_gbps: Rate | None


class SolutionDeviceFile(FileModel):
    """A device of the instance, and what it does."""

    name: HostName
    server: Server
    device_class: KindName = Field(alias="class")
    memory_bytes: Bytes | None
    host: bool
    forward_ms: Amount
    backward_ms: Amount
    forward_communication_ms: Amount
    backward_communication_ms: Amount
    used_memory_bytes: int = Field(ge=0)
    operators: int = Field(ge=0, le=MAX_OPERATORS)


class CompactFile(FileModel):
    """What was found and proven on the compacted graph alone."""

    operators: int = Field(ge=0, le=MAX_OPERATORS)
    value_ms: Amount | None
    bound: BoundFile | None


class PlacementSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `placement`."""

    kind: Literal["placement-solution"]
    throughput: ThroughputFile | None = Field(description="settings, one of throughput and latency")
    latency: LatencyFile | None
    compact: CompactFile | None
    instance_sha256: Text
    versions: dict[str, Text]
    notes: list[Text]
    classes: Annotated[list[KindName], Field(max_length=64)]
    servers: Annotated[list[SolutionServerFile], Field(min_length=1, max_length=MAX_SERVERS)]
    devices: Annotated[list[SolutionDeviceFile], Field(min_length=1, max_length=MAX_SERVERS)]
    rates_gbps: Annotated[list[RateRow], Field(max_length=MAX_SERVERS)] | None = Field(
        description="row i, column j: what server i may send to server j"
    )
    link_shares: Annotated[list[ShareRow], Field(max_length=MAX_SERVERS * MAX_LINKS)]
    operators: Annotated[list[OperatorRow], Field(min_length=1, max_length=MAX_OPERATORS)]
    stage: Annotated[list[StageIndex], Field(max_length=MAX_OPERATORS)] | None
    start_ms: Times | None
    end_ms: Times | None
    transfers: Annotated[list[TransferRow], Field(max_length=MAX_TENSORS * 64)]
