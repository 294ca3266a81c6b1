"""What the Calculon model says of measured runs, where it has words for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from topoopt.analyses.calibrate.fit import RunError, summary
from topoopt.analyses.calibrate.runs import MeasuredRun
from topoopt.formats.calculon.system import on_system
from topoopt.kinds.llm_training.calculon_schema import CalculonSection
from topoopt.simulate.llm_training.calculon_estimate import calculon_estimate, calculon_problems, covers_model


def calculon_errors(runs: Sequence[MeasuredRun], system: Path) -> tuple[RunError | None, ...]:
    """How far it is off, run by run; None: it does not cover the run.

    Raises:
        InputError: everything wrong with the file of the system.
    """
    return tuple(_error(run, system) for run in runs)


def _error(run: MeasuredRun, system: Path) -> RunError | None:
    if not covers_model(run.problem.model):
        return None
    found = []
    for strategy in run.strategies:
        whole = replace(strategy, stage_layers=())
        settings = CalculonSection(**on_system(run.problem, whole, system)).build()
        problem = replace(run.problem, time_model="calculon", calculon=settings)
        if not calculon_problems(problem, whole):
            found.append(calculon_estimate(problem, whole).iteration_time_s)
    if not found:
        return None
    return RunError(run, min(found), 100.0 * (min(found) / run.seconds - 1.0))


def calculon_document(errors: Sequence[RunError | None]) -> dict[str, Any]:
    """Errors of the runs that it covers, of all and by source."""
    known = [error for error in errors if error is not None]
    sources = dict.fromkeys(error.run.source for error in known)
    return {
        "all": summary(known),
        "sources": {name: summary([error for error in known if error.run.source == name]) for name in sources},
    }
