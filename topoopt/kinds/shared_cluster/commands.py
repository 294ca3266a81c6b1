"""Commands on instances of the kind `shared-cluster`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from topoopt.console.output import Output
from topoopt.core.errors import Problem
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_cluster_solution import FabricRun, SharedClusterSolution
from topoopt.kinds.kind import Contest, KindCommands, Wishes
from topoopt.kinds.shared_cluster.show import arrivals_table, at_once_tables
from topoopt.kinds.solving import Steps, show_end, show_figures, solve_and_write, summary_of

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation

STATISTICS_FILE = "statistics.csv"


def solve_shared_command(problem: SharedCluster, output: Output, out: Path, wishes: Wishes) -> int:
    """Simulate, check, write solution.json and report.html, of jobs at once statistics.csv, show; the exit code."""
    from topoopt.kinds.shared_cluster.report import render_shared
    from topoopt.kinds.shared_cluster.solve import solve_shared_cluster

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

    def solve(problem: SharedCluster, **options: Any) -> SharedClusterSolution:
        with bar:
            return solve_shared_cluster(problem, progress=progress, **options)

    return solve_and_write(problem, output, out, wishes, Steps(solve, _write, render_shared, shared_summary, _show))


def _write(solution: SharedClusterSolution, path: Path) -> None:
    from topoopt.files.atomic import write_text_atomically
    from topoopt.kinds.shared_cluster.solution_file import SOLUTION_FILE, statistics_csv

    SOLUTION_FILE.write(solution, path)
    if solution.at_once:
        write_text_atomically(path.with_name(STATISTICS_FILE), statistics_csv(solution))


def _figures(run: FabricRun) -> dict[str, Any]:
    """Figures of one fabric, for JSON."""
    figures: dict[str, Any] = {"server_gbps": run.fabric.server_gbps, "whole": run.whole}
    return figures if run.metrics is None else {**figures, **asdict(run.metrics)}


def shared_summary(solution: SharedClusterSolution, wall_s: float, out: Path) -> dict[str, Any]:
    """The JSON object of a solve; the figures of each fabric by name, of jobs at once at the largest load."""
    figures: dict[str, Any] = {"servers": solution.servers, "contention": solution.contention}
    if solution.at_once:
        top = max(row.load for row in solution.statistics)
        rows = [asdict(row) for row in solution.statistics if row.load == top]
        figures |= {
            "load": top,
            "fabrics": {row.pop("fabric"): {k: value for k, value in row.items() if k != "load"} for row in rows},
            "statistics": [asdict(row) for row in solution.statistics],
            "alone_ms": {
                name: {plan.job_class: plan.alone_ms for plan in solution.plans if plan.fabric == name}
                for name, _ in solution.fabrics
            },
            "draws": len(solution.draws),
            "table": str(out / STATISTICS_FILE),
        }
    else:
        figures |= {"jobs": len(solution.jobs), "fabrics": {run.fabric.name: _figures(run) for run in solution.runs}}
    return summary_of(solution, wall_s, out, figures)


def _show(console: Console, solution: SharedClusterSolution, wall_s: float, out: Path) -> None:
    """The figures of the objective, and a line for each fabric, of jobs at once for each load."""
    objective = solution.objective
    first = solution.fabrics[0][0] if solution.at_once else solution.runs[0].fabric.name
    jobs = f"{len(solution.draws)} draws" if solution.at_once else f"{len(solution.jobs)}"
    rows = (
        (objective.name.replace("_", " "), f"{objective.value:.6g} {objective.unit} on {first}"),
        ("bound", f"{solution.bound.value:.6g} {objective.unit} ({solution.bound.proved_by})"),
        ("jobs", f"{jobs} on {solution.servers} servers"),
    )
    show_figures(console, solution, wall_s, rows)
    if solution.at_once:
        at_once_tables(console, solution)
        console.print(f"slow-down: over the same class alone; the last two: over {escape(first)}", highlight=False)
    else:
        console.print(arrivals_table(solution))
    show_end(console, solution, out, more=(STATISTICS_FILE,) if solution.at_once else ())


def check_shared_file(problem: SharedCluster, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a simulator."""
    from topoopt.kinds.shared_cluster.solution_file import SOLUTION_FILE
    from topoopt.verify.shared_cluster.check import check_shared_cluster

    return check_shared_cluster(problem, SOLUTION_FILE.read(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.shared_cluster.report import render_shared
    from topoopt.kinds.shared_cluster.solution_file import SOLUTION_FILE

    return render_shared(SOLUTION_FILE.read(solution))


def _search_problems(problem: SharedCluster) -> list[Problem]:
    if problem.search.method == "auto" and not problem.at_once:
        return []  # the others are known only where the simulator is, which loads slowly
    from topoopt.kinds.shared_cluster.solve import search_problems

    return search_problems(problem, problem.search.method)


def _methods(problem: SharedCluster) -> tuple[str, ...]:
    from topoopt.kinds.shared_cluster.solve import methods_of

    return methods_of(problem)


def _run(problem: SharedCluster, wishes: Wishes) -> SharedClusterSolution:
    from topoopt.kinds.shared_cluster.solve import solve_shared_cluster

    first = replace(problem, fabrics=problem.fabrics[:1])  # methods are compared by the objective alone
    return solve_shared_cluster(first, seed=wishes.seed, time_limit_s=wishes.time_limit_s, method=wishes.method)


COMMANDS = KindCommands(solve_shared_command, check_shared_file, _report, _search_problems, Contest(_methods, _run))
