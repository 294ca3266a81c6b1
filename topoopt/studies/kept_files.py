"""Shapes of the files that a study keeps in its folder: its plan, and how each run ended."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from topoopt.core.comparison import ComparedBy, Figure, Published, RunLimits, Scalar, Table

Outcome = Literal[
    "done", "refused", "infeasible", "nothing-found", "check-failed", "crashed", "timed-out", "out-of-memory",
    "interrupted", "environment",
]  # fmt: skip

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]


class KeptFile(BaseModel):
    """A mapping that another version may have written: keys that are not known are passed over."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True, hide_input_in_errors=True)


class PlannedRunFile(KeptFile):
    """A run of a plan."""

    identity: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    instance: str
    source: str
    command: list[str]
    arguments: list[str]
    method: str | None
    seed: Count | None
    repetition: Count
    factors: dict[str, Scalar]
    limits: RunLimits


class PlanFile(KeptFile):
    """study.json."""

    schema_version: Annotated[int, Field(ge=1, le=1)]
    kind: Literal["study-plan"]
    name: str
    title: str
    notes: list[str]
    file: str
    sha256: str
    versions: dict[str, str | None]
    comparison: ComparedBy
    figures: list[Figure]
    tables: list[Table]
    published: list[Published] = []
    names: dict[str, str] = {}
    runs: list[PlannedRunFile]


class RecordFile(KeptFile):
    """run.json."""

    identity: str
    outcome: Outcome
    reason: str
    exit_code: int | None
    wall_s: Amount
    cpu_s: Amount
    peak_memory_mib: Amount
    finished_at: str
    output: dict[str, Any] | None


def is_record(data: object, identity: str) -> bool:
    """Whether data are the record of a run, and of this one."""
    try:
        return RecordFile.model_validate(data).identity == identity
    except ValidationError:
        return False
