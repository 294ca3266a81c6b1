"""Tell infeasible from unbounded for solvers that do not: solve once more without the objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solvers.backends.result import Claim, SolverTask
from topoopt.core.proofs import Status, StopReason


def settled(claim: Claim, task: SolverTask, solve: Callable[[SolverTask], Claim]) -> Claim:
    """The claim of a solver that found no finite optimum, made definite.

    A program without objective cannot be unbounded, so that its outcome decides.

    Args:
        claim: "infeasible or unbounded".
        task: as first solved; the time left is used.
        solve: the solver.
    """
    left = task.time_left_s()
    if left == 0.0:
        return replace(claim, status=Status.UNKNOWN, stopped_by=StopReason.TIME)
    program = replace(task.program, cost=np.zeros(task.program.columns))
    again = solve(replace(task, program=program, limits=replace(task.limits, time_s=left)))
    if again.status is Status.INFEASIBLE:
        return replace(claim, status=Status.INFEASIBLE, stopped_by=StopReason.CONVERGED, x=None, row_dual=None)
    if again.status is Status.OPTIMAL:
        message = f"{claim.message}; feasible without the objective, hence unbounded"
        return replace(claim, status=Status.UNKNOWN, message=message, x=None, row_dual=None, unbounded=True)
    return replace(claim, status=Status.UNKNOWN, stopped_by=again.stopped_by, x=None, row_dual=None)
