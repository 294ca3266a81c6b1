"""Shape of solution files of kind `shared-cluster`. Long tables are rows of lists; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from topoopt.files.fields import MAX_SERVERS, FileModel
from topoopt.files.solution_head import Amount, SolutionHeadFile, Text
from topoopt.kinds.shared_cluster.schema import MAX_CLASSES, MAX_FABRICS, MAX_ITERATIONS, MAX_JOBS

JobIndex = Annotated[int, Field(ge=0, lt=MAX_JOBS)]
ClassIndex = Annotated[int, Field(ge=0, lt=MAX_CLASSES)]
Positive = Annotated[float, Field(gt=0, le=1e30)]
ServerRanges = Annotated[str, Field(min_length=1, max_length=40_000, pattern=r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")]
JobRow = Annotated[
    tuple[Text, Amount, ClassIndex, Annotated[int, Field(ge=1, le=MAX_ITERATIONS)], Positive], Strict(False)
]  # name, arrival s, class, iterations, iteration ms
StayRow = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=MAX_FABRICS)], JobIndex, Amount, Amount, Amount, Amount, ServerRanges],
    Strict(False),
]  # run, job, held from s, work from s, work to s, held to s, servers as 0-15,32


class ClassSolutionFile(FileModel):
    """A class with its times and bytes."""

    name: Text
    servers: int = Field(ge=1, le=MAX_SERVERS)
    iteration_ms: Annotated[list[Positive], Field(min_length=1, max_length=10_000)]
    compute_ms: Amount
    allreduce_bytes: Amount
    all_to_all_bytes: Amount
    fabric_ms: dict[str, Positive]
    iterations: int | None = Field(ge=1)
    duration_s: Positive | None
    interfaces: int | None = Field(ge=1, le=64)


class FabricSolutionFile(FileModel):
    """A fabric with its server rate."""

    name: Text
    kind: Literal["partitioned", "ideal-switch", "fat-tree"]
    server_gbps: Positive
    oversubscription: float = Field(ge=1, le=1e6)
    oversubscribed_at: Literal["rack", "aggregation"]
    paths: Literal["even", "hashed"]
    placement: Literal["best-fit", "first-fit", "spread", "exact", "random", "packed"]


class TailFile(FileModel):
    """See Tail."""

    mean: Amount
    p50: Amount
    p90: Amount
    p95: Amount
    p99: Amount
    largest: Amount


class MetricsFile(FileModel):
    """See Metrics."""

    finished: int = Field(ge=1)
    iteration_ms: TailFile
    waiting_s: TailFile
    completion_s: TailFile
    slowdown: TailFile
    makespan_s: Amount
    utilisation: Amount
    goodput: Amount
    queue_length: Amount
    waiting_free: Amount
    stranded: Amount
    largest_share: Amount
    reconfigurations: int = Field(ge=0)
    moves: int = Field(ge=0)
    dark_s: Amount


class DecisionsFile(FileModel):
    """See Decisions."""

    proven: int = Field(ge=0)
    unproven: int = Field(ge=0)


class RunFile(FileModel):
    """The jobs on one fabric."""

    fabric: FabricSolutionFile
    queue: Literal["fifo", "backfill", "reserve"]
    defragment: bool
    simulated_s: Amount
    whole: bool
    unfinished: Annotated[list[JobIndex], Field(max_length=MAX_JOBS)]
    metrics: MetricsFile | None
    decisions: DecisionsFile | None = Field(default=None, description="only of runs whose placement is exact")


class SharedClusterSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `shared-cluster`."""

    kind: Literal["shared-cluster-solution"]
    instance_sha256: Text
    versions: dict[str, Text]
    notes: list[Text]
    servers: int = Field(ge=1, le=MAX_SERVERS)
    degree: int = Field(ge=1, le=64)
    link_gbps: Positive
    look_ahead: bool
    switching_time_s: Amount
    checkpoint_s: Amount
    contention: Literal["coinciding", "interleaved"]
    classes: Annotated[list[ClassSolutionFile], Field(min_length=1, max_length=MAX_CLASSES)]
    groups: Annotated[list[Annotated[int, Field(ge=0, lt=MAX_SERVERS)]], Field(max_length=MAX_SERVERS)] = Field(
        description="group of each server; a shard within a group can always be cut"
    )
    runs: Annotated[list[RunFile], Field(min_length=1, max_length=MAX_FABRICS)]
    jobs: Annotated[list[JobRow], Field(min_length=1, max_length=MAX_JOBS)]
    stays: Annotated[list[StayRow], Field(max_length=10_000_000)]
