"""A timeline draws what servers, or the ports of stages on rails, do over time, lane by lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from topoopt.core.job import Span
from topoopt.core.switching import PortChange, PortSplit, PortUse, RailEvent, StagePorts
from topoopt.page.charts import element, joined, percentage, picture, tick_text, ticks
from topoopt.page.text import counted, milliseconds, shortened

FEW_LANES = 24
"""Servers drawn of a bigger cluster."""
LANE = 24.0
COMPUTE = 13.0
SEND = 5.0
HEAD = 24.0
WIDTH_PX = 1000.0
"""Width assumed when deciding which labels fit at zoom 1."""
LETTER_PX = 6.2
ZOOMS = (1, 4, 16)
"""Labels and ticks of class z4 (z16) show when the axis is stretched at least that much."""


def lanes(names: Markup, bars: Markup) -> Markup:
    """Draw lanes beside their names, two pictures of one height, so that the axis may be scrolled."""
    return Markup('<div class="passes">{}<div class="stretch">{}</div></div>').format(names, bars)


def merged_spans(spans: list[Span]) -> list[list[Span]]:
    """Spans in runs that overlap or touch in time."""
    runs: list[list[Span]] = []
    end = 0.0
    for span in sorted(spans, key=lambda item: (item.start_ms, item.end_ms)):
        if runs and span.start_ms <= end:
            runs[-1].append(span)
            end = max(end, span.end_ms)
        else:
            runs.append([span])
            end = span.end_ms
    return runs


def lane_bar(span: Span, total: float, y: float, css: str, kind: str) -> Markup:
    """A span as a bar, with its name at the zoom at which that fits."""
    share = (span.end_ms - span.start_ms) / total
    tip = f"{kind} {span.label}\n{milliseconds(span.start_ms)} to {milliseconds(span.end_ms)}"
    tip += f" ({milliseconds(span.end_ms - span.start_ms)})"
    label = shortened(span.label, 24)
    needed = len(label) * LETTER_PX + 8
    zoom = next((factor for factor in ZOOMS if share * WIDTH_PX * factor >= needed), None)
    box = element("rect", element("title", tip), class_=f"c-{css} block", width="100%", height="100%")
    shape = {"x": percentage(span.start_ms / total), "y": y, "width": percentage(share), "height": COMPUTE}
    if zoom is None:
        return element("rect", element("title", tip), class_=f"c-{css} block", **shape)
    return element("svg", box, element("text", label, x=4, y=COMPUTE - 3, class_=f"on on-{css} z{zoom}"), **shape)


def sending(run: list[Span], total: float, y: float, verb: str = "sends") -> Markup:
    """Transfers that overlap or touch, as one thin bar."""
    start, end = run[0].start_ms, max(span.end_ms for span in run)
    longest = max(run, key=lambda span: span.end_ms - span.start_ms)
    tip = f"{verb} {counted(len(run), 'transfer')}\n{milliseconds(start)} to {milliseconds(end)}\n"
    tip += f"longest: {longest.label} ({milliseconds(longest.end_ms - longest.start_ms)})"
    return element(
        "rect",
        element("title", tip),
        class_="c-mp",
        x=percentage(start / total),
        y=y,
        width=percentage((end - start) / total),
        height=SEND,
    )


def critical(step: Span, total: float, y: float) -> Markup:
    """A step of the critical path, as a line along its bar; `y`: top of the line."""
    share = percentage((step.end_ms - step.start_ms) / total)
    return element("rect", class_="c-critical", x=percentage(step.start_ms / total), y=y, width=share, height=2.0)


def time_axis(total: float, height: float) -> Markup:
    """Times along the top, with grid lines."""
    marks = []
    done: set[float] = set()
    for zoom in ZOOMS:
        values = ticks(0.0, total, 8 * zoom)
        step = values[1] - values[0] if len(values) > 1 else total
        for value in values:
            if round(value / total, 6) in done or value > total * (1 - 0.075 / zoom):
                continue
            done.add(round(value / total, 6))
            at = percentage(value / total)
            line = element("line", x1=at, x2=at, y1=HEAD - 6, y2=height, class_="gridline")
            text = element(
                "text", tick_text(value, step), x=at, y=HEAD - 10, text_anchor="middle" if value else "start"
            )
            marks.append(element("g", line, text, class_=f"z{zoom}"))
    end = element("line", x1="100%", x2="100%", y1=HEAD - 6, y2=height, class_="axis")
    return joined([*marks, end, element("text", f"{milliseconds(total)}", x="100%", y=HEAD - 10, text_anchor="end")])


def seconds_axis(begin: float, length: float, height: float) -> list[Markup]:
    """Times along the top of lanes that are not stretched, with grid lines; seconds, milliseconds or microseconds.

    Args:
        begin: seconds at the left end; the lanes are `length` seconds long.
        height: of the lanes.
    """
    scale, unit = (1.0, "s") if length >= 1 else (1e3, "ms") if length >= 1e-3 else (1e6, "µs")
    values = ticks(begin * scale, (begin + length) * scale, 6)
    step = values[1] - values[0] if len(values) > 1 else length * scale
    shapes = []
    for value in values:
        part = (value / scale - begin) / length
        at = percentage(part)
        shapes.append(element("line", x1=at, x2=at, y1=HEAD - 6, y2=height, class_="gridline"))
        if part <= 0.85:
            anchor = "middle" if part > 0.02 else "start"
            shapes.append(element("text", tick_text(value, step), x=at, y=HEAD - 10, text_anchor=anchor))
    last = f"{tick_text((begin + length) * scale, step / 10)} {unit}"
    return [*shapes, element("text", last, x="100%", y=HEAD - 10, text_anchor="end")]


STAGE_LANE, STAGE_HEAD, MOVED = 30.0, 24.0, 9.0
MOST_STAGES = 16
MOST_MOVED = 3000

COLOURS: Mapping[PortUse, str] = {PortUse.PIPELINE: "k4", PortUse.DATA: "k2", PortUse.EXPERT: "k3"}
DARK = "k5"
TRANSFERS = {"send": "k0", "reduce": "k6", "gather": "k6"}


def ports_legend(stages: Sequence[StagePorts], *, sent: bool) -> tuple[tuple[str, str], ...]:
    """Classes of colours and what they mean: of what the ports of these stages serve, and of what is sent."""
    served = {
        use
        for ports in stages
        for split in (ports.pipeline, ports.inside, ports.data)
        for use in PortUse
        if split.of(use)
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
) -> tuple[Markup, list[str]]:
    """What the ports of each stage serve over a step, when they are dark, and what is sent; and what is left out.

    Args:
        stages: ports of each.
        step_s, delay_s: seconds of the step, and to set ports.
        changes: by rank and time; those before the begin of the step are of the step before.
        events: what is sent and when, where that is to be drawn.
    """
    ranks = min(len(stages), MOST_STAGES)
    moved = [event for event in events if event.what in TRANSFERS and event.rank < ranks]
    begin = min([0.0, *(event.begin_s for event in changes), *(event.begin_s for event in events)])
    total = step_s - begin
    shapes, names = [], []
    for rank, ports in enumerate(stages[:ranks]):
        y = STAGE_HEAD + STAGE_LANE * rank
        names.append(element("text", f"stage {rank}", x=0, y=y + 16))
        own = [event for event in changes if event.rank == rank]
        held, at = own[-1].after if own else ports.pipeline, begin
        for event in own:
            shapes += _serving(rank, held, at - begin, event.begin_s - begin, total, y)
            held, at = event.after, min(event.begin_s + delay_s, step_s)
            text = f"stage {rank}: {event.boundary}"
            shapes.append(_bar(text, DARK, event.begin_s - begin, at - begin, total, y, STAGE_LANE - 4))
        shapes += _serving(rank, held, at - begin, total, total, y)
    for sent in moved[:MOST_MOVED]:
        y = STAGE_HEAD + STAGE_LANE * sent.rank + STAGE_LANE - 4 - MOVED
        text = f"stage {sent.rank}: {sent.what}" + (f" to stage {sent.peer}" if sent.peer >= 0 else "")
        shapes.append(_bar(text, TRANSFERS[sent.what], sent.begin_s - begin, sent.end_s - begin, total, y, MOVED))
    notes = ["What stands before 0 is of the step before."] if begin else []
    if ranks < len(stages):
        notes.append(f"The first {ranks} of {counted(len(stages), 'stage')} are drawn.")
    if len(moved) > MOST_MOVED:
        notes.append(f"The first {MOST_MOVED} of {len(moved)} transfers are drawn.")
    height = int(STAGE_HEAD + STAGE_LANE * ranks)
    drawn = (*seconds_axis(begin, total, height), *shapes)
    named = picture(*names, label="Stages", class_="lanes", width=64, height=height)
    bars = picture(*drawn, label="Ports of the stages over time", class_="bars", height=height)
    return lanes(named, bars), notes


def _serving(rank: int, split: PortSplit, begin: float, end: float, total: float, y: float) -> list[Markup]:
    """What ports serve for a time: uses one above the other, by their ports."""
    if end <= begin:
        return []
    text = f"stage {rank}: " + ", ".join(f"{split.of(kind)} {kind.value}" for kind in PortUse if split.of(kind))
    shapes, high = [], (STAGE_LANE - 4) / max(split.total, 1)
    for use in PortUse:
        if split.of(use):
            shapes.append(_bar(text, COLOURS[use], begin, end, total, y, high * split.of(use)))
            y += high * split.of(use)
    return shapes


def _bar(text: str, css: str, begin: float, end: float, total: float, y: float, height: float) -> Markup:
    box = {"x": percentage(begin / total), "width": percentage((end - begin) / total), "y": y, "height": height}
    return element("rect", element("title", text), class_=f"block f-{css}", **box)
