"""Charts of many runs are drawn by Vega-Lite: static SVG, without script and network, in the colours of the page.

The libraries come with the extra `studies`. Reports of solutions need none of them: see `topoopt.page.charts`.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from topoopt.core.errors import extra
from topoopt.page.output import Output

MISSING = "Charts are left out: they need Altair, pip install 'topoopt[studies]'."
"""What a command says where the extra is not installed."""

PALETTE = ("#0072b2", "#e08a00", "#00916a", "#c0659a", "#45a7dc", "#d55e00", "#8a7a00", "#6b6f76")
"""Colours of series, distinct for the colour-blind; on a page those of its style sheet, `--k0` and so on."""

SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down")
WIDTH, HEIGHT = 440, 270
TEXT = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 170}
CONFIG: Mapping[str, Any] = {
    "font": "system-ui, sans-serif",
    "padding": {"left": 20, "right": 20, "top": 5, "bottom": 5},
    "view": {"stroke": None},
    "axis": {
        **TEXT,
        "gridColor": "#d9dfe5",
        "domainColor": "#57606c",
        "ticks": False,
        "labelPadding": 6,
        "labelFlush": False,
    },
    "legend": {
        **TEXT,
        "orient": "bottom",
        "columns": 2,
        "columnPadding": 36,
        "labelLimit": 420,
        "symbolStrokeWidth": 1.5,
    },
    "title": {"anchor": "start", "fontSize": 14, "subtitleFontSize": 12, "offset": 12},
}
LARGE = 1e5
"""From here on ticks have the prefixes of SI."""

LEAST_SPREAD = 1e-9
"""Part of the largest value below which values differ by rounding alone."""

HOST = "https://vega.github.io/vega-datasets/"
"""What Vega puts before an address within the page."""

Datum = Mapping[str, Any]
"""A mark: `x`, `y`, `series`, `tip` (what it tells when pointed at), and `href`, the address behind it."""


def installed() -> bool:
    """Return whether the libraries of the charts are there."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def drawable(plot: Path | None, output: Output) -> Path | None:
    """Return the file for a plot; without the libraries a page has its tables alone, and an SVG file is not written.

    Says on standard error what is missing.
    """
    if plot is None or installed():
        return plot
    output.remarks.print(MISSING, markup=False, highlight=False, soft_wrap=True)
    return None if plot.suffix.lower() == ".svg" else plot


def altair() -> Any:
    """Return the library.

    Raises
    ------
    InputError
        It is not installed.
    """
    extra("vl_convert", "charts")
    return extra("altair", "charts")


def rows(data: Iterable[Datum]) -> Any:
    """Return data of a chart, those of its columns that numbers can stand in."""
    return altair().Data(values=[dict(datum) for datum in data])


def colours(names: Sequence[str], **channel: Any) -> dict[str, Any]:
    """Return the channels for colour and shape of series, in their order; the legend has both."""
    alt = altair()
    hues = alt.Scale(domain=list(names), range=[PALETTE[k % len(PALETTE)] for k in range(len(names))])
    shapes = alt.Scale(domain=list(names), range=[SHAPES[k % len(SHAPES)] for k in range(len(names))])
    if len(names) < 2:
        channel = {"legend": None}
    return {
        "color": alt.Color("series:N", title=None, scale=hues, sort=None, **channel),
        "shape": alt.Shape("series:N", title=None, scale=shapes, sort=None, **channel),
    }


def number_axis(channel: str, title: str, values: Sequence[float], *, log: bool = False, zero: bool = False) -> Any:
    """Return the channel `x` or `y` of numbers; logarithmic only where all are above 0."""
    alt = altair()
    low, high = min(values, default=0.0), max(values, default=1.0)
    kind = "log" if log and low > 0 else "linear"
    ticks = alt.Axis(tickCount=7, **({"format": "~s"} if high >= LARGE else {}))
    pad = 0.1 * (max(abs(high), 1.0) if kind == "linear" else low)
    if high - low <= LEAST_SPREAD * max(abs(low), abs(high)):  # equal to rounding: an axis around them, not between
        scale = alt.Scale(type=kind, domain=[0.0 if zero and low > 0 else low - pad, high + pad], nice=True)
    else:
        near = zero or 0 <= low < 0.15 * high
        scale = alt.Scale(type=kind) if kind == "log" else alt.Scale(type=kind, zero=near, nice=True)
    make = alt.X if channel == "x" else alt.Y
    return make(f"{channel}:Q", title=title, scale=scale, axis=ticks)


