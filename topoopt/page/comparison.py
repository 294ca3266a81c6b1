"""A comparison of methods becomes one SVG drawing, or an HTML page with the table of all runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from topoopt.core.comparison import ComparedRun, Comparison, best_of
from topoopt.core.process import versions_text
from topoopt.core.proofs import Tolerance
from topoopt.page.render import render_page
from topoopt.page.svg import (
    COLOURS,
    coordinate,
    decade_ticks,
    element,
    joined,
    mark,
    picture,
    standalone,
    tick_text,
    ticks,
)
from topoopt.page.text import counted, number, objective_text, percent, shortened

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


TEMPLATE = "page/comparison.html.j2"
GUTTER = 26.0
EDGE = 20.0
LEVEL = 1e-6
"""Gap to the best value that is rounding."""


def _panels(rows: Sequence[Comparison]) -> list[ComparisonPanel]:
    names = dict.fromkeys(row.run.file for row in rows)
    return [panel([row for row in rows if row.run.file == name]) for name in names]


def comparison_svg(rows: Sequence[Comparison]) -> str:
    """All panels one below the other; styles inside, so that the file needs nothing else."""
    parts, top = [], EDGE
    for each in _panels(rows):
        parts.append(element("g", each.drawing, transform=f"translate({coordinate(EDGE)} {coordinate(top)})"))
        top += each.height + GUTTER
    width, height = WIDTH + 2 * EDGE, max(top, 2 * EDGE)
    return standalone(*parts, label="Comparison of methods", width=width, height=height)


def comparison_html(rows: Sequence[Comparison]) -> str:
    """The panels and the table of all runs; names from the instances are escaped."""
    instances = list(dict.fromkeys(row.run.file for row in rows))
    methods = list(dict.fromkeys(row.run.method for row in rows))
    runs = counted(len(rows), "run")
    return render_page(
        TEMPLATE,
        comparison_answer(rows),
        subtitle=f"{counted(len(instances), 'instance')}, {counted(len(methods), 'method')}, {runs}",
        panels=[
            picture(
                each.drawing,
                label=each.label,
                viewBox=f"0 0 {coordinate(WIDTH)} {coordinate(each.height)}",
                class_="comparison",
            )
            for each in _panels(rows)
        ],
        rows=[_cells(row) for row in rows],
        priced=any(row.run.value_per_million_usd is not None for row in rows),
        versions=versions_text(),
    )


def _why(run: ComparedRun) -> str:
    """What proves the bound and what is claimed beside it, or why there is no solution."""
    told = () if run.bound is None else (run.bound.proved_by,)
    claim = run.claimed_bound
    return "; ".join((*told, *(() if claim is None else (f"{number(claim.value)} {claim.proved_by}",)))) or run.reason


def _cells(row: Comparison) -> dict[str, str]:
    run = row.run

    def figure(value: float | None) -> str:
        return "–" if value is None else number(value)

    def gap(value: float | None) -> str:
        return "–" if value is None else percent(value)

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
        "why": _why(run),
    }


def comparison_answer(rows: Sequence[Comparison]) -> str:
    """What the comparison answers, in one sentence: the methods that reach the best value, and its proof."""
    files = list(dict.fromkeys(row.run.file for row in rows))
    if not files:
        return "No run was made."
    told = [_best_methods([row for row in rows if row.run.file == file]) for file in files]
    if len(files) == 1:
        return told[0]
    proven = sum(any(row.proven for row in rows if row.run.file == file) for file in files)
    return f"Of {len(files)} instances {proven} {'is' if proven == 1 else 'are'} solved to a proven optimum. " + told[0]


def _best_methods(rows: Sequence[Comparison]) -> str:
    """Of one instance: who reaches the best value, who of them first."""
    best = best_of([row.run for row in rows])
    name = rows[0].run.instance
    if best.value is None:
        return f"No method finds anything for {name} that the checker accepts."
    found = [row for row in rows if row.run.checked and row.gap_to_best is not None and row.gap_to_best <= LEVEL]
    methods = list(dict.fromkeys(row.run.method for row in found))
    if not found:  # no bound is verified that the gap could be to
        values = [row.run for row in rows if row.run.checked and row.run.value == best.value]
        methods, found = list(dict.fromkeys(run.method for run in values)), [row for row in rows if row.run in values]
    first = min(found, key=lambda row: row.run.wall_s).run
    count = len({row.run.method for row in rows})
    unit = f" {first.unit}" if first.unit in {"ms", "s", "us", "Gbit/s", "GB/s"} else ""
    value = f"{objective_text(first.objective)} {number(best.value)}{unit}"
    sure = "proven optimal" if best.proven else "not proven to be the best there is"
    return (
        f"For {name} {len(methods)} of {counted(count, 'method')} reach{'es' if len(methods) == 1 else ''} the best, "
        f"{value} ({sure}), {first.method} soonest, in {number(first.wall_s)} s."
    )
