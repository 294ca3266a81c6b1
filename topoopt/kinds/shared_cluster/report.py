"""The report of a shared cluster: one HTML file that needs nothing else."""

from __future__ import annotations

from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.drawing.page import render_page, run_rows, versions_row
from topoopt.drawing.sentences import bound_text
from topoopt.drawing.utilisation import utilisation_legend
from topoopt.kinds.shared_cluster import report_arrivals, report_at_once
from topoopt.kinds.shared_cluster.answer import answer

FOLDER = "kinds/shared_cluster"


def provenance(solution: SharedClusterSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    part = report_at_once if solution.at_once else report_arrivals
    return (
        *run_rows(solution),
        ("bound", bound_text(solution)),
        *part.facts(solution),
        ("check again, without a simulator", "topoopt check INSTANCE solution.json"),
        versions_row(solution),
    )


def render_shared(solution: SharedClusterSolution) -> str:
    """The whole report as one HTML page; names from the instance are escaped. Same solution, same bytes."""
    part, sections = (report_at_once, "at_once") if solution.at_once else (report_arrivals, "arrivals")
    return render_page(
        f"{FOLDER}/page.html.j2",
        answer(solution),
        solution.check,
        solution=solution,
        sections=f"{FOLDER}/{sections}.html.j2",
        anchors=(*part.ANCHORS, ("provenance", "Provenance")),
        uses=utilisation_legend(),
        provenance=provenance(solution),
        **part.sections(solution),
    )
