"""What solution files of all kinds begin with, and the types of their provenance."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from topoopt.core.proofs import CLAIMED, Argument, Bound
from topoopt.core.solution import CheckResult, Decides, LeftOut, Objective, SolutionHead
from topoopt.core.verdict import Status, StopReason
from topoopt.files.fields import PRINTABLE
from topoopt.files.file_part import FilePart, Listed, NameOf, PairsOf, is_none

SOLUTION_VERSION = 2
"""Of the files written; no other is read. 1 held figures that follow from others in the file."""
SolutionVersion = Annotated[
    int, Field(ge=SOLUTION_VERSION, le=SOLUTION_VERSION, description="version of the format of solution files")
]

Number = Annotated[float, Field(ge=-1e30, le=1e30)]
Amount = Annotated[float, Field(ge=0, le=1e30)]
Text = Annotated[str, Field(max_length=20_000, pattern=PRINTABLE)]
Sha256 = Annotated[str, Field(max_length=64)]
Versions = Annotated[tuple[tuple[str, str], ...], PairsOf(Text)]
Notes = Annotated[Listed[Text], Field(max_length=10_000)]


def is_nothing(value: object) -> bool:
    """For `exclude_if`: a figure that the answer does not rest on."""
    return value is Decides.NOTHING


class ObjectiveFile(FilePart):
    """What was minimised."""

    core = Objective

    name: Text
    value: Number
    unit: Text


class BoundFile(FilePart):
    """A bound, and whether the checker derives it again."""

    core = Bound

    value: Number
    proved_by: Annotated[Argument, NameOf(Argument)] = Field(description="the argument it rests on")
    verified: bool = Field(description="whether the checker derives it again; else it is only claimed")
    iterations: int | None = Field(
        default=None, ge=1, le=1_000_000, exclude_if=is_none, description="of the search for multipliers"
    )

    @classmethod
    def attributes(cls, value: Bound) -> dict[str, Any]:
        """The argument by its name."""
        return {**super().attributes(value), "proved_by": value.argument}

    def arguments(self) -> dict[str, Any]:
        """An argument that the checker can make again is not verified where a check left it out."""
        return {
            **super().arguments(),
            "argument": self.proved_by,
            "derived": self.verified or self.proved_by in CLAIMED,
        }

    @model_validator(mode="after")
    def _honest(self) -> Self:
        if self.verified and self.proved_by in CLAIMED:
            raise PydanticCustomError("verified", "{argument} is not verified", {"argument": self.proved_by.value})
        return self


class LeftOutFile(FilePart):
    """A figure that was not recomputed."""

    core = LeftOut

    figure: Text
    reason: Text
    decides: Annotated[Decides, NameOf(Decides)] = Field(
        default=Decides.NOTHING,
        exclude_if=is_nothing,
        description="what of the answer is only claimed without it",
    )


class CheckFile(FilePart):
    """Verdict of the checker."""

    core = CheckResult

    ok: bool
    violations: Annotated[Listed[Text], Field(max_length=100_000)]
    not_recomputed: Annotated[Listed[LeftOutFile], Field(max_length=100_000)] = ()


class TitleFile(FilePart):
    """First keys of a solution file; each kind narrows `kind` and `core`."""

    core: ClassVar[type[Any]] = SolutionHead

    schema_version: SolutionVersion
    kind: str
    name: Text
    status: Annotated[Status, NameOf(Status)]
    stopped_by: Annotated[StopReason, NameOf(StopReason)]

    @classmethod
    def attributes(cls, value: Any) -> dict[str, Any]:
        """A solution file says so in its kind."""
        return {**super().attributes(value), "schema_version": SOLUTION_VERSION, "kind": f"{value.kind}-solution"}

    def arguments(self) -> dict[str, Any]:
        """The kind is that of the instance."""
        stated = super().arguments()
        return {**stated, "kind": self.kind.removesuffix("-solution")} if "kind" in stated else stated


class ReachedFile(TitleFile):
    """What was reached, and what is proven."""

    objective: ObjectiveFile
    bound: BoundFile
    claimed_bound: BoundFile | None = Field(
        default=None, exclude_if=is_none, description="a tighter one that is not verified"
    )


class SolutionHeadFile(ReachedFile):
    """Head of a solution file.

    A kind with keys inside the head states them in a class below `TitleFile` or `ReachedFile`, as a second base:
    pydantic takes the fields from the last base to the first, so messages name the keys in the order of the file.
    """

    check: CheckFile
    seed: int = Field(ge=0)
    method: Text
    instance: dict[str, Any] | None = Field(
        default=None, exclude_if=is_none, description="the document of the instance, where it is small and whole"
    )


def check_document(check: CheckResult) -> dict[str, Any]:
    """Plain data of the verdict of the checker."""
    left_out = [asdict(one) for one in check.not_recomputed]
    return {"ok": check.ok, "violations": list(check.violations), "not_recomputed": left_out}


def bound_document(bound: Bound) -> dict[str, Any]:
    """Plain data of a bound."""
    document: dict[str, Any] = BoundFile.model_validate(bound, strict=False).model_dump(mode="json")
    return document
