"""The report of circuits of a region: one HTML file that needs nothing else."""

from __future__ import annotations

from markupsafe import Markup

from topoopt.core.regional_circuits_solution import CircuitStep, RegionalCircuitsSolution
from topoopt.core.verdict import Status
from topoopt.drawing.circuits_picture import DrawnCircuits, circle_of_circuits
from topoopt.drawing.format import counted, percent, ratio
from topoopt.drawing.page import Card, check_card, render_page, run_rows, versions_row
from topoopt.drawing.region_ports import REGION_LEGEND, region_ports_picture
from topoopt.drawing.sentences import bound_text
from topoopt.drawing.svg import element, percentage, picture
from topoopt.kinds.regional_circuits.answer import answer
from topoopt.kinds.regional_circuits.words import step_rows, time_text

TEMPLATE = "kinds/regional_circuits/page.html.j2"
SHOWN_STEPS = 60
SHOWN_TOPOLOGIES = 6
HEIGHT = 22


def cards(solution: RegionalCircuitsSolution) -> tuple[Card, ...]:
    """Time, distance to the bound, verdict; one electrical switch, circuits set anew."""
    value, bound = solution.objective.value, solution.bound
    return (
        Card("communication time", time_text(value), "transfers and stalls of all steps", "main"),
        Card(
            "gap to the bound",
            percent(solution.gap),
            f"bound {time_text(bound.value)}: {bound.proved_by}",
            "good" if solution.status is Status.OPTIMAL else "",
        ),
        check_card(solution.check),
        Card(
            "over one electrical switch",
            ratio(value / solution.switch_s),
            f"{time_text(solution.switch_s)} at least with all interfaces",
        ),
        Card("circuits set anew", str(solution.switchings), f"stalls of {time_text(solution.stall_s)}"),
    )


def step_bar(step: CircuitStep, scale: float) -> Markup:
    """Stall and transfers over a common scale, with a mark at what an electrical switch takes."""
    shapes, start = [], 0.0
    for name, css, value in (("stall", "critical", step.stall_s), ("transfers", "mp", step.transfer_s)):
        if value > 0 and scale > 0:
            place = {"x": percentage(start / scale), "width": percentage(value / scale), "height": HEIGHT}
            shapes.append(element("rect", element("title", f"{name}: {time_text(value)}"), class_=f"c-{css}", **place))
        start += value
    if scale > 0:
        at = percentage(step.switch_s / scale)
        shapes.append(element("line", class_="boundline", x1=at, x2=at, y1=0, y2=HEIGHT))
    return picture(*shapes, label="Time of the step", class_="wide", height=HEIGHT)


def topology_picture(solution: RegionalCircuitsSolution, topology: int) -> Markup:
    """Its circuits, by how many ports of the fuller end they take."""
    used = [0] * solution.servers
    lines = []
    for each in solution.topologies[topology]:
        used[each.one] += each.count
        used[each.other] += each.count
        share = each.count / min(solution.ports[each.one], solution.ports[each.other])
        text = f"{each.one} ↔ {each.other}: {counted(each.count, 'circuit')}"
        lines.append(DrawnCircuits(each.one, each.other, each.count, share, text))
    tips = [f"server {k}: {count} of {solution.ports[k]} ports in use" for k, count in enumerate(used)]
    return circle_of_circuits(lines, tips, f"Circuits between {solution.servers} servers")


def _steps_of(solution: RegionalCircuitsSolution, topology: int) -> str:
    """The steps that have it."""
    found = [str(place) for place, step in enumerate(solution.steps) if step.circuits == topology]
    return ("step " if len(found) == 1 else "steps ") + ", ".join(found)


def render_regional_circuits(solution: RegionalCircuitsSolution) -> str:
    """The whole report as one HTML page; names from the instance are escaped. Same solution, same bytes."""
    steps = solution.steps[:SHOWN_STEPS]
    scale = max(max(step.stall_s + step.transfer_s, step.switch_s) for step in solution.steps)
    listed = solution.topologies[:SHOWN_TOPOLOGIES]
    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=f"{counted(solution.servers, 'server')} · {counted(len(solution.steps), 'step')} · "
        f"{counted(sum(solution.ports), 'port')} of the optical switch",
        verdict=cards(solution)[:3],
        comparisons=cards(solution)[3:],
        rows=[(*row, step_bar(step, scale)) for row, step in zip(step_rows(solution), steps, strict=False)],
        hidden_rows=len(solution.steps) - len(steps),
        pictures=[
            (
                place,
                _steps_of(solution, place),
                topology_picture(solution, place),
            )
            for place in range(len(listed))
        ],
        ports=region_ports_picture(solution),
        ports_legend=REGION_LEGEND,
        hidden_pictures=len(solution.topologies) - len(listed),
        provenance=(
            *run_rows(solution),
            ("bound", bound_text(solution)),
            versions_row(solution),
        ),
    )
