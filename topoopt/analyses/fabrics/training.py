"""`topoopt fabrics` of a language model in training: its strategy searched anew on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.markup import escape

from solvers.llm_training.network.fabrics import TRAINING_FABRICS, fabric_problems
from topoopt.console.tables import TerminalTable
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.llm_training.words import fabric_name, seconds, strategy_words
from topoopt.kinds.pipeline import solve


def training_on_fabrics(
    problem: LlmTrainingProblem, names: Sequence[str] | None, seed: int | None, time_limit_s: float | None
) -> dict[str, Any]:
    """The JSON object: a row for each fabric, the first one what the others are held against.

    Args:
        names: None: all that the cluster can have.

    Raises:
        InputError: no such fabrics, or the cluster cannot have them.
        CheckError: the checker rejects a plan.
    """
    if names is None:
        chosen = tuple(name for name in TRAINING_FABRICS if not fabric_problems(problem.cluster, (name,)))
    else:
        chosen = tuple(dict.fromkeys(names))
        if wrong := fabric_problems(problem.cluster, chosen):
            raise InputError([replace(one, path="--fabrics") for one in wrong])
    if problem.calculon is not None:
        text, allowed = "networks of time_model: calculon are those of its section", "roofline"
        raise InputError([Problem(text, path="time_model", value=problem.time_model, allowed=allowed)])
    solution = solve(replace(problem, fabrics=chosen), SolveOptions(seed=seed, time_limit_s=time_limit_s))
    first = solution.objective.value
    return {
        "kind": "fabrics",
        "name": problem.name,
        "instance_sha256": problem.sha256,
        "seed": solution.seed,
        "stopped_by": solution.stopped_by.value,
        "missing": len(chosen) - len(solution.fabrics),
        "checked": solution.check.ok,
        "rows": [
            {
                "fabric": one.fabric,
                "iteration_time_s": one.iteration_time_s,
                "over_first": one.iteration_time_s / first,
                "bound_s": one.bound_s,
                "timeline_s": one.timeline_s,
                "form": one.note,
                "strategy": strategy_words(one.plan.strategy),
            }
            for one in solution.fabrics
        ],
    }


def answer(document: dict[str, Any]) -> str:
    """The fastest fabric, and the slowest beside it."""
    rows = sorted(document["rows"], key=lambda row: float(row["iteration_time_s"]))
    best, worst = rows[0], rows[-1]
    time, where = seconds(best["iteration_time_s"]), fabric_name(best["fabric"])
    text = f"{document['name']} trains fastest on {where}, {time} an iteration"
    ratio = worst["iteration_time_s"] / best["iteration_time_s"]
    return f"{text}; {ratio:.3f}× as long on {fabric_name(worst['fabric'])}." if len(rows) > 1 else f"{text}."


def show(console: Console, document: dict[str, Any]) -> None:
    """A table."""
    table = TerminalTable(title="a strategy searched on each fabric")
    for name in ("fabric", "iteration", "over the first", "bound", "strategy"):
        table.add_column(name, justify="left" if name in ("fabric", "strategy") else "right")
    for row in document["rows"]:
        times = seconds(row["iteration_time_s"]), f"{row['over_first']:.3f}", seconds(row["bound_s"])
        table.add_row(row["fabric"], *times, escape(row["strategy"]))
    console.print(table)
