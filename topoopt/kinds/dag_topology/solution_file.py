"""Solution files of kind `dag-topology`. Long tables are rows of plain lists; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from topoopt.core.dag_topology_solution import (
    CircuitProof,
    DagTopologySolution,
    PairCircuits,
    PathMean,
    StepSpan,
)
from topoopt.files.faults import Fault
from topoopt.files.fields import Label
from topoopt.files.file_part import FilePart, Listed, RowOf, is_none
from topoopt.files.solution_format import SolutionFormat
from topoopt.files.solution_head import Amount, Notes, Sha256, SolutionHeadFile, Versions
from topoopt.kinds.dag_topology.schema import MAX_PODS, MAX_PORTS, MAX_STEPS, Pod, Ports

MOST_PAIRS = MAX_PODS * (MAX_PODS - 1) // 2
MOST_SPLITS = 1_000_000
Count = Annotated[int, Field(ge=1, le=MAX_PORTS)]
NoPod = Annotated[int, Field(ge=-1, lt=MAX_PODS)]
Split = Annotated[
    tuple[Annotated[int, Field(ge=-1, lt=MOST_PAIRS)], Annotated[int, Field(ge=0, lt=MOST_SPLITS)]], Strict(False)
]  # pair, count; -1: closed, by a mean from 1 on
Tree = Annotated[Listed[Split], Field(min_length=1, max_length=MOST_SPLITS)]


Steps = Annotated[Listed[Annotated[int, Field(ge=0, lt=2 * MAX_STEPS)]], Field(min_length=1, max_length=MAX_STEPS)]
Path = Annotated[Listed[Steps], Field(min_length=1, max_length=2 * MAX_STEPS)]
Weights = Annotated[
    Listed[Annotated[tuple[Annotated[int, Field(ge=0, lt=MOST_SPLITS)], Amount], Strict(False)]],
    Field(min_length=1, max_length=MOST_SPLITS),
]  # path, weight
Prices = Annotated[Listed[Amount], Field(min_length=1, max_length=MAX_PODS)]


class CircuitProofPart(FilePart):
    """Trees over boxes of circuits."""

    core = CircuitProof

    makespan_tree: Tree
    circuits_bound: Annotated[int, Field(ge=0, le=MOST_PAIRS * MAX_PORTS)]
    circuits_tree: Tree
    paths: Annotated[Listed[Path], Field(max_length=MOST_SPLITS)]
    means: Annotated[
        Listed[Annotated[PathMean, RowOf(PathMean, tuple[Weights, Prices])]], Field(max_length=MOST_SPLITS)
    ]  # weights, prices


Circuits = Annotated[
    Listed[Annotated[PairCircuits, RowOf(PairCircuits, tuple[Pod, Pod, Count])]],
    Field(min_length=1, max_length=MOST_PAIRS),
]  # one, other, count


class DagTopologySolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `dag-topology`."""

    core = DagTopologySolution

    kind: Literal["dag-topology-solution"]
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    pods: Annotated[int, Field(ge=2, le=MAX_PODS)]
    ports: Annotated[Listed[Ports], Field(max_length=MAX_PODS)]
    slack_percent: Annotated[float, Field(ge=0, le=1000)]
    compute_time: Amount
    max_hops: Literal[1] = Field(
        default=1, exclude=True, description="of files that say that no pod forwards; not written"
    )
    circuits: Circuits
    fastest: Annotated[Listed[Count], Field(min_length=1, max_length=MOST_PAIRS)] | None = Field(
        default=None, exclude_if=is_none, description="counts of a plan that is done earlier, by pair"
    )
    proof: CircuitProofPart
    steps: Annotated[
        Listed[Annotated[StepSpan, RowOf(StepSpan, tuple[Label, NoPod, NoPod, Amount, Amount])]],
        Field(min_length=1, max_length=2 * MAX_STEPS),
    ]  # name, source, target, start, end


def _faults(file: DagTopologySolutionFile) -> list[Fault]:
    """What the schema cannot state: pods that exist, tables of fitting length."""
    faults = []
    if len(file.ports) != file.pods:
        faults.append(Fault(("ports",), "wrong number of entries", str(len(file.ports)), f"{file.pods}"))
    if any(not each.one < each.other < file.pods for each in file.circuits):
        allowed = f"0 to {file.pods - 1}, the smaller one first"
        faults.append(Fault(("circuits",), "between pods that do not exist, or not in order", allowed=allowed))
    if file.fastest is not None and len(file.fastest) != len(file.circuits):
        faults.append(Fault(("fastest",), "wrong number", str(len(file.fastest)), f"{len(file.circuits)}"))
    if any(max(each.source, each.target) >= file.pods for each in file.steps):
        faults.append(Fault(("steps",), "a pod that does not exist", allowed=f"0 to {file.pods - 1}"))
    if any(each.end < each.start or (each.source < 0) != (each.target < 0) for each in file.steps):
        faults.append(Fault(("steps",), "a step that ends before it starts, or has one pod alone"))
    return faults


SOLUTION_FILE: SolutionFormat[DagTopologySolution] = SolutionFormat(
    DagTopologySolutionFile, _faults, rows=("steps",), nested=("proof",)
)
