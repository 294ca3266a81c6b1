"""Measured iterations: a table (CSV with a header), each row a run, and what it changes in an instance.

Columns: `source`, `run`, `seconds`, and any of those below; an empty cell is as the instance says. Several values with
`|` between them mean that the run took the fastest of them, which is not told. `held_out` (0 or 1): the row judges the
fit and takes no part in it; without that column every second row of a source does.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from topoopt.analyses.evaluate.run import chosen_strategy
from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule, Recompute
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.reader_fields import FieldTable, used
from topoopt.files.untrusted import read_text
from topoopt.simulate.llm_training.strategies import strategy_problems
from topoopt.workloads.language_models import LANGUAGE_MODELS

MOST_RUNS = 10_000
MOST_CHOICES = 64


@dataclass(frozen=True)
class MeasuredRun:
    """One row.

    Attributes:
        source, name: as the table says.
        problem: the instance with what the row changes.
        strategies: what was run, or what it was the fastest of.
        seconds: of an iteration.
        held_out: judges the fit only.
    """

    source: str
    name: str
    problem: LlmTrainingProblem
    strategies: tuple[ParallelStrategy, ...]
    seconds: float
    held_out: bool


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError
    return text == "1"


def _positive(text: str) -> float:
    value = float(text)
    if not (0 < value < math.inf):
        raise ValueError
    return value


def _part(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


def _whole(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 2**30:
        raise ValueError
    return value


def _gradient_bytes(text: str) -> int:
    value = int(text)
    if value not in (2, 4):
        raise ValueError
    return value


def _model(text: str) -> str:
    if text not in LANGUAGE_MODELS:
        raise ValueError
    return text


WHOLE = "a whole number"
STRATEGY: Mapping[str, tuple[Callable[[str], Any], str]] = {
    **dict.fromkeys(
        ("tensor", "context", "pipeline", "chunks", "data", "expert", "expert_tensor", "zero", "micro_batch"),
        (_whole, WHOLE),
    ),
    "sequence": (_flag, "0, 1"),
    "schedule": (PipelineSchedule, ", ".join(PipelineSchedule)),
    "recompute": (Recompute, ", ".join(Recompute)),
}
"""Columns that are parts of a strategy: how a cell is read, and what is allowed."""

OTHERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "source": (str, "text"),
    "run": (str, "text"),
    "seconds": (_positive, "a positive number"),
    "held_out": (_flag, "0, 1"),
    "model": (_model, ", ".join(LANGUAGE_MODELS)),
    "gpus": (_whole, WHOLE),
    "sequences": (_whole, WHOLE),
    "length": (_whole, WHOLE),
    "fp8": (_flag, "0, 1"),
    "fp8_dispatch": (_flag, "0, 1"),
    "gradient_bytes": (_gradient_bytes, "2, 4"),
    "tiled_attention": (_flag, "0, 1"),
    "hidden_tensor": (_part, "0 to 1"),
    "hidden_expert": (_part, "0 to 1"),
    "hidden_data": (_flag, "0, 1"),
    "hidden_pipeline": (_flag, "0, 1"),
}
"""All other columns."""

FIELDS: FieldTable = {
    **{name: used(allowed) for name, (_, allowed) in OTHERS.items()},
    **{name: used(f"{allowed}; several, parted by bars: the fastest") for name, (_, allowed) in STRATEGY.items()},
}
"""What a column may hold; an empty cell is as the instance says."""

NEEDED = ("source", "run", "seconds")


def read_runs(path: Path, problem: LlmTrainingProblem) -> tuple[MeasuredRun, ...]:
    """All rows.

    Raises:
        InputError: everything wrong with the table.
    """
    file = str(path)
    rows = list(csv.reader(io.StringIO(read_text(file, 4 * MIB))))
    header = rows[0] if rows else []
    known = (*OTHERS, *STRATEGY)
    problems = [
        Problem("no such column", file, 1, None, value_text(name), nearest_text(name, known))
        for name in header
        if name not in known
    ]
    problems += [Problem("missing column", file, 1, name) for name in NEEDED if name not in header]
    problems += [Problem("column twice", file, 1, name) for name, times in Counter(header).items() if times > 1]
    if not 1 < len(rows) <= MOST_RUNS + 1:
        problems.append(Problem("number of runs", file, None, None, str(max(0, len(rows) - 1)), f"1 to {MOST_RUNS}"))
    if problems:
        raise InputError(problems)
    found: list[MeasuredRun] = []
    seen: Counter[str] = Counter()
    for line, row in enumerate(rows[1:], start=2):
        if not any(row):
            continue
        try:
            run = _run(dict(zip(header, row, strict=False)), len(header) == len(row), problem, seen)
        except InputError as error:
            problems += [replace(one, file=file, line=line) for one in error.problems]
            continue
        found.append(run)
    if problems:
        raise InputError(problems)
    return tuple(found)


def _run(cells: dict[str, str], whole: bool, problem: LlmTrainingProblem, seen: Counter[str]) -> MeasuredRun:
    if not whole:
        raise InputError([Problem("not as many cells as columns")])
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    choices: dict[str, list[Any]] = {}
    for name, text in cells.items():
        reader, allowed = OTHERS[name] if name in OTHERS else STRATEGY[name]
        try:
            if text.strip() and name in STRATEGY:
                choices[name] = [reader(one.strip()) for one in text.split("|")]
            elif text.strip():
                values[name] = reader(text.strip())
        except ValueError:
            problems.append(Problem("no such value", path=name, value=value_text(text), allowed=allowed))
    problems += [Problem("empty", path=name) for name in NEEDED if name not in values and not problems]
    if problems:
        raise InputError(problems)
    own = _changed(problem, values)
    if math.prod(map(len, choices.values())) > MOST_CHOICES:
        raise InputError([Problem("too many choices", allowed=f"at most {MOST_CHOICES}")])
    tried = [chosen_strategy(own, dict(zip(choices, one, strict=True))) for one in product(*choices.values())]
    fitting = tuple(one for one in tried if not strategy_problems(own, one))
    if not fitting:
        raise InputError(strategy_problems(own, tried[0]))
    source = values["source"]
    seen[source] += 1
    held_out = values.get("held_out", seen[source] % 2 == 0)
    return MeasuredRun(source, values["run"], own, fitting, values["seconds"], held_out)


def _changed(problem: LlmTrainingProblem, values: Mapping[str, Any]) -> LlmTrainingProblem:
    """The instance with what a row says.

    Raises:
        InputError: GPUs that fill no servers.
    """
    gpus, size = values.get("gpus", problem.cluster.gpus), problem.cluster.gpus_per_server
    if gpus < 1 or (gpus > size and gpus % size):
        raise InputError([Problem("no whole servers", path="gpus", value=str(gpus), allowed=f"multiples of {size}")])
    inner = min(gpus, size)
    cluster = replace(
        problem.cluster,
        servers=gpus // inner,
        gpus_per_server=inner,
        degree=max(1, problem.cluster.degree * inner // size),
    )
    batch, formats, overlap = problem.batch, problem.formats, problem.overlap
    return replace(
        problem,
        model=LANGUAGE_MODELS[values["model"]] if "model" in values else problem.model,
        cluster=cluster,
        batch=replace(
            batch, sequences=values.get("sequences", batch.sequences), length=values.get("length", batch.length)
        ),
        formats=replace(
            formats,
            fp8=values.get("fp8", formats.fp8),
            fp8_dispatch=values.get("fp8_dispatch", formats.fp8_dispatch),
            gradient_bytes=values.get("gradient_bytes", formats.gradient_bytes),
            flash=values.get("tiled_attention", formats.flash),
        ),
        overlap=replace(
            overlap,
            tensor=values.get("hidden_tensor", overlap.tensor),
            expert=values.get("hidden_expert", overlap.expert),
            data=values.get("hidden_data", overlap.data),
            pipeline=values.get("hidden_pipeline", overlap.pipeline),
        ),
    )
