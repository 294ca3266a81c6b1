"""Shape of a solution file. Long tables are rows of plain lists; the comment of each row type names its columns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from topoopt.files.fields import MAX_OPERATORS, MAX_SERVERS, FileModel, Seed
from topoopt.files.solution_head import Amount, Number, SolutionHeadFile, Text
from topoopt.kinds.job.schema import ClusterFields

KIND = "co-optimisation-solution"
MAX_NODES = 2 * MAX_SERVERS
"""Servers and switches of a fabric; link tables take the square of it."""

Share = Annotated[float, Field(ge=0, le=1 + 1e-9)]
Server = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
Node = Annotated[int, Field(ge=0, lt=MAX_NODES)]
Servers = Annotated[list[Server], Field(max_length=MAX_SERVERS)]
Nodes = Annotated[list[Node], Field(min_length=1, max_length=MAX_NODES)]

# A row is a list in the file and a tuple once read; what is in it stays strict.
ArcRow = Annotated[tuple[Server, Server, Annotated[int, Field(ge=1, le=64)]], Strict(False)]  # tail, head, multiplicity
PlacementRow = Annotated[tuple[Annotated[int, Field(ge=0, le=10_000)], Server], Strict(False)]  # split, offset
PathRow = Annotated[tuple[Share, Nodes], Strict(False)]  # share, nodes
PairRow = Annotated[tuple[Server, Server, list[PathRow]], Strict(False)]  # source, target, paths
TrafficRow = Annotated[tuple[Server, Server, Amount], Strict(False)]  # source, target, bytes
AllReduceRow = Annotated[tuple[Amount, Servers], Strict(False)]  # payload bytes, members
SpanRow = Annotated[
    tuple[Annotated[int, Field(ge=-1, lt=MAX_SERVERS)], Text, Text, Number, Number], Strict(False)
]  # lane, kind, label, start ms, end ms
PriceRow = Annotated[tuple[list[Number], list[Number]], Strict(False)]  # of the splits of a producer, of a consumer
ConvergenceRow = Annotated[tuple[Annotated[int, Field(ge=0)], Text, Number], Strict(False)]  # proposals, phase, best ms


class SolutionCluster(ClusterFields):
    """The cluster of the instance."""

    gpu_memory_bytes: int | None = Field(default=None, ge=0, le=2**62)


class TopologyFile(FileModel):
    """Arcs and the permutation of every switch."""

    servers: int = Field(ge=2, le=MAX_SERVERS)
    degree: int = Field(ge=1, le=64)
    links: Literal["bidirectional", "unidirectional"]
    arcs: Annotated[list[ArcRow], Field(max_length=64 * MAX_SERVERS)]
    switches: Annotated[list[list[Annotated[int, Field(ge=-1, lt=MAX_SERVERS)]]], Field(max_length=64)]
    offsets: Servers
    origin: Text


class RoutesFile(FileModel):
    """Paths of ordered pairs."""

    nodes_total: int = Field(ge=1, le=MAX_NODES)
    pairs: list[PairRow]


class RingFile(FileModel):
    """One ring order."""

    order: Servers
    share: Share
    paths: Annotated[list[Nodes], Field(max_length=MAX_SERVERS)]


class GroupFile(FileModel):
    """Rings of one group."""

    members: Servers
    rings: Annotated[list[RingFile], Field(max_length=1000)]


class PlanFile(FileModel):
    """Strategy, topology, routes and rings."""

    strategy: Annotated[list[PlacementRow], Field(max_length=MAX_OPERATORS)]
    topology: TopologyFile
    routes: RoutesFile
    rings: list[GroupFile]


class ChoiceFile(FileModel):
    """What the strategy does with one operator."""

    name: Text
    kind: Text
    split: Text
    servers: Servers
    forward_ms: Amount
    backward_ms: Amount
    weight_bytes: int = Field(ge=0, le=10**18)


class DemandFile(FileModel):
    """Network demand."""

    servers: int = Field(ge=2, le=MAX_SERVERS)
    model_parallel_bytes: list[TrafficRow]
    allreduce: list[AllReduceRow]


class BreakdownFile(FileModel):
    """Iteration time along its critical path."""

    compute_ms: Number
    model_parallel_ms: Number
    allreduce_ms: Number
    idle_ms: Number
    busiest_server_compute_ms: Number


class EvaluationFile(FileModel):
    """Outcome of the simulation."""

    time_model: Text
    iteration_time_ms: Number
    breakdown: BreakdownFile
    link_bytes: Annotated[list[Number], Field(max_length=64 * MAX_SERVERS)]
    link_utilisation: Annotated[list[Number], Field(max_length=64 * MAX_SERVERS)]
    bandwidth_tax: Number
    timeline: list[SpanRow]
    critical_path: list[SpanRow]


class BaselineFile(FileModel):
    """The job on another fabric."""

    fabric: Text
    iteration_time_ms: Number
    description: Text


class CutFile(FileModel):
    """Strategies divided in two by the split of an operator."""

    operator: int = Field(ge=0, lt=MAX_OPERATORS)
    splits: Annotated[list[Annotated[int, Field(ge=0, le=10_000)]], Field(max_length=10_000)]
    inside: int = Field(ge=1, le=10_000)
    outside: int = Field(ge=1, le=10_000)


class CaseFile(FileModel):
    """Multipliers that prove a bound for the strategies of one case."""

    laws: Annotated[dict[Text, Amount], Field(max_length=1_000_000)]
    memory: Amount
    prices: list[PriceRow]


class PricesFile(FileModel):
    """Prices of the networks compared."""

    book: Text
    book_sha256: Annotated[str, Field(max_length=64)]
    usd: Annotated[dict[Text, Amount], Field(max_length=100)]


class SolutionFile(SolutionHeadFile):
    """Result of a co-optimisation."""

    kind: Literal["co-optimisation-solution"]
    seed: Seed
    cluster: SolutionCluster
    workload_name: Text
    samples: int = Field(ge=1, le=2**40)
    initial_ms: Number
    diameter: int = Field(ge=-1, le=10**6)
    mean_hops: Number
    diameter_bound: Number
    instance_sha256: Annotated[str, Field(max_length=64)]
    versions: Annotated[dict[Text, Text], Field(max_length=1000)]
    notes: Annotated[list[Text], Field(max_length=10_000)]
    operators: Annotated[list[ChoiceFile], Field(max_length=MAX_OPERATORS)]
    plan: PlanFile
    demand: DemandFile
    evaluation: EvaluationFile
    baselines: Annotated[list[BaselineFile], Field(max_length=100)]
    prices: PricesFile | None = None
    convergence: list[ConvergenceRow]
    certificate: Annotated[list[CutFile | CaseFile], Field(max_length=10_000)] | None = None
