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
from statistics import median
from typing import Any

from markupsafe import Markup, escape

from topoopt.core.errors import extra
from topoopt.core.outcomes import Comparison, best_of
from topoopt.core.process import versions_text
from topoopt.core.proofs import Tolerance
from topoopt.page.output import Output, say
from topoopt.page.render import render_page
from topoopt.page.text import counted, number, objective_text, percent, shortened

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
    say(output.remarks, MISSING)
    return None if plot.suffix.lower() == ".svg" else plot


def altair() -> Any:
    """Return the library.

    Raises:
        InputError: it is not installed.
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

    Args:
        data, names: marks and the series in order.
        x, y: channels.
        line: how marks of a series are joined, `linear` or `step-after`; empty for points alone.
        published: figures of others, drawn hollow in the colour of the series that they have.
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


LEAST_S = 1e-3
LEAST_AXIS = 1.06
"""Gap, in per cent, that the axis reaches at least; a little more than the mark of 1 %."""
ROW = 24
LEAST_HEIGHT = 130
BAD = "#b3261e"
GAP = "gap to the best bound, %"


def panel(runs: Sequence[Comparison]) -> Any:
    """Return the chart of all runs on one instance: gaps by method, what to say of each, and gaps over times."""
    alt = altair()
    methods = list(dict.fromkeys(row.run.method for row in runs))
    marks: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for method in methods:
        own = [row for row in runs if row.run.method == method]
        gaps = [100 * row.gap_to_bound for row in own if row.gap_to_bound is not None]
        summary.append({"series": method, "note": _note(own)})
        if len(gaps) > 1:
            summary[-1] |= {"low": min(gaps), "middle": median(gaps), "high": max(gaps)}
        marks += [
            {
                "series": method,
                "gap": 100 * row.gap_to_bound,
                "s": max(row.run.wall_s, LEAST_S),
                "rejected": row.run.rejected,
                "tip": _tip(row),
            }
            for row in own
            if row.gap_to_bound is not None
        ]
    highest = max([LEAST_AXIS, *(1.06 * mark["gap"] for mark in marks)])
    gap_scale, height = alt.Scale(domain=[0, highest], nice=False), max(LEAST_HEIGHT, ROW * len(methods))
    channels = colours(methods, legend=None)
    by_method = alt.Y("series:N", title=None, scale=alt.Scale(domain=methods), sort=None)
    gap_axis = alt.X("gap:Q", title=GAP, scale=gap_scale, axis=alt.Axis(tickCount=6))
    ranges = alt.Chart(rows([row for row in summary if "low" in row])).encode(y=by_method, color=channels["color"])
    dots = alt.Chart(rows(marks)).encode(**{**channels, "color": alt.when("datum.rejected").then(alt.value(BAD))
                                            .otherwise(channels["color"])}, description="tip:N")  # fmt: skip
    dots = dots.mark_point(filled=True, size=55, opacity=0.85)
    left = alt.layer(
        ranges.encode(x=alt.X("low:Q", title=GAP, scale=gap_scale), x2="high:Q").mark_rule(aria=False, opacity=0.5),
        ranges.encode(x=alt.X("middle:Q", title=GAP, scale=gap_scale)).mark_tick(aria=False, thickness=2, size=18),
        dots.encode(x=gap_axis, y=by_method),
    ).properties(width=330, height=height)
    notes = alt.Chart(rows(summary), width=190, height=height).encode(text="note:N", x=alt.value(0))
    notes = notes.encode(y=by_method.axis(None)).mark_text(align="left", aria=False, fontSize=12)
    times = alt.X("s:Q", title="time, s", scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=4))
    over = dots.encode(x=times, y=alt.Y("gap:Q", title="gap, %", scale=gap_scale)).properties(width=400, height=height)
    title = alt.Title(shortened(runs[0].run.instance, 80), subtitle=_subtitle(runs))
    return alt.hconcat(left, notes, over, spacing=12).properties(title=title)


def _subtitle(runs: Sequence[Comparison]) -> str:
    best = best_of([row.run for row in runs])
    if best.by is None or best.bound is None:
        return f"{runs[0].run.kind}: nothing was found"
    unit = f" {best.by.unit}" if best.by.unit in {"ms", "s"} else ""
    verdict = "so it is optimal" if best.proven else "not reached"
    bound = f"{number(best.bound.value)}{unit} ({shortened(best.bound.proved_by, 60)}), {verdict}"
    named = best.by.objective.replace("_", " ")
    return f"{runs[0].run.kind}: best {named} {number(best.value or 0.0)}{unit}, bound {bound}"


def _note(rows: Sequence[Comparison]) -> str:
    """Gap (several: their median), and how many runs found nothing and why; whether the checker rejects one."""
    gaps = [row.gap_to_bound for row in rows if row.gap_to_bound is not None]
    rejected = sum(row.run.rejected for row in rows)
    parts = []
    if gaps:
        middle = median(gaps)
        proven = Tolerance.LINEAR_PROGRAM.relative
        text = percent(middle if middle > proven else 0.0)
        parts.append(f"median {text}" if max(gaps) - min(gaps) > proven else text)
    outcomes = [row.run.outcome for row in rows if row.run.value is None]
    for outcome in dict.fromkeys(outcomes):
        count = outcomes.count(outcome)
        parts.append(outcome if count == len(rows) else f"{count} {outcome}")
    if rejected:
        parts.append("rejected" if len(rows) == 1 else f"{rejected} rejected")
    return ", ".join(parts) or "no gap"


def _tip(row: Comparison) -> str:
    run = row.run
    value = "" if run.value is None else f"\n{run.objective} {number(run.value)}"
    gap = "" if row.gap_to_bound is None else f", gap {percent(row.gap_to_bound)}"
    return f"{run.method}, seed {run.seed}: {run.outcome}{value}{gap}, {number(run.wall_s)} s"


TEMPLATE = "page/comparison.html.j2"
LEVEL = 1e-6
"""Gap to the best value that is rounding."""


def _panels(runs: Sequence[Comparison]) -> list[Any]:
    files = dict.fromkeys(row.run.file for row in runs)
    return [panel([row for row in runs if row.run.file == file]) for file in files]


def comparison_svg(runs: Sequence[Comparison]) -> str:
    """Return an SVG file of all panels, one below the other."""
    return svg_text(altair().vconcat(*_panels(runs), spacing=36))


def comparison_html(rows: Sequence[Comparison]) -> str:
    """The panels and the table of all runs; names from the instances are escaped."""
    instances = list(dict.fromkeys(row.run.file for row in rows))
    methods = list(dict.fromkeys(row.run.method for row in rows))
    runs, drawn = counted(len(rows), "run"), installed()
    return render_page(
        TEMPLATE,
        comparison_answer(rows),
        subtitle=f"{counted(len(instances), 'instance')}, {counted(len(methods), 'method')}, {runs}",
        panels=[svg(chart, f"Gaps and times, panel {k}") for k, chart in enumerate(_panels(rows), 1)] if drawn else [],
        left_out="" if drawn else MISSING,
        rows=[_cells(row) for row in rows],
        priced=any(row.run.value_per_million_usd is not None for row in rows),
        versions=versions_text(),
    )


def _cells(row: Comparison) -> dict[str, str]:
    run = row.run

    def figure(value: float | None) -> str:
        return "–" if value is None else number(value)

    def gap(value: float | None) -> str:
        return "–" if value is None else percent(value)

    provers = () if run.bound is None else (run.bound.proved_by,)
    claim = run.claimed_bound
    return {
        "instance": run.instance,
        "method": run.method,
        "seed": str(run.seed),
        "objective": " ".join(part for part in (objective_text(run.objective), f"({run.unit})") if run.objective),
        "value": figure(run.value),
        "bound": figure(None if run.bound is None else run.bound.value),
        "best": gap(row.gap_to_best),
        "proven": gap(row.gap_to_bound),
        "worth": figure(run.value_per_million_usd),
        "time": f"{number(run.wall_s)} s",
        "outcome": "rejected by the checker" if run.rejected else run.outcome,
        "why": (
            "; ".join((*provers, *(() if claim is None else (f"{number(claim.value)} {claim.proved_by}",))))
            or run.reason
        ),
    }


def comparison_answer(rows: Sequence[Comparison]) -> str:
    """What the comparison answers, in one sentence: the methods that reach the best value, and its proof."""
    files = list(dict.fromkeys(row.run.file for row in rows))
    if not files:
        return "No run was made."
    sentences = [_best_methods([row for row in rows if row.run.file == file]) for file in files]
    if len(files) == 1:
        return sentences[0]
    proven = sum(any(row.proven for row in rows if row.run.file == file) for file in files)
    return (
        f"Of {len(files)} instances {proven} {'is' if proven == 1 else 'are'} solved to a proven optimum. "
        + sentences[0]
    )


def _best_methods(rows: Sequence[Comparison]) -> str:
    best = best_of([row.run for row in rows])
    name = rows[0].run.instance
    if best.value is None:
        return f"No method finds anything for {name} that the checker accepts."
    best_rows = [row for row in rows if row.run.checked and row.gap_to_best is not None and row.gap_to_best <= LEVEL]
    methods = list(dict.fromkeys(row.run.method for row in best_rows))
    if not best_rows:  # no bound is verified that the gap could be to
        values = [row.run for row in rows if row.run.checked and row.run.value == best.value]
        methods, best_rows = (
            list(dict.fromkeys(run.method for run in values)),
            [row for row in rows if row.run in values],
        )
    first = min(best_rows, key=lambda row: row.run.wall_s).run
    count = len({row.run.method for row in rows})
    unit = f" {first.unit}" if first.unit in {"ms", "s", "us", "Gbit/s", "GB/s"} else ""
    value = f"{objective_text(first.objective)} {number(best.value)}{unit}"
    sure = "proven optimal" if best.proven else "not proven to be the best there is"
    return (
        f"For {name} {len(methods)} of {counted(count, 'method')} reach{'es' if len(methods) == 1 else ''} the best, "
        f"{value} ({sure}), {first.method} soonest, in {number(first.wall_s)} s."
    )
