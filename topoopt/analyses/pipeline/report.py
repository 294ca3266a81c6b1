"""The page of `topoopt pipeline`: a table of the schedules, and when every rank does what."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from topoopt.analyses.pipeline.answer import answer
from topoopt.analyses.pipeline.rows import DrawnPass, ScheduleRow
from topoopt.core.pipeline import PassKind
from topoopt.core.versions import versions_text
from topoopt.drawing.format import milliseconds, number
from topoopt.drawing.page import render_page
from topoopt.drawing.svg import coordinate, element, picture, tick_text, ticks

TEMPLATE = "analyses/pipeline/page.html.j2"
WIDTH, NAMES, LANE, BAR, HEAD, FOOT = 980.0, 60.0, 20.0, 16.0, 12.0, 34.0
LETTER = 6.2
STYLES = {
    PassKind.FORWARD: ("fwd", "forward"),
    PassKind.BACKWARD: ("bwd", "backward"),
    PassKind.INPUTS: ("bwd", "gradients of inputs"),
    PassKind.WEIGHTS: ("ar", "gradients of weights"),
}
HEADINGS = ("schedule", "makespan, ms", "bound, ms", "longest rank, ms", "bubble, ms", "closed form, ms", "in flight")
BEST = ("best, ms", "its bound, ms")
LAYERS = ("layers",)
"""More headings, where the best order was asked for, or layers were given."""


def table_cells(row: ScheduleRow) -> tuple[str, ...]:
    """A row as texts under `HEADINGS`."""
    figures = (row.makespan_ms, row.bound_ms, row.longest_span_ms, row.bubble_ms, row.formula_ms, max(row.in_flight))
    return (row.schedule.value, *("–" if value is None else number(value) for value in figures))


def best_cells(row: ScheduleRow) -> tuple[str, ...]:
    """The same under `BEST`."""
    return tuple("–" if value is None else number(value) for value in (row.best_ms, row.best_bound_ms))


def more_headings(rows: Sequence[ScheduleRow]) -> tuple[str, ...]:
    """Those of what was asked for."""
    return BEST * any(row.best_ms is not None for row in rows) + LAYERS * any(row.stage_layers for row in rows)


def more_cells(row: ScheduleRow, headings: Sequence[str]) -> tuple[str, ...]:
    """A row under them."""
    layers = (" ".join(map(str, row.stage_layers)),)
    return best_cells(row) * (BEST[0] in headings) + layers * (LAYERS[0] in headings)


def pipeline_html(title: str, rows: Sequence[ScheduleRow]) -> str:
    """A self-contained page; all pictures have the same time axis."""
    longest = max(row.makespan_ms for row in rows)
    more = more_headings(rows)
    return render_page(
        TEMPLATE,
        answer(rows),
        title=title,
        headings=HEADINGS + more,
        rows=[(*table_cells(row), *more_cells(row, more), row.summary) for row in rows],
        pictures=[(row.schedule.value, _drawing(row, longest)) for row in rows],
        legend=[(f"c-{css}", name) for css, name in STYLES.values()],
        versions=versions_text(),
    )


def _drawing(row: ScheduleRow, longest: float) -> Markup | None:
    if not row.passes:
        return None
    ranks = len(row.in_flight)
    base = HEAD + LANE * ranks
    scale = (WIDTH - NAMES) / (longest or 1.0)
    shapes = []
    values = ticks(0.0, longest, 8)
    for value in values:
        x = NAMES + scale * value
        shapes.append(element("line", x1=x, x2=x, y1=HEAD, y2=base, class_="gridline"))
        text = tick_text(value, values[1] - values[0] if len(values) > 1 else 1.0)
        shapes.append(element("text", text, x=x, y=base + 16, text_anchor="middle", class_="quiet"))
    for rank in range(ranks):
        y = HEAD + LANE * rank + BAR - 3
        shapes.append(element("text", f"rank {rank}", x=NAMES - 8, y=y, text_anchor="end", class_="quiet"))
    shapes += [_bar(one, scale) for one in row.passes]
    shapes.append(element("text", "ms", x=WIDTH, y=base + 30, text_anchor="end", class_="quiet"))
    view = f"0 0 {coordinate(WIDTH)} {coordinate(base + FOOT)}"
    return picture(Markup("").join(shapes), label=f"{row.schedule} on {ranks} ranks", viewBox=view)


def _bar(one: DrawnPass, scale: float) -> Markup:
    css, name = STYLES[one.kind]
    left, top = NAMES + scale * one.begin_ms, HEAD + LANE * one.rank
    width = scale * (one.end_ms - one.begin_ms)
    tip = f"{name} of micro-batch {one.micro_batch} in stage {one.stage}\n"
    tip += f"{milliseconds(one.begin_ms)} to {milliseconds(one.end_ms)}"
    box = element(
        "rect", element("title", tip), x=left, y=top, width=max(width - 0.5, 0.2), height=BAR, class_=f"c-{css} block"
    )
    label = str(one.micro_batch)
    if len(label) * LETTER + 2 > width:
        return box
    text = element("text", label, x=left + width / 2, y=top + 12, text_anchor="middle", class_=f"on on-{css}")
    return Markup("").join((box, text))
