"""Tables of shared clusters at the terminal: a line for each fabric, of jobs at once for each load."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topoopt.core.shared_cluster_solution import FabricRun, SharedClusterSolution


def _row(run: FabricRun) -> tuple[str, ...]:
    from topoopt.drawing.format import number

    name = run.fabric.name if run.whole else f"{run.fabric.name} (cut short)"
    metrics = run.metrics
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


def arrivals_table(solution: SharedClusterSolution) -> Table:
    """Jobs that arrive."""
    table = Table(
        title="finished jobs: time of an iteration, in the queue and from arrival to end", title_justify="left"
    )
    table.add_column("fabric", no_wrap=True)
    for head in ("ms", "p99", "queue s", "p99", "in all s", "in use"):
        table.add_column(head, justify="right")
    for run in solution.runs:
        table.add_row(*map(escape, _row(run)))
    return table


def at_once_tables(console: Console, solution: SharedClusterSolution) -> None:
    """Jobs at once, by load; then each class alone."""
    title = f"first iteration of all jobs, {solution.time_model}"
    table = Table("jobs", title=title, title_justify="left")
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
            *(f"{value:.3g}x" for value in (row.over_alone, row.over_first, row.p99_over_first)),
        )
        last = row.load
    console.print(table)
    alone = Table("class alone, ms", *(escape(name) for name, _ in solution.fabrics))
    for one in solution.classes:
        times = [plan.alone_ms for plan in solution.plans if plan.job_class == one.name]
        alone.add_row(escape(one.name), *(f"{time:.3f}" for time in times))
    console.print(alone)
