"""Commands on instances of the kind `allocation`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topoopt.cli.kinds import Contest, KindCommands, Wishes, exit_code, nothing_found
from topoopt.cli.output import Output
from topoopt.core.allocation_problem import AllocationGoal, AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem

if TYPE_CHECKING:
    from topoopt.verify.findings import Violation

SHOWN = 20
"""Transfers in the table on the screen."""

FULL = 1e-6
"""Part of a capacity that may be free on a link called full."""


def solve_allocation_command(problem: AllocationProblem, output: Output, out: Path, wishes: Wishes) -> int:
    """Solve, check, write solution.json and report.html, show; the exit code."""
    from topoopt.allocation import solve_allocation
    from topoopt.io.allocation_solution_file import write_allocation_solution
    from topoopt.io.atomic import make_directory, write_text_atomically
    from topoopt.report.allocation_report import render_allocation

    if wishes.budget is not None:
        text, allowed = "no such limit for this kind", "--time-limit"
        raise InputError([Problem(text, path="--budget", value=str(wishes.budget), allowed=allowed)])
    began = time.monotonic()
    try:
        solution = solve_allocation(problem, seed=wishes.seed, time_limit_s=wishes.time_limit_s, method=wishes.method)
    except (InfeasibleError, LimitError) as error:
        return output.fail(error, nothing_found(problem, wishes.seed, time.monotonic() - began))
    wall_s = time.monotonic() - began
    make_directory(out)
    write_allocation_solution(solution, out / "solution.json")
    write_text_atomically(out / "report.html", render_allocation(solution))
    output.result(
        allocation_summary(solution, wall_s, out), lambda console: show_allocation(console, solution, wall_s, out)
    )
    return exit_code(output, solution.check, solution.stopped_by)


def full_links(solution: AllocationSolution) -> list[int]:
    """Arcs without room, by number."""
    return [int(arc) for arc in np.flatnonzero(solution.utilisation >= 1 - FULL)]


def allocation_summary(solution: AllocationSolution, wall_s: float, out: Path) -> dict[str, Any]:
    """The JSON object of a solve."""
    objective, arcs = solution.objective, solution.topology.arcs
    return {
        "kind": solution.kind,
        "name": solution.name,
        "status": solution.status.value,
        "stopped_by": solution.stopped_by.value,
        "goal": solution.goal,
        "surplus": solution.surplus,
        "objective": {"name": objective.name, "value": objective.value, "unit": objective.unit},
        "bound": {"value": solution.bound.value, "proved_by": solution.bound.proved_by},
        "gap": solution.gap,
        "rates_gbps": {row.name: row.rate_gbps for row in solution.transfers},
        "min_rate_gbps": float(solution.rates_gbps.min()),
        "total_rate_gbps": float(solution.rates_gbps.sum()),
        "completion_time_s": solution.completion_time_s,
        "bottleneck_links": [arcs[arc].tolist() for arc in full_links(solution)],
        "largest_link_utilisation": float(solution.utilisation.max()),
        "servers": solution.topology.servers,
        "links": int(solution.topology.multiplicity.sum()),
        "transfers": len(solution.transfers),
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
        ("method", f"{solution.method}, {wall_s:.2f} s, stopped by {solution.stopped_by}"),
        ("check", "passed" if solution.check.ok else f"FAILED: {len(solution.check.violations)} violations"),
    )
    title = f"{escape(solution.name)}: {solution.goal}, {solution.status}"
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows:
        table.add_row(name, escape(value))
    console.print(table)
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
    for note in solution.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True, highlight=False)
    text = f"written: {out / 'solution.json'}, {out / 'report.html'}"
    console.print(f"[dim]{escape(text)}[/]", soft_wrap=True, highlight=False)


def check_allocation_file(problem: AllocationProblem, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a solver."""
    from topoopt.io.allocation_solution_file import read_allocation_solution
    from topoopt.verify.allocation import check_allocation

    return check_allocation(problem, read_allocation_solution(solution))


def _report(solution: Path) -> str:
    from topoopt.io.allocation_solution_file import read_allocation_solution
    from topoopt.report.allocation_report import render_allocation

    return render_allocation(read_allocation_solution(solution))


def _search_problems(problem: AllocationProblem) -> list[Problem]:
    if problem.search.method == "auto":  # the others are known only where the solvers are, which load slowly
        return []
    from topoopt.allocation import search_problems

    return search_problems(problem, problem.search.method)


def _methods(problem: AllocationProblem) -> tuple[str, ...]:
    from topoopt.allocation import ALLOCATION_METHODS

    return tuple(ALLOCATION_METHODS)


def _run(problem: AllocationProblem, wishes: Wishes) -> AllocationSolution:
    from topoopt.allocation import solve_allocation

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