def name_axis(title: str, names: Sequence[str]) -> Any:
    alt = altair()
    crowded = sum(map(len, names)) * 7 > WIDTH
    return alt.X("x:N", title=title, sort=list(names), axis=alt.Axis(labelAngle=-35 if crowded else 0, grid=False))


def xy_chart(
    data: Sequence[Datum], names: Sequence[str], x: Any, y: Any, *, line: str = "", published: Sequence[Datum] = ()
) -> Any:
    """Return marks over two axes of numbers.

    Parameters
    ----------
    data, names : marks and the series in order.
    x, y : channels.
    line : how marks of a series are joined, `linear` or `step-after`; empty for points alone.
    published : figures of others, drawn hollow in the colour of the series that they have.
    """
    alt = altair()
    size = 45 if len(data) <= 200 else 20
    base, channels = alt.Chart(rows(data)).encode(x=x, y=y), colours(names)
    joined = base.encode(color=channels["color"]).mark_line(interpolate=line or "linear", strokeWidth=1.8, aria=False)
    layers = [joined] if line else []
    layers.append(_with_tips(base.encode(**channels), data).mark_point(filled=True, size=size, opacity=0.9))
    if published:
        hollow = alt.Chart(rows(published)).encode(x=x, y=y, **channels)
        layers.append(_with_tips(hollow, published).mark_point(filled=False, size=110))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def box_chart(data: Sequence[Datum], names: Sequence[str], x: str, y: Any) -> Any:
    """Return medians, quartiles and every value over names."""
    alt = altair()
    spread = [{**datum, "shift": (index * 0.618034) % 1.0} for index, datum in enumerate(data)]
    base = alt.Chart(rows(spread)).encode(x=name_axis(x, names), y=y)
    silent = {"aria": False, "opacity": 0.4}
    median = {"aria": False, "color": "#57606c", "strokeWidth": 2}
    boxes = base.mark_boxplot(extent="min-max", color=PALETTE[0], box=silent, rule=silent, median=median)
    points = _with_tips(base, data).encode(xOffset=alt.XOffset("shift:Q", scale=alt.Scale(domain=[-0.5, 1.5])))
    marks = points.mark_point(filled=True, size=30, opacity=0.8, color=PALETTE[0])
    return alt.layer(boxes, marks).properties(width=WIDTH, height=HEIGHT)


def bar_chart(data: Sequence[Datum], names: Sequence[str], series: Sequence[str], x: str, y: Any) -> Any:
    """Return bars of each series beside each other over names."""
    alt = altair()
    base = alt.Chart(rows(data)).encode(x=name_axis(x, names), y=y, color=colours(series)["color"])
    beside = alt.XOffset("series:N", sort=list(series))
    return _with_tips(base, data).encode(xOffset=beside).mark_bar().properties(width=WIDTH, height=HEIGHT)


def _with_tips(chart: Any, data: Sequence[Datum]) -> Any:
    """Return the chart with what its marks tell, and the addresses behind them where they have any."""
    chart = chart.encode(description="tip:N")
    return chart.encode(href="href:N") if any(datum.get("href") for datum in data) else chart


def finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def svg_text(chart: Any) -> str:
    """Return an SVG file on white paper."""
    return _drawn(chart.properties(background="white")) + "\n"


def svg(chart: Any, label: str) -> Markup:
    """Return a picture of a page: its marks tell what they are, by pointer and keyboard; colours follow the page."""
    text = _drawn(chart.properties(background="transparent"))
    for index, colour in enumerate(PALETTE):
        text = text.replace(f'"{colour}"', f'"var(--k{index})"')
    how = f"{label}; arrow keys go from mark to mark"
    text = re.sub(r' (?:width|height)="[\d.]+"', "", text, count=2)
    return Markup(text.replace("<svg ", f'<svg role="group" tabindex="0" aria-label="{escape(how)}" ', 1))


def _drawn(chart: Any) -> str:
    stream = io.StringIO()
    chart.configure(**CONFIG).save(stream, format="svg")
    text = stream.getvalue().replace(HOST, "")
    text = re.sub(r'(<(path|rect|line) aria-label="([^"]*)"[^>]*)/>', r"\1><title>\3</title></\2>", text)
    text = text.replace(' class="marks"', ' class="vega"', 1)
    return re.sub(r' (?:aria-[a-z]+|role|xlink:href=(?="null"))="[^"]*"', "", text)
