"""Shape of instance files of the kind `hierarchical-bandwidth`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from topoopt.files.fields import FileModel, FileName, Label, SchemaVersion
from topoopt.files.search_section import SearchFile

MAX_DIMENSIONS = 12
MAX_RANKS = 2**24
MAX_LAYERS = 20_000
MAX_TASKS = 500_000
MAX_WORKLOADS = 1000

Bandwidth = Annotated[float, Field(ge=0, le=1e9)]
Speed = Annotated[float, Field(gt=0, le=1e9)]
Price = Annotated[float, Field(gt=0, le=1e9)]
Money = Annotated[float, Field(gt=0, le=1e18)]
TimeNs = Annotated[float, Field(ge=0, le=1e18)]
SizeBytes = Annotated[float, Field(gt=0, le=1e18)]
Ranks = Annotated[int, Field(ge=1, le=MAX_RANKS)]
Side = Annotated[float, Field(ge=-1e12, le=1e12)]
Degrees = Annotated[list[Ranks], Field(min_length=1, max_length=64)]
Size = Annotated[int, Field(ge=1, le=10**9)]

_WORKLOAD = "a mapping with name and one of layers, tasks and model"


class DimensionFile(FileModel):
    """One dimension of the network; the first one is innermost."""

    name: FileName
    block: Literal["ring", "fully-connected", "switch"] = Field(description="what joins its NPUs")
    size: int = Field(ge=2, le=MAX_RANKS, description="NPUs along it")
    tier: FileName | None = Field(default=None, description="which prices of network.tiers hold here")
    min_gbytes_per_s: Bandwidth = 0.0
    max_gbytes_per_s: Speed | None = None
    speeds_gbytes_per_s: Annotated[list[Speed], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="the speeds there are, per NPU; null: any"
    )


class ShapeFile(FileModel):
    """A candidate for the shape of the network."""

    name: FileName
    dimensions: Annotated[list[DimensionFile], Field(min_length=1, max_length=MAX_DIMENSIONS)]


class TierFile(FileModel):
    """Prices in US dollars for 1 GB/s of one NPU; a switch dimension pays link, switch and NIC, others the link."""

    link: Price
    switch: Price | None = None
    nic: Price | None = None


class ConstraintFile(FileModel):
    """A linear constraint on the bandwidths: at_least <= sum of coefficient x bandwidth <= at_most."""

    name: FileName
    terms: Annotated[dict[str, Side], Field(min_length=1, max_length=MAX_DIMENSIONS)] = Field(
        description="coefficient of each dimension, by name"
    )
    at_least: Side | None = None
    at_most: Side | None = None
    equals: Side | None = None


class HierarchicalNetworkFile(FileModel):
    """Shape, or shapes to choose from, and what is asked of the bandwidths (GB/s per NPU, 1 GB/s = 10^9 bytes/s)."""

    dimensions: Annotated[list[DimensionFile], Field(min_length=1, max_length=MAX_DIMENSIONS)] | None = None
    shapes: Annotated[list[ShapeFile], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="instead of dimensions: candidates, one of which is chosen"
    )
    total_gbytes_per_s: Speed | None = Field(default=None, description="sum over all dimensions, to be used up")
    total_at_most_gbytes_per_s: Speed | None = Field(default=None, description="the same as a limit")
    constraints: Annotated[list[ConstraintFile], Field(max_length=200)] = Field(default=[])
    tiers: Annotated[dict[str, TierFile], Field(max_length=50)] = Field(default={}, description="prices by tier")
    fixed_cost_usd: float = Field(default=0.0, ge=0, le=1e18, description="cost whatever the bandwidths")


class CommunicationFile(FileModel):
    """One collective."""

    collective: Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point"]
    bytes: SizeBytes = Field(description="buffer of a rank; of an all-gather the shard a rank starts with")
    communicator: str | None = Field(
        default=None, max_length=200, description="name in communicators; null: the whole network"
    )


class PhaseFile(FileModel):
    """Compute, then collectives one after the other."""

    compute_ns: TimeNs = 0.0
    collectives: Annotated[list[CommunicationFile], Field(max_length=1000)] = Field(default=[])


class LayerFile(FileModel):
    """One layer."""

    name: Label
    repeat: int = Field(default=1, ge=1, le=10**9, description="so many equal layers")
    forward: PhaseFile = PhaseFile()
    input_gradient: PhaseFile = PhaseFile()
    weight_gradient: PhaseFile = PhaseFile()


class TaskFile(PhaseFile):
    """One node of a dependency graph."""

    name: Label
    after: Annotated[list[Annotated[int, Field(ge=0, lt=MAX_TASKS)]], Field(max_length=MAX_TASKS)] = Field(
        default=[], description="positions in tasks, counted from 0, of tasks listed before this one"
    )


CommunicatorsFile = Annotated[
    dict[str, Annotated[list[Ranks], Field(min_length=1, max_length=MAX_DIMENSIONS)]], Field(max_length=1000)
]


class LayersWorkload(FileModel):
    """A job layer by layer."""

    name: Label
    weight: float = Field(default=1.0, gt=0, le=1e12, description="of its iteration time in the objective")
    loop: Literal["no-overlap", "dp-overlap"] = "no-overlap"
    communicators: CommunicatorsFile = Field(default={}, description="ranks of a group in each dimension, 1: not used")
    layers: Annotated[list[LayerFile], Field(min_length=1, max_length=MAX_LAYERS)]


class TasksWorkload(FileModel):
    """A job as a dependency graph; an iteration takes as long as its longest path."""

    name: Label
    weight: float = Field(default=1.0, gt=0, le=1e12, description="of its iteration time in the objective")
    communicators: CommunicatorsFile = Field(default={}, description="ranks of a group in each dimension, 1: not used")
    tasks: Annotated[list[TaskFile], Field(min_length=1, max_length=MAX_TASKS)]


class TransformerFile(FileModel):
    """Sizes of a decoder-only transformer."""

    blocks: Size = Field(description="transformer blocks")
    hidden: Size = Field(description="width")
    sequence: Size = Field(description="tokens of a sequence")
    batch: Size = Field(description="sequences of one iteration, over all NPUs")
    experts: Size = Field(default=1, description="experts of every feed-forward part; 1: dense")
    experts_per_token: Size = Field(default=1, description="experts that see a token")
    element_bytes: int = Field(default=2, ge=1, le=16, description="bytes of an activation or gradient element")


class NpuFile(FileModel):
    """One accelerator."""

    tflops: float = Field(gt=0, le=1e9, description="sustained 10^12 floating-point operations a second")
    memory_gib: float | None = Field(default=None, gt=0, le=1e6, description="null: memory is not checked")
    bytes_per_parameter: float = Field(
        default=16.0, gt=0, le=1000, description="memory of a parameter with gradient and optimizer state"
    )


class StrategiesFile(FileModel):
    """Degrees of parallelism to choose from; null: every one that fits. Data parallelism takes the rest."""

    tensor: Degrees | None = None
    pipeline: Degrees | None = None
    expert: Degrees | None = None
    microbatches: int = Field(default=1, ge=1, le=10**6, description="of each pipeline, in an iteration")
    mapping: Literal["any", "inner-first"] = Field(
        default="any",
        description="any: every split of every dimension; inner-first: tensor on the innermost, then expert, data, "
        "pipeline",
    )


class TransformerWorkload(FileModel):
    """A job by the sizes of its model; parallelization and its dimensions are chosen with the bandwidths."""

    name: Label
    weight: float = Field(default=1.0, gt=0, le=1e12, description="of its iteration time in the objective")
    loop: Literal["no-overlap", "dp-overlap"] = "no-overlap"
    model: TransformerFile
    npu: NpuFile
    strategies: StrategiesFile = StrategiesFile()


def workload_shape(value: object) -> str:
    """Which shape of a workload is meant; the answer names the class."""
    if isinstance(value, LayersWorkload | TasksWorkload | TransformerWorkload):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    return "TransformerWorkload" if "model" in keys else "TasksWorkload" if "tasks" in keys else "LayersWorkload"


WorkloadFile = Annotated[
    Annotated[LayersWorkload, Tag("LayersWorkload")]
    | Annotated[TasksWorkload, Tag("TasksWorkload")]
    | Annotated[TransformerWorkload, Tag("TransformerWorkload")],
    Discriminator(workload_shape),
    Field(description=_WORKLOAD),
]


class HierarchicalFile(FileModel):
    """Bandwidth of every dimension of a hierarchical network."""

    schema_version: SchemaVersion
    kind: Literal["hierarchical-bandwidth"]
    name: FileName
    network: HierarchicalNetworkFile
    workloads: Annotated[list[WorkloadFile], Field(min_length=1, max_length=MAX_WORKLOADS)]
    objective: Literal["time", "time-times-cost", "cost"] = "time"
    fleet: Literal["weighted-sum", "worst-case"] = Field(
        default="weighted-sum", description="what time means for several workloads: sum or maximum of weight x time"
    )
    cost_cap_usd: Money | None = Field(default=None, description="most the network may cost")
    time_limit_ns: TimeNs | None = Field(default=None, description="longest time, for the objective cost")
    pareto_points: int = Field(default=0, ge=0, le=1000, description="points of the front of time and cost")
    search: SearchFile = SearchFile()
