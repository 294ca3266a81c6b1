"""A sweep of reconfiguration delays is shown as one sentence, pictures, tables, and ports of stages over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from markupsafe import Markup

from topoopt.core.outcomes import BreakEven, ReconfigurationSweep, Scheme
from topoopt.core.process import versions_text
from topoopt.core.switching import (
    EVERY_STAGE,
    OPTICAL_DEVICES,
    BoundaryFigures,
    RailStudy,
    SwitchedStep,
    changes_of,
    delay_text,
)
from topoopt.page.charts import HEIGHT, Axis, Point, Series, element, legend, mark, number_axis, standalone, xy_chart
from topoopt.page.render import render_page
from topoopt.page.text import counted, milliseconds, number, percent
from topoopt.page.timelines import ports_legend, ports_picture


def answer(sweep: ReconfigurationSweep) -> str:
    """The scheme that pays up to the longest delay, beside the network that is set once."""
    one_shot = sweep.schemes[0].points[0].iteration_time_ms
    own = f"the network set once takes {milliseconds(one_shot)}"
    judged = [scheme for scheme in sweep.schemes if scheme.break_even is not None]
    paying = [scheme for scheme in judged if _wins_ms(scheme) is not None]
    if not judged:
        anew = [(point, scheme.name) for scheme in sweep.schemes[1:] for point in scheme.points]
        if not anew:
            return f"Nothing was set beside the network that is set once: {own}."
        least, name = min(anew, key=lambda entry: entry[0].iteration_time_ms)
        took = milliseconds(least.iteration_time_ms)
        return f"Setting circuits anew takes {took} at best ({name} at {delay_text(least.delay_ms)}); {own}."
    if not paying:
        open_ones = [
            entry for entry in judged if entry.break_even and entry.break_even.verdict == "not decided in time"
        ]
        if open_ones:
            return f"Whether setting circuits anew pays was not decided in time; {own}."
        return f"Setting circuits anew never pays, not even without delay: {own}, and every scheme tried takes longer."
    best = max(paying, key=lambda scheme: _wins_ms(scheme) or 0.0)
    wins = _wins_ms(best) or 0.0
    every = best.break_even is not None and best.break_even.verdict == "at every delay tried"
    upto = f"at every delay tried, up to {delay_text(wins)}" if every else f"up to a delay of {delay_text(wins)}"
    return f"Setting circuits anew pays {upto} ({best.name}); {own}."


def _wins_ms(scheme: Scheme) -> float | None:
    """The largest delay at which the scheme is faster."""
    outcome = scheme.break_even
    return None if outcome is None or outcome.wins is None else outcome.wins.delay_ms


def _figure(value: float) -> float | None:
    """For JSON: null where any delay does."""
    return value if math.isfinite(value) else None


def rails_document(study: RailStudy) -> dict[str, Any]:
    """The study for programs; null: any delay, or no static topology."""
    boundaries = [
        {
            **asdict(boundary),
            **{name: _figure(getattr(boundary, name)) for name in ("window_s", "stall_s", "break_even_s")},
        }
        for boundary in study.boundaries
    ]
    steps = [step_document(boundary, study.static_s) for boundary in study.steps]
    return {
        "ports": study.ports,
        "circuit_gbps": study.circuit_gbps,
        "electrical_s": study.electrical_s,
        "static_s": _figure(study.static_s),
        "static": study.static,
        "steps": steps,
        "shown": asdict(study.shown),
        "boundaries": boundaries,
        "slowdown": study.slowdown,
        "stragglers": [asdict(boundary) for boundary in study.stragglers],
        "failed": study.failed,
        "failures": [asdict(boundary) for boundary in study.failures],
    }


def step_document(step: SwitchedStep, static_s: float) -> dict[str, Any]:
    """A step for programs, without its events."""
    document = asdict(replace(step, events=()))
    del document["events"]
    return {**document, "static_s": _figure(static_s)}


def boundary_lines(study: RailStudy) -> list[str]:
    """The boundaries of the step that is shown, for people."""
    step = study.shown
    over = step.step_s / study.electrical_s - 1.0
    lines = [
        f"At {delay_text(1e3 * step.delay_s)}, {step.mode}: {step.step_s:.6g} s, {percent(over)} over the "
        f"electrical network; ports are set {step.switches} times in a step; no plan of ports takes less than "
        f"{step.bound_s:.6g} s"
    ]
    if study.stragglers:
        lines.append(straggler_line(study))
    if study.failures:
        lines.append(failure_line(study))
    return lines + ["  " + ", ".join(row[:2]) + ": " + "; ".join(row[2:]) for row in boundary_rows(study.boundaries)]


def straggler_line(study: RailStudy) -> str:
    """What the slow stage that delays the step most does, on circuits and on the electrical network."""
    worst = max(study.stragglers, key=lambda straggler: straggler.step_s)
    own, network = worst.step_s / study.shown.step_s - 1.0, worst.electrical_s / study.electrical_s - 1.0
    return (
        f"With stage {worst.rank} {study.slowdown:g} times as slow, which delays it most: {worst.step_s:.6g} s, "
        f"{percent(own)} more; {percent(network)} more on the electrical network, {worst.electrical_s:.6g} s"
    )


def failure_line(study: RailStudy) -> str:
    """What dead interfaces do: in the server where they delay the step most, and in all servers."""
    every = next(failure for failure in study.failures if failure.rank == EVERY_STAGE)
    worst = max(
        (failure for failure in study.failures if failure.rank != EVERY_STAGE), key=lambda failure: failure.step_s
    )
    own, network = worst.step_s / study.shown.step_s - 1.0, worst.electrical_s / study.electrical_s - 1.0
    return (
        f"With {counted(study.failed, 'interface')} of a server of stage {worst.rank} dead, which delays it most: "
        f"{worst.step_s:.6g} s, {percent(own)} more; {percent(network)} more on the electrical network; with "
        f"{counted(study.failed, 'whole rail')} dead {every.step_s:.6g} s, "
        f"{percent(every.step_s / study.shown.step_s - 1.0)} more"
    )


def boundary_rows(boundaries: Sequence[BoundaryFigures]) -> list[tuple[str, ...]]:
    """Name, action, how often, window, stall, break-even."""
    return [
        (
            boundary.boundary,
            boundary.action,
            f"{boundary.switches} times",
            f"window {_delay(boundary.window_s)}",
            f"stall {delay_text(1e3 * max(boundary.stall_s, 0.0))}",
            "never pays" if boundary.break_even_s == 0.0 else f"pays up to {_delay(boundary.break_even_s)}",
        )
        for boundary in boundaries
    ]


def _delay(seconds: float) -> str:
    return delay_text(1e3 * seconds) if math.isfinite(seconds) else "any delay"


HEADINGS = ("boundary", "action", "in a step", "window", "stall", "pays up to")


def rails_section(study: RailStudy) -> dict[str, Any]:
    """What the template draws of a study."""
    shown = study.shown
    drawing, notes = ports_picture(shown.plan, shown.step_s, shown.delay_s, changes_of(shown.events), shown.events)
    return {
        "words": boundary_lines(study)[0] + ".",
        "late": straggler_line(study) + "." if study.stragglers else "",
        "broken": failure_line(study) + "." if study.failures else "",
        "drawing": drawing,
        "notes": notes,
        "legend": ports_legend(shown.plan, sent=True),
        "head": HEADINGS,
        "rows": [_plain(row) for row in boundary_rows(study.boundaries)],
    }


def _plain(row: tuple[str, ...]) -> tuple[str, ...]:
    """Cells without what the headings say."""
    return tuple(cell.removeprefix(name).strip() for name, cell in zip(HEADINGS, row, strict=True))


TEMPLATE = "analyses/reconfiguration/page.html.j2"
WIDTH = 1000.0
LEFT = 84.0
TOP = 64.0
SHOWN_TIMES = 20.0
"""Times above so many times the one-shot time are left out of the picture: what happens near it is what counts."""


def _series(sweep: ReconfigurationSweep) -> tuple[list[Series], Axis, Axis]:
    """Lines over the delay; a delay of 0 has no place on a logarithmic axis."""
    most = SHOWN_TIMES * max((point.iteration_time_ms for point in sweep.schemes[0].points), default=0.0)
    series = [Series(scheme.name, _points(scheme, most), line=True) for scheme in sweep.schemes]
    x = number_axis("reconfiguration delay", (p.delay_ms for p in sweep.schemes[0].points if p.delay_ms > 0), log=True)
    y = number_axis(f"{time_name(sweep)}, ms", (point.y for line in series for point in line.points), log=True)
    return series, replace(x, fixed=tuple((value, delay_text(value)) for value, _ in x.marks(8))), y


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
    for index, scheme in enumerate(sweep.schemes):
        at = LEFT + 170.0 * index
        marks.append(mark(index, x=at, y=44.0))
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


def verdict_text(outcome: BreakEven) -> str:
    """When a scheme is faster than one-shot."""
    if outcome.verdict == "up to" and outcome.wins is not None and outcome.loses is not None:
        wins, loses = outcome.wins, outcome.loses
        return (
            f"up to {delay_text(wins.delay_ms)} ({milliseconds(wins.iteration_time_ms)}; at "
            f"{delay_text(loses.delay_ms)} {milliseconds(loses.iteration_time_ms)})"
        )
    if outcome.verdict == "never":
        return "never, not even without delay"
    if outcome.verdict == "at every delay tried" and outcome.wins is not None:
        return f"at every delay tried, up to {delay_text(outcome.wins.delay_ms)}"
    return outcome.verdict


def sweep_html(sweep: ReconfigurationSweep, study: RailStudy | None = None) -> str:
    """Chart, break-even delays and all figures; names from the instance are escaped."""
    steps = {scheme.name: scheme.thetas for scheme in sweep.schemes if scheme.thetas}
    delays = sorted({point.delay_ms for scheme in sweep.schemes for point in scheme.points})
    table = []
    for delay in delays:
        cells = []
        for scheme in sweep.schemes:
            point = next((candidate for candidate in scheme.points if candidate.delay_ms == delay), None)
            cells.append(("–", "") if point is None else (number(point.iteration_time_ms), point.choice))
        devices = ", ".join(name for name, (delay_ms, _) in OPTICAL_DEVICES.items() if delay_ms == delay)
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
        devices=[(name, delay_text(delay_ms), ports) for name, (delay_ms, ports) in OPTICAL_DEVICES.items()],
        versions=versions_text(),
    )
