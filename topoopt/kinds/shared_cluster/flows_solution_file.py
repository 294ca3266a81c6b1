"""Solution files of kind `shared-load`, and their statistics as CSV: same bytes for the same solution."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import asdict, fields
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from topoopt.core.shared_load_solution import ClassPlan, LoadStatistics, SharedLoadSolution, Together
from topoopt.core.strategy import Strategy
from topoopt.files.atomic import write_text_atomically
from topoopt.files.checked_file import read_checked
from topoopt.files.faults import Fault
from topoopt.files.fields import MAX_OPERATORS, MAX_SERVERS, FileModel
from topoopt.files.solution_head import (
    Amount,
    SolutionHeadFile,
    Text,
    head_document,
    head_of,
    provenance_document,
    provenance_of,
)
from topoopt.files.solution_kind import LIMITS
from topoopt.files.solution_text import solution_text
from topoopt.kinds.job.plan_parts import PlacementRow, Servers
from topoopt.kinds.shared_cluster.flows_schema import MAX_CLASSES, MAX_FABRICS, MAX_JOBS

ROWS = ("fabrics", "plans", "statistics", "runs")
"""Keys with one line of text for each row."""

PairRow = Annotated[tuple[Text, Text], Strict(False)]  # name, description
Times = Annotated[list[Amount], Field(max_length=MAX_SERVERS)]


class ClassPlanFile(FileModel):
    """How a class runs on a fabric."""

    fabric: Text
    job_class: Text
    alone_ms: Amount
    bound_ms: Amount
    bound_by: Text
    topology: Text
    strategy: Annotated[list[PlacementRow], Field(max_length=MAX_OPERATORS)] | None


class StatisticsFile(FileModel):
    """One fabric at one load."""

    fabric: Text
    load: int = Field(ge=1)
    jobs: int = Field(ge=1)
    mean_ms: Amount
    p50_ms: Amount
    p90_ms: Amount
    p95_ms: Amount
    p99_ms: Amount
    slowdown: Amount
    over_first: Amount
    p99_over_first: Amount


class TogetherFile(FileModel):
    """One draw."""

    load: int = Field(ge=1, le=MAX_SERVERS)
    repetition: int = Field(ge=0)
    classes: Annotated[list[Annotated[int, Field(ge=0, lt=MAX_CLASSES)]], Field(max_length=MAX_SERVERS)]
    servers: Annotated[list[Servers], Field(max_length=MAX_SERVERS)]
    times_ms: Annotated[list[Times], Field(max_length=MAX_FABRICS)]


class SharedLoadSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `shared-load`."""

    kind: Literal["shared-load-solution"]
    servers: int = Field(ge=2, le=MAX_SERVERS)
    time_model: Text
    placement: Text
    rank_order: Text
    class_names: Annotated[list[Text], Field(min_length=1, max_length=MAX_CLASSES)]
    instance_sha256: Text
    versions: dict[str, Text]
    notes: list[Text]
    fabrics: Annotated[list[PairRow], Field(min_length=1, max_length=MAX_FABRICS)]
    plans: Annotated[list[ClassPlanFile], Field(max_length=MAX_CLASSES * MAX_FABRICS)]
    statistics: Annotated[list[StatisticsFile], Field(min_length=1, max_length=10_000)]
    runs: Annotated[list[TogetherFile], Field(min_length=1, max_length=MAX_JOBS)]


def shared_load_document(solution: SharedLoadSolution) -> dict[str, Any]:
    """Plain data of a solution; the long tables come last."""
    return {
        **head_document(solution),
        "servers": solution.servers,
        "time_model": solution.time_model,
        "placement": solution.placement,
        "rank_order": solution.rank_order,
        "class_names": list(solution.class_names),
        **provenance_document(solution),
        "fabrics": [list(row) for row in solution.fabrics],
        "plans": [
            {
                "fabric": plan.fabric,
                "job_class": plan.job_class,
                "alone_ms": plan.alone_ms,
                "bound_ms": plan.bound_ms,
                "bound_by": plan.bound_by,
                "topology": plan.topology,
                "strategy": None
                if plan.strategy is None
                else [[each.split, each.offset] for each in plan.strategy.placements],
            }
            for plan in solution.plans
        ],
        "statistics": [asdict(row) for row in solution.statistics],
        "runs": [asdict(run) for run in solution.runs],
    }


def write_shared_load_solution(solution: SharedLoadSolution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    write_text_atomically(path, solution_text(shared_load_document(solution), rows=ROWS))


def statistics_csv(solution: SharedLoadSolution) -> str:
    """The statistics, a row for each load and fabric."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [field.name for field in fields(LoadStatistics)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in solution.statistics)
    return stream.getvalue()


def _faults(file: SharedLoadSolutionFile) -> list[Fault]:
    """What the schema cannot state, so far as a report would stumble over it."""
    faults = []
    classes, fabrics = len(file.class_names), len(file.fabrics)
    names = {name for name, _ in file.fabrics}
    for place, run in enumerate(file.runs):
        if any(index >= classes for index in run.classes):
            faults.append(Fault(("runs", place, "classes"), "no such class", allowed=f"0 to {classes - 1}"))
        lengths = {len(run.servers), *(len(times) for times in run.times_ms)}
        if len(run.times_ms) != fabrics or lengths != {len(run.classes)}:
            faults.append(Fault(("runs", place), "not a class, servers and a time on every fabric for each job"))
    for key in ("plans", "statistics"):
        for place, row in enumerate(getattr(file, key)):
            if row.fabric not in names:
                faults.append(Fault((key, place, "fabric"), "no such fabric", row.fabric))
    return faults


def read_shared_load_solution(path: str | os.PathLike[str]) -> SharedLoadSolution:
    """Read a solution file (JSON); whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    file = read_checked(path, SharedLoadSolutionFile, _faults, LIMITS)
    return SharedLoadSolution(
        **head_of(file),
        **provenance_of(file),
        servers=file.servers,
        time_model=file.time_model,
        placement=file.placement,
        rank_order=file.rank_order,
        fabrics=tuple(file.fabrics),
        class_names=tuple(file.class_names),
        plans=tuple(
            ClassPlan(
                fabric=plan.fabric,
                job_class=plan.job_class,
                alone_ms=plan.alone_ms,
                bound_ms=plan.bound_ms,
                bound_by=plan.bound_by,
                strategy=None if plan.strategy is None else Strategy(tuple(plan.strategy)),
                topology=plan.topology,
            )
            for plan in file.plans
        ),
        runs=tuple(
            Together(
                run.load,
                run.repetition,
                tuple(run.classes),
                tuple(tuple(own) for own in run.servers),
                tuple(tuple(times) for times in run.times_ms),
            )
            for run in file.runs
        ),
        statistics=tuple(LoadStatistics(**row.model_dump()) for row in file.statistics),
    )
