"""`topoopt solve` of the kinds without a job, which differ in what they solve, write and show only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from topoopt.cli.interrupt import INTERRUPTED
from topoopt.cli.kinds import Wishes, exit_code, nothing_found
from topoopt.cli.output import Output
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.solution import Bound, CheckResult, Objective
from topoopt.core.status import Status, StopReason


class Solved(Protocol):
    """What solutions of all kinds have."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def stopped_by(self) -> StopReason: ...
    @property
    def objective(self) -> Objective: ...
    @property
    def bound(self) -> Bound: ...
    @property
    def gap(self) -> float: ...
    @property
    def check(self) -> CheckResult: ...
    @property
    def seed(self) -> int: ...
    @property
    def method(self) -> str: ...
    @property
    def instance_sha256(self) -> str: ...
    @property
    def versions(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


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
    from topoopt.io.atomic import make_directory, write_text_atomically

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


def summary_of(solution: Solved, wall_s: float, out: Path, figures: Mapping[str, Any]) -> dict[str, Any]:
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
