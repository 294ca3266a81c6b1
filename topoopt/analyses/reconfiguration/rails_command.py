"""`topoopt reconfigure` on a training job: what is asked, and what is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from solvers.stop import Stop
from topoopt.analyses.reconfiguration.job import Progress
from topoopt.analyses.reconfiguration.rails import MODES, rail_study
from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.optical_devices import delay_text
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.reconfiguration import ReconfigurationSweep
from topoopt.core.switching import BoundaryFigures, RailStudy, SwitchSettings
from topoopt.drawing.format import percent
from topoopt.files.documents import parse_document
from topoopt.files.faults import Fault, parse_path

USUAL = SwitchSettings(0.010)
"""Of an instance without a section: a MEMS switch, circuits provisioned."""


def rails_of(
    instance: Path,
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    schemes: Sequence[str] | None,
    delays_ms: Sequence[float],
    stop: Stop,
    progress: Progress,
) -> tuple[ReconfigurationSweep, RailStudy]:
    """Sweep and study of a strategy.

    Raises:
        InputError: it cannot stand on rails; the fault is placed in the file of the instance.
    """
    settings, names = problem.switching or USUAL, MODES if schemes is None else tuple(schemes)
    try:
        return rail_study(problem, strategy, settings, delays_ms=delays_ms, schemes=names, stop=stop, progress=progress)
    except InputError as error:
        raise placed(instance, error) from None


def placed(instance: Path, error: InputError) -> InputError:
    """What is wrong with a strategy on rails, by the places of an instance file."""
    document, found = parse_document(instance), []
    for problem in error.problems:
        path = parse_path(problem.path or "")
        inside = hasattr(ParallelStrategy(), str(path[0])) if path else False
        fault = Fault(("strategy", *path) if inside else path, problem.message, problem.value, problem.allowed)
        own = path[:1] in (("delays",), ("fabrics",))
        found += [problem] if own else document.problems([fault])
    return InputError([replace(one) for one in found])


def _figure(value: float) -> float | None:
    """For JSON: null where any delay does."""
    return value if math.isfinite(value) else None


def rails_document(study: RailStudy) -> dict[str, Any]:
    """The study for programs; null: any delay, or no static topology."""
    boundaries = [
        {**asdict(one), **{name: _figure(getattr(one, name)) for name in ("window_s", "stall_s", "break_even_s")}}
        for one in study.boundaries
    ]
    steps = [{**asdict(one), "events": None} for one in study.steps]
    for one in steps:
        del one["events"]
    return {
        "ports": study.ports,
        "circuit_gbps": study.circuit_gbps,
        "electrical_s": study.electrical_s,
        "static_s": _figure(study.static_s),
        "static": study.static,
        "steps": steps,
        "shown": asdict(study.shown),
        "boundaries": boundaries,
    }


def boundary_lines(study: RailStudy) -> list[str]:
    """The boundaries of the step that is shown, for people."""
    step = study.shown
    over = step.step_s / study.electrical_s - 1.0
    lines = [
        f"At {delay_text(1e3 * step.delay_s)}, {step.mode.value}: {step.step_s:.6g} s, {percent(over)} over the "
        f"electrical network; ports are set {step.switches} times in a step; no plan of ports takes less than "
        f"{step.bound_s:.6g} s"
    ]
    return lines + ["  " + ", ".join(row[:2]) + ": " + "; ".join(row[2:]) for row in boundary_rows(study.boundaries)]


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
