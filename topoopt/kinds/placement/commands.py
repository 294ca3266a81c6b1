"""Commands on instances of kind `placement`, by objective."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from topoopt.console.output import Output
from topoopt.core.errors import Problem
from topoopt.core.placement import PlacementProblem
from topoopt.core.placement_solution import PlacementSolution
from topoopt.files.solution_head import bound_document
from topoopt.kinds.kind import Contest, KindCommands, Wishes
from topoopt.kinds.solving import Steps, show_end, show_figures, solve_and_write, summary_of

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation


def solve_placement_command(problem: PlacementProblem, output: Output, out: Path, wishes: Wishes) -> int:
    """Solve, check, write solution.json and report.html, show; the exit code."""
    from topoopt.kinds.placement.report import render_placement
    from topoopt.kinds.placement.solution_file import SOLUTION_FILE
    from topoopt.kinds.placement.solve import solve_placement

    steps = Steps(solve_placement, SOLUTION_FILE.write, render_placement, placement_summary, _show, takes_budget=True)
    return solve_and_write(problem, output, out, wishes, steps)


def placement_summary(solution: PlacementSolution, wall_s: float, out: Path) -> dict[str, Any]:
    """The JSON object of a solve."""
    objective = solution.objective
    names = [device.name for device in solution.devices]
    compact = solution.compact
    figures = {
        f"{objective.name}_ms": objective.value,
        "compact": None
        if compact is None
        else {
            "operators": compact.operators,
            "value_ms": compact.value_ms,
            "bound": None if compact.bound is None else bound_document(compact.bound),
        },
        "placement": {
            name: names[device] for name, device in zip(solution.operators, solution.device.tolist(), strict=True)
        },
    }
    return summary_of(solution, wall_s, out, figures)


def _show(console: Console, solution: PlacementSolution, wall_s: float, out: Path) -> None:
    objective = solution.objective
    rows = (
        (objective.name.replace("_", " "), f"{objective.value:.6f} {objective.unit}"),
        ("lower bound", f"{solution.bound.value:.6f} {objective.unit} ({solution.bound.proved_by})"),
        ("gap", f"{100 * solution.gap:.3g} %"),
        ("operators, devices", f"{len(solution.operators)}, {len(solution.devices)}"),
    )
    show_figures(console, solution, wall_s, rows)
    show_end(console, solution, out)


def check_placement_file(problem: PlacementProblem, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a solver."""
    from topoopt.kinds.placement.solution_file import SOLUTION_FILE
    from topoopt.verify.placement.check import check_placement

    return check_placement(problem, SOLUTION_FILE.read(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.placement.report import render_placement
    from topoopt.kinds.placement.solution_file import SOLUTION_FILE

    return render_placement(SOLUTION_FILE.read(solution))


def _search_problems(problem: PlacementProblem) -> list[Problem]:
    if problem.search.method == "auto":  # the others are known only where the solvers are, which load slowly
        return []
    from topoopt.kinds.placement.solve import search_problems

    return search_problems(problem, problem.search.method)


def _methods(problem: PlacementProblem) -> tuple[str, ...]:
    from topoopt.kinds.placement.solve import methods_table

    return tuple(methods_table(problem))


def _run(problem: PlacementProblem, wishes: Wishes) -> PlacementSolution:
    from topoopt.kinds.placement.solve import solve_placement

    return solve_placement(
        problem, seed=wishes.seed, time_limit_s=wishes.time_limit_s, method=wishes.method, budget=wishes.budget
    )


COMMANDS = KindCommands(
    solve_placement_command, check_placement_file, _report, _search_problems, Contest(_methods, _run, takes_budget=True)
)
