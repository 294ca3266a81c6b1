"""Progress of the search: best iteration time against proposals simulated."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.job_solution import ConvergencePoint, JobSolution
from topoopt.drawing.format import counted, milliseconds, shortened
from topoopt.drawing.svg import coordinate, element, percentage, picture, tick_text, ticks

HEIGHT = 250.0
TOP = 26.0
BASE = 222.0
LOGARITHMIC_FROM = 100
"""With more proposals than this the axis is logarithmic: most gains come early."""
PHASE_COLOURS = 8


@dataclass(frozen=True)
class Convergence:
    """The plot, the phases with their colour classes, and a sentence; no plot for fewer than two points."""

    figure: Markup
    phases: tuple[tuple[str, str], ...]
    text: str


def _grouped(points: tuple[ConvergencePoint, ...]) -> dict[str, str]:
    names = dict.fromkeys(point.phase for point in points)
    return {name: f"k{place % PHASE_COLOURS}" for place, name in enumerate(names)}


def _value_range(solution: JobSolution, points: list[ConvergencePoint]) -> tuple[float, float, bool]:
    """Range of the vertical axis, and whether the bound is near enough to be drawn."""
    values = [point.best_ms for point in points]
    low, high = min(values), max(values)
    bound = solution.bound.value
    spread = max(high - low, 0.02 * high)
    near = low >= bound > 0 and low - bound <= 2.0 * spread
    if near:
        low = bound
    margin = 0.06 * max(high - low, 0.02 * high)
    return low - margin, high + margin, near


def convergence(solution: JobSolution) -> Convergence:
    """Draw the progress."""
    points = [point for point in solution.convergence if math.isfinite(point.best_ms)]
    if len(points) < 2 or points[-1].proposals <= points[0].proposals:
        return Convergence(Markup(""), (), "No search steps were recorded.")
    low, high, near = _value_range(solution, points)
    last = points[-1].proposals
    logarithmic = last > LOGARITHMIC_FROM

    def x_at(proposals: float) -> float:
        return math.log1p(proposals) / math.log1p(last) if logarithmic else proposals / last

    def y_at(value: float) -> float:
        return BASE - (BASE - TOP) * (value - low) / (high - low)

    shapes = []
    marks = ticks(low, high, 5)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    for mark in marks:
        y = y_at(mark)
        shapes.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="gridline"))
        shapes.append(element("text", tick_text(mark, step), x=-6, y=y + 4, text_anchor="end"))
    shapes.append(element("text", "best, ms, after so many proposals", x=-6, y=12, text_anchor="start"))
    for mark in _proposal_marks(last, logarithmic):
        at = percentage(x_at(mark))
        shapes.append(element("line", x1=at, x2=at, y1=TOP, y2=BASE, class_="gridline"))
        shapes.append(element("text", f"{mark:,}", x=at, y=BASE + 16, text_anchor="middle" if mark else "start"))
    shapes.append(element("text", f"{last:,}", x="100%", y=BASE + 16, text_anchor="end"))
    if near:
        y = y_at(solution.bound.value)
        shapes.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="boundline"))
        text = f"lower bound {milliseconds(solution.bound.value)}"
        shapes.append(element("text", text, x=6, y=y - 5, class_="halo"))
    shapes.append(element("line", x1=0, x2="100%", y1=BASE, y2=BASE, class_="axis"))
    line = f"M{coordinate(1000 * x_at(points[0].proposals))} {coordinate(y_at(points[0].best_ms))}"
    for point in points[1:]:
        line += f"H{coordinate(1000 * x_at(point.proposals))}V{coordinate(y_at(point.best_ms))}"
    path = element("path", d=line, class_="curve")
    shapes.append(
        element("svg", path, viewBox=f"0 0 1000 {HEIGHT:.0f}", preserveAspectRatio="none", width="100%", height=HEIGHT)
    )
    colours = _grouped(tuple(points))
    for point in points:
        tip = f"{point.phase}\n{milliseconds(point.best_ms)} after {counted(point.proposals, 'proposal')}"
        shapes.append(
            element(
                "circle",
                element("title", tip),
                cx=percentage(x_at(point.proposals)),
                cy=y_at(point.best_ms),
                r=4.0,
                class_=f"dot {colours[point.phase]}",
            )
        )
    better = sum(b.best_ms < a.best_ms for a, b in itertools.pairwise(points))
    text = (
        f"{milliseconds(points[0].best_ms)} at the start, {milliseconds(points[-1].best_ms)} after "
        f"{counted(last, 'proposal')}; {counted(better, 'improvement')}."
    )
    phases = tuple((css, shortened(name, 40)) for name, css in colours.items())
    return Convergence(
        picture(*shapes, label="Best iteration time against proposals", class_="chart", height=int(HEIGHT)),
        phases,
        text,
    )


def _proposal_marks(last: int, logarithmic: bool) -> list[int]:
    if logarithmic:
        return [0, *(10**power for power in range(12) if 10**power < last * 0.5)]
    marks = [round(value) for value in ticks(0.0, float(last), 6) if value == round(value)]
    return [mark for mark in marks if mark < last * 0.9]
