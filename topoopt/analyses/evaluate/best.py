"""The best strategies of an instance on an ideal switch, with what was found for every shape."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from solvers.llm_training.exhaust import ExhaustedSpace, exhaust
from solvers.stop import Stop
from topoopt.analyses.evaluate.run import estimate_document
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, RankedStrategy
from topoopt.core.units import GIB
from topoopt.core.verdict import Status, StopReason
from topoopt.simulate.llm_training.estimate import estimate


def best_strategies(problem: LlmTrainingProblem, stop: Stop) -> dict[str, Any]:
    """The fastest strategy that fits, those next to it, and the outcome of each shape, for programs.

    Raises:
        InputError: no ideal switch is among the fabrics; others are not searched yet.
        InfeasibleError: no strategy of the space fits; says how much memory would do.
        LimitError: the limit came before anything was found.
    """
    if IDEAL_SWITCH not in problem.fabrics:
        text = "strategies are searched on an ideal switch only"
        raise InputError([Problem(text, path="fabrics", value=", ".join(problem.fabrics), allowed=IDEAL_SWITCH)])
    found = exhaust(problem, stop, count=1 + problem.top)
    if not found.ranked:
        raise _nothing(problem, found)
    best, *others = found.ranked
    proven = found.stopped_by is StopReason.CONVERGED
    space = f"{found.records} strategies of {len(found.shapes)} shapes by time model {problem.time_model}"
    return {
        **estimate_document(problem, best.strategy, estimate(problem, best.strategy)),
        "fabric": IDEAL_SWITCH,
        "status": Status.OPTIMAL if proven else Status.FEASIBLE,
        "stopped_by": found.stopped_by,
        "proof": f"the fastest that fits of all {space}" if proven else f"the fastest of {space}; not all were seen",
        "records": found.records,
        "fitting": found.fitting,
        "shapes_left": found.left,
        "next": [_ranked(one, best) for one in others],
        "shapes": [
            {
                **asdict(one.shape),
                "records": one.records,
                "fitting": one.fitting,
                "best_s": one.best_s,
                "least_gib": (one.least_bytes or 0.0) / GIB,
            }
            for one in found.shapes
        ],
    }


def _ranked(one: RankedStrategy, best: RankedStrategy) -> dict[str, Any]:
    """A strategy, and how it differs from the best one."""
    mine, its = asdict(one.strategy), asdict(best.strategy)
    return {
        "iteration_time_s": one.iteration_time_s,
        "memory_gib": one.memory_bytes / GIB,
        "slower_percent": 100.0 * (one.iteration_time_s / best.iteration_time_s - 1.0),
        "differs": {name: value for name, value in mine.items() if value != its[name]},
    }


def _nothing(problem: LlmTrainingProblem, found: ExhaustedSpace) -> Exception:
    if found.left:
        return LimitError(f"no strategy was found to fit in {found.records} of them when the limit came")
    if not found.records:
        return InfeasibleError("the rules and the instance leave no strategy at all")
    shape = min(found.shapes, key=lambda one: one.least_bytes or 0.0)
    usable = (problem.cluster.usable_bytes or 0) / GIB
    parts = ", ".join(f"{name} {value}" for name, value in asdict(shape.shape).items() if value > 1) or "one GPU"
    return InfeasibleError(
        f"none of {found.records} strategies fits in the {usable:.4g} GiB of a GPU that training may take; "
        f"the smallest takes {(shape.least_bytes or 0.0) / GIB:.4g} GiB ({parts})"
    )
