"""The report of circuits for a job: one HTML file that needs nothing else."""

from __future__ import annotations

from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.core.verdict import Status
from topoopt.drawing.format import counted, percent
from topoopt.drawing.page import Card, check_card, render_page, run_rows, versions_row
from topoopt.drawing.sentences import bound_text
from topoopt.drawing.utilisation import utilisation_legend
from topoopt.kinds.dag_topology.answer import answer
from topoopt.kinds.dag_topology.picture import circuits_picture, timeline
from topoopt.kinds.dag_topology.words import circuit_rows, time_text

TEMPLATE = "kinds/dag_topology/page.html.j2"
SHOWN_PAIRS = 40


def cards(solution: DagTopologySolution) -> tuple[Card, ...]:
    """Makespan, distance to the bound, verdict, communication, circuits, ports."""
    bound, least = solution.bound, solution.proof.circuits_bound
    few = "none fewer do it in that time (proven)" if least == solution.circuits_total else f"at least {least} needed"
    return (
        Card("makespan", time_text(solution, solution.objective.value), "when the last step ends", "main"),
        Card(
            "gap to the bound",
            percent(solution.gap),
            f"bound {time_text(solution, bound.value)}: {bound.proved_by}",
            "good" if solution.status is Status.OPTIMAL else "",
        ),
        check_card(solution.check),
        Card("communication", time_text(solution, solution.communication_time), "of it, beyond the tasks alone"),
        Card("circuits", f"{solution.circuits_total}", few),
        Card("ports free", f"{solution.ports_saved}", f"of {sum(solution.ports)} of all pods"),
    )


def render_dag_topology(solution: DagTopologySolution) -> str:
    """The whole report as one HTML page; names from the instance are escaped. Same solution, same bytes."""
    rows = circuit_rows(solution)
    names, bars, note = timeline(solution)
    transfers = sum(step.source >= 0 for step in solution.steps)
    used = [f"{count} of {ports}" for count, ports in zip(solution.ports_used, solution.ports, strict=True)]
    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=f"{counted(solution.pods, 'pod')} · {counted(transfers, 'transfer')} · "
        f"{counted(len(solution.steps) - transfers, 'task')}",
        verdict=cards(solution)[:3],
        comparisons=cards(solution)[3:],
        picture=circuits_picture(solution),
        uses=utilisation_legend(),
        rows=[(pair, count, percent(one), percent(other)) for pair, count, one, other in rows[:SHOWN_PAIRS]],
        hidden_rows=max(0, len(rows) - SHOWN_PAIRS),
        ports=used[:SHOWN_PAIRS],
        hidden_ports=max(0, len(used) - SHOWN_PAIRS),
        names=names,
        bars=bars,
        note=note,
        provenance=(
            *run_rows(solution),
            ("bound", bound_text(solution)),
            versions_row(solution),
        ),
    )
