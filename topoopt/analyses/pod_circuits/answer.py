"""What circuits for a plan answer, beside those of matrices: a sentence, a document, a table."""

from __future__ import annotations

from typing import Any

from topoopt.analyses.pod_circuits.run import PodCircuits
from topoopt.console.tables import TerminalTable
from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.drawing.format import counted, percent
from topoopt.kinds.llm_training.words import seconds

HEADINGS = ("circuits", "makespan", "communication", "number of circuits")


def less(one: DagTopologySolution, other: DagTopologySolution) -> float:
    """Part of the communication of another that one saves; 0 where that has none."""
    whole = other.communication_time
    return 1.0 - one.communication_time / whole if whole > 0 else 0.0


def answer(found: PodCircuits) -> str:
    """The makespan, what it saves, what is proven."""
    best, matrix = found.best, found.matrices[found.best_matrix]
    gap = best.gap or 0.0
    return (
        f"{seconds(best.objective.value)} over {counted(best.circuits_total, 'circuit')}, at most {percent(gap)} more "
        f"than any take: {percent(less(best, found.matrices['volume']))} less communication than by volume, "
        f"{percent(less(best, matrix))} less than by the best matrix ({found.best_matrix}), whose time "
        f"{found.early.circuits_total} of its {matrix.circuits_total} circuits reach."
    )


def document(found: PodCircuits) -> dict[str, Any]:
    """All figures; times in seconds."""
    best, volume, matrix = found.best, found.matrices["volume"], found.matrices[found.best_matrix]
    return {
        "pods": found.graph.pods,
        "ports": found.graph.ports[0],
        "pairs": len(found.graph.pairs),
        "transfers": len(found.graph.transfers),
        "max_hops": found.graph.max_hops,
        "makespan_s": best.objective.value,
        "bound_s": best.bound.value,
        "gap_percent": 100.0 * (best.gap or 0.0),
        "compute_s": best.compute_time,
        "communication_s": best.communication_time,
        "by_volume_s": volume.communication_time,
        "best_matrix": found.best_matrix,
        "best_matrix_s": matrix.communication_time,
        "less_than_volume_percent": 100.0 * less(best, volume),
        "less_than_best_percent": 100.0 * less(best, matrix),
        "circuits": best.circuits_total,
        "circuits_bound": best.proof.circuits_bound,
        "circuits_as_early": found.early.circuits_total,
        "circuits_as_early_bound": found.early.proof.circuits_bound,
        "circuits_of_best_matrix": matrix.circuits_total,
        "forwarded": len(best.routes),
        "matrix_s": {name: each.objective.value for name, each in found.matrices.items()},
        "objective": {"name": "makespan", "value": best.objective.value, "unit": "s"},
        "bound": {"value": best.bound.value, "proved_by": best.bound.argument.value, "verified": best.bound.verified},
        "gap": best.gap,
        "status": best.status.value,
        "stopped_by": found.stopped_by.value,
    }


def table(found: PodCircuits) -> TerminalTable:
    """A row for each choice."""
    made = TerminalTable(title="circuits and what the job takes over them")
    for name in HEADINGS:
        made.add_column(name, justify="left" if name == HEADINGS[0] else "right", overflow="fold")
    rows = {"by the graph": found.best, "as early as the best matrix": found.early, **found.matrices}
    for name, each in rows.items():
        times = (seconds(each.objective.value), seconds(each.communication_time))
        made.add_row(name, *times, str(each.circuits_total))
    return made
