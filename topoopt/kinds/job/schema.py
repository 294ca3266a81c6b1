"""Shape of an instance file of kind `co-optimisation`; `description` says what a field means, in the schema too."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator
from pydantic_core import PydanticCustomError

from topoopt.core.cluster import Cluster, LinkDirection, LinkSharing, LocalAllReduce
from topoopt.core.job import DEFAULT_FABRICS, BaselineSettings
from topoopt.core.search_settings import AllReduceChoice
from topoopt.files.fabric_section import FabricEntry
from topoopt.files.fields import (
    MAX_OPERATORS,
    MAX_SAMPLES,
    MAX_SERVERS,
    Bytes,
    Count,
    FileModel,
    FileName,
    KindName,
    Label,
    LatencyUs,
    PositiveCount,
    Rate,
    SchemaVersion,
    TimeMs,
    Ways,
)
from topoopt.files.file_part import FilePart, Listed, NameOf, is_none
from topoopt.files.search_section import AllReduceField, RobustSearchFile
from topoopt.workloads.devices import DEVICES
from topoopt.workloads.models import MODELS
from topoopt.workloads.parameters import all_parameters

_SIZES = "; ".join(
    f"{model.name}: " + ", ".join(f"{size.name} ({size.default})" for size in all_parameters(model))
    for model in MODELS.values()
)


class ClusterFields(FilePart):
    """Everything about the cluster but its memory."""

    core = Cluster

    servers: int = Field(ge=2, le=MAX_SERVERS, description="n")
    gpus_per_server: int = Field(ge=1, le=64)
    degree: int = Field(ge=1, le=64, description="d, optical interfaces of a server")
    link_gbps: Rate = Field(description="rate of one interface in each direction, Gbit/s")
    links: Annotated[LinkDirection, NameOf(LinkDirection)] = Field(
        LinkDirection.BIDIRECTIONAL,
        description="a link takes an interface at both ends, or its two fibres are patched apart",
    )
    hop_latency_us: LatencyUs = Field(1.0, description="latency of one hop, microseconds")
    ring_round_latency_us: LatencyUs = Field(2.1, description="fixed cost of one AllReduce ring round, microseconds")
    intra_server_gbps: Rate = Field(2400.0, description="rate between the GPUs of a server, Gbit/s")
    local_allreduce: Annotated[LocalAllReduce, NameOf(LocalAllReduce)] = Field(
        LocalAllReduce.RING, description="time model of the AllReduce in a server"
    )
    link_sharing: Annotated[LinkSharing, NameOf(LinkSharing)] = Field(
        LinkSharing.FIFO,
        description="flows take turns of a segment on a link, each request is served whole, or transfers go before "
        "AllReduces",
    )


class ClusterFile(ClusterFields):
    """The servers and their links."""

    gpu_memory_gib: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="memory of a GPU; null: unchecked; left out: that of the device of the operator times, if any",
    )


class OperatorTimes(FileModel):
    """Where operator times come from: exactly one of the two."""

    device: str | None = Field(None, description="analytic device model", json_schema_extra={"enum": [*DEVICES, None]})
    profile: str | None = Field(
        None, min_length=1, max_length=1000, description="measured profile, relative to the folder of this file"
    )


class ModelWorkload(FileModel):
    """A model with its sizes."""

    model: str = Field(description="model family", json_schema_extra={"enum": [*MODELS]})
    sizes: dict[str, int] = Field({}, description=f"sizes of the model, others keep their defaults. {_SIZES}")
    element_sizes: Literal["actual", "flexnet"] = Field(
        "actual", description="bytes of an activation element on the network; flexnet: 8 from embedding tables on"
    )
    operator_times: OperatorTimes


class SplitFile(FileModel):
    """One way to spread an operator, with its cost per part; the number of parts divides the servers."""

    sample_ways: Ways = Field(description="parts along the batch; divides samples")
    channel_ways: Ways = Field(1, description="parts along the output channels")
    reduce_ways: Ways = Field(1, description="parts along the input channels")
    forward_ms: TimeMs = Field(description="forward time of one part on one server, ms")
    backward_ms: TimeMs = Field(description="backward time of one part on one server, ms")
    server_memory_bytes: Bytes = Field(0, description="memory of one part over all GPUs of its server")


class InputFile(FileModel):
    """An input tensor."""

    operator: Label = Field(description="name of the operator that produces it")
    fraction: float = Field(1.0, gt=0, le=1, description="share of each sample's elements that is read")


class OperatorFile(FileModel):
    """One operator."""

    name: Label = Field(description="unique in the workload")
    kind: KindName = Field(description="class of the operator, for people: dense, embedding, conv, ...")
    output_elements: PositiveCount = Field(description="elements of the output tensor per sample")
    element_bytes: int = Field(4, ge=1, le=64, description="bytes of an output element on the network")
    weight_elements: Annotated[list[Count], Field(max_length=1000)] = Field(
        [], description="elements of every weight tensor"
    )
    inputs: Annotated[list[InputFile], Field(max_length=MAX_OPERATORS)] = Field([], description="input tensors")
    mixes_channels: bool = Field(True, description="whether an output channel needs all input channels")
    locally_reduced: bool = Field(True, description="whether gradients are first all-reduced inside the server")
    pinned_offset: int | None = Field(
        None, ge=0, lt=MAX_SERVERS, description="offset of every placement, less than servers / parts; null: free"
    )
    splits: Annotated[list[SplitFile], Field(min_length=1, max_length=1000)]


class GraphWorkload(FileModel):
    """An operator graph in full."""

    name: Label
    samples: int = Field(ge=1, le=MAX_SAMPLES, description="global batch")
    operators: Annotated[list[OperatorFile], Field(min_length=1, max_length=MAX_OPERATORS)] = Field(
        description="in any order; the graph has no cycle"
    )


def workload_shape(value: object) -> str:
    """Which of the two shapes of a workload is meant; the answer names the class."""
    if isinstance(value, GraphWorkload):
        return "GraphWorkload"
    keys = value.keys() if isinstance(value, dict) else ()
    return "GraphWorkload" if "model" not in keys and {"operators", "samples"} & set(keys) else "ModelWorkload"


WorkloadFile = Annotated[
    Annotated[ModelWorkload, Tag("ModelWorkload")] | Annotated[GraphWorkload, Tag("GraphWorkload")],
    Discriminator(workload_shape),
]


class BaselinesFile(FilePart):
    """Fabrics to compare with."""

    core = BaselineSettings

    fat_tree_gbps: Rate | None = Field(
        default=None, description="rate of a server on the fat-tree; null: that of equal cost"
    )
    fat_tree_oversubscription: float = Field(default=1.0, ge=1, le=1000)
    fabrics: Annotated[Listed[FabricEntry], Field(max_length=100)] | None = Field(
        default=None,
        exclude_if=is_none,
        description="fabrics the plan is compared with; null: " + ", ".join(c.name for c in DEFAULT_FABRICS),
    )

    def arguments(self) -> dict[str, Any]:
        """Fabrics that are null are those by default."""
        return {name: value for name, value in super().arguments().items() if value is not None}


class JobSearchFile(RobustSearchFile):
    """How hard to search, and what AllReduces may run on."""

    allreduce: AllReduceField = AllReduceChoice.RINGS
    # Not written where it is the default, so that the hash of an instance is the same as without.
    bound_programs: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        exclude_if=is_none,
        description="linear programs that the proof of the bound may take; null: some seconds' worth",
    )
    link_sharing: Listed[Annotated[LinkSharing, NameOf(LinkSharing)]] | None = Field(
        default=None,
        exclude_if=is_none,
        description="how the plan may have links shared, whatever `cluster.link_sharing` says: the best of these; "
        "null: as the cluster says",
    )

    @field_validator("link_sharing")
    @classmethod
    def _some_once(cls, value: tuple[LinkSharing, ...] | None) -> tuple[LinkSharing, ...] | None:
        if value is not None and len(set(value)) < max(1, len(value)):
            text = "a way to share links is listed twice" if value else "no way to share links is listed"
            raise PydanticCustomError("ways", text)
        return value

    def arguments(self) -> dict[str, Any]:
        """Null is none in particular."""
        return {name: value for name, value in super().arguments().items() if value is not None}


class CoOptimisationFile(FileModel):
    """Find strategy, topology and routes of least iteration time."""

    schema_version: SchemaVersion
    kind: Literal["co-optimisation"]
    name: FileName
    cluster: ClusterFile
    workload: WorkloadFile
    search: JobSearchFile = JobSearchFile()
    baselines: BaselinesFile = BaselinesFile()
