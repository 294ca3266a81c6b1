"""What circuits for a job answer, in one sentence."""

from __future__ import annotations

from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.drawing.format import counted
from topoopt.drawing.sentences import quantity, rejection, room


def answer(solution: DagTopologySolution) -> str:
    """Makespan, circuits, ports left, and what is proven of all circuits."""
    total, saved = solution.circuits_total, solution.ports_saved
    what = "choice of circuits" if solution.max_hops == 1 else "choice of circuits and routes"
    best = room(solution, what, "faster")
    least = solution.proof.circuits_bound
    ways = solution.routes
    sent = f" ({counted(len(ways), 'direction')} forwarded by other pods)" if ways else ""
    few = "none fewer do it in that time (proven)" if least == total else f"at least {least} are needed (proven)"
    return rejection(solution.check) or (
        f"The job takes {quantity(solution.objective.value, solution.objective.unit)} over "
        f"{counted(total, 'circuit')}{sent}, which leaves {counted(saved, 'port')} of {sum(solution.ports)} free: "
        f"{best}; {few}."
    )
