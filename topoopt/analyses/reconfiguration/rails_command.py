"""`topoopt reconfigure` on a training job: what is asked, and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from solvers.stop import Stop
from topoopt.analyses.reconfiguration.job import Progress
from topoopt.analyses.reconfiguration.rails import MODES, rail_study
from topoopt.core.comparison import ReconfigurationSweep
from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.switching import RailStudy, SwitchSettings
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
    slowdown: float,
    failed: int,
    stop: Stop,
    progress: Progress,
) -> tuple[ReconfigurationSweep, RailStudy]:
    """Sweep and study of a strategy.

    Raises:
        InputError: it cannot stand on rails; the fault is placed in the file of the instance.
    """
    settings, names = problem.switching or USUAL, MODES if schemes is None else tuple(schemes)
    try:
        return rail_study(
            problem,
            strategy,
            settings,
            delays_ms=delays_ms,
            schemes=names,
            slowdown=slowdown,
            failed=failed,
            stop=stop,
            progress=progress,
        )
    except InputError as error:
        raise placed(instance, error) from None


def placed(instance: Path, error: InputError) -> InputError:
    """What is wrong with a strategy on rails, by the places of an instance file."""
    document, found = parse_document(instance), []
    for problem in error.problems:
        path = parse_path(problem.path or "")
        inside = hasattr(ParallelStrategy(), str(path[0])) if path else False
        fault = Fault(("strategy", *path) if inside else path, problem.message, problem.value, problem.allowed)
        own = path[:1] in (("delays",), ("fabrics",), ("--failed",))
        found += [problem] if own else document.problems([fault])
    return InputError([replace(one) for one in found])
