"""Parts of solution files of kind `shared-cluster`, and rows of its long tables; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster import Fabric
from topoopt.core.shared_cluster_jobs import JobClass
from topoopt.core.shared_cluster_runs import ClassPlan, Decisions, DrawnRun, FabricRun, Stays
from topoopt.core.strategy import Strategy
from topoopt.files.fields import MAX_OPERATORS, MAX_SERVERS
from topoopt.files.file_part import ArrayOf, FilePart, Listed, PairsOf, is_none
from topoopt.files.solution_head import Amount, BoundFile, Text
from topoopt.kinds.job.plan_parts import PlacementRow
from topoopt.kinds.shared_cluster.schema import MAX_CLASSES, MAX_FABRICS, MAX_ITERATIONS, MAX_JOBS

JobIndex = Annotated[int, Field(ge=0, lt=MAX_JOBS)]
ClassIndex = Annotated[int, Field(ge=0, lt=MAX_CLASSES)]
Server = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
Positive = Annotated[float, Field(gt=0, le=1e30)]
ServerRanges = Annotated[str, Field(min_length=1, max_length=40_000, pattern=r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")]
JobRow = Annotated[
    tuple[Text, Amount, ClassIndex, Annotated[int, Field(ge=1, le=MAX_ITERATIONS)], Positive], Strict(False)
]  # name, arrival s, class, iterations, iteration ms
StayRow = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=MAX_FABRICS)], JobIndex, Amount, Amount, Amount, Amount, ServerRanges],
    Strict(False),
]  # run, job, held from s, work from s, work to s, held to s, servers as 0-15,32
FabricRow = Annotated[tuple[Text, Text], Strict(False)]  # name, what it is


class ClassPart(FilePart):
    """A class with its times and bytes."""

    core = JobClass

    name: Text
    servers: int = Field(ge=1, le=MAX_SERVERS)
    iteration_ms: Annotated[Listed[Positive], Field(max_length=10_000)]
    compute_ms: Amount
    allreduce_bytes: Amount
    all_to_all_bytes: Amount
    fabric_ms: Annotated[tuple[tuple[str, float], ...], PairsOf(Positive, most=MAX_FABRICS)]
    iterations: int | None = Field(ge=1)
    duration_s: Positive | None
    interfaces: int | None = Field(ge=1, le=64)


class FabricPart(FilePart):
    """A fabric with its server rate."""

    core = Fabric

    name: Text
    kind: Literal["partitioned", "ideal-switch", "fat-tree"]
    server_gbps: Positive
    oversubscription: float | None = Field(ge=1, le=1e6)
    oversubscribed_at: Literal["rack", "aggregation"] | None
    paths: Literal["even", "hashed"]
    placement: Literal["best-fit", "first-fit", "spread", "exact", "random", "packed"]


class DecisionsPart(FilePart):
    """See Decisions."""

    core = Decisions

    proven: int = Field(ge=0)
    unproven: int = Field(ge=0)


class RunPart(FilePart):
    """The jobs on one fabric."""

    core = FabricRun

    fabric: FabricPart
    queue: Literal["fifo", "backfill", "reserve"]
    defragment: bool
    unfinished: Annotated[Ints, ArrayOf(JobIndex, np.int64, most=MAX_JOBS)]
    decisions: DecisionsPart | None = Field(
        default=None, exclude_if=is_none, description="only of runs whose placement is exact"
    )

    @classmethod
    def attributes(cls, value: FabricRun) -> dict[str, Any]:
        """Jobs that have not ended are listed; the stays of all runs are one table."""
        return {**super().attributes(value), "unfinished": np.flatnonzero(~value.finished)}

    def build(self) -> RunPart:
        """Itself: the jobs and stays stand in tables of their own, see `of_jobs`."""
        return self

    def of_jobs(self, jobs: int, stays: Stays) -> FabricRun:
        """The run of so many jobs."""
        finished = np.ones(jobs, dtype=bool)
        finished[self.unfinished] = False
        return FabricRun(**self.arguments(), finished=finished, stays=stays)


class ClassPlanPart(FilePart):
    """How a class runs on a fabric."""

    core = ClassPlan

    fabric: Text
    job_class: Text
    alone_ms: Positive
    bound: BoundFile
    topology: Text
    strategy: Annotated[Listed[PlacementRow], Field(max_length=MAX_OPERATORS)] | None

    @classmethod
    def attributes(cls, value: ClassPlan) -> dict[str, Any]:
        """A strategy is its rows."""
        return {**super().attributes(value), "strategy": value.strategy and value.strategy.placements}

    def arguments(self) -> dict[str, Any]:
        """Rows are a strategy."""
        return {**super().arguments(), "strategy": None if self.strategy is None else Strategy(self.strategy)}


class DrawPart(FilePart):
    """One draw."""

    core = DrawnRun

    load: int = Field(ge=1, le=MAX_SERVERS)
    repetition: int = Field(ge=0)
    classes: Annotated[Listed[ClassIndex], Field(max_length=MAX_SERVERS)]
    servers: Annotated[Listed[Listed[Server]], Field(max_length=MAX_SERVERS)]
    times_ms: Annotated[Listed[Listed[Positive]], Field(max_length=MAX_FABRICS)]
    shard_ms: Annotated[Listed[Positive], Field(max_length=MAX_SERVERS)] = ()
