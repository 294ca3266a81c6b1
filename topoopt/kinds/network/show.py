"""What the terminal and `--json` show of a network."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from topoopt.console.solution_tables import show_figures
from topoopt.core.network import NetworkProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.drawing.distances import diameter_and_mean_hops
from topoopt.drawing.sentences import objective_text
from topoopt.kinds.kind import Pages
from topoopt.kinds.network.answer import answer
from topoopt.kinds.network.report import render_network_html, robust_rows, several_rows
from topoopt.kinds.network.solution_schema import RobustnessPart


def figures(problem: NetworkProblem, solution: NetworkSolution) -> dict[str, Any]:
    """Keys of these kinds in the JSON object of a solve."""
    far, mean = diameter_and_mean_hops(solution.topology)
    document: dict[str, Any] = {
        "theta": solution.theta,
        "lambda": solution.throughput,
        "routing_bound": solution.network.routing_bound,
        "diameter": far,
        "mean_hops": mean,
        "servers": solution.topology.servers,
        "degree": solution.topology.degree,
        "links": int(solution.topology.multiplicity.sum()),
    }
    if solution.network.robustness is not None:
        document["robustness"] = RobustnessPart.model_validate(solution.network.robustness).model_dump(
            mode="json", exclude={"failures", "lengths"}
        )
    if len(solution.thetas) > 1:
        document |= {"thetas": list(solution.thetas), "routing": solution.mode.value}
    return document


def show(console: Console, solution: NetworkSolution, wall_s: float) -> None:
    """The figures."""
    topology, objective = solution.topology, solution.objective
    far, mean = diameter_and_mean_hops(topology)
    distances = "not all pairs connected, -" if mean is None else f"{far}, {mean:.4f}"
    rows = (
        ("theta (largest link utilisation)", f"{solution.theta:.6g}"),
        ("lambda (throughput, 1/theta)", f"{solution.throughput:.6g}"),
        *([] if objective.name == "theta" else [(objective_text(objective.name), f"{objective.value:.6g}")]),
        (
            f"lower bound on {objective_text(objective.name)}",
            f"{solution.bound.value:.6g} ({solution.bound.proved_by})",
        ),
        ("gap", f"{round(100 * solution.gap, 8):.3g} %"),
        ("topology", f"{topology.servers} servers, degree {topology.degree}, {topology.links}: {topology.origin}"),
        ("diameter, mean hops", distances),
        *several_rows(solution),
        *robust_rows(solution),
    )
    show_figures(console, solution, wall_s, rows)


PAGES = Pages(render_network_html, figures, show, answer)
