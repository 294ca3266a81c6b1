"""Tell infeasible from unbounded for solvers that do not: solve once more without the objective."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from formulations.parts.arrays import LpArrays
from solvers.backends.result import Claim, SolverLimits
from topoopt.core.verdict import Status, StopReason


def settled(
    claim: Claim,
    program: LpArrays,
    limits: SolverLimits,
    began: float,
    solve: Callable[[LpArrays, SolverLimits], Claim],
) -> Claim:
    """The claim of a solver that found no finite optimum, made definite.

    A program without objective cannot be unbounded, so that its outcome decides.

    Args:
        claim: "infeasible or unbounded".
        program, limits: as first solved.
        began: time.monotonic() then; the time left is used.
        solve: the solver.
    """
    left = None if limits.time_s is None else max(0.0, limits.time_s - (time.monotonic() - began))
    if left == 0.0:
        return replace(claim, status=Status.UNKNOWN, stopped_by=StopReason.TIME)
    again = solve(replace(program, cost=np.zeros(program.columns)), replace(limits, time_s=left))
    if again.status is Status.INFEASIBLE:
        return replace(claim, status=Status.INFEASIBLE, stopped_by=StopReason.CONVERGED, x=None, row_dual=None)
    if again.status is Status.OPTIMAL:
        message = f"{claim.message}; feasible without the objective, hence unbounded"
        return replace(claim, status=Status.UNKNOWN, message=message, x=None, row_dual=None, unbounded=True)
    return replace(claim, status=Status.UNKNOWN, stopped_by=again.stopped_by, x=None, row_dual=None)
