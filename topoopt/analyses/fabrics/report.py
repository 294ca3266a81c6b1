"""A job on fabrics as bars of its iteration time, fastest first, each cut into the parts of its critical path."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from topoopt.analyses.fabrics.answer import answer
from topoopt.core.fabric_row import FLOW_LEVEL, PLAN, FabricRow
from topoopt.core.versions import versions_text
from topoopt.drawing.format import milliseconds, number, quotient, ratio, shortened
from topoopt.drawing.page import render_page
from topoopt.drawing.svg import coordinate, element, picture, standalone, tick_text, ticks

TEMPLATE = "analyses/fabrics/page.html.j2"
WIDTH, EDGE = 980.0, 22.0
NAMES, FIGURES = 230.0, 130.0
ROW, BAR, HEAD, FOOT = 30.0, 19.0, 78.0, 46.0
PARTS = (
    ("compute", "compute_ms", "c-compute"),
    ("model-parallel", "model_parallel_ms", "c-mp"),
    ("AllReduce", "allreduce_ms", "c-ar"),
    ("idle", "idle_ms", "c-idle"),
)
WHOLE = "quiet"
"""Style of bars that are not split."""
ROUNDING = 1e-9


def ordered(rows: Sequence[FabricRow]) -> list[FabricRow]:
    """Those with a time, fastest first; then those left out."""
    return sorted(rows, key=lambda row: (row.iteration_time_ms is None, row.iteration_time_ms or 0.0))


def _shown(rows: Sequence[FabricRow]) -> list[FabricRow]:
    return [row for row in ordered(rows) if row.iteration_time_ms is not None]


def _drawing(title: str, rows: Sequence[FabricRow]) -> tuple[Markup, float]:
    shown = _shown(rows)
    longest = max((row.iteration_time_ms or 0.0 for row in shown), default=0.0) or 1.0
    span = WIDTH - NAMES - FIGURES
    base = HEAD + ROW * max(len(shown), 1)
    shapes = [element("text", shortened(title, 90), x=0, y=18, class_="title")]
    present = [part for part in PARTS if any((getattr(row, part[1]) or 0.0) > ROUNDING * longest for row in shown)]
    legend = [(name, css) for name, _, css in present]
    if any(row.compute_ms is None for row in shown):
        legend.append(("not split (flow-level model)", WHOLE))
    for place, (name, css) in enumerate(legend):
        shapes.append(element("rect", x=170.0 * place, y=33.0, width=12.0, height=12.0, class_=css))
        shapes.append(element("text", name, x=170.0 * place + 18, y=44, class_="quiet"))
    values = ticks(0.0, longest, 6)
    for value in values:
        x = NAMES + span * value / longest
        shapes.append(element("line", x1=x, x2=x, y1=HEAD - 8, y2=base, class_="gridline"))
        text = tick_text(value, values[1] - values[0] if len(values) > 1 else 1.0)
        shapes.append(element("text", text, x=x, y=base + 18, text_anchor="middle", class_="quiet"))
    for place, row in enumerate(shown):
        shapes += _bar(row, HEAD + ROW * place, span / longest)
    if not shown:
        shapes.append(element("text", "nothing was found", x=NAMES, y=HEAD + 16, class_="quiet"))
    shapes.append(element("line", x1=NAMES, x2=NAMES, y1=HEAD - 8, y2=base, class_="axis"))
    shapes.append(element("text", "iteration time, ms", x=NAMES + span, y=base + 38, text_anchor="end", class_="quiet"))
    return Markup("").join(shapes), base + FOOT


def _bar(row: FabricRow, top: float, scale: float) -> list[Markup]:
    name = "direct-connect plan" if row.name == PLAN else shortened(row.name, 30)
    style = "font-weight: 600" if row.name == PLAN else None
    shapes = [element("text", name, x=NAMES - 10, y=top + 14, text_anchor="end", style=style)]
    left = NAMES
    parts: list[tuple[str, float, str]] = [(part, getattr(row, field) or 0.0, css) for part, field, css in PARTS]
    if row.compute_ms is None:
        parts = [("whole iteration, not split", row.iteration_time_ms or 0.0, WHOLE)]
    for part, value, css in parts:
        if value <= ROUNDING * (row.iteration_time_ms or 0.0):
            continue
        tip = element("title", f"{name}: {part} {milliseconds(value)}")
        shapes.append(element("rect", tip, x=left, y=top, width=scale * value, height=BAR, class_=css))
        left += scale * value
    shapes.append(element("text", milliseconds(row.iteration_time_ms or 0.0), x=left + 8, y=top + 14))
    return shapes


def fabrics_svg(title: str, rows: Sequence[FabricRow]) -> str:
    """The bars; styles inside, so that the file needs nothing else."""
    drawing, height = _drawing(title, rows)
    width, height = WIDTH + 2 * EDGE, height + 2 * EDGE
    return standalone(
        element("g", drawing, transform=f"translate({coordinate(EDGE)} {coordinate(EDGE)})"),
        label=f"{title} on several fabrics",
        width=width,
        height=height,
    )


def fabrics_html(title: str, rows: Sequence[FabricRow]) -> str:
    """The bars and a table of all rows; names are escaped."""
    drawing, height = _drawing(title, rows)
    view = f"0 0 {coordinate(WIDTH)} {coordinate(height)}"
    return render_page(
        TEMPLATE,
        answer(rows),
        title=title,
        picture=picture(drawing, label=f"{title} on several fabrics", viewBox=view, class_="comparison"),
        rows=[table_cells(row, rows) for row in ordered(rows)],
        versions=versions_text(),
    )


HEADINGS = (
    "fabric",
    "iteration, ms",
    "flow-level, ms",
    "to plan",
    "compute",
    "model-parallel",
    "AllReduce",
    "links/byte",
    "fullest/mean",
    "outcome",
)


def table_cells(row: FabricRow, rows: Sequence[FabricRow]) -> tuple[str, ...]:
    """A row as texts under `HEADINGS`, and the description at the end; `to plan` is its time over that of the plan,
    both by the time model of the row.
    """
    plan = next((each for each in rows if each.name == PLAN), None)
    against = "–"
    if plan is not None and row.name != PLAN:
        mine, its = row.iteration_time_ms, plan.iteration_time_ms
        if row.time_model == FLOW_LEVEL:
            mine, its = row.flow_level_ms, plan.flow_level_ms
        if mine is not None and its is not None:
            against = ratio(quotient(mine, its))
    figures = (row.compute_ms, row.model_parallel_ms, row.allreduce_ms, row.links_per_byte, row.fullest_over_mean)
    texts = ["–" if value is None else number(value) for value in (row.iteration_time_ms, row.flow_level_ms, *figures)]
    return (row.name, *texts[:2], against, *texts[2:], row.outcome, row.description)
