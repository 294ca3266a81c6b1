"""Fabrics as bars of an iteration's time, fastest first, each cut into parts; alone or on a page with a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.process import versions_text
from topoopt.drawing.format import shortened
from topoopt.drawing.page import render_page
from topoopt.drawing.svg import coordinate, element, picture, standalone, tick_text, ticks

TEMPLATE = "analyses/fabrics/page.html.j2"
WIDTH, EDGE = 980.0, 22.0
NAMES, FIGURES = 230.0, 130.0
ROW, BAR, HEAD, FOOT = 30.0, 19.0, 78.0, 46.0
LEGEND = 5
"""Entries of the legend in a line."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class BarPart:
    """A part of a bar.

    Attributes:
        name: what it is.
        size: in the unit of the axis.
        text: its size with its unit.
        css: class of its colour.
    """

    name: str
    size: float
    text: str
    css: str


@dataclass(frozen=True)
class ComparedFabric:
    """A fabric: its name, its time in words, and the parts of the time."""

    name: str
    text: str
    parts: tuple[BarPart, ...]
    ours: bool = False

    @property
    def size(self) -> float:
        """In the unit of the axis."""
        return sum(part.size for part in self.parts)


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
    longest = max((bar.size for bar in compared.bars), default=0.0) or 1.0
    legend = _legend(compared.bars, longest)
    span, head = WIDTH - NAMES - FIGURES, HEAD + 20.0 * ((max(len(legend), 1) - 1) // LEGEND)
    base = head + ROW * max(len(compared.bars), 1)
    shapes = [element("text", shortened(compared.title, 90), x=0, y=18, class_="title")]
    for place, (name, css) in enumerate(legend.items()):
        x, y = 195.0 * (place % LEGEND), 33.0 + 20.0 * (place // LEGEND)
        shapes.append(element("rect", x=x, y=y, width=12.0, height=12.0, class_=css))
        shapes.append(element("text", name, x=x + 18, y=y + 11, class_="quiet"))
    values = ticks(0.0, longest, 6)
    for value in values:
        x = NAMES + span * value / longest
        shapes.append(element("line", x1=x, x2=x, y1=head - 8, y2=base, class_="gridline"))
        text = tick_text(value, values[1] - values[0] if len(values) > 1 else 1.0)
        shapes.append(element("text", text, x=x, y=base + 18, text_anchor="middle", class_="quiet"))
    for place, bar in enumerate(compared.bars):
        shapes += _bar(bar, head + ROW * place, span / longest)
    if not compared.bars:
        shapes.append(element("text", "nothing was found", x=NAMES, y=head + 16, class_="quiet"))
    shapes.append(element("line", x1=NAMES, x2=NAMES, y1=head - 8, y2=base, class_="axis"))
    shapes.append(element("text", compared.axis, x=NAMES + span, y=base + 38, text_anchor="end", class_="quiet"))
    return Markup("").join(shapes), base + FOOT


def _legend(bars: Sequence[ComparedFabric], longest: float) -> dict[str, str]:
    """Names of the parts that can be seen, with their classes."""
    return {part.name: part.css for bar in bars for part in bar.parts if part.size > ROUNDING * longest}


def _bar(bar: ComparedFabric, top: float, scale: float) -> list[Markup]:
    style = "font-weight: 600" if bar.ours else None
    shapes = [element("text", shortened(bar.name, 30), x=NAMES - 10, y=top + 14, text_anchor="end", style=style)]
    left = NAMES
    for part in bar.parts:
        if part.size <= ROUNDING * bar.size:
            continue
        tip = element("title", f"{bar.name}: {part.name} {part.text}")
        shapes.append(element("rect", tip, x=left, y=top, width=scale * part.size, height=BAR, class_=part.css))
        left += scale * part.size
    shapes.append(element("text", bar.text, x=left + 8, y=top + 14))
    return shapes
