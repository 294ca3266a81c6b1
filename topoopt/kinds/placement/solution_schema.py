"""Shape of solution files of kind `placement`. Long tables are rows of plain lists; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from topoopt.core.arrays import Floats, Int32s
from topoopt.core.placement import Device, Latency, Server, Throughput
from topoopt.core.placement_solution import DeviceLoad, LinkShare, PlacementSolution, TensorTransfer
from topoopt.files.fields import MAX_OPERATORS, MAX_SERVERS, Bytes, FileModel, KindName, Label, Rate
from topoopt.files.file_part import ArrayOf, FilePart, Listed, RowOf, column
from topoopt.files.solution_head import Amount, Notes, Number, Sha256, SolutionHeadFile, Versions
from topoopt.kinds.placement.schema import (
    MAX_DEVICES,
    MAX_LINKS,
    MAX_TENSORS,
    HostName,
    LatencyFile,
    LinkFile,
    ThroughputFile,
)

ServerIndex = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
DeviceIndex = Annotated[int, Field(ge=0, lt=MAX_SERVERS * MAX_DEVICES)]
LinkIndex = Annotated[int, Field(ge=0, lt=MAX_LINKS)]
TensorIndex = Annotated[int, Field(ge=0, lt=MAX_TENSORS)]
StageIndex = Annotated[int, Field(ge=0, lt=MAX_OPERATORS)]
OperatorRow = Annotated[tuple[Label, DeviceIndex], Strict(False)]  # name, device
TransferRow = Annotated[
    TensorTransfer, RowOf(TensorTransfer, tuple[TensorIndex, DeviceIndex, Number, Number])
]  # tensor, target device, start ms, end ms
ShareRow = Annotated[
    LinkShare, RowOf(LinkShare, tuple[ServerIndex, ServerIndex, LinkIndex, Amount])
]  # source server, target server, link of the source, Gbit/s
Times = Annotated[Floats, ArrayOf(Number, np.float64, most=MAX_OPERATORS)]


class ServerPart(FilePart):
    """A server of the instance."""

    core = Server

    name: HostName
    links: Annotated[Listed[LinkFile], Field(max_length=MAX_LINKS)]
    intra_gbps: Rate | None


class DevicePart(FileModel):
    """A device of the instance, and what it does."""

    name: HostName
    server: ServerIndex
    device_class: KindName = Field(alias="class")
    memory_bytes: Bytes | None
    host: bool
    forward_ms: Amount
    backward_ms: Amount
    forward_communication_ms: Amount
    backward_communication_ms: Amount
    used_memory_bytes: int = Field(ge=0)


def _device_document(device: Device, load: DeviceLoad, classes: tuple[str, ...]) -> dict[str, Any]:
    fields = {**vars(device), **vars(load), "used_memory_bytes": load.memory_bytes, "memory_bytes": device.memory_bytes}
    fields["class"] = classes[fields.pop("class_index")]
    return fields


class PlacementSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `placement`."""

    core = PlacementSolution

    kind: Literal["placement-solution"]
    throughput: ThroughputFile | None = Field(description="settings, one of throughput and latency")
    latency: LatencyFile | None
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    classes: Annotated[Listed[KindName], Field(max_length=64)]
    servers: Annotated[Listed[ServerPart], Field(min_length=1, max_length=MAX_SERVERS)]
    devices: Annotated[list[DevicePart], Field(min_length=1, max_length=MAX_SERVERS)]
    link_shares: Annotated[Listed[ShareRow], Field(max_length=MAX_SERVERS * MAX_LINKS)]
    operators: Annotated[Listed[OperatorRow], Field(min_length=1, max_length=MAX_OPERATORS)]
    stage: Annotated[Int32s, ArrayOf(StageIndex, np.int32, most=MAX_OPERATORS)] | None
    start_ms: Times | None
    end_ms: Times | None
    transfers: Annotated[Listed[TransferRow], Field(max_length=MAX_TENSORS * 64)]

    @classmethod
    def attributes(cls, value: PlacementSolution) -> dict[str, Any]:
        """Devices with their loads, operators with their devices."""
        devices = zip(value.devices, value.loads, strict=True)
        return {
            **super().attributes(value),
            "throughput": value.settings if isinstance(value.settings, Throughput) else None,
            "latency": value.settings if isinstance(value.settings, Latency) else None,
            "devices": [_device_document(device, load, value.classes) for device, load in devices],
            "operators": list(zip(value.operators, value.device.tolist(), strict=True)),
        }

    def arguments(self) -> dict[str, Any]:
        """Devices and loads apart."""
        settings = self.throughput or self.latency
        return {
            **super().arguments(),
            "settings": settings and settings.build(),
            "devices": tuple(
                Device(row.name, row.server, self.classes.index(row.device_class), row.memory_bytes, row.host)
                for row in self.devices
            ),
            "loads": tuple(
                DeviceLoad(
                    row.forward_ms,
                    row.backward_ms,
                    row.forward_communication_ms,
                    row.backward_communication_ms,
                    row.used_memory_bytes,
                )
                for row in self.devices
            ),
            "operators": tuple(name for name, _ in self.operators),
            "device": column(self.operators, 1, np.int32),
        }
