"""What circuits for a job answer, in one sentence."""

from __future__ import annotations

from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.drawing.format import counted
from topoopt.drawing.sentences import quantity, rejection, room


def answer(solution: DagTopologySolution) -> str:
    """Makespan, circuits, ports left, and what is proven of all circuits."""
    total, saved = solution.circuits_total, solution.ports_saved
    best = room(solution, "choice of circuits", "faster")
    least = solution.proof.circuits_bound
    few = "none fewer do it in that time (proven)" if least == total else f"at least {least} are needed (proven)"
    return rejection(solution.check) or (
        f"The job takes {quantity(solution.objective.value, solution.objective.unit)} over "
        f"{counted(total, 'circuit')}, which leaves {counted(saved, 'port')} of {sum(solution.ports)} free: "
        f"{best}; {few}."
    )
