"""Arguments behind bounds of placements, each with how it is derived again; no other is believed.

Whoever adds an argument adds a line to a table here, and a row to `docs/checking.md`.
"""

from __future__ import annotations

from functools import partial

from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.proofs import Argument
from topoopt.verify.laws.bounds import Derivations
from topoopt.verify.placement.latency_bounds import latency_bounds
from topoopt.verify.placement.loads import work_bound

THROUGHPUT_CLAIMS = frozenset(
    {Argument.ALL_ASSIGNMENTS, Argument.STAGE_RELAXATION, Argument.STAGE_CP_SAT, Argument.STAGE_HIGHS}
)
LATENCY_CLAIMS = frozenset({Argument.SCHEDULE_CP_SAT, Argument.SCHEDULE_NO_CONTENTION, Argument.SCHEDULE_HIGHS})


def claims_of(problem: PlacementProblem) -> frozenset[Argument]:
    """Arguments that a solution may claim."""
    return THROUGHPUT_CLAIMS if isinstance(problem.objective, Throughput) else LATENCY_CLAIMS


def of_placement(problem: PlacementProblem) -> Derivations:
    """Of the objective over all placements."""
    if isinstance(problem.objective, Throughput):
        return {Argument.DEVICE_WORK: partial(work_bound, problem, problem.objective)}
    return {argument: partial(float, value) for argument, value in latency_bounds(problem).items()}
