"""Cost against the size of the cluster: panels of curves, as one SVG picture or an HTML page with the figures."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.process import versions_text
from topoopt.drawing.axes import Axis, number_axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import ratio
from topoopt.drawing.marks import mark
from topoopt.drawing.page import render_page
from topoopt.drawing.svg import element, standalone

TEMPLATE = "analyses/costs/page.html.j2"
MILLION = 1e6
CHART = (470.0, 320.0)
"""Width and height of a chart in the picture, without the texts of its axis."""
LEFT, GUTTER, EDGE, TITLE, ROW, LINE = 70.0, 90.0, 24.0, 26.0, 372.0, 20.0


@dataclass(frozen=True)
class CostCurve:
    """One fabric: (servers, USD), by size."""

    name: str
    title: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class CostPanel:
    """Curves of one degree and rate."""

    title: str
    curves: tuple[CostCurve, ...]


@dataclass(frozen=True)
class OwnCost:
    """What a fabric costs for the cluster asked for: rate of a port, USD, USD a server, over direct connect."""

    name: str
    rate: str
    usd: float
    usd_per_server: float
    over_direct_connect: float


@dataclass(frozen=True)
class CostPage:
    """The cluster asked for, all panels, and what to know about them; the first panel is of its degree and rate."""

    title: str
    answer: str
    servers: int
    own: tuple[OwnCost, ...]
    panels: tuple[CostPanel, ...]
    notes: tuple[str, ...]


def _names(page: CostPage) -> list[str]:
    """Fabrics in order, the same colour for each in every panel."""
    return list(dict.fromkeys(curve.name for panel in page.panels for curve in panel.curves))


def _series(page: CostPage, panel: CostPanel) -> list[Series]:
    """The curves of a panel, the same place for each fabric in every panel."""
    by_name = {curve.name: curve for curve in panel.curves}
    series = []
    for name in _names(page):
        points = by_name[name].points if name in by_name else ()
        dots = (Point(float(n), usd / MILLION, f"{name}\n{n:,} servers\n{usd:,.0f} USD") for n, usd in points)
        series.append(Series(name, tuple(dots), line=True))
    return series


def _chart(page: CostPage, panel: CostPanel) -> Markup:
    everything = [(n, usd / MILLION) for one in page.panels for curve in one.curves for n, usd in curve.points]
    x = _doublings("servers", [n for n, _ in everything])
    y = number_axis("cost, million USD", [usd for _, usd in everything], log=True)
    return xy_chart(_series(page, panel), x, y, f"Cost against servers, {panel.title}")


@dataclass(frozen=True)
class _Doublings(Axis):
    """A logarithmic axis with a tick at every power of two."""

    def marks(self, target: int) -> list[tuple[float, str]]:
        """Powers of two within the axis."""
        values = [2**power for power in range(64) if self.low <= 2**power <= self.high]
        return [(float(value), f"{value:,}") for value in values]


def _doublings(title: str, values: list[int]) -> Axis:
    axis = number_axis(title, [float(value) for value in values], log=True)
    return _Doublings(axis.title, axis.low, axis.high, log=axis.log)


def cost_svg(page: CostPage) -> str:
    """Two panels a row, the legend below; styles inside, so that the file needs nothing else."""
    width, height = CHART
    parts = []
    for place, panel in enumerate(page.panels):
        left, top = EDGE + LEFT + (place % 2) * (width + GUTTER), EDGE + (place // 2) * ROW
        parts.append(element("text", panel.title, x=left - LEFT + 14, y=top + 12, class_="title"))
        parts.append(
            element("svg", _chart(page, panel), x=left, y=top + TITLE, width=width, height=height, class_="inset")
        )
    below = EDGE + -(-len(page.panels) // 2) * ROW + 4
    titles = {curve.name: curve.title for panel in page.panels for curve in panel.curves}
    for place, name in enumerate(_names(page)):
        across, down = EDGE + 14 + (place % 2) * (width + GUTTER), below + (place // 2) * LINE
        parts.append(mark(place, x=across + 6, y=down - 4))
        parts.append(element("text", f"{name}: {titles[name]}", x=across + 18, y=down))
    below += -(-len(_names(page)) // 2) * LINE + 10
    for place, note in enumerate(page.notes):
        parts.append(element("text", note, x=EDGE + 14, y=below + place * LINE, class_="quiet"))
    whole_width = 2 * EDGE + LEFT + 2 * width + GUTTER
    whole_height = below + len(page.notes) * LINE + EDGE
    return standalone(
        *parts,
        label="Cost against the size of the cluster",
        width=whole_width,
        height=whole_height,
        css="\nsvg.inset { overflow: visible; } svg.inset svg.chart { width: 100%; }",
    )


def cost_html(page: CostPage) -> str:
    """The panels, and every figure in tables."""
    names = _names(page)
    titles = {curve.name: curve.title for panel in page.panels for curve in panel.curves}
    return render_page(
        TEMPLATE,
        page.answer,
        title=page.title,
        own=[
            (one.name, one.rate, f"{one.usd:,.0f}", f"{one.usd_per_server:,.0f}", ratio(one.over_direct_connect))
            for one in page.own
        ],
        legend=legend([f"{name}: {titles[name]}" for name in names], _series(page, page.panels[0])),
        panels=[(panel.title, _chart(page, panel), _rows(panel, names)) for panel in page.panels],
        names=names,
        notes=page.notes,
        versions=versions_text(),
    )


def _rows(panel: CostPanel, names: list[str]) -> list[list[str]]:
    costs = {curve.name: dict(curve.points) for curve in panel.curves}
    sizes = sorted({n for curve in panel.curves for n, _ in curve.points})
    cells = [[costs.get(name, {}).get(n) for name in names] for n in sizes]
    return [
        [f"{n:,}", *("–" if usd is None else f"{usd / MILLION:,.3f}" for usd in row)]
        for n, row in zip(sizes, cells, strict=True)
    ]
