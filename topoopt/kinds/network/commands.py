"""Commands on instances of the kinds `routing` and `topology`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from topoopt.console.output import Output
from topoopt.core.errors import Problem
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.kinds.kind import Contest, KindCommands, Wishes
from topoopt.kinds.solving import Steps, show_end, show_figures, solve_and_write, summary_of

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation


def solve_network_command(problem: RoutingProblem | TopologyProblem, output: Output, out: Path, wishes: Wishes) -> int:
    """Solve, check, write solution.json and report.html, show; the exit code."""
    from topoopt.kinds.network.report import render_network_html
    from topoopt.kinds.network.solution_file import write_network_solution
    from topoopt.kinds.network.solve import solve_network

    steps = Steps(solve_network, write_network_solution, render_network_html, network_summary, _show)
    return solve_and_write(problem, output, out, wishes, steps)


def network_summary(solution: NetworkSolution, wall_s: float, out: Path) -> dict[str, Any]:
    """The JSON object of a solve."""
    figures: dict[str, Any] = {
        "theta": solution.theta,
        "lambda": solution.throughput,
        "routing_bound": solution.routing_bound,
        "diameter": solution.diameter,
        "mean_hops": solution.mean_hops,
        "servers": solution.topology.servers,
        "degree": solution.topology.degree,
        "links": int(solution.topology.multiplicity.sum()),
    }
    if solution.robustness is not None:
        from topoopt.kinds.network.solution_file import robustness_document

        figures["robustness"] = robustness_document(solution.robustness)
    return summary_of(solution, wall_s, out, figures)


def _robust_rows(solution: NetworkSolution) -> list[tuple[str, str]]:
    from topoopt.kinds.network.report import robust_rows

    return list(robust_rows(solution))


def _show(console: Console, solution: NetworkSolution, wall_s: float, out: Path) -> None:
    topology, objective = solution.topology, solution.objective
    hops = "not all pairs connected" if solution.diameter is None else f"{solution.diameter}"
    mean = "-" if solution.mean_hops is None else f"{solution.mean_hops:.4f}"
    rows = (
        ("theta (largest link utilisation)", f"{solution.theta:.6g}"),
        ("lambda (throughput, 1/theta)", f"{solution.throughput:.6g}"),
        *([] if objective.name == "theta" else [(objective.name, f"{objective.value:.6g}")]),
        (f"lower bound on {objective.name}", f"{solution.bound.value:.6g} ({solution.bound.proved_by})"),
        ("gap", f"{100 * solution.gap:.3g} %"),
        ("topology", f"{topology.servers} servers, degree {topology.degree}, {topology.links}: {topology.origin}"),
        ("diameter, mean hops", f"{hops}, {mean}"),
        *_robust_rows(solution),
    )
    show_figures(console, solution, wall_s, rows)
    show_end(console, solution, out)


def check_network_file(problem: RoutingProblem | TopologyProblem, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a solver."""
    from topoopt.kinds.network.check import check_solution
    from topoopt.kinds.network.solution_file import read_network_solution

    return check_solution(problem, read_network_solution(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.network.report import render_network_html
    from topoopt.kinds.network.solution_file import read_network_solution

    return render_network_html(read_network_solution(solution))


def _search_problems(problem: RoutingProblem | TopologyProblem) -> list[Problem]:
    if problem.search.method == "auto":  # the others are known only where the solvers are, which load slowly
        return []
    from topoopt.kinds.network.solve import search_problems

    return search_problems(problem, problem.search.method)


def _methods(problem: RoutingProblem | TopologyProblem) -> tuple[str, ...]:
    from topoopt.kinds.network.solve import methods_of

    return methods_of(problem)


def _run(problem: RoutingProblem | TopologyProblem, wishes: Wishes) -> NetworkSolution:
    from topoopt.kinds.network.solve import solve_network

    return solve_network(problem, seed=wishes.seed, time_limit_s=wishes.time_limit_s, method=wishes.method)


COMMANDS = KindCommands(solve_network_command, check_network_file, _report, _search_problems, Contest(_methods, _run))
