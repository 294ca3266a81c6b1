"""What solution files of all kinds begin with, and their provenance: shape, to plain data and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Protocol, TypedDict

from pydantic import Field

from topoopt.core.solution import Argument, Bound, CheckResult, Objective, Proof, SolutionHead
from topoopt.core.verdict import Status, StopReason
from topoopt.files.fields import PRINTABLE, SchemaVersion
from topoopt.files.file_part import FilePart, Listed, NameOf, PairsOf, is_none

Number = Annotated[float, Field(ge=-1e30, le=1e30)]
Amount = Annotated[float, Field(ge=0, le=1e30)]
Text = Annotated[str, Field(max_length=20_000, pattern=PRINTABLE)]
Sha256 = Annotated[str, Field(max_length=64)]
Versions = Annotated[tuple[tuple[str, str], ...], PairsOf(Text)]
Notes = Annotated[Listed[Text], Field(max_length=10_000)]


class ObjectiveFile(FilePart):
    """What was minimised."""

    core = Objective

    name: Text
    value: Number
    unit: Text


class ProofFile(FilePart):
    """How the checker derives a bound again."""

    core = Proof

    argument: Annotated[Argument, NameOf(Argument)]
    iterations: int | None = Field(default=None, ge=1, le=1_000_000, description="of the search for multipliers")


class BoundFile(FilePart):
    """Proven lower bound."""

    core = Bound

    value: Number
    proved_by: Text
    proof: ProofFile | None = Field(
        default=None, exclude_if=is_none, description="left out: the checker knows the argument by its name"
    )


class CheckFile(FilePart):
    """Verdict of the checker."""

    core = CheckResult

    ok: bool
    violations: Annotated[Listed[Text], Field(max_length=100_000)]


class TitleFile(FilePart):
    """First keys of a solution file; each kind narrows `kind` and `core`."""

    core: ClassVar[type[Any]] = SolutionHead

    schema_version: SchemaVersion
    kind: str
    name: Text
    status: Annotated[Status, NameOf(Status)]
    stopped_by: Annotated[StopReason, NameOf(StopReason)]

    @classmethod
    def attributes(cls, value: Any) -> dict[str, Any]:
        """A solution file says so in its kind."""
        return {**super().attributes(value), "schema_version": 1, "kind": f"{value.kind}-solution"}

    def arguments(self) -> dict[str, Any]:
        """The kind is that of the instance."""
        stated = super().arguments()
        return {**stated, "kind": self.kind.removesuffix("-solution")} if "kind" in stated else stated


class ReachedFile(TitleFile):
    """What was reached, and what is proven."""

    objective: ObjectiveFile
    bound: BoundFile


class SolutionHeadFile(ReachedFile):
    """Head of a solution file.

    A kind with keys inside the head states them in a class below `TitleFile` or `ReachedFile`, as a second base:
    pydantic takes the fields from the last base to the first, so messages name the keys in the order of the file.
    """

    check: CheckFile
    seed: int = Field(ge=0)
    method: Text


class ProvenanceFile(Protocol):
    """Where a solution came from; every kind has these keys, at a place of its own."""

    @property
    def instance_sha256(self) -> str: ...
    @property
    def versions(self) -> dict[str, str]: ...
    @property
    def notes(self) -> list[str]: ...


class Head(TypedDict):
    """Arguments of a solution that its head states."""

    name: str
    status: Status
    stopped_by: StopReason
    objective: Objective
    bound: Bound
    check: CheckResult
    seed: int
    method: str


class Provenance(TypedDict):
    """Arguments of a solution that say where it came from."""

    instance_sha256: str
    versions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def bound_of(file: BoundFile) -> Bound:
    """A bound as it is stated."""
    proof = None if file.proof is None else Proof(file.proof.argument, file.proof.iterations)
    return Bound(file.value, file.proved_by, proof)


def head_of(file: SolutionHeadFile) -> Head:
    """What the head of a file states."""
    return {
        "name": file.name,
        "status": Status(file.status),
        "stopped_by": StopReason(file.stopped_by),
        "objective": Objective(file.objective.name, file.objective.value, file.objective.unit),
        "bound": bound_of(file.bound),
        "check": CheckResult(file.check.ok, tuple(file.check.violations)),
        "seed": file.seed,
        "method": file.method,
    }


def provenance_of(file: ProvenanceFile) -> Provenance:
    """Where the solution of a file came from."""
    return {
        "instance_sha256": file.instance_sha256,
        "versions": tuple(file.versions.items()),
        "notes": tuple(file.notes),
    }


def bound_document(bound: Bound) -> dict[str, Any]:
    """Plain data of a bound."""
    proof = {} if bound.proof is None else {"proof": asdict(bound.proof)}
    return {"value": float(bound.value), "proved_by": bound.proved_by, **proof}


def head_document(
    solution: SolutionHead, *, asked: Mapping[str, Any] | None = None, bounds: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Plain data of the head.

    Args:
        solution: of any kind.
        asked: keys of one kind that stand before the objective.
        bounds: keys of one kind that stand behind the bound.
    """
    objective = solution.objective
    return {
        "schema_version": 1,
        "kind": f"{solution.kind}-solution",
        "name": solution.name,
        "status": solution.status.value,
        "stopped_by": solution.stopped_by.value,
        **(asked or {}),
        "objective": {"name": objective.name, "value": float(objective.value), "unit": objective.unit},
        "bound": bound_document(solution.bound),
        **(bounds or {}),
        "check": {"ok": solution.check.ok, "violations": list(solution.check.violations)},
        "seed": solution.seed,
        "method": solution.method,
    }


def provenance_document(solution: SolutionHead) -> dict[str, Any]:
    """Plain data of where a solution came from."""
    return {
        "instance_sha256": solution.instance_sha256,
        "versions": dict(solution.versions),
        "notes": list(solution.notes),
    }
