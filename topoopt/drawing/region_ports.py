"""The ports of the servers of a region over time: circuits that stay, circuits set anew, and when these are dark."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from topoopt.core.regional_circuits_solution import RegionalCircuitsSolution
from topoopt.drawing.format import counted
from topoopt.drawing.lanes import LanesDrawing, seconds_axis
from topoopt.drawing.svg import element, percentage, picture

LANE, HEAD, GAP = 26.0, 24.0, 4.0
MOST_SERVERS = 32
MOST_STEPS = 60

STAY, ANEW, DARK = "k4", "k2", "k5"
REGION_LEGEND = (
    (f"f-{STAY}", "circuits of the step before"),
    (f"f-{ANEW}", "set anew for the step"),
    (f"f-{DARK}", "being set: dark"),
)
"""Classes of colours, and what they mean."""


def region_ports_picture(solution: RegionalCircuitsSolution) -> LanesDrawing:
    """What the ports of each server do in every step; those that no circuit ends at are left empty."""
    servers, steps = min(solution.servers, MOST_SERVERS), solution.steps[:MOST_STEPS]
    total = sum(step.stall_s + step.transfer_s for step in steps)
    names = [
        element("text", f"server {server}", x=0, y=HEAD + LANE * server + 15) for server in range(servers)
    ]  # fmt: skip
    shapes, at, before = [], 0.0, None
    for place, step in enumerate(steps):
        now = Counter({(each.one, each.other): each.count for each in solution.topologies[step.circuits]})
        stay = now if before is None else now & before
        for server in range(servers):
            used, kept = (sum(n for pair, n in one.items() if server in pair) for one in (now, stay))
            top, high = HEAD + LANE * server, (LANE - GAP) / max(solution.ports[server], 1)
            tip = f"server {server}, step {place}: {counted(kept, 'circuit')} kept, {used - kept} set anew"
            lit, end = at + step.stall_s, at + step.stall_s + step.transfer_s
            shapes += [
                _bar(tip, css, begin / total, (until - begin) / total, top + high * above, high * ports)
                for css, begin, until, above, ports in (
                    (STAY, at, end, 0, kept),
                    (DARK, at, lit, kept, used - kept),
                    (ANEW, lit, end, kept, used - kept),
                )
                if total > 0 and until > begin and ports
            ]
        at, before = at + step.stall_s + step.transfer_s, now
    notes = [
        f"The first {shown} of {counted(count, what)} are drawn."
        for shown, count, what in ((servers, solution.servers, "server"), (len(steps), len(solution.steps), "step"))
        if shown < count
    ]
    height = int(HEAD + LANE * servers)
    return LanesDrawing(
        total <= 0,
        picture(*names, label="Servers", class_="lanes", width=64, height=height),
        picture(
            *(seconds_axis(0.0, total, height) if total > 0 else ()),
            *shapes,
            label="Ports of the servers over time",
            class_="bars",
            height=height,
        ),
        tuple(notes),
    )


def _bar(tip: str, css: str, begin: float, width: float, y: float, height: float) -> Markup:
    box = {"x": percentage(begin), "width": percentage(width), "y": y, "height": height}
    return element("rect", element("title", tip), class_=f"block f-{css}", **box)
