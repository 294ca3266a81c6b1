"""Pyomo models solved by HiGHS: the readable way round, as a second opinion on array builders."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyomo.contrib.solver.common.results import TerminationCondition
from pyomo.contrib.solver.common.util import NoDualsError, NoSolutionError
from pyomo.contrib.solver.solvers.highs import Highs

from formulations.parts.arrays import LpArrays
from solvers.backends.backend import bad_option
from solvers.backends.highs import option_names
from solvers.backends.pyomo_model import model_of
from solvers.backends.result import Claim, SolverTask
from solvers.backends.settle import settled
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status, StopReason

__all__ = ["STATUS_MAP", "option_names", "run_pyomo"]

STATUS_MAP = {
    "convergenceCriteriaSatisfied": (Status.OPTIMAL, StopReason.CONVERGED),
    "maxTimeLimit": (Status.UNKNOWN, StopReason.TIME),
    "iterationLimit": (Status.UNKNOWN, StopReason.BUDGET),
    "objectiveLimit": (Status.UNKNOWN, StopReason.BUDGET),
    "minStepLength": (Status.UNKNOWN, StopReason.ERROR),
    "unbounded": (Status.UNKNOWN, StopReason.CONVERGED),
    "provenInfeasible": (Status.INFEASIBLE, StopReason.CONVERGED),
    "locallyInfeasible": (Status.UNKNOWN, StopReason.CONVERGED),
    "infeasibleOrUnbounded": (Status.UNKNOWN, StopReason.CONVERGED),
    "error": (Status.UNKNOWN, StopReason.ERROR),
    "interrupted": (Status.UNKNOWN, StopReason.INTERRUPTED),
    "licensingProblems": (Status.UNKNOWN, StopReason.ERROR),
    "emptyModel": (Status.UNKNOWN, StopReason.ERROR),
    "unknown": (Status.UNKNOWN, StopReason.ERROR),
}


def run_pyomo(task: SolverTask) -> Claim:
    """Build the Pyomo model and solve it by HiGHS; the options are HiGHS's, start and on_incumbent have no use."""

    claim = _solved(task)
    if claim.message == "Pyomo: infeasibleOrUnbounded":
        return settled(claim, task, _solved)
    return claim


def _solved(task: SolverTask) -> Claim:
    program, options = task.program, task.options
    model = model_of(program)
    settings: dict[str, Any] = {"random_seed": task.limits.seed}
    if program.has_integers:
        settings |= {"mip_rel_gap": 0.0}
    settings |= dict(options)
    limit = {} if task.limits.time_s is None else {"time_limit": max(float(task.limits.time_s), 1e-3)}
    try:
        # Solutions are loaded by hand: the interface raises on every model without one.
        results = Highs().solve(
            model,
            load_solutions=False,
            raise_exception_on_nonoptimal_result=False,
            threads=task.limits.threads,
            solver_options=settings,
            **limit,
        )
    except (TypeError, ValueError) as error:
        if not options:
            raise
        raise bad_option("HiGHS", ", ".join(options), ", ".join(map(str, options.values()))) from error
    condition: TerminationCondition = results.termination_condition
    status, stopped_by = STATUS_MAP[condition.name]
    claims_bound = program.has_integers and status is not Status.INFEASIBLE and results.objective_bound is not None
    return Claim(
        status,
        stopped_by,
        f"Pyomo: {condition.name}",
        _point(program, model, results),
        float(results.objective_bound) if claims_bound else None,
        None if program.has_integers else _prices(program, model, results),
        unbounded=condition is TerminationCondition.unbounded,
    )


def _point(program: LpArrays, model: Any, results: Any) -> Floats | None:
    """float64[columns]; variables that stand in no row and cost nothing are at their bound nearest to 0."""
    try:
        values = results.solution_loader.get_vars()
    except NoSolutionError:
        return None
    idle = np.clip(0.0, program.lower, program.upper)
    x = [values.get(model.x[program.column_name(j)]) for j in range(program.columns)]
    return np.array([idle[j] if v is None else v for j, v in enumerate(x)], dtype=np.float64)


def _prices(program: LpArrays, model: Any, results: Any) -> Floats | None:
    try:
        duals = results.solution_loader.get_duals()
    except (NoDualsError, NoSolutionError):
        return None
    price = np.zeros(program.rows)
    for i in range(program.rows):
        name = program.row_name(i)
        if name in model.row:
            price[i] = duals.get(model.row[name], 0.0)
    return price
