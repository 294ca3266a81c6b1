"""`topoopt llm calibrate`: efficiencies of a GPU are fitted to measured iterations, and judged on runs that were held
back.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from topoopt.analyses.evaluate import chosen_strategy
from topoopt.core.arrays import MIB, Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem, ReachedRates
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule, Recompute
from topoopt.files.issues import nearest_text, value_text
from topoopt.files.reader_fields import FieldTable, used
from topoopt.files.untrusted import read_text
from topoopt.page import options
from topoopt.page.output import Output
from topoopt.page.render import TerminalTable
from topoopt.page.text import counted, percent
from topoopt.simulate.llm_training.strategies import columns_of, strategy_problems
from topoopt.simulate.llm_training.times import iteration_times
from topoopt.workloads.language_models import LANGUAGE_MODELS


def calibrate(
    file: Annotated[Path, typer.Argument(help="Instance of kind llm-training: GPU, rates of the cluster, defaults.")],
    measured: Annotated[Path, typer.Argument(help="Table of runs (CSV): source, run, seconds, and what differs.")],
    keep: Annotated[bool, typer.Option("--keep", help="Judge the efficiencies of the instance, fit none.")] = False,
    as_json: options.Json = False,
) -> None:
    """Fit the efficiencies of a GPU to measured iterations, and say how far off they are on runs held back."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.core.errors import InputError, Problem
        from topoopt.files.documents import parse_document
        from topoopt.kinds.llm_training.read import read_llm_training

        problem = read_llm_training(parse_document(file))
        runs = read_runs(measured, problem)
        taken = [run for run in runs if not run.held_out]
        if not taken and not keep:
            text = "all runs are held out; nothing is left to fit (--keep judges them alone)"
            raise InputError([Problem(text, str(measured), None, "held_out")])
        reached = problem.device.reached if keep else fitted(taken)
        errors = errors_of(runs, reached)

        def summaries(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
            parts = (("fitted", False), ("held_out", True))
            return {name: summary([row for row in rows if row["held_out"] == held]) for name, held in parts}

        document = {
            "device": problem.cluster.device,
            "efficiencies": efficiencies(reached),
            **summaries(errors),
            "sources": {
                source: summaries([row for row in errors if row["source"] == source])
                for source in dict.fromkeys(run.source for run in runs)
            },
            "runs": errors,
        }
        output.result(document, lambda console: _show(console, document), answer(document, kept=keep))
        return 0

    output.run(command)


def _show(console: Console, document: dict[str, Any]) -> None:
    console.print(f"efficiencies of {document['device']}:", markup=False, highlight=False)
    for name, value in document["efficiencies"].items():
        console.print(f"  {name}: {value:g}", markup=False, highlight=False)
    table = TerminalTable("source", "run", "", "measured, s", "model, s", "error, %")
    for run in document["runs"]:
        held = "held out" if run["held_out"] else "fitted"
        seconds = (f"{run['measured_s']:.4g}", f"{run['model_s']:.4g}", f"{run['error_percent']:+.1f}")
        table.add_row(run["source"], run["run"], held, *seconds)
    console.print(table)
    for name, words in (("fitted", "fitted"), ("held_out", "held out")):
        part = document[name]
        if not part["runs"]:
            continue
        text = f"{words}: {counted(part['runs'], 'run')}, error {part['mean_percent']:.1f} % in the mean"
        console.print(f"{text}, {part['worst_percent']:.1f} % at worst", markup=False, highlight=False)


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
    columns = (*OTHERS, *STRATEGY)
    problems = [
        Problem("no such column", file, 1, None, value_text(name), nearest_text(name, columns))
        for name in header
        if name not in columns
    ]
    problems += [Problem("missing column", file, 1, name) for name in NEEDED if name not in header]
    problems += [Problem("column twice", file, 1, name) for name, times in Counter(header).items() if times > 1]
    if not 1 < len(rows) <= MOST_RUNS + 1:
        problems.append(Problem("number of runs", file, None, None, str(max(0, len(rows) - 1)), f"1 to {MOST_RUNS}"))
    if problems:
        raise InputError(problems)
    runs: list[MeasuredRun] = []
    seen: Counter[str] = Counter()
    for line, row in enumerate(rows[1:], start=2):
        if not any(row):
            continue
        try:
            run = _run(dict(zip(header, row, strict=False)), len(header) == len(row), problem, seen)
        except InputError as error:
            problems += [replace(message, file=file, line=line) for message in error.problems]
            continue
        runs.append(run)
    if problems:
        raise InputError(problems)
    return tuple(runs)


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
                choices[name] = [reader(choice.strip()) for choice in text.split("|")]
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
    tried = [chosen_strategy(own, dict(zip(choices, choice, strict=True))) for choice in product(*choices.values())]
    fitting = tuple(choice for choice in tried if not strategy_problems(own, choice))
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


SPREAD = 0.05
"""Of measured times, on logarithms."""

USUAL: dict[str, tuple[float, float, float]] = {
    "products": (0.75, 0.15, 0.95),
    "fp8_products": (0.6, 0.15, 0.95),
    "half_gflops": (2.0, 0.8, 1e6),
    "attention": (0.5, 0.25, 0.85),
    "memory": (0.8, 0.1, 0.95),
    "scale_up": (0.7, 0.15, 0.95),
    "network": (0.8, 0.15, 0.95),
    "pass_us": (30.0, 0.7, 1e6),
    "expert_us": (67.0, 0.8, 1e6),
    "chunk_us": (100.0, 0.8, 1e6),
    "iteration_ms": (100.0, 1.0, 1e6),
}
"""Usual value of each efficiency, its spread on logarithms, and the most it can be.

That of `expert_us` is two products of 33 us each: eight small ones, started one by one, were measured to take 0.267 ms
where the products themselves take a part of it (Transformer Engine, pull request 3134).
"""

SIGNIFICANT = 4


def predicted_s(run: MeasuredRun, reached: ReachedRates) -> float:
    """Seconds of the fastest of the strategies of a run."""
    problem = replace(run.problem, device=replace(run.problem.device, reached=reached))
    columns = columns_of(run.strategies, problem.model.layers)
    return float(iteration_times(problem, columns).min())


def fitted(runs: Sequence[MeasuredRun]) -> ReachedRates:
    """Efficiencies that fit the runs best, of four digits; `runs` are those that are not held out."""
    from scipy.optimize import least_squares

    usual, spread, most = (np.array(column) for column in zip(*USUAL.values(), strict=True))
    start = np.log(usual)

    def residuals(point: Floats) -> Floats:
        reached = ReachedRates(*np.exp(point).tolist())
        ratios = [np.log(predicted_s(run, reached) / run.seconds) / SPREAD for run in runs]
        return np.concatenate((ratios, (point - start) / spread))

    bounds = (np.full(len(start), -np.inf), np.log(most))
    fit = least_squares(residuals, start, bounds=bounds, diff_step=1e-4)
    return ReachedRates(*(float(f"{value:.{SIGNIFICANT}g}") for value in np.exp(fit.x).tolist()))


def errors_of(runs: Sequence[MeasuredRun], reached: ReachedRates) -> list[dict[str, Any]]:
    """Measured and modelled time of every run, and by how many per cent the model is above."""
    rows = []
    for run in runs:
        seconds = predicted_s(run, reached)
        rows.append(
            {
                "source": run.source,
                "run": run.name,
                "held_out": run.held_out,
                "measured_s": run.seconds,
                "model_s": seconds,
                "error_percent": 100.0 * (seconds / run.seconds - 1.0),
            }
        )
    return rows


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | int]:
    """Runs, mean and worst error in per cent."""
    sizes = [abs(row["error_percent"]) for row in rows]
    return {"runs": len(sizes), "mean_percent": sum(sizes) / max(1, len(sizes)), "worst_percent": max(sizes, default=0)}


def efficiencies(reached: ReachedRates) -> dict[str, float]:
    return dict(zip((part.name for part in fields(reached)), astuple(reached), strict=True))


def answer(document: Mapping[str, Any], *, kept: bool) -> str:
    """The errors of the figures of `topoopt llm calibrate`.

    Args:
        kept: the efficiencies are those of the instance; none was fitted.
    """
    fitted, held_out = document["fitted"], document["held_out"]
    if kept:
        off = _off(summary(document["runs"]))
        return f"With the efficiencies of the instance the model of {document['device']} is off by {off}."
    device = f"Fitted to {counted(fitted['runs'], 'run')}, the model of {document['device']} is off by"
    if held_out["runs"]:
        return f"{device} {_off(held_out)} held back, and by {percent(fitted['mean_percent'] / 100)} on those fitted."
    return f"{device} {_off(fitted)} it was fitted to; none was held back."


def _off(errors: Mapping[str, Any]) -> str:
    """Mean and worst error, and of how many runs."""
    mean, worst = (percent(errors[name] / 100) for name in ("mean_percent", "worst_percent"))
    return f"{mean} in the mean, {worst} at worst, on {counted(errors['runs'], 'run')}"
