"""A study of switching inside training steps, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from topoopt.core.switching import EVERY_STAGE, BoundaryFigures, RailStudy, SwitchedStep, delay_text
from topoopt.drawing.format import counted, percent


def _figure(value: float) -> float | None:
    """For JSON: null where any delay does."""
    return value if math.isfinite(value) else None


def rails_document(study: RailStudy) -> dict[str, Any]:
    """The study for programs; null: any delay, or no static topology."""
    boundaries = [
        {**asdict(one), **{name: _figure(getattr(one, name)) for name in ("window_s", "stall_s", "break_even_s")}}
        for one in study.boundaries
    ]
    steps = [step_document(one, study.static_s) for one in study.steps]
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
        "stragglers": [asdict(one) for one in study.stragglers],
        "failed": study.failed,
        "failures": [asdict(one) for one in study.failures],
    }


def step_document(step: SwitchedStep, static_s: float) -> dict[str, Any]:
    """A step for programs, without its events."""
    found = asdict(replace(step, events=()))
    del found["events"]
    return {**found, "static_s": _figure(static_s)}


def boundary_lines(study: RailStudy) -> list[str]:
    """The boundaries of the step that is shown, for people."""
    step = study.shown
    over = step.step_s / study.electrical_s - 1.0
    lines = [
        f"At {delay_text(1e3 * step.delay_s)}, {step.mode.value}: {step.step_s:.6g} s, {percent(over)} over the "
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
    worst = max(study.stragglers, key=lambda one: one.step_s)
    own, network = worst.step_s / study.shown.step_s - 1.0, worst.electrical_s / study.electrical_s - 1.0
    return (
        f"With stage {worst.rank} {study.slowdown:g} times as slow, which delays it most: {worst.step_s:.6g} s, "
        f"{percent(own)} more; {percent(network)} more on the electrical network, {worst.electrical_s:.6g} s"
    )


def failure_line(study: RailStudy) -> str:
    """What dead interfaces do: in the server where they delay the step most, and in all servers."""
    every = next(one for one in study.failures if one.rank == EVERY_STAGE)
    worst = max((one for one in study.failures if one.rank != EVERY_STAGE), key=lambda one: one.step_s)
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
            one.boundary.value,
            one.action.value,
            f"{one.switches} times",
            f"window {_delay(one.window_s)}",
            f"stall {delay_text(1e3 * max(one.stall_s, 0.0))}",
            "never pays" if one.break_even_s == 0.0 else f"pays up to {_delay(one.break_even_s)}",
        )
        for one in boundaries
    ]


def _delay(seconds: float) -> str:
    return delay_text(1e3 * seconds) if math.isfinite(seconds) else "any delay"
