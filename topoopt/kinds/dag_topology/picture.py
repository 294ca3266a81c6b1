"""The circuits between pods; the transfers over time."""

from __future__ import annotations

from markupsafe import Markup

from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.drawing.circuits_picture import DrawnCircuits, circle_of_circuits
from topoopt.drawing.format import counted, percent, shortened
from topoopt.drawing.lanes import HEAD, LANE, WIDTH_PX
from topoopt.drawing.svg import element, joined, percentage, picture, tick_text, ticks
from topoopt.kinds.dag_topology.words import in_use, time_text, transfers_by_channel

MOST_LANES = 40
MOST_BARS = 3000
BAR = 15.0


def circuits_picture(solution: DagTopologySolution) -> Markup:
    """Circuits by how long the busier direction is in use; the text of a line has their number."""
    used = in_use(solution)
    lines = []
    for each in solution.circuits:
        share = max(used.get((each.one, each.other), 0.0), used.get((each.other, each.one), 0.0))
        text = f"{each.one} ↔ {each.other}: {counted(each.count, 'circuit')}, in use {percent(share)} of the time"
        lines.append(DrawnCircuits(each.one, each.other, each.count, share, text))
    ports = zip(solution.ports_used, solution.ports, strict=True)
    tips = [f"pod {pod}: {used_here} of {all_here} ports in use" for pod, (used_here, all_here) in enumerate(ports)]
    return circle_of_circuits(lines, tips, f"Circuits between {solution.pods} pods")


def timeline(solution: DagTopologySolution) -> tuple[Markup, Markup, str]:
    """(names, bars, what is left out) of the transfers, a lane for each direction of each pair."""
    makespan = solution.objective.value
    channels = transfers_by_channel(solution)
    if not channels or makespan <= 0:
        return Markup(""), Markup(""), ""
    busiest = sorted(channels, key=lambda one: (-max(step.end for step in channels[one]), one))[:MOST_LANES]
    lanes = sorted(busiest)
    count = {(each.one, each.other): each.count for each in solution.circuits}
    height = HEAD + LANE * len(lanes)
    names, shapes, left = [], [_axis(makespan, height)], MOST_BARS
    hidden = sum(len(steps) for channel, steps in channels.items() if channel not in lanes)
    for lane, channel in enumerate(lanes):
        y = HEAD + LANE * lane
        circuits = count.get((min(channel), max(channel)), 0)
        names.append(element("text", f"{channel[0]} → {channel[1]} ×{circuits}", x=0, y=y + 14))
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 4, class_="lane"))
        for step in channels[channel]:
            if left == 0:
                hidden += 1
                continue
            left -= 1
            share = (step.end - step.start) / makespan
            tip = f"{step.name}: {channel[0]} → {channel[1]}\n"
            tip += f"{time_text(solution, step.start)} to {time_text(solution, step.end)}"
            place = {"x": percentage(step.start / makespan), "y": y + 2, "width": percentage(share), "height": BAR}
            box = element("rect", element("title", tip), class_="c-mp block", width="100%", height="100%")
            label = shortened(step.name, 20)
            fits = share * WIDTH_PX >= 6.2 * len(label) + 8
            text = element("text", label, x=4, y=BAR - 4, class_="on on-mp") if fits else Markup("")
            shapes.append(element("svg", box, text, **place))
    note = f"{counted(hidden, 'transfer')} of the shorter lanes left out." if hidden else ""
    drawn = {"height": int(height) + 2}
    return (
        picture(*names, label="Channels", class_="lanes", width=96, **drawn),
        picture(*shapes, label="Transfers over time", class_="bars", **drawn),
        note,
    )


def _axis(makespan: float, height: float) -> Markup:
    values = [value for value in ticks(0.0, makespan, 8) if value <= makespan * 0.94]
    step = values[1] - values[0] if len(values) > 1 else makespan
    marks = []
    for value in values:
        at = percentage(value / makespan)
        line = element("line", x1=at, x2=at, y1=HEAD - 6, y2=height, class_="gridline")
        anchor = "middle" if value else "start"
        marks += [line, element("text", tick_text(value, step), x=at, y=HEAD - 10, text_anchor=anchor)]
    end = element("text", f"{makespan:.4g}", x="100%", y=HEAD - 10, text_anchor="end")
    return joined([*marks, element("line", x1="100%", x2="100%", y1=HEAD - 6, y2=height, class_="axis"), end])
