"""Shape of solution files of jobs. Long tables are rows of plain lists; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Discriminator, Field, Strict, Tag

from topoopt.core.arrays import Floats
from topoopt.core.bill import FabricPrices
from topoopt.core.job_solution import (
    Baseline,
    ConvergencePoint,
    Evaluation,
    FabricGraph,
    JobSolution,
    JointBound,
    OperatorChoice,
    Span,
)
from topoopt.core.strategy import Strategy, StrategyCase, StrategyCertificate, StrategyCut
from topoopt.files.fields import MAX_OPERATORS, MAX_SERVERS, Count, Seed
from topoopt.files.file_part import ArrayOf, FilePart, Listed, PairsOf, RowOf, is_none
from topoopt.files.link_tree_part import LinkTreePart
from topoopt.files.solution_head import Amount, Notes, Number, Sha256, SolutionHeadFile, Text, Versions
from topoopt.kinds.job.plan_parts import MAX_DEGREE, ArcRow, DemandPart, PlacementRow, PlanPart, Servers
from topoopt.kinds.job.schema import ClusterFields

KIND = "co-optimisation-solution"

SpanKind = Literal["forward", "backward", "transfer", "allreduce"]
SpanRow = Annotated[
    Span, RowOf(Span, tuple[Annotated[int, Field(ge=-1, lt=MAX_SERVERS)], SpanKind, Text, Number, Number])
]  # lane, kind, label, start ms, end ms
PriceRow = Annotated[tuple[Listed[Number], Listed[Number]], Strict(False)]  # of the states of producer and consumer
ConvergenceRow = Annotated[
    ConvergencePoint, RowOf(ConvergencePoint, tuple[Annotated[int, Field(ge=0)], Text, Number])
]  # proposals, phase, best ms
State = Annotated[int, Field(ge=0, le=10_000)]
LinkFigures = Annotated[Floats, ArrayOf(Number, np.float64, most=64 * MAX_SERVERS)]


class ClusterPart(ClusterFields):
    """The cluster of the instance."""

    gpu_memory_bytes: int | None = Field(default=None, ge=0, le=2**62)


class OperatorChoicePart(FilePart):
    """What the strategy does with one operator."""

    core = OperatorChoice

    name: Text
    kind: Text
    split: Text
    servers: Servers
    forward_ms: Amount
    backward_ms: Amount
    weight_bytes: int = Field(ge=0, le=10**18)
    memory_bytes: int = Field(ge=0, le=2**62)


class EvaluationPart(FilePart):
    """Outcome of the simulation."""

    core = Evaluation

    time_model: Text
    link_bytes: LinkFigures
    timeline: Listed[SpanRow]
    timeline_servers_left_out: Count
    critical_path: Listed[SpanRow]


class FabricGraphPart(FilePart):
    """Direct links of a fabric and rings on it."""

    core = FabricGraph

    links: Annotated[Listed[ArcRow], Field(max_length=MAX_DEGREE * MAX_SERVERS)]
    rings: Annotated[Listed[Servers], Field(max_length=100_000)]


class BaselinePart(FilePart):
    """The job on another fabric."""

    core = Baseline

    fabric: Text
    iteration_time_ms: Number
    description: Text
    strategy: Annotated[Listed[PlacementRow], Field(max_length=MAX_OPERATORS)]
    graph: FabricGraphPart | None = Field(default=None, exclude_if=is_none)

    @classmethod
    def attributes(cls, value: Baseline) -> dict[str, Any]:
        """The strategy as its rows."""
        return {**super().attributes(value), "strategy": value.strategy.placements}

    def arguments(self) -> dict[str, Any]:
        """The strategy of its rows."""
        return {**super().arguments(), "strategy": Strategy(self.strategy)}


class StrategyCutPart(FilePart):
    """Strategies divided in two by the state of an operator."""

    core = StrategyCut

    operator: int = Field(ge=0, lt=MAX_OPERATORS)
    states: Annotated[Listed[State], Field(max_length=10_000)]
    inside: int = Field(ge=1, le=10_000)
    outside: int = Field(ge=1, le=10_000)


class StrategyCasePart(FilePart):
    """Multipliers that prove a bound for the strategies of one case."""

    core = StrategyCase

    laws: Annotated[tuple[tuple[str, float], ...], PairsOf(Amount, Text, most=1_000_000)]
    memory: Amount
    prices: Listed[PriceRow]


def node_shape(value: object) -> str:
    """Which shape of a node of the certificate is meant; the answer names the class."""
    cut = "operator" in value if isinstance(value, dict) else hasattr(value, "operator")
    return "StrategyCutPart" if cut else "StrategyCasePart"


NodePart = Annotated[
    Annotated[StrategyCutPart, Tag("StrategyCutPart")] | Annotated[StrategyCasePart, Tag("StrategyCasePart")],
    Discriminator(node_shape),
]


class StrategyCertificatePart(FilePart):
    """Proof of a bound over all strategies."""

    core = StrategyCertificate

    nodes: Annotated[Listed[NodePart], Field(max_length=10_000)]
    classes: int = Field(ge=1, le=2)
    fixed: int | None = Field(ge=0, lt=MAX_OPERATORS)


class FabricPricesPart(FilePart):
    """Prices of the networks compared."""

    core = FabricPrices

    book: Text
    book_sha256: Sha256
    usd: Annotated[tuple[tuple[str, float], ...], PairsOf(Amount, Text, most=100)]


class JointBoundPart(FilePart):
    """What no plan beats in the bulk-synchronous model, with its proof."""

    core = JointBound

    bound_ms: Amount
    tree: LinkTreePart


class JobSolutionFile(SolutionHeadFile):
    """Result of a co-optimisation."""

    core = JobSolution

    kind: Literal["co-optimisation-solution"]
    seed: Seed
    cluster: ClusterPart
    workload_name: Text
    samples: int = Field(ge=1, le=2**40)
    initial_ms: Number | None
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    baselines: Annotated[Listed[BaselinePart], Field(max_length=100)]
    prices: FabricPricesPart | None = None
    convergence: Listed[ConvergenceRow]
    operators: Annotated[Listed[OperatorChoicePart], Field(max_length=MAX_OPERATORS)]
    plan: PlanPart
    demand: DemandPart
    evaluation: EvaluationPart
    certificate: StrategyCertificatePart | None = None
    joint: JointBoundPart | None = Field(default=None, exclude_if=is_none, description="of method joint")
