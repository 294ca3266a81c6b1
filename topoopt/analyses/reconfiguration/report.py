"""A sweep of reconfiguration delays as one SVG picture, or as an HTML page with all figures."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from topoopt.analyses.reconfiguration.answer import answer
from topoopt.analyses.reconfiguration.rails_report import rails_section
from topoopt.core.comparison import BreakEven, ReconfigurationSweep, Scheme, WhenBetter
from topoopt.core.process import versions_text
from topoopt.core.switching import OPTICAL_DEVICES, RailStudy, delay_text
from topoopt.drawing.axes import Axis, number_axis
from topoopt.drawing.chart import HEIGHT, Point, Series, legend, xy_chart
from topoopt.drawing.format import milliseconds, number
from topoopt.drawing.marks import mark
from topoopt.drawing.page import render_page
from topoopt.drawing.svg import element, standalone

TEMPLATE = "analyses/reconfiguration/page.html.j2"
WIDTH = 1000.0
LEFT = 84.0
TOP = 64.0
SHOWN_TIMES = 20.0
"""Times above so many times the one-shot time are left out of the picture: what happens near it is what counts."""


@dataclass(frozen=True)
class _DelayAxis(Axis):
    """Milliseconds whose ticks are in the unit that suits them."""

    def marks(self, target: int) -> list[tuple[float, str]]:
        return [(value, delay_text(value)) for value, _ in super().marks(target)]

    @property
    def power(self) -> int:
        """Delays have units of their own."""
        return 0


def _series(sweep: ReconfigurationSweep) -> tuple[list[Series], Axis, Axis]:
    """Lines over the delay; a delay of 0 has no place on a logarithmic axis."""
    most = SHOWN_TIMES * max((point.iteration_time_ms for point in sweep.schemes[0].points), default=0.0)
    series = [Series(scheme.name, _points(scheme, most), line=True) for scheme in sweep.schemes]
    x = number_axis("reconfiguration delay", (p.delay_ms for p in sweep.schemes[0].points if p.delay_ms > 0), log=True)
    y = number_axis(f"{time_name(sweep)}, ms", (point.y for one in series for point in one.points), log=True)
    return series, _DelayAxis(x.title, x.low, x.high, x.log), y


def _points(scheme: Scheme, most: float) -> tuple[Point, ...]:
    return tuple(
        Point(
            point.delay_ms,
            point.iteration_time_ms,
            f"{scheme.name} at {delay_text(point.delay_ms)}: {milliseconds(point.iteration_time_ms)}\n{point.choice}\n"
            f"circuits changed {point.reconfigurations} times, dark for {milliseconds(point.dark_ms)}",
        )
        for point in scheme.points
        if point.delay_ms > 0 and point.iteration_time_ms <= most
    )


def _chart(sweep: ReconfigurationSweep) -> Markup:
    series, x, y = _series(sweep)
    return xy_chart(series, x, y, f"{time_name(sweep).capitalize()} over the reconfiguration delay")


def sweep_title(sweep: ReconfigurationSweep) -> str:
    """Size of the network, and the rate of a link where it is known."""
    rate = "" if sweep.link_gbps is None else f" of {sweep.link_gbps:g} Gbit/s each"
    return f"{sweep.servers} servers, {sweep.degree} links{rate}"


def time_name(sweep: ReconfigurationSweep) -> str:
    """What the times are of: a job has no steps."""
    return "time of all steps" if sweep.schemes[0].thetas else "iteration time"


def sweep_svg(sweep: ReconfigurationSweep) -> str:
    """The chart with its legend; styles inside, so that the file needs nothing else."""
    marks = []
    for place, scheme in enumerate(sweep.schemes):
        at = LEFT + 170.0 * place
        marks.append(mark(place, x=at, y=44.0))
        marks.append(element("text", scheme.name, x=at + 12, y=48.0))
    height = TOP + HEIGHT + 16
    return standalone(
        element("text", f"{sweep.name}: {sweep_title(sweep)}", x=LEFT, y=22.0),
        *marks,
        element("svg", _chart(sweep), x=LEFT - 56, y=TOP, width=WIDTH - LEFT + 44, height=HEIGHT, overflow="visible"),
        label=f"{time_name(sweep).capitalize()} over the reconfiguration delay",
        width=WIDTH,
        height=height,
    )


def verdict_text(found: BreakEven) -> str:
    """When a scheme is faster than one-shot."""
    if found.verdict is WhenBetter.UP_TO and found.wins is not None and found.loses is not None:
        wins, loses = found.wins, found.loses
        return (
            f"up to {delay_text(wins.delay_ms)} ({milliseconds(wins.iteration_time_ms)}; at "
            f"{delay_text(loses.delay_ms)} {milliseconds(loses.iteration_time_ms)})"
        )
    if found.verdict is WhenBetter.NEVER:
        return "never, not even without delay"
    if found.verdict is WhenBetter.ALWAYS and found.wins is not None:
        return f"at every delay tried, up to {delay_text(found.wins.delay_ms)}"
    return found.verdict.value


def sweep_html(sweep: ReconfigurationSweep, study: RailStudy | None = None) -> str:
    """Chart, break-even delays and all figures; names from the instance are escaped."""
    steps = {scheme.name: scheme.thetas for scheme in sweep.schemes if scheme.thetas}
    delays = sorted({point.delay_ms for scheme in sweep.schemes for point in scheme.points})
    table = []
    for delay in delays:
        cells = []
        for scheme in sweep.schemes:
            point = next((each for each in scheme.points if each.delay_ms == delay), None)
            cells.append(("–", "") if point is None else (number(point.iteration_time_ms), point.choice))
        devices = ", ".join(name for name, device in OPTICAL_DEVICES.items() if device.delay_ms == delay)
        table.append({"delay": delay_text(delay), "devices": devices, "cells": cells})
    return render_page(
        TEMPLATE,
        answer(sweep),
        name=sweep.name,
        shown_times=f"{SHOWN_TIMES:g}",
        subtitle=sweep_title(sweep),
        legend=legend([scheme.name for scheme in sweep.schemes], _series(sweep)[0]),
        chart=_chart(sweep),
        schemes=[
            {
                "name": scheme.name,
                "description": scheme.description,
                "pays": "–" if scheme.break_even is None else verdict_text(scheme.break_even),
                "pays_rerouted": "" if scheme.break_even_rerouted is None else verdict_text(scheme.break_even_rerouted),
            }
            for scheme in sweep.schemes
        ],
        table=table,
        rails=None if study is None else rails_section(study),
        time_name=time_name(sweep).capitalize(),
        thetas=[(str(k), *map(number, row)) for k, row in enumerate(zip(*steps.values(), strict=True))],
        stepped=list(steps),
        strategies=", ".join(sweep.strategies),
        notes=sweep.notes,
        devices=[(name, delay_text(device.delay_ms), device.ports) for name, device in OPTICAL_DEVICES.items()],
        versions=versions_text(),
    )
