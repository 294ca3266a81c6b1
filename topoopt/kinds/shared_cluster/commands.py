"""Commands on instances of the kind `shared-cluster`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topoopt.console.output import Output
from topoopt.core.errors import Problem
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_cluster_solution import FabricRun, SharedClusterSolution
from topoopt.kinds.kind import Contest, KindCommands, Wishes
from topoopt.kinds.solving import Steps, show_end, show_figures, solve_and_write, summary_of

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation


def solve_shared_command(problem: SharedCluster, output: Output, out: Path, wishes: Wishes) -> int:
    """Simulate, check, write solution.json and report.html, show; the exit code."""
    from functools import partial

    from topoopt.kinds.shared_cluster import solve_shared_cluster
    from topoopt.kinds.shared_cluster.report import render_shared
    from topoopt.kinds.shared_cluster.solution_file import write_shared_solution

    with output.errors.status("reading") as status:
        solve = partial(solve_shared_cluster, progress=lambda text: status.update(escape(text)))
        steps = Steps(solve, write_shared_solution, render_shared, shared_summary, show_shared)
        return solve_and_write(problem, output, out, wishes, steps)


def _figures(run: FabricRun) -> dict[str, Any]:
    """Figures of one fabric, for JSON."""
    figures: dict[str, Any] = {"server_gbps": run.fabric.server_gbps, "whole": run.whole}
    return figures if run.metrics is None else {**figures, **asdict(run.metrics)}


def shared_summary(solution: SharedClusterSolution, wall_s: float, out: Path) -> dict[str, Any]:
    """The JSON object of a solve."""
    figures = {
        "servers": solution.servers,
        "jobs": len(solution.jobs),
        "contention": solution.contention,
        "fabrics": {run.fabric.name: _figures(run) for run in solution.runs},
    }
    return summary_of(solution, wall_s, out, figures)


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


def show_shared(console: Console, solution: SharedClusterSolution, wall_s: float, out: Path) -> None:
    """The figures of the objective, and a line for each fabric."""
    objective = solution.objective
    rows = (
        (objective.name.replace("_", " "), f"{objective.value:.6g} {objective.unit} on {solution.runs[0].fabric.name}"),
        ("bound", f"{solution.bound.value:.6g} {objective.unit} ({solution.bound.proved_by})"),
        ("jobs", f"{len(solution.jobs)} on {solution.servers} servers"),
    )
    show_figures(console, solution, wall_s, rows)
    table = Table(
        title="finished jobs: time of an iteration, in the queue and from arrival to end", title_justify="left"
    )
    table.add_column("fabric", no_wrap=True)
    for head in ("ms", "p99", "queue s", "p99", "in all s", "in use"):
        table.add_column(head, justify="right")
    for run in solution.runs:
        table.add_row(*map(escape, _row(run)))
    console.print(table)
    show_end(console, solution, out)


def check_shared_file(problem: SharedCluster, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a simulator."""
    from topoopt.kinds.shared_cluster.solution_file import read_shared_solution
    from topoopt.verify.shared_cluster.cluster import check_shared_cluster

    return check_shared_cluster(problem, read_shared_solution(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.shared_cluster.report import render_shared
    from topoopt.kinds.shared_cluster.solution_file import read_shared_solution

    return render_shared(read_shared_solution(solution))


def _search_problems(problem: SharedCluster) -> list[Problem]:
    if problem.search.method == "auto":  # the others are known only where the simulator is, which loads slowly
        return []
    from topoopt.kinds.shared_cluster import search_problems

    return search_problems(problem, problem.search.method)


def _methods(problem: SharedCluster) -> tuple[str, ...]:
    from topoopt.kinds.shared_cluster import SCHEDULING_METHODS, search_problems

    return tuple(method for method in SCHEDULING_METHODS if not search_problems(problem, method))


def _run(problem: SharedCluster, wishes: Wishes) -> SharedClusterSolution:
    from dataclasses import replace

    from topoopt.kinds.shared_cluster import solve_shared_cluster

    first = replace(problem, fabrics=problem.fabrics[:1])  # methods are compared by the objective alone
    return solve_shared_cluster(first, seed=wishes.seed, time_limit_s=wishes.time_limit_s, method=wishes.method)


COMMANDS = KindCommands(solve_shared_command, check_shared_file, _report, _search_problems, Contest(_methods, _run))
