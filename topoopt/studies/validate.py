"""What would go wrong in a study, found before it is run."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from topoopt.core.comparison import Study, StudyRun
from topoopt.core.errors import InputError, Problem
from topoopt.files.documents import Document
from topoopt.kinds import kind_of
from topoopt.kinds.files import build_instance, read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import search_problems
from topoopt.studies.schema import COMMANDS


@dataclass(frozen=True)
class Outlook:
    """A study before it is run.

    Attributes:
        runs: that differ.
        repeated: rows that share a run with an earlier one.
        longest_s: seconds until the last run is killed if every run takes all it may, with one job.
        problems: of instances and methods; such runs will be refused, the others not.
    """

    runs: int
    repeated: int
    longest_s: float
    problems: tuple[Problem, ...]


def outlook(study: Study, *, progress: Callable[[int], None] | None = None) -> Outlook:
    """Read every instance of a study, and look up every method."""
    unique = {run.identity: run for run in study.runs}
    problems: dict[str, Problem] = {}
    judged: set[tuple[str | None, str, str | None]] = set()
    for count, run in enumerate(unique.values()):
        key = (run.document, run.source, run.method)
        if (run.document is not None or run.source) and key not in judged:
            judged.add(key)
            for problem in _problems(run):
                problems.setdefault(str(problem), problem)
        if run.command != ("solve",):
            for problem in _option_problems(run):
                problems.setdefault(str(problem), problem)
        if progress is not None:
            progress(count + 1)
    longest_s = sum(run.limits.wall_s for run in unique.values())
    return Outlook(len(unique), len(study.runs) - len(unique), longest_s, tuple(problems.values()))


def _problems(run: StudyRun) -> list[Problem]:
    try:
        instance = _instance(run)
        options = SolveOptions(run.seed or 0, run.limits.time_limit_s, run.limits.budget, run.method or "auto")
        found = search_problems(kind_of(instance), instance, options)
    except InputError as error:
        found = list(error.problems)
    return [_placed(problem, run) for problem in found]


def _option_problems(run: StudyRun) -> list[Problem]:
    """What the command of a run says of its options."""
    module, name = COMMANDS[" ".join(run.command)]
    instance = ["instance.json"] if run.document is not None or run.source else []
    alone = typer.Typer(add_completion=False)
    alone.command()(getattr(importlib.import_module(module), name))
    try:
        typer.main.get_command(alone).make_context(run.command[-1], [*instance, *run.arguments, "--json"])
    except Exception as error:  # typer has its errors from click, or from a copy of its own
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        return [Problem(format_message(), path=f"instances: {run.instance}", value=" ".join(run.arguments))]
    return []


def _instance(run: StudyRun) -> Any:
    if run.document is None:
        return read_instance(run.source)
    name = run.source or run.instance
    return build_instance(Document(name, json.loads(run.document), lambda _: {}))


def _placed(problem: Problem, run: StudyRun) -> Problem:
    """The problem with the file it is in, and what was varied."""
    varied = ", ".join(f"{path} = {value}" for path, value in run.factors)
    message = f"{problem.message} (with {varied})" if varied else problem.message
    return replace(problem, file=problem.file or str(Path(run.source or run.instance)), message=message)
