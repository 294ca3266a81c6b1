"""Arguments behind bounds of placements, each with how it is derived again; no other is believed.

Whoever adds an argument adds a line to a table here, and a row to `docs/checking.md`.
"""

from __future__ import annotations

from functools import partial

from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.proofs import Argument
from topoopt.verify.laws.bounds import Derivations
from topoopt.verify.placement.assignments import MOST_ROWS as MOST_ASSIGNMENTS
from topoopt.verify.placement.assignments import least_load
from topoopt.verify.placement.latency_bounds import latency_bounds
from topoopt.verify.placement.loads import work_bound
from topoopt.verify.placement.pipelines import MOST_SETS, least_pipeline
from topoopt.verify.placement.schedules import MOST_ROWS as MOST_SCHEDULES
from topoopt.verify.placement.schedules import least_makespan

THROUGHPUT_CLAIMS = frozenset({Argument.ASSIGNMENTS_LEFT, Argument.STAGE_CP_SAT, Argument.STAGE_HIGHS})
LATENCY_CLAIMS = frozenset({Argument.SCHEDULE_CP_SAT, Argument.SCHEDULE_NO_CONTENTION, Argument.SCHEDULE_HIGHS})


def claims_of(problem: PlacementProblem) -> frozenset[Argument]:
    """Arguments that a solution may claim."""
    return THROUGHPUT_CLAIMS if isinstance(problem.objective, Throughput) else LATENCY_CLAIMS


def tried_again(problem: PlacementProblem, value: float, share: float = 1.0) -> Derivations:
    """What trying everything proves, the less work first; each raises ValueError where that is too much.

    Args:
        problem: any.
        value: of a known placement, ms: what is no better is not looked at.
        share: part of the effort that a check may take.
    """
    settings = problem.objective
    if not isinstance(settings, Throughput):
        return {Argument.ALL_SCHEDULES: partial(least_makespan, problem, value, int(share * MOST_SCHEDULES))}
    return {
        Argument.ALL_PIPELINES: partial(least_pipeline, problem, settings, value, int(share * MOST_SETS)),
        Argument.ALL_ASSIGNMENTS: partial(least_load, problem, settings, value, int(share * MOST_ASSIGNMENTS)),
    }


def of_placement(problem: PlacementProblem, value: float) -> Derivations:
    """Of the objective over all placements; `value`: of the solution."""
    if isinstance(problem.objective, Throughput):
        formulas: Derivations = {Argument.DEVICE_WORK: partial(work_bound, problem, problem.objective)}
    else:
        formulas = {argument: partial(float, bound) for argument, bound in latency_bounds(problem).items()}
    return {**formulas, **tried_again(problem, value)}
