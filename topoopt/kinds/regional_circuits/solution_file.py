"""Solution files of kind `regional-circuits`. Long tables are rows of plain lists; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from topoopt.core.dag_topology_solution import PairCircuits
from topoopt.core.regional_circuits_solution import CircuitStep, RegionalCircuitsSolution, StepsProof
from topoopt.files.faults import Fault
from topoopt.files.file_part import FilePart, Listed, RowOf
from topoopt.files.solution_format import SolutionFormat
from topoopt.files.solution_head import Amount, Notes, Sha256, SolutionHeadFile, Versions
from topoopt.kinds.regional_circuits.schema import MAX_PORTS, MAX_SERVERS, MAX_STEPS, Ports

MOST_PAIRS = MAX_SERVERS * (MAX_SERVERS - 1) // 2
MOST_SPLITS = 100_000
Server = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
Step = Annotated[int, Field(ge=0, lt=MAX_STEPS)]
Count = Annotated[int, Field(ge=1, le=MAX_PORTS)]
Split = Annotated[
    tuple[Annotated[int, Field(ge=-1, lt=MOST_PAIRS)], Annotated[int, Field(ge=0, le=MAX_PORTS)]], Strict(False)
]  # pair, count; -1: closed
PairRow = Annotated[PairCircuits, RowOf(PairCircuits, tuple[Server, Server, Count])]  # one, other, count
Prices = Annotated[Listed[Amount], Field(max_length=3 * MAX_SERVERS)]


class StepsProofPart(FilePart):
    """Why circuits that stay over some steps take no less."""

    core = StepsProof

    first: Step
    last: Step
    bound_s: Amount
    tree: Annotated[Listed[Split], Field(min_length=1, max_length=MOST_SPLITS)]
    multipliers: Annotated[Listed[Prices], Field(max_length=MOST_SPLITS)]


class RegionalCircuitsSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `regional-circuits`."""

    core = RegionalCircuitsSolution

    kind: Literal["regional-circuits-solution"]
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    servers: Annotated[int, Field(ge=2, le=MAX_SERVERS)]
    ports: Annotated[Listed[Ports], Field(max_length=MAX_SERVERS)]
    topologies: Annotated[
        Listed[Annotated[Listed[PairRow], Field(max_length=MOST_PAIRS)]], Field(min_length=1, max_length=MAX_STEPS)
    ]
    steps: Annotated[
        Listed[Annotated[CircuitStep, RowOf(CircuitStep, tuple[Step, Amount, Amount, Amount])]],
        Field(min_length=1, max_length=MAX_STEPS),
    ]  # circuits, stall_s, transfer_s, switch_s
    proofs: Annotated[Listed[StepsProofPart], Field(max_length=MAX_STEPS * (MAX_STEPS + 1) // 2)]


def _faults(file: RegionalCircuitsSolutionFile) -> list[Fault]:
    """What the schema cannot state: servers, topologies and steps that exist."""
    faults = []
    if len(file.ports) != file.servers:
        faults.append(Fault(("ports",), "wrong number of entries", str(len(file.ports)), f"{file.servers}"))
    if any(not each.one < each.other < file.servers for topology in file.topologies for each in topology):
        allowed = f"0 to {file.servers - 1}, the smaller one first"
        faults.append(Fault(("topologies",), "between servers that do not exist, or not in order", allowed=allowed))
    if any(step.circuits >= len(file.topologies) for step in file.steps):
        faults.append(Fault(("steps",), "a topology that does not exist", allowed=f"0 to {len(file.topologies) - 1}"))
    if any(not proof.first <= proof.last < len(file.steps) for proof in file.proofs):
        faults.append(Fault(("proofs",), "of steps that do not exist", allowed=f"0 to {len(file.steps) - 1}"))
    return faults


SOLUTION_FILE: SolutionFormat[RegionalCircuitsSolution] = SolutionFormat(
    RegionalCircuitsSolutionFile, _faults, rows=("topologies", "steps", "proofs")
)
