"""A comparison of fabrics is shown as one sentence, as bars cut into parts, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.outcomes import FLOW_LEVEL, PLAN, FabricRow
from topoopt.core.process import versions_text
from topoopt.page.charts import coordinate, element, picture, standalone, tick_text, ticks
from topoopt.page.render import render_page
from topoopt.page.text import compared, milliseconds, number, quotient, ratio, shortened


def answer(rows: Sequence[FabricRow]) -> str:
    """Times of one time model alone are compared: by the flow-level model where every fabric has one."""
    flows = any(row.time_model == FLOW_LEVEL for row in rows)
    times = {row.name: row.flow_level_ms if flows else row.iteration_time_ms for row in rows}
    measured = {name: time for name, time in times.items() if time is not None}
    if not measured:
        return "The job has a time on none of the fabrics."
    best = min(measured, key=lambda name: measured[name])
    text = f"The job is fastest on {_named(best)}: {milliseconds(measured[best])} an iteration"
    others = [name for name in measured if name != best]
    if best != PLAN and PLAN in measured:
        words, plan = compared(measured[PLAN], measured[best])[1], milliseconds(measured[PLAN])
        return f"{text}; the direct-connect plan takes {plan}, {words} that{_left(rows, measured)}."
    if not others:
        return f"{text}{_left(rows, measured)}."
    second = min(others, key=lambda name: measured[name])
    return f"{text}, {compared(measured[best], measured[second])[1]} on {_named(second)}{_left(rows, measured)}."


def _named(name: str) -> str:
    return "the direct-connect plan" if name == PLAN else name


def _left(rows: Sequence[FabricRow], measured: dict[str, float]) -> str:
    missing = len(rows) - len(measured)
    return f"; {missing} of {len(rows)} fabrics have no time" if missing else ""


TEMPLATE = "analyses/fabrics/page.html.j2"
WIDTH, EDGE = 980.0, 22.0
NAMES, FIGURES = 230.0, 130.0
ROW, BAR, HEAD, FOOT = 30.0, 19.0, 78.0, 46.0
LEGEND = 5
"""Entries of the legend in a line."""
ROUNDING = 1e-9


ComparedFabric = tuple[str, str, tuple[tuple[str, float, str, str], ...], bool]
"""A fabric: its name, its time in words; name, size, text and colour class of each part of it; whether it is ours."""


@dataclass(frozen=True)
class FabricBars:
    """A comparison of fabrics.

    Attributes:
        title, answer: of what runs on them, and what the comparison says.
        axis: what the bars are, with its unit.
        bars: the fastest first.
        headings: of the table; of those in `words` the cells are words, of all others figures.
        rows: cells of the table.
        note: below the table.
    """

    title: str
    answer: str
    axis: str
    bars: tuple[ComparedFabric, ...]
    headings: tuple[str, ...]
    words: frozenset[str]
    rows: tuple[tuple[str, ...], ...]
    note: str

    @property
    def label(self) -> str:
        """Of the picture."""
        return f"{self.title} on several fabrics"

    def svg(self) -> str:
        """The bars; styles inside, so that the file needs nothing else."""
        drawing, height = _drawing(self)
        shifted = element("g", drawing, transform=f"translate({coordinate(EDGE)} {coordinate(EDGE)})")
        return standalone(shifted, label=self.label, width=WIDTH + 2 * EDGE, height=height + 2 * EDGE)

    def html(self) -> str:
        """The bars and a table of all rows; names are escaped."""
        drawing, height = _drawing(self)
        view = f"0 0 {coordinate(WIDTH)} {coordinate(height)}"
        return render_page(
            TEMPLATE,
            self.answer,
            compared=self,
            picture=picture(drawing, label=self.label, viewBox=view, class_="comparison"),
            versions=versions_text(),
        )


def _drawing(compared: FabricBars) -> tuple[Markup, float]:
    longest = max((_size(bar) for bar in compared.bars), default=0.0) or 1.0
    legend = _legend(compared.bars, longest)
    span, head = WIDTH - NAMES - FIGURES, HEAD + 20.0 * ((max(len(legend), 1) - 1) // LEGEND)
    base = head + ROW * max(len(compared.bars), 1)
    shapes = [element("text", shortened(compared.title, 90), x=0, y=18, class_="title")]
    for index, (name, css) in enumerate(legend.items()):
        x, y = 195.0 * (index % LEGEND), 33.0 + 20.0 * (index // LEGEND)
        shapes.append(element("rect", x=x, y=y, width=12.0, height=12.0, class_=css))
        shapes.append(element("text", name, x=x + 18, y=y + 11, class_="quiet"))
    values = ticks(0.0, longest, 6)
    for value in values:
        x = NAMES + span * value / longest
        shapes.append(element("line", x1=x, x2=x, y1=head - 8, y2=base, class_="gridline"))
        text = tick_text(value, values[1] - values[0] if len(values) > 1 else 1.0)
        shapes.append(element("text", text, x=x, y=base + 18, text_anchor="middle", class_="quiet"))
    for index, bar in enumerate(compared.bars):
        shapes += _bar(bar, head + ROW * index, span / longest)
    if not compared.bars:
        shapes.append(element("text", "nothing was found", x=NAMES, y=head + 16, class_="quiet"))
    shapes.append(element("line", x1=NAMES, x2=NAMES, y1=head - 8, y2=base, class_="axis"))
    shapes.append(element("text", compared.axis, x=NAMES + span, y=base + 38, text_anchor="end", class_="quiet"))
    return Markup("").join(shapes), base + FOOT


def _size(bar: ComparedFabric) -> float:
    """In the unit of the axis."""
    return sum(size for _, size, _, _ in bar[2])


def _legend(bars: Sequence[ComparedFabric], longest: float) -> dict[str, str]:
    """Names of the parts that can be seen, with their classes."""
    return {name: css for _, _, parts, _ in bars for name, size, _, css in parts if size > ROUNDING * longest}


def _bar(bar: ComparedFabric, top: float, scale: float) -> list[Markup]:
    title, time, parts, ours = bar
    style = "font-weight: 600" if ours else None
    shapes = [element("text", shortened(title, 30), x=NAMES - 10, y=top + 14, text_anchor="end", style=style)]
    left = NAMES
    for name, size, text, css in parts:
        if size <= ROUNDING * _size(bar):
            continue
        tip = element("title", f"{title}: {name} {text}")
        shapes.append(element("rect", tip, x=left, y=top, width=scale * size, height=BAR, class_=css))
        left += scale * size
    shapes.append(element("text", time, x=left + 8, y=top + 14))
    return shapes


PARTS = (
    ("compute", "compute_ms", "c-compute"),
    ("model-parallel", "model_parallel_ms", "c-mp"),
    ("AllReduce", "allreduce_ms", "c-ar"),
    ("idle", "idle_ms", "c-idle"),
)
WHOLE = ("not split (flow-level model)", "iteration_time_ms", "quiet")
NOTE = (
    "Circuits that follow demand are simulated by the flow-level model (max-min fair shares), all others by the model "
    "of rounds; where there are any, the second column has the time of every row by the flow-level model, and only "
    "these compare with them. Compute, model-parallel and AllReduce are parts of the critical path. Links/byte: links "
    "that a demanded byte crosses on average, those to and from switches included. Fullest/mean: bytes of the fullest "
    "link by the mean over the links in use."
)


def ordered(rows: Sequence[FabricRow]) -> list[FabricRow]:
    """Those with a time, fastest first; then those left out."""
    return sorted(rows, key=lambda row: (row.iteration_time_ms is None, row.iteration_time_ms or 0.0))


def fabric_bars(title: str, rows: Sequence[FabricRow]) -> FabricBars:
    """The comparison for files."""
    return FabricBars(
        title=title,
        answer=answer(rows),
        axis="iteration time, ms",
        bars=tuple(_bar_of_row(row) for row in ordered(rows) if row.iteration_time_ms is not None),
        headings=(*HEADINGS, "what it is"),
        words=frozenset({"fabric", "outcome", "what it is"}),
        rows=tuple(table_cells(row, rows) for row in ordered(rows)),
        note=NOTE,
    )


def _bar_of_row(row: FabricRow) -> ComparedFabric:
    parts = []
    for name, field, css in PARTS if row.compute_ms is not None else (WHOLE,):
        size = getattr(row, field) or 0.0
        parts.append((name, size, milliseconds(size), css))
    name = "direct-connect plan" if row.name == PLAN else row.name
    return name, milliseconds(row.iteration_time_ms or 0.0), tuple(parts), row.name == PLAN


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
    plan = next((fabric_row for fabric_row in rows if fabric_row.name == PLAN), None)
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
