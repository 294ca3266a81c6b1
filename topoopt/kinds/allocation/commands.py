"""Commands on instances of the kind `allocation`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topoopt.console.output import Output
from topoopt.core.allocation import AllocationGoal, AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution
from topoopt.core.errors import Problem
from topoopt.kinds.kind import Contest, KindCommands, Wishes
from topoopt.kinds.solving import Steps, show_end, show_figures, solve_and_write, summary_of

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation

SHOWN = 20
"""Transfers in the table on the screen."""

FULL = 1e-6
"""Part of a capacity that may be free on a link called full."""


def solve_allocation_command(problem: AllocationProblem, output: Output, out: Path, wishes: Wishes) -> int:
    """Solve, check, write solution.json and report.html, show; the exit code."""
    from topoopt.kinds.allocation import solve_allocation
    from topoopt.kinds.allocation.report import render_allocation
    from topoopt.kinds.allocation.solution_file import SOLUTION_FILE

    steps = Steps(solve_allocation, SOLUTION_FILE.write, render_allocation, allocation_summary, show_allocation)
    return solve_and_write(problem, output, out, wishes, steps)


def full_links(solution: AllocationSolution) -> list[int]:
    """Arcs without room, by number."""
    return [int(arc) for arc in np.flatnonzero(solution.utilisation >= 1 - FULL)]


def allocation_summary(solution: AllocationSolution, wall_s: float, out: Path) -> dict[str, Any]:
    """The JSON object of a solve."""
    arcs = solution.topology.arcs
    figures = {
        "goal": solution.goal,
        "surplus": solution.surplus,
        "rates_gbps": {row.name: row.rate_gbps for row in solution.transfers},
        "min_rate_gbps": float(solution.rates_gbps.min()),
        "total_rate_gbps": float(solution.rates_gbps.sum()),
        "completion_time_s": solution.completion_time_s,
        "bottleneck_links": [arcs[arc].tolist() for arc in full_links(solution)],
        "largest_link_utilisation": float(solution.utilisation.max()),
        "servers": solution.topology.servers,
        "links": int(solution.topology.multiplicity.sum()),
        "transfers": len(solution.transfers),
    }
    return summary_of(solution, wall_s, out, figures)


def show_allocation(console: Console, solution: AllocationSolution, wall_s: float, out: Path) -> None:
    """The figures and the transfers, slowest first."""
    objective, time_s = solution.objective, solution.completion_time_s
    rates = solution.rates_gbps
    full = full_links(solution)
    rows = (
        (objective.name.replace("_", " "), f"{objective.value:.6g} {objective.unit}"),
        ("bound", f"{solution.bound.value:.6g} {objective.unit} ({solution.bound.proved_by})"),
        ("rates, least to largest", f"{rates.min():.6g} to {rates.max():.6g} Gbit/s, {rates.sum():.6g} in all"),
        ("completion time", "no sizes given" if time_s is None else f"{time_s:.6g} s"),
        ("full links", f"{len(full)} of {len(solution.capacity_gbps)}"),
    )
    show_figures(console, solution, wall_s, rows, title=f"{solution.goal}, {solution.status}")
    listed = sorted(solution.transfers, key=lambda row: row.rate_gbps)[:SHOWN]
    rest = len(solution.transfers) - len(listed)
    title = f"the {SHOWN} slowest of {len(solution.transfers)} transfers" if rest else "transfers, slowest first"
    table = Table("transfer", "from", "to", "Gbit/s", "ends after", "limited by", title=title, title_justify="left")
    for row in listed:
        ends = "-" if row.completion_time_s is None else f"{row.completion_time_s:.4g} s"
        more = f", {len(row.limited_by) - 3} more" if len(row.limited_by) > 3 else ""
        limits = escape(", ".join(row.limited_by[:3]) + more)
        table.add_row(escape(row.name), str(row.source), str(row.destination), f"{row.rate_gbps:.6g}", ends, limits)
    console.print(table)
    show_end(console, solution, out)


def check_allocation_file(problem: AllocationProblem, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a solver."""
    from topoopt.kinds.allocation.solution_file import SOLUTION_FILE
    from topoopt.verify.allocation.check import check_allocation

    return check_allocation(problem, SOLUTION_FILE.read(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.allocation.report import render_allocation
    from topoopt.kinds.allocation.solution_file import SOLUTION_FILE

    return render_allocation(SOLUTION_FILE.read(solution))


def _search_problems(problem: AllocationProblem) -> list[Problem]:
    if problem.search.method == "auto":  # the others are known only where the solvers are, which load slowly
        return []
    from topoopt.kinds.allocation import search_problems

    return search_problems(problem, problem.search.method)


def _methods(problem: AllocationProblem) -> tuple[str, ...]:
    from topoopt.kinds.allocation import ALLOCATION_METHODS

    return tuple(ALLOCATION_METHODS)


def _run(problem: AllocationProblem, wishes: Wishes) -> AllocationSolution:
    from topoopt.kinds.allocation import solve_allocation

    return solve_allocation(problem, seed=wishes.seed, time_limit_s=wishes.time_limit_s, method=wishes.method)


def _maximise(problem: AllocationProblem) -> bool:
    return problem.goal is not AllocationGoal.COMPLETION_TIME


COMMANDS = KindCommands(
    solve_allocation_command,
    check_allocation_file,
    _report,
    _search_problems,
    Contest(_methods, _run, maximise=_maximise),
)
