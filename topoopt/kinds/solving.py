"""`topoopt solve` of the kinds without a job, which differ in what they solve, write and show only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topoopt.console.interrupt import INTERRUPTED
from topoopt.console.output import Output
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.solution import SolutionHead
from topoopt.kinds.kind import Wishes, exit_code, nothing_found


@dataclass(frozen=True)
class Steps:
    """What a kind does in a solve.

    Attributes:
        solve: (problem, seed, time_limit_s, method) as keywords -> checked solution.
        write: (solution, file) -> solution.json.
        render: solution -> HTML.
        summary: (solution, seconds, directory) -> JSON object.
        show: (console, solution, seconds, directory), for people.
        takes_budget: whether `solve` has a keyword `budget`.
    """

    solve: Callable[..., Any]
    write: Callable[[Any, Path], None]
    render: Callable[[Any], str]
    summary: Callable[[Any, float, Path], dict[str, Any]]
    show: Callable[[Console, Any, float, Path], None]
    takes_budget: bool = False


def solve_and_write(problem: Any, output: Output, out: Path, wishes: Wishes, steps: Steps) -> int:
    """Solve, check, write solution.json and report.html, show; the exit code."""
    from solvers.stop import stop_on_signals
    from topoopt.files.atomic import make_directory, write_text_atomically

    if wishes.budget is not None and not steps.takes_budget:
        text, allowed = "no such limit for this kind", "--time-limit"
        raise InputError([Problem(text, path="--budget", value=str(wishes.budget), allowed=allowed)])
    began = time.monotonic()
    limits: dict[str, Any] = {"budget": wishes.budget} if steps.takes_budget else {}
    try:
        solution = steps.solve(
            problem, seed=wishes.seed, time_limit_s=wishes.time_limit_s, method=wishes.method, **limits
        )
    except (InfeasibleError, LimitError) as error:
        return output.fail(error, nothing_found(problem, wishes.seed, time.monotonic() - began))
    wall_s = time.monotonic() - began
    with stop_on_signals(None) as late:  # what was found is written, however late Ctrl-C comes
        report = steps.render(solution)
        make_directory(out)
        steps.write(solution, out / "solution.json")
        write_text_atomically(out / "report.html", report)
    output.result(steps.summary(solution, wall_s, out), lambda console: steps.show(console, solution, wall_s, out))
    code = exit_code(output, solution.check, solution.stopped_by)
    return INTERRUPTED if solution.check.ok and late.interrupted.is_set() else code


def summary_of(solution: SolutionHead, wall_s: float, out: Path, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object of a solve: what all kinds have, around the figures of one."""
    objective, bound = solution.objective, solution.bound
    return {
        "kind": solution.kind,
        "name": solution.name,
        "status": solution.status.value,
        "stopped_by": solution.stopped_by.value,
        "objective": {"name": objective.name, "value": objective.value, "unit": objective.unit},
        "bound": {"value": bound.value, "proved_by": bound.proved_by},
        "gap": solution.gap,
        **figures,
        "method": solution.method,
        "check": {"ok": solution.check.ok, "violations": list(solution.check.violations)},
        "seed": solution.seed,
        "wall_s": round(wall_s, 3),
        "versions": dict(solution.versions),
        "instance_sha256": solution.instance_sha256,
        "notes": list(solution.notes),
        "solution": str(out / "solution.json"),
        "report": str(out / "report.html"),
    }


def verdict_of(solution: SolutionHead) -> str:
    """What the checker says, in words."""
    return "passed" if solution.check.ok else f"FAILED: {len(solution.check.violations)} violations"


def show_figures(
    console: Console, solution: SolutionHead, wall_s: float, rows: Iterable[tuple[str, str]], *, title: str = ""
) -> None:
    """A table of names and values, closed by the run and its check; the title is by default the status."""
    table = Table(title=f"{escape(solution.name)}: {title or solution.status}", show_header=False, title_justify="left")
    run = ("method", f"{solution.method}, {wall_s:.2f} s, stopped by {solution.stopped_by}")
    for name, value in (*rows, run, ("check", verdict_of(solution))):
        table.add_row(name, escape(value))
    console.print(table)


def show_end(console: Console, solution: SolutionHead, out: Path, *, more: Iterable[str] = ()) -> None:
    """The notes, and the files written; `more` are names of others beside solution and report."""
    for note in solution.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True, highlight=False)
    written = ", ".join(str(out / name) for name in ("solution.json", *more, "report.html"))
    console.print(f"[dim]{escape(f'written: {written}')}[/]", soft_wrap=True, highlight=False)
