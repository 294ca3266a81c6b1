"""Shape of instance files of kind `placement`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.core.placement import (
    Communication,
    Latency,
    Link,
    RateAllocation,
    Schedule,
    Sharing,
    StageShape,
    Throughput,
)
from topoopt.files.fields import (
    MAX_MS,
    MAX_OPERATORS,
    MAX_SERVERS,
    Bytes,
    FileModel,
    FileName,
    KindName,
    Label,
    LatencyUs,
    Rate,
    SchemaVersion,
    Seed,
)
from topoopt.files.file_part import FilePart, NameOf
from topoopt.files.search_section import SearchFile
from topoopt.workloads.branchy import GRAPH_FAMILIES
from topoopt.workloads.devices import DEVICES
from topoopt.workloads.models import MODELS

MAX_DEVICES = 1024
MAX_TENSORS = 4 * MAX_OPERATORS
MAX_LINKS = 64

Cost = Annotated[float, Field(ge=0, le=MAX_MS)]
HostName = FileName


class ThroughputFile(FilePart):
    """Options of objective throughput."""

    core = Throughput

    schedule: Annotated[Schedule, NameOf(Schedule)] = Field(
        default=Schedule.ONE_F_ONE_B,
        description="largest sum of forward and backward load, or largest forward plus largest backward load",
    )
    communication: Annotated[Communication, NameOf(Communication)] = Field(
        default=Communication.ADDED,
        description="load of a device: compute plus communication, or the larger of the two",
    )
    stages: Annotated[StageShape, NameOf(StageShape)] = Field(
        default=StageShape.CONTIGUOUS,
        description="operators of a device form one stage of the pipeline, several (devices in file order, again and "
        "again), or any set",
    )
    stages_per_device: int = Field(default=1, ge=1, le=16, description="q, of interleaved stages")


class LatencyFile(FilePart):
    """Options of objective latency."""

    core = Latency

    sharing: Annotated[Sharing, NameOf(Sharing)] = Field(
        default=Sharing.FAIR,
        description="what transfers of one server do to each other: share equally, queue, have own rates, or nothing",
    )
    rates: Annotated[RateAllocation, NameOf(RateAllocation)] = Field(
        default=RateAllocation.OPTIMISED,
        description="static rates of each pair of servers: all the same, or chosen with the placement",
    )


class LinkFile(FilePart):
    """A physical link of a server."""

    core = Link

    name: HostName = Field(description="of the network interface")
    gbps: Rate = Field(description="rate in each direction, Gbit/s")


class DeviceFile(FileModel):
    """Something operators run on, one at a time."""

    name: HostName = Field(description="unique in the file")
    device_class: KindName = Field(alias="class", description="class of the device, as in times_ms of the operators")
    memory_bytes: Bytes | None = Field(None, description="null: not limited")
    host: bool = Field(
        False, description="CPU of the pool: pays for no transfer itself, the other end does (objective throughput)"
    )


class PlacementServerFile(FileModel):
    """A host with its devices."""

    name: HostName = Field(description="unique in the file")
    links: Annotated[list[LinkFile], Field(max_length=MAX_LINKS)] = Field([], description="to the network")
    intra_gbps: Rate | None = Field(
        None, description="between its devices, each direction, Gbit/s; null: as its links together"
    )
    devices: Annotated[list[DeviceFile], Field(max_length=MAX_DEVICES)] = Field([], description="what it can run on")


class GraphOperatorFile(FileModel):
    """One operator."""

    name: Label = Field(description="unique in the file")
    times_ms: Annotated[dict[str, Cost | None], Field(min_length=1, max_length=64)] = Field(
        description="time on each device class, ms; null where it cannot run"
    )
    memory_bytes: Bytes = Field(0, description="resident on its device: weights, optimizer state, activations")
    colocation: Label | None = Field(None, description="operators with the same label share a device")
    backward: bool = Field(False, description="whether it belongs to the backward pass")


class TensorFile(FileModel):
    """What an operator makes for others; it is sent once to each device that needs it."""

    producer: Label = Field(description="name of the operator that makes it")
    consumers: Annotated[list[Label], Field(min_length=1, max_length=MAX_OPERATORS)] = Field(
        description="names of the operators that read it"
    )
    size_bytes: Bytes


class JobFile(FileModel):
    """A model of the library as one graph of forward and backward operators, each on one device."""

    model: str = Field(description="model family", json_schema_extra={"enum": [*MODELS]})
    sizes: dict[str, int] = Field({}, description="sizes of the model, others keep their defaults; batch: micro-batch")
    device: str = Field(
        description="analytic device model of the operator times", json_schema_extra={"enum": [*DEVICES]}
    )
    training: bool = Field(True, description="false: forward operators only")
    device_class: KindName = Field("gpu", description="name of the device class")


class GeneratorFile(FileModel):
    """A generated graph with branches; the same numbers give the same graph."""

    family: str = Field(json_schema_extra={"enum": [*GRAPH_FAMILIES]})
    layers: int = Field(4, ge=1, le=1000, description="depth")
    branches: int = Field(4, ge=1, le=1000, description="experts, towers or branches side by side")
    training: bool = Field(True, description="false: forward operators only")
    seed: Seed = Field(0, description="of the generator; nothing to do with the seed of the search")
    device_class: KindName = Field("gpu", description="name of the device class")


class PlacementFile(FileModel):
    """Place the operators of a graph on devices."""

    schema_version: SchemaVersion
    kind: Literal["placement"]
    name: FileName
    objective: Literal["throughput", "latency"] = Field(
        description="least load of the busiest device of a pipeline, or least time of one step"
    )
    throughput: ThroughputFile | None = Field(None, description="only with objective throughput")
    latency: LatencyFile | None = Field(None, description="only with objective latency")
    transfer_latency_us: LatencyUs = Field(0.0, description="fixed time of a transfer between servers, microseconds")
    intra_latency_us: LatencyUs = Field(0.0, description="the same between devices of a server, microseconds")
    servers: Annotated[list[PlacementServerFile], Field(min_length=1, max_length=MAX_SERVERS)]
    operators: Annotated[list[GraphOperatorFile], Field(min_length=1, max_length=MAX_OPERATORS)] | None = Field(
        None, description="the graph in full; its tensors form no cycle"
    )
    tensors: Annotated[list[TensorFile], Field(max_length=MAX_TENSORS)] | None = Field(
        None, description="of the operators"
    )
    workload: JobFile | None = Field(None, description="a model in place of operators and tensors")
    generator: GeneratorFile | None = Field(None, description="a generated graph in place of operators and tensors")
    search: SearchFile = SearchFile()
