"""Commands on instances of kind `shared-load`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from topoopt.console.output import Output
from topoopt.core.errors import Problem
from topoopt.core.shared_load import SharedLoadProblem
from topoopt.core.shared_load_solution import SharedLoadSolution
from topoopt.kinds.kind import KindCommands, Wishes
from topoopt.kinds.solving import Steps, show_end, solve_and_write, summary_of, verdict_of

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation

STATISTICS_FILE = "statistics.csv"


def solve_command(problem: SharedLoadProblem, output: Output, out: Path, wishes: Wishes) -> int:
    """Plan, run together, check; write solution.json, statistics.csv and report.html, show; the exit code."""
    from topoopt.kinds.shared_cluster.flows_report import render_shared_load
    from topoopt.kinds.shared_cluster.flows_solve import solve_shared_load

    bar = Progress(
        TextColumn("{task.description:<34}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=output.errors,
        transient=True,
        disable=not output.errors.is_terminal,
    )
    task = bar.add_task("", total=None)

    def progress(what: str, done: int, total: int) -> None:
        bar.update(task, description=what, completed=done, total=total)

    def solve(**options: Any) -> SharedLoadSolution:
        with bar:
            return solve_shared_load(problem, progress=progress, **options)

    steps = Steps(lambda _, **options: solve(**options), _write, render_shared_load, shared_load_summary, _show)
    return solve_and_write(problem, output, out, wishes, steps)


def _write(solution: SharedLoadSolution, path: Path) -> None:
    from topoopt.files.atomic import write_text_atomically
    from topoopt.kinds.shared_cluster.flows_solution_file import statistics_csv, write_shared_load_solution

    write_shared_load_solution(solution, path)
    write_text_atomically(path.with_name(STATISTICS_FILE), statistics_csv(solution))


def shared_load_summary(solution: SharedLoadSolution, wall_s: float, out: Path) -> dict[str, Any]:
    """The JSON object of a solve; the figures of each fabric by name, at the largest load."""
    top = max(row.load for row in solution.statistics)
    figures = {
        "load": top,
        "fabrics": {
            row.fabric: {key: value for key, value in asdict(row).items() if key not in ("fabric", "load")}
            for row in solution.statistics
            if row.load == top
        },
        "statistics": [asdict(row) for row in solution.statistics],
        "alone_ms": {
            name: {plan.job_class: plan.alone_ms for plan in solution.plans if plan.fabric == name}
            for name, _ in solution.fabrics
        },
        "draws": len(solution.runs),
        "table": str(out / STATISTICS_FILE),
    }
    return summary_of(solution, wall_s, out, figures)


def _show(console: Console, solution: SharedLoadSolution, wall_s: float, out: Path) -> None:
    title = f"{escape(solution.name)}: {len(solution.runs)} draws on {solution.servers} servers, {solution.time_model}"
    table = Table("jobs", title=title, title_justify="left")
    table.add_column("fabric", no_wrap=True)
    for name in ("mean ms", "p95", "p99", "slow-down", "mean", "p99"):
        table.add_column(name, justify="right", no_wrap=name != "slow-down")
    last = None
    for row in solution.statistics:
        if last is not None and row.load != last:
            table.add_section()
        figures = (row.mean_ms, row.p95_ms, row.p99_ms)
        ratios = (row.slowdown, row.over_first, row.p99_over_first)
        table.add_row(
            str(row.load) if row.load != last else "",
            escape(row.fabric),
            *(f"{value:.2f}" for value in figures),
            *(f"{value:.3g}x" for value in ratios),
        )
        last = row.load
    console.print(table)
    first = escape(solution.fabrics[0][0])
    console.print(f"slow-down: over the same class alone; the last two columns: over {first}", highlight=False)
    alone = Table("class alone, ms", *(escape(name) for name, _ in solution.fabrics))
    for name in solution.class_names:
        times = [plan.alone_ms for plan in solution.plans if plan.job_class == name]
        alone.add_row(escape(name), *(f"{time:.3f}" for time in times))
    console.print(alone)
    console.print(f"{wall_s:.1f} s, stopped by {solution.stopped_by}; check {verdict_of(solution)}", highlight=False)
    show_end(console, solution, out, more=(STATISTICS_FILE,))


def check_shared_load_file(problem: SharedLoadProblem, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a simulator."""
    from topoopt.kinds.shared_cluster.flows_solution_file import read_shared_load_solution
    from topoopt.verify.shared_cluster.shared_load import check_shared_load

    return check_shared_load(problem, read_shared_load_solution(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.shared_cluster.flows_report import render_shared_load
    from topoopt.kinds.shared_cluster.flows_solution_file import read_shared_load_solution

    return render_shared_load(read_shared_load_solution(solution))


def _search_problems(problem: SharedLoadProblem) -> list[Problem]:
    from topoopt.kinds.shared_cluster.flows_solve import search_problems

    return search_problems(problem, problem.search)


COMMANDS = KindCommands(solve_command, check_shared_load_file, _report, _search_problems)
