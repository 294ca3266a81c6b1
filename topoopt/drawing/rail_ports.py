"""The ports of the stages of a job on rails over time: what they serve, when they are dark, what is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from topoopt.core.switching import PortChange, PortSplit, PortUse, RailEvent, StagePorts
from topoopt.drawing.format import counted
from topoopt.drawing.lanes import LanesDrawing, seconds_axis
from topoopt.drawing.svg import element, percentage, picture

LANE, HEAD, MOVED = 30.0, 24.0, 9.0
MOST_STAGES = 16
MOST_MOVED = 3000
"""Transfers that are drawn."""

COLOURS: Mapping[PortUse, str] = {PortUse.PIPELINE: "k4", PortUse.DATA: "k2", PortUse.EXPERT: "k3"}
DARK = "k5"
TRANSFERS = {"send": "k0", "reduce": "k6", "gather": "k6"}


def ports_legend(stages: Sequence[StagePorts], *, sent: bool) -> tuple[tuple[str, str], ...]:
    """Classes of colours and what they mean: of what the ports of these stages serve, and of what is sent."""
    served = {
        use for ports in stages for one in (ports.pipeline, ports.inside, ports.data) for use in PortUse if one.of(use)
    }
    return (
        *((f"f-{css}", f"ports serve {use.value}") for use, css in COLOURS.items() if use in served),
        (f"f-{DARK}", "being set: dark"),
        *((("f-k0", "sent to another stage"), ("f-k6", "gradients and weights")) if sent else ()),
    )


def ports_picture(
    stages: Sequence[StagePorts],
    step_s: float,
    delay_s: float,
    changes: Sequence[PortChange],
    events: Sequence[RailEvent] = (),
) -> LanesDrawing:
    """What the ports of each stage serve over a step, when they are dark, and what is sent.

    Args:
        stages: ports of each.
        step_s, delay_s: seconds of the step, and to set ports.
        changes: by rank and time; those before the begin of the step are of the step before.
        events: what is sent and when, where that is to be drawn.
    """
    ranks = min(len(stages), MOST_STAGES)
    moved = [one for one in events if one.what in TRANSFERS and one.rank < ranks]
    begin = min([0.0, *(one.begin_s for one in changes), *(one.begin_s for one in events)])
    total = step_s - begin
    shapes, names = [], []
    for rank, ports in enumerate(stages[:ranks]):
        y = HEAD + LANE * rank
        names.append(element("text", f"stage {rank}", x=0, y=y + 16))
        own = [one for one in changes if one.rank == rank]
        held, at = own[-1].after if own else ports.pipeline, begin
        for one in own:
            shapes += _serving(rank, held, at - begin, one.begin_s - begin, total, y)
            held, at = one.after, min(one.begin_s + delay_s, step_s)
            text = f"stage {rank}: {one.boundary}"
            shapes.append(_bar(text, DARK, one.begin_s - begin, at - begin, total, y, LANE - 4))
        shapes += _serving(rank, held, at - begin, total, total, y)
    for sent in moved[:MOST_MOVED]:
        y = HEAD + LANE * sent.rank + LANE - 4 - MOVED
        text = f"stage {sent.rank}: {sent.what}" + (f" to stage {sent.peer}" if sent.peer >= 0 else "")
        shapes.append(_bar(text, TRANSFERS[sent.what], sent.begin_s - begin, sent.end_s - begin, total, y, MOVED))
    notes = ["What stands before 0 is of the step before."] if begin else []
    if ranks < len(stages):
        notes.append(f"The first {ranks} of {counted(len(stages), 'stage')} are drawn.")
    if len(moved) > MOST_MOVED:
        notes.append(f"The first {MOST_MOVED} of {len(moved)} transfers are drawn.")
    height = int(HEAD + LANE * ranks)
    drawn = (*seconds_axis(begin, total, height), *shapes)
    return LanesDrawing(
        False,
        picture(*names, label="Stages", class_="lanes", width=64, height=height),
        picture(*drawn, label="Ports of the stages over time", class_="bars", height=height),
        tuple(notes),
    )


def _serving(rank: int, split: PortSplit, begin: float, end: float, total: float, y: float) -> list[Markup]:
    """What ports serve for a time: uses one above the other, by their ports."""
    if end <= begin:
        return []
    text = f"stage {rank}: " + ", ".join(f"{split.of(one)} {one.value}" for one in PortUse if split.of(one))
    shapes, high = [], (LANE - 4) / max(split.total, 1)
    for use in PortUse:
        if split.of(use):
            shapes.append(_bar(text, COLOURS[use], begin, end, total, y, high * split.of(use)))
            y += high * split.of(use)
    return shapes


def _bar(text: str, css: str, begin: float, end: float, total: float, y: float, height: float) -> Markup:
    box = {"x": percentage(begin / total), "width": percentage((end - begin) / total), "y": y, "height": height}
    return element("rect", element("title", text), class_=f"block f-{css}", **box)
