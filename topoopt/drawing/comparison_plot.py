"""The plot of a comparison: for each instance the gaps of all methods, and their times against their gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from topoopt.core.comparison import Comparison, best_of
from topoopt.core.proofs import Tolerance
from topoopt.drawing.format import number, percent, shortened
from topoopt.drawing.marks import COLOURS, mark
from topoopt.drawing.svg import decade_ticks, element, joined, tick_text, ticks

WIDTH = 1140.0
HEAD = 62.0
ROW = 25.0
FOOT = 48.0
NAMES = 176.0
DOTS = (NAMES, 500.0)
NOTES = 512.0
SCATTER = (720.0, WIDTH - 16.0)
LEAST_HEIGHT = 150.0
LEAST_S = 1e-3
LEAST_AXIS = 0.0106
"""Gap, as a fraction, that the axis reaches at least; a little more than the mark of 1 %."""


@dataclass(frozen=True)
class ComparisonPanel:
    """The drawing of one instance, its origin at the top left, and its height."""

    drawing: Markup
    height: float
    label: str


@dataclass(frozen=True)
class _Axes:
    """Scales of one panel: gaps as fractions from 0 to `gap`, seconds from `first` to `last`; plots end at `base`."""

    gap: float
    first: float
    last: float
    base: float

    def across(self, gap: float) -> float:
        return DOTS[0] + (DOTS[1] - DOTS[0]) * gap / self.gap

    def up(self, gap: float) -> float:
        return self.base - (self.base - HEAD) * gap / self.gap

    def at_time(self, seconds: float) -> float:
        part = math.log(max(seconds, LEAST_S) / self.first) / math.log(self.last / self.first)
        return SCATTER[0] + (SCATTER[1] - SCATTER[0]) * part


def panel(rows: Sequence[Comparison]) -> ComparisonPanel:
    """Draw all runs on one instance."""
    methods = list(dict.fromkeys(row.run.method for row in rows))
    found = [row for row in rows if row.gap_to_bound is not None]
    base = HEAD + max(LEAST_HEIGHT, ROW * len(methods))
    axes = _axes(found, base)
    shapes = [*_heading(rows), *_frame(axes, any_found=bool(found))]
    for place, method in enumerate(methods):
        mine = [row for row in rows if row.run.method == method]
        shapes += _row(mine, place, HEAD + ROW * (place + 0.5), axes)
    for row in found:
        place = methods.index(row.run.method)
        at = axes.at_time(row.run.wall_s), axes.up(row.gap_to_bound or 0.0)
        shapes.append(_dot(place, *at, _tip(row), row.run.rejected))
    return ComparisonPanel(joined(shapes), base + FOOT, f"Gaps and times on {rows[0].run.instance}")


def _axes(found: Sequence[Comparison], base: float) -> _Axes:
    gap = max((row.gap_to_bound or 0.0 for row in found), default=0.0)
    seconds = [max(row.run.wall_s, LEAST_S) for row in found] or [1.0]
    first = 10.0 ** math.floor(math.log10(min(seconds)))
    last = 10.0 ** math.ceil(math.log10(max(seconds)))
    return _Axes(max(1.06 * gap, LEAST_AXIS), first, last if last > first else 10.0 * first, base)


def _heading(rows: Sequence[Comparison]) -> list[Markup]:
    first = rows[0].run
    best = best_of([row.run for row in rows])
    if best.by is None or best.bound is None:
        text = "nothing was found"
    else:
        named = best.by.objective.replace("_", " ")
        unit = f" {best.by.unit}" if best.by.unit in {"ms", "s"} else ""
        verdict = "so it is optimal" if best.proven else "not reached"
        bound = f"{number(best.bound.value)}{unit} ({shortened(best.bound.proved_by, 60)}), {verdict}"
        text = f"{first.kind}: best {named} {number(best.value or 0.0)}{unit}, bound {bound}"
    return [
        element("text", shortened(first.instance, 80), x=0, y=18, class_="title"),
        element("text", text, x=0, y=38, class_="quiet"),
    ]


def _frame(axes: _Axes, any_found: bool) -> list[Markup]:
    shapes = []
    if any_found:
        marks = ticks(0.0, 100 * axes.gap, 5)
        step = marks[1] - marks[0] if len(marks) > 1 else marks[0]
        for mark in marks:
            x, y, text = axes.across(mark / 100), axes.up(mark / 100), tick_text(mark, step)
            shapes += [
                element("line", x1=x, x2=x, y1=HEAD, y2=axes.base, class_="gridline"),
                element("text", text, x=x, y=axes.base + 16, text_anchor="middle", class_="quiet"),
                element("line", x1=SCATTER[0], x2=SCATTER[1], y1=y, y2=y, class_="gridline"),
                element("text", text, x=SCATTER[0] - 7, y=y + 4, text_anchor="end", class_="quiet"),
            ]
        for seconds in decade_ticks(axes.first, axes.last):
            x = axes.at_time(seconds)
            shapes += [
                element("line", x1=x, x2=x, y1=HEAD, y2=axes.base, class_="gridline"),
                element("text", f"{seconds:g}", x=x, y=axes.base + 16, text_anchor="middle", class_="quiet"),
            ]
    below = axes.base + 36
    return [
        *shapes,
        element("line", x1=DOTS[0], x2=DOTS[1], y1=axes.base, y2=axes.base, class_="axis"),
        element("line", x1=SCATTER[0], x2=SCATTER[1], y1=axes.base, y2=axes.base, class_="axis"),
        element("text", "gap to the best bound, %", x=sum(DOTS) / 2, y=below, text_anchor="middle", class_="quiet"),
        element("text", "time, s", x=sum(SCATTER) / 2, y=below, text_anchor="middle", class_="quiet"),
        element("text", "gap, %", x=SCATTER[0] - 7, y=HEAD - 8, text_anchor="end", class_="quiet"),
    ]


def _row(rows: Sequence[Comparison], place: int, y: float, axes: _Axes) -> list[Markup]:
    """Name, runs, their range and median, and what to say beside them."""
    method = rows[0].run.method
    gaps = [row.gap_to_bound for row in rows if row.gap_to_bound is not None]
    shapes = [_dot(place, 8.0, y, method, False), element("text", shortened(method, 24), x=20, y=y + 4)]
    if len(gaps) > 1:
        colour = f"k{place % COLOURS}"
        low, middle, high = axes.across(min(gaps)), axes.across(median(gaps)), axes.across(max(gaps))
        shapes.append(element("line", x1=low, x2=high, y1=y, y2=y, class_=f"range {colour}"))
        shapes.append(element("line", x1=middle, x2=middle, y1=y - 9, y2=y + 9, class_=f"middle {colour}"))
    for row in rows:
        if row.gap_to_bound is not None:
            shapes.append(_dot(place, axes.across(row.gap_to_bound), y, _tip(row), row.run.rejected))
    text, wrong = _note(rows, gaps)
    return [*shapes, element("text", text, x=NOTES, y=y + 4, class_="wrong" if wrong else "quiet")]


def _note(rows: Sequence[Comparison], gaps: Sequence[float]) -> tuple[str, bool]:
    """Gap (several: their median), and how many runs found nothing and why; whether the checker rejects one."""
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
    return ", ".join(parts) or "no gap", rejected > 0


def _tip(row: Comparison) -> str:
    run = row.run
    value = "" if run.value is None else f"\n{run.objective} {number(run.value)}"
    gap = "" if row.gap_to_bound is None else f", gap {percent(row.gap_to_bound)}"
    return f"{run.method}, seed {run.seed}: {run.outcome}{value}{gap}, {number(run.wall_s)} s"


def _dot(place: int, x: float, y: float, tip: str, wrong: bool) -> Markup:
    """A mark of the method in this place."""
    return mark(place, element("title", tip), x=x, y=y, css="dot wrong" if wrong else None)
