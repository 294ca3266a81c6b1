"""What the terminal and `--json` show of circuits for a job."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from topoopt.console.solution_tables import show_figures
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.kinds.dag_topology.answer import answer
from topoopt.kinds.dag_topology.report import render_dag_topology
from topoopt.kinds.dag_topology.words import time_text
from topoopt.kinds.kind import Pages

SHOWN_PAIRS = 12


def figures(problem: DagTopologyProblem | None, solution: DagTopologySolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve."""
    return {
        "makespan": solution.objective.value,
        "compute_time": solution.compute_time,
        "communication_time": solution.communication_time,
        "circuits": [[each.one, each.other, each.count] for each in solution.circuits],
        "circuits_total": solution.circuits_total,
        "circuits_bound": solution.proof.circuits_bound,
        "ports_used": list(solution.ports_used),
        "ports_saved": solution.ports_saved,
        "fastest_circuits": list(solution.fastest_circuits),
    }


def show(console: Console, solution: DagTopologySolution, wall_s: float) -> None:
    """The figures."""
    pairs = [f"{each.one}↔{each.other}: {each.count}" for each in solution.circuits]
    more = f", and {len(pairs) - SHOWN_PAIRS} more pairs" if len(pairs) > SHOWN_PAIRS else ""
    transfers = sum(step.source >= 0 for step in solution.steps)
    rows = (
        ("makespan", time_text(solution, solution.objective.value)),
        ("bound", f"{time_text(solution, solution.bound.value)} ({solution.bound.proved_by})"),
        ("communication", f"{time_text(solution, solution.communication_time)} of it, beyond the tasks alone"),
        ("circuits", f"{solution.circuits_total}, at least {solution.proof.circuits_bound} are needed"),
        ("by pair", ", ".join(pairs[:SHOWN_PAIRS]) + more),
        ("ports used, free", f"{sum(solution.ports_used)}, {solution.ports_saved}"),
        ("transfers, tasks", f"{transfers}, {len(solution.steps) - transfers}"),
    )
    show_figures(console, solution, wall_s, rows)


PAGES = Pages(report=render_dag_topology, figures=figures, show=show, answer=answer)
