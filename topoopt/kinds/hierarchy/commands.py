"""Commands on instances of the kind `hierarchical-bandwidth`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topoopt.console.output import Output
from topoopt.core.errors import Problem
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.hierarchy_solution import HierarchicalSolution
from topoopt.kinds.kind import KindCommands, Wishes
from topoopt.kinds.solving import Steps, show_end, show_figures, solve_and_write, summary_of

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation


def solve_command(problem: HierarchicalProblem, output: Output, out: Path, wishes: Wishes) -> int:
    """Solve, check, write solution.json and report.html, show; the exit code."""
    from topoopt.kinds.hierarchy.report import render_hierarchical
    from topoopt.kinds.hierarchy.solution_file import SOLUTION_FILE
    from topoopt.kinds.hierarchy.solve import solve_hierarchical

    steps = Steps(solve_hierarchical, SOLUTION_FILE.write, render_hierarchical, summary, _show)
    return solve_and_write(problem, output, out, wishes, steps)


def summary(solution: HierarchicalSolution, wall_s: float, out: Path) -> dict[str, Any]:
    """The JSON object of a solve."""
    figures = {
        "dimensions": list(solution.dimensions),
        "bandwidth_gbytes_per_s": list(solution.bandwidth_gbytes_per_s),
        "time_ns": solution.time_ns,
        "cost_usd": solution.cost_usd,
        "speedup_over_equal": solution.speedup_over_equal,
        "perf_per_cost_gain": solution.perf_per_cost_gain,
        "design": solution.design_name,
        "designs": solution.designs,
        "jobs": [{"name": job.name, "time_ns": job.time_ns, "compute_ns": job.compute_ns} for job in solution.jobs],
        "collectives": [
            {
                "job": one.job,
                "communicator": one.communicator,
                "collective": one.collective.value,
                "bytes": one.size_bytes,
                "time_ns": one.time_ns,
                "bound_by": list(one.bound_by),
            }
            for one in solution.collectives
        ],
        "gain_ns": list(solution.gain_ns),
        "marginal_ns": None if solution.marginal_ns is None else list(solution.marginal_ns),
        "pareto": [{"time_ns": point.time_ns, "cost_usd": point.cost_usd} for point in solution.pareto],
    }
    return summary_of(solution, wall_s, out, figures)


def _show(console: Console, solution: HierarchicalSolution, wall_s: float, out: Path) -> None:
    from topoopt.kinds.hierarchy.format import duration, money, times

    cost = "no prices" if solution.cost_usd is None else money(solution.cost_usd)
    gain = solution.perf_per_cost_gain
    rows = [
        ("time of an iteration", duration(solution.time_ns)),
        ("cost of the network", cost),
        ("over the equal split", f"{times(solution.speedup_over_equal)} as fast"),
        ("lower bound", f"{solution.bound.value:.9g} {solution.objective.unit} ({solution.bound.proved_by})"),
        ("gap", f"{100 * solution.gap:.2g} %"),
    ]
    if gain is not None:
        rows[2] = (rows[2][0], f"{rows[2][1]}, {times(gain)} the performance per cost")
    if solution.designs > 1:
        rows.insert(0, ("design", f"{solution.design_name} (of {solution.designs})"))
    show_figures(console, solution, wall_s, rows, title=f"{solution.status}, least {solution.objective.name}")
    console.print(_dimension_table(solution))
    if solution.collectives:
        console.print(_collective_table(solution))
    show_end(console, solution, out)


def _dimension_table(solution: HierarchicalSolution) -> Table:
    from topoopt.kinds.hierarchy.format import duration

    table = Table("dimension", "block", "GB/s per NPU", "1 GB/s more here saves", "at the margin")
    for column in (2, 3, 4):
        table.columns[column].justify = "right"
    marginal = solution.marginal_ns or (None,) * len(solution.dimensions)
    for name, block, size, rate, gain, price in zip(
        solution.dimensions,
        solution.blocks,
        solution.sizes,
        solution.bandwidth_gbytes_per_s,
        solution.gain_ns,
        marginal,
        strict=True,
    ):
        # Bandwidths are right to about 1e-4, so what is left of a gain where dimensions tie is rounding.
        alone = duration(gain) if gain > 1e-6 * solution.time_ns else "nothing"
        table.add_row(escape(name), f"{block} {size}", f"{rate:.3f}", alone, "-" if price is None else duration(price))
    return table


def _collective_table(solution: HierarchicalSolution) -> Table:
    from topoopt.kinds.hierarchy.format import duration, gigabytes

    table = Table("job", "communicator", "collective", "bytes", "time", "bound by")
    for one in sorted(solution.collectives, key=lambda row: -row.time_ns)[:20]:
        table.add_row(
            escape(one.job),
            escape(one.communicator),
            one.collective.value,
            gigabytes(one.size_bytes),
            duration(one.time_ns),
            escape(", ".join(one.bound_by)),
        )
    return table


def check_file(problem: HierarchicalProblem, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a solver."""
    from topoopt.kinds.hierarchy.solution_file import SOLUTION_FILE
    from topoopt.verify.hierarchy.check import check_hierarchical

    return check_hierarchical(problem, SOLUTION_FILE.read(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.hierarchy.report import render_hierarchical
    from topoopt.kinds.hierarchy.solution_file import SOLUTION_FILE

    return render_hierarchical(SOLUTION_FILE.read(solution))


def _search_problems(problem: HierarchicalProblem) -> list[Problem]:
    if problem.search.method == "auto":
        return []
    from topoopt.kinds.hierarchy.solve import search_problems

    return search_problems(problem.search.method)


COMMANDS = KindCommands(solve_command, check_file, _report, _search_problems)
