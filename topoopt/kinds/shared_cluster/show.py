"""What the terminal and `--json` show of shared clusters: a line for each fabric, of jobs at once for each load."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape

from topoopt.console.solution_tables import show_figures
from topoopt.console.tables import TerminalTable
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_cluster_figures import Metrics
from topoopt.core.shared_cluster_runs import FabricRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.drawing.format import number
from topoopt.drawing.sentences import objective_text
from topoopt.kinds.kind import Pages
from topoopt.kinds.shared_cluster.answer import answer
from topoopt.kinds.shared_cluster.report import render_shared
from topoopt.kinds.shared_cluster.solution_file import statistics_csv

STATISTICS_FILE = "statistics.csv"


def _row(run: FabricRun, metrics: Metrics | None) -> tuple[str, ...]:
    name = run.fabric.name if run.whole else f"{run.fabric.name} (cut short)"
    if metrics is None:
        return name, *("-" for _ in range(6))
    return (
        name,
        number(metrics.iteration_ms.mean),
        number(metrics.iteration_ms.p99),
        number(metrics.waiting_s.mean),
        number(metrics.waiting_s.p99),
        number(metrics.completion_s.mean),
        f"{100 * metrics.utilisation:.1f} %",
    )


def arrivals_table(solution: SharedClusterSolution) -> TerminalTable:
    """Jobs that arrive."""
    table = TerminalTable(title="finished jobs: time of an iteration, in the queue and from arrival to end")
    table.add_column("fabric", no_wrap=True)
    for head in ("ms", "p99", "queue s", "p99", "in all s", "in use"):
        table.add_column(head, justify="right")
    for run, metrics in zip(solution.runs, solution.metrics, strict=True):
        table.add_row(*map(escape, _row(run, metrics)))
    return table


def at_once_tables(console: Console, solution: SharedClusterSolution) -> None:
    """Jobs at once, by load; then each class alone."""
    title = f"iteration of all jobs at once, {solution.time_model or solution.contention}"
    table = TerminalTable("jobs", title=title)
    table.add_column("fabric", no_wrap=True)
    for name in ("mean ms", "p95", "p99", "slow-down", "mean", "p99"):
        table.add_column(name, justify="right", no_wrap=name != "slow-down")
    last = None
    for row in solution.statistics:
        if last is not None and row.load != last:
            table.add_section()
        figures = (row.iteration_ms.mean, row.iteration_ms.p95, row.iteration_ms.p99)
        table.add_row(
            str(row.load) if row.load != last else "",
            escape(row.fabric),
            *(f"{value:.2f}" for value in figures),
            *(f"{value:.2f}×" for value in (row.over_alone, row.over_first, row.p99_over_first)),
        )
        last = row.load
    console.print(table)
    alone = TerminalTable("class alone, ms", *(escape(name) for name, _ in solution.fabrics))
    for one in solution.classes:
        times = [plan.alone_ms for plan in solution.plans if plan.job_class == one.name]
        alone.add_row(escape(one.name), *(f"{time:.3f}" for time in times))
    console.print(alone)


def _figures(run: FabricRun, metrics: Metrics | None) -> dict[str, Any]:
    """Figures of one fabric, for JSON."""
    figures: dict[str, Any] = {"server_gbps": run.fabric.server_gbps, "whole": run.whole}
    return figures if metrics is None else {**figures, **asdict(metrics)}


def figures(problem: SharedCluster | None, solution: SharedClusterSolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve: each fabric by name, of jobs at once at the largest load."""
    document: dict[str, Any] = {"servers": solution.servers, "contention": solution.contention}
    if solution.at_once:
        top = max(row.load for row in solution.statistics)
        rows = [asdict(row) for row in solution.statistics if row.load == top]
        document |= {
            "load": top,
            "fabrics": {row.pop("fabric"): {k: value for k, value in row.items() if k != "load"} for row in rows},
            "statistics": [asdict(row) for row in solution.statistics],
            "alone_ms": {
                name: {plan.job_class: plan.alone_ms for plan in solution.plans if plan.fabric == name}
                for name, _ in solution.fabrics
            },
            "draws": len(solution.draws),
        }
    else:
        runs = zip(solution.runs, solution.metrics, strict=True)
        document |= {"jobs": len(solution.jobs), "fabrics": {run.fabric.name: _figures(run, own) for run, own in runs}}
    return document


def show(console: Console, solution: SharedClusterSolution, wall_s: float) -> None:
    """The figures of the objective, and a line for each fabric, of jobs at once for each load."""
    objective = solution.objective
    first = solution.fabrics[0][0] if solution.at_once else solution.runs[0].fabric.name
    jobs = f"{len(solution.draws)} draws" if solution.at_once else f"{len(solution.jobs)}"
    rows = (
        (objective_text(objective.name), f"{objective.value:.6g} {objective.unit} on {first}"),
        ("bound", f"{solution.bound.value:.6g} {objective.unit} ({solution.bound.proved_by})"),
        ("jobs", f"{jobs} on {solution.servers} servers"),
    )
    show_figures(console, solution, wall_s, rows)
    if solution.at_once:
        at_once_tables(console, solution)
        console.print(
            "slow-down: over the same class alone on the first servers drawn, below 1 where others suit it better; "
            f"the last two: over {escape(first)}",
            highlight=False,
        )
    else:
        console.print(arrivals_table(solution))


def _table(solution: SharedClusterSolution) -> tuple[str, str] | None:
    return (STATISTICS_FILE, statistics_csv(solution)) if solution.at_once else None


PAGES = Pages(render_shared, figures, show, answer, _table)
