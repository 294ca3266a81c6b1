"""What the terminal and `--json` show of a hierarchical network."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from topoopt.console.solution_tables import show_figures
from topoopt.console.tables import TerminalTable
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.hierarchy_solution import HierarchicalSolution
from topoopt.kinds.hierarchy.answer import answer
from topoopt.kinds.hierarchy.format import dimension_figures, duration, gigabytes, money, times
from topoopt.kinds.hierarchy.report import render_hierarchical
from topoopt.kinds.kind import Pages


def figures(problem: HierarchicalProblem, solution: HierarchicalSolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve."""
    return {
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
                "bound_by": list(solution.bound_by(one)),
            }
            for one in solution.collectives
        ],
        "gain_ns": list(solution.gain_ns),
        "marginal_ns": None if solution.marginal_ns is None else list(solution.marginal_ns),
        "pareto": [{"time_ns": point.time_ns, "cost_usd": point.cost_usd} for point in solution.pareto],
    }


def show(console: Console, solution: HierarchicalSolution, wall_s: float) -> None:
    """The figures, the dimensions and the longest collectives."""
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


def _dimension_table(solution: HierarchicalSolution) -> TerminalTable:
    table = TerminalTable("dimension", "block", "GB/s per NPU", "1 GB/s more here saves", "at the margin")
    for column in (2, 3, 4):
        table.columns[column].justify = "right"
    for name, block, size, rate, alone, price in dimension_figures(solution):
        table.add_row(escape(name), f"{block} {size}", f"{rate:.3f}", alone, "-" if price is None else duration(price))
    return table


def _collective_table(solution: HierarchicalSolution) -> TerminalTable:
    table = TerminalTable("job", "communicator", "collective", "bytes", "time", "bound by")
    for one in sorted(solution.collectives, key=lambda row: -row.time_ns)[:20]:
        table.add_row(
            escape(one.job),
            escape(one.communicator),
            one.collective.value,
            gigabytes(one.size_bytes),
            duration(one.time_ns),
            escape(", ".join(solution.bound_by(one))),
        )
    return table


PAGES = Pages(render_hierarchical, figures, show, answer)
