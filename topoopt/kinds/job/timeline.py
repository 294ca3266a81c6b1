"""The iteration as a Gantt chart: a lane a server, then the AllReduces, over a time axis that can be stretched."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.job_solution import JobSolution, Span
from topoopt.drawing.format import counted, milliseconds, shortened
from topoopt.drawing.svg import element, joined, percentage, picture, tick_text, ticks

ALL_LANES = 32
"""Clusters up to this size show every server."""
FEW_LANES = 24
"""Bigger ones show so many."""
ALLREDUCE_ROWS = 12
LANE = 24.0
COMPUTE = 13.0
SEND = 5.0
HEAD = 24.0
WIDTH_PX = 1000.0
"""Width assumed when deciding which labels fit at zoom 1."""
LETTER_PX = 6.2
ZOOMS = (1, 4, 16)
"""Labels and ticks of class z4 (z16) show when the axis is stretched at least that much."""


@dataclass(frozen=True)
class Timeline:
    """Two drawings of equal height (lane names; bars) and what was left out; `empty` when there is nothing to draw."""

    empty: bool
    names: Markup
    bars: Markup
    notes: tuple[str, ...]


def shown_servers(solution: JobSolution) -> list[int]:
    """All servers, or for a big cluster those on the critical path and then those that compute longest, ascending."""
    n = solution.cluster.servers
    if n <= ALL_LANES:
        return list(range(n))
    on_path = dict.fromkeys(
        step.lane for step in solution.evaluation.critical_path if step.lane >= 0 and step.kind != "transfer"
    )
    busy = [0.0] * n
    for span in solution.evaluation.timeline:
        if 0 <= span.lane < n and span.kind in {"forward", "backward"}:
            busy[span.lane] += span.end_ms - span.start_ms
    chosen = [*on_path, *sorted((i for i in range(n) if i not in on_path), key=lambda i: (-busy[i], i))]
    return sorted(chosen[:FEW_LANES])


def merged(spans: list[Span]) -> list[list[Span]]:
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


def packed(spans: list[Span], rows: int) -> tuple[list[tuple[int, Span]], int]:
    """Row of each span so that no two of a row overlap, first fit in start order; and how many found no row."""
    free = [0.0] * rows
    placed: list[tuple[int, Span]] = []
    left_out = 0
    for span in sorted(spans, key=lambda item: (item.start_ms, -item.end_ms, item.label)):
        row = next((i for i, end in enumerate(free) if end <= span.start_ms + 1e-12), None)
        if row is None:
            left_out += 1
            continue
        free[row] = span.end_ms
        placed.append((row, span))
    return placed, left_out


def bar(span: Span, total: float, y: float, css: str, kind: str) -> Markup:
    """A span as a bar, with its name at the zoom at which that fits."""
    share = (span.end_ms - span.start_ms) / total
    tip = f"{kind} {span.label}\n{milliseconds(span.start_ms)} to {milliseconds(span.end_ms)}"
    tip += f" ({milliseconds(span.end_ms - span.start_ms)})"
    label = shortened(span.label, 24)
    needed = len(label) * LETTER_PX + 8
    zoom = next((factor for factor in ZOOMS if share * WIDTH_PX * factor >= needed), None)
    box = element("rect", element("title", tip), class_=f"c-{css} block", width="100%", height="100%")
    place = {"x": percentage(span.start_ms / total), "y": y, "width": percentage(share), "height": COMPUTE}
    if zoom is None:
        return element("rect", element("title", tip), class_=f"c-{css} block", **place)
    name = element("text", label, x=4, y=COMPUTE - 3, class_=f"on on-{css} z{zoom}")
    return element("svg", box, name, **place)


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


def axis(total: float, height: float) -> Markup:
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


def timeline(solution: JobSolution) -> Timeline:
    """Draw the iteration."""
    spans = [span for span in solution.evaluation.timeline if span.end_ms > span.start_ms]
    total = max([solution.evaluation.iteration_time_ms, *(span.end_ms for span in spans)])
    if not spans or total <= 0:
        return Timeline(True, Markup(""), Markup(""), ())
    servers = shown_servers(solution)
    n = solution.cluster.servers
    top = {server: HEAD + LANE * place for place, server in enumerate(servers)}
    shapes, names = [], []
    sends: dict[int, list[Span]] = {server: [] for server in servers}
    for server, y in top.items():
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 4, class_="lane"))
        names.append(element("text", f"server {server}", x=0, y=y + 14))
    for span in spans:
        if span.lane not in top:
            continue
        if span.kind == "transfer":
            sends[span.lane].append(span)
        elif span.kind in {"forward", "backward"}:
            css = "fwd" if span.kind == "forward" else "bwd"
            shapes.append(bar(span, total, top[span.lane], css, span.kind))
    for server, mine in sends.items():
        shapes.extend(sending(run, total, top[server] + COMPUTE + 1) for run in merged(mine))
    height = HEAD + LANE * len(servers)
    notes = []
    if len(servers) < n:
        notes.append(
            f"{len(servers)} of {n} servers are drawn: those on the critical path, then those that compute longest."
        )
    reductions = [span for span in spans if span.kind == "allreduce"]
    if reductions:
        placed, left_out = packed(reductions, ALLREDUCE_ROWS)
        rows = 1 + max(row for row, _ in placed)
        height += 8
        names.append(element("text", "AllReduce", x=0, y=height + 11))
        for row, span in placed:
            shapes.append(bar(span, total, height + row * (COMPUTE + 2), "ar", "AllReduce"))
        height += rows * (COMPUTE + 2) + 4
        if left_out:
            notes.append(
                f"At most {ALLREDUCE_ROWS} simultaneous AllReduces are drawn; {counted(left_out, 'more')[:-1]} not."
                if left_out > 1
                else f"At most {ALLREDUCE_ROWS} simultaneous AllReduces are drawn; one more is not."
            )
    return Timeline(
        empty=False,
        names=picture(*names, label="Lanes", class_="lanes", width=84, height=int(height) + 2),
        bars=picture(
            axis(total, height), *shapes, label="Timeline of one iteration", class_="bars", height=int(height) + 2
        ),
        notes=tuple(notes),
    )
