"""The ports of every stage over time, drawn, and the boundaries in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from topoopt.analyses.reconfiguration.rails_words import boundary_lines, boundary_rows, straggler_line
from topoopt.core.switched_step import RailEvent, RailStudy
from topoopt.core.switching import PortSplit, PortUse
from topoopt.drawing.format import counted, number
from topoopt.drawing.lanes import LanesDrawing
from topoopt.drawing.svg import element, percentage, picture

LANE, HEAD, MOVED = 30.0, 24.0, 9.0
MOST_STAGES = 16
MOST_MOVED = 3000
"""Transfers that are drawn."""

COLOURS: Mapping[PortUse, str] = {PortUse.PIPELINE: "k4", PortUse.DATA: "k2", PortUse.EXPERT: "k3"}
DARK = "k5"
TRANSFERS = {"send": "k0", "reduce": "k6", "gather": "k6"}

HEADINGS = ("boundary", "action", "in a step", "window", "stall", "pays")


def rails_section(study: RailStudy) -> dict[str, Any]:
    """What the template draws of a study."""
    legend = [(f"f-{css}", f"ports serve {use.value}") for use, css in COLOURS.items()]
    legend += [(f"f-{DARK}", "being set: dark"), ("f-k0", "sent to another stage"), ("f-k6", "gradients and weights")]
    return {
        "words": boundary_lines(study)[0] + ".",
        "late": straggler_line(study) + "." if study.stragglers else "",
        "drawing": _drawing(study),
        "legend": legend,
        "head": HEADINGS,
        "rows": boundary_rows(study.boundaries),
    }


def _drawing(study: RailStudy) -> LanesDrawing:
    step = study.shown
    ranks = min(len(step.plan), MOST_STAGES)
    begin = min([0.0, *(one.begin_s for one in step.events)])
    total = step.step_s - begin
    shapes, names = [], []
    for rank in range(ranks):
        y = HEAD + LANE * rank
        names.append(element("text", f"stage {rank}", x=0, y=y + 16))
        own = [one for one in step.events if one.rank == rank]
        for at, end, split in _states(own, step.plan[rank].pipeline, begin, step.step_s):
            use = max(PortUse, key=split.of)
            text = f"stage {rank}: " + ", ".join(f"{split.of(one)} {one.value}" for one in PortUse if split.of(one))
            shapes.append(_bar(text, COLOURS[use], at - begin, end - begin, total, y, LANE - 4))
        for one in own:
            if one.what == "switch":
                text = f"stage {rank}: {one.boundary.value if one.boundary else 'switch'}"
                shapes.append(_bar(text, DARK, one.begin_s - begin, one.end_s - begin, total, y, LANE - 4))
    moved = [one for one in step.events if one.what in TRANSFERS and one.rank < ranks]
    for one in moved[:MOST_MOVED]:
        y = HEAD + LANE * one.rank + LANE - 4 - MOVED
        text = f"stage {one.rank}: {one.what}" + (f" to stage {one.peer}" if one.peer >= 0 else "")
        shapes.append(_bar(text, TRANSFERS[one.what], one.begin_s - begin, one.end_s - begin, total, y, MOVED))
    notes = [f"From {number(begin)} s, in the step before, to {number(step.step_s)} s."]
    if ranks < len(step.plan):
        notes.append(f"The first {ranks} of {counted(len(step.plan), 'stage')} are drawn.")
    if len(moved) > MOST_MOVED:
        notes.append(f"The first {MOST_MOVED} of {len(moved)} transfers are drawn.")
    height = int(HEAD + LANE * ranks)
    return LanesDrawing(
        False,
        picture(*names, label="Stages", class_="lanes", width=64, height=height),
        picture(*shapes, label="Ports of the stages over time", class_="bars", height=height),
        tuple(notes),
    )


def _states(events: list[RailEvent], only: PortSplit, begin: float, end: float) -> list[tuple[float, float, PortSplit]]:
    """What ports serve between the times at which they are set."""
    switches = sorted((one for one in events if one.what == "switch"), key=lambda one: one.begin_s)
    found, at = [], begin
    for one in switches:
        assert one.before is not None
        if one.begin_s > at:
            found.append((at, one.begin_s, one.before))
        at = one.end_s
    last = switches[-1].after if switches else only
    assert last is not None
    return [*found, (at, end, last)] if end > at else found


def _bar(text: str, css: str, begin: float, end: float, total: float, y: float, height: float) -> Markup:
    box = {"x": percentage(begin / total), "width": percentage((end - begin) / total), "y": y, "height": height}
    return element("rect", element("title", text), class_=f"block f-{css}", **box)
