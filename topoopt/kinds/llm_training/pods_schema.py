"""Part of a solution file: circuits between pods, the strategies that were tried over them, and what proves both."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from topoopt.core.dag_topology_solution import CircuitProof, PathMean
from topoopt.core.pod_circuits import PodLink, PodPlan, PodVerdict, TriedStrategy
from topoopt.core.pod_settings import PodSettings
from topoopt.files.faults import Fault, Path
from topoopt.files.file_part import FilePart, Listed, NameOf, RowOf, is_empty, is_none
from topoopt.files.solution_head import Amount
from topoopt.kinds.llm_training.schema import MOST_GPUS, MOST_POD_PORTS, MOST_PODS, MOST_STRATEGIES
from topoopt.kinds.llm_training.strategy_schema import StrategyPart

MOST_PAIRS = MOST_PODS * (MOST_PODS - 1) // 2
MOST_STEPS = 400_000
MOST_SPLITS = 1_000_000
MOST_TRIED = 5 * MOST_STRATEGIES + 1

Pod = Annotated[int, Field(ge=0, lt=MOST_PODS)]
Count = Annotated[int, Field(ge=1, le=MOST_POD_PORTS)]
Counts = Annotated[Listed[Count], Field(max_length=MOST_PAIRS)]
Split = Annotated[
    tuple[Annotated[int, Field(ge=-1, lt=MOST_PAIRS)], Annotated[int, Field(ge=0, lt=MOST_SPLITS)]], Strict(False)
]  # pair, count; -1: closed, by a mean from 1 on
Tree = Annotated[Listed[Split], Field(max_length=MOST_SPLITS)]
Steps = Annotated[Listed[Annotated[int, Field(ge=0, lt=MOST_STEPS)]], Field(min_length=1, max_length=MOST_STEPS)]
StepPathRow = Annotated[Listed[Steps], Field(min_length=1, max_length=MOST_STEPS)]
Paths = Annotated[Listed[StepPathRow], Field(max_length=MOST_SPLITS)]
Weights = Annotated[
    Listed[Annotated[tuple[Annotated[int, Field(ge=0, lt=MOST_SPLITS)], Amount], Strict(False)]],
    Field(min_length=1, max_length=MOST_SPLITS),
]  # path, weight
Prices = Annotated[Listed[Amount], Field(min_length=1, max_length=MOST_PODS)]
Means = Annotated[
    Listed[Annotated[PathMean, RowOf(PathMean, tuple[Weights, Prices])]], Field(max_length=MOST_SPLITS)
]  # weights, prices
LinkRow = Annotated[PodLink, RowOf(PodLink, tuple[Pod, Pod, Count, Amount, Amount])]


class PodSettingsPart(FilePart):
    """Pods, as the instance has them."""

    core = PodSettings

    gpus: Annotated[int, Field(ge=1, le=MOST_GPUS)]
    ports: Count
    circuit_gbps: Amount
    strategies: Annotated[int, Field(ge=1, le=MOST_STRATEGIES)]
    slack_percent: Annotated[float, Field(ge=0, le=1000)]


class PodProofPart(FilePart):
    """Trees over boxes of circuits, of the strategy of the plan."""

    core = CircuitProof

    makespan_tree: Tree
    circuits_bound: Annotated[int, Field(ge=0, le=MOST_PAIRS * MOST_POD_PORTS)]
    circuits_tree: Tree
    paths: Paths
    means: Means


class TriedStrategyPart(FilePart):
    """A strategy that was looked at in pods."""

    core = TriedStrategy

    strategy: StrategyPart
    verdict: Annotated[PodVerdict, NameOf(PodVerdict)]
    bound_s: Amount = Field(description="no circuits make it faster")
    counts: Counts = Field(default=(), exclude_if=is_empty, description="circuits by pair, the fastest found")
    makespan_s: Amount | None = Field(default=None, exclude_if=is_none, description="over these")
    tree: Tree = Field(default=(), exclude_if=is_empty, description="boxes of circuits that prove the bound")
    paths: Paths = Field(default=(), exclude_if=is_empty)
    means: Means = Field(default=(), exclude_if=is_empty)


class PodPlanPart(FilePart):
    """A strategy and the circuits between its pods."""

    core = PodPlan

    settings: PodSettingsPart
    pods: Annotated[int, Field(ge=2, le=MOST_PODS)]
    makespan_s: Amount
    compute_s: Amount = Field(description="if transfers between pods took no time")
    links: Annotated[Listed[LinkRow], Field(min_length=1, max_length=MOST_PAIRS)] = Field(
        description="pod, pod, circuits, bytes there and back in an iteration"
    )
    proof: PodProofPart
    best: Annotated[int, Field(ge=0, lt=MOST_TRIED)] = Field(description="place of the strategy of the plan in `tried`")
    tried: Annotated[Listed[TriedStrategyPart], Field(min_length=1, max_length=MOST_TRIED)]
    first: Annotated[int, Field(ge=0, lt=MOST_TRIED)] = Field(description="place of the fastest on an ideal switch")
    volume_s: Amount = Field(description="of the plan's strategy over circuits by volume alone")
    volume_counts: Counts
    others_s: Amount | None = Field(description="no strategy that was not tried is faster; null: there is none")


def pods_faults(file: PodPlanPart, where: Path) -> list[Fault]:
    """What the schema cannot state: places and pods that exist, times above 0."""
    faults = []
    for key in ("best", "first"):
        if (place := getattr(file, key)) >= len(file.tried):
            allowed = f"0 to {len(file.tried) - 1}"
            faults.append(Fault((*where, key), "no such strategy was tried", str(place), allowed))
    if any(not one.one < one.other < file.pods for one in file.links):
        allowed = f"0 to {file.pods - 1}, the smaller one first"
        faults.append(Fault((*where, "links"), "between pods that do not exist, or not in order", allowed=allowed))
    for key in ("makespan_s", "volume_s"):
        if not (value := getattr(file, key)) > 0:
            faults.append(Fault((*where, key), "not above 0", str(value)))
    if not file.settings.circuit_gbps > 0:
        faults.append(Fault((*where, "settings", "circuit_gbps"), "not above 0", str(file.settings.circuit_gbps)))
    return faults
