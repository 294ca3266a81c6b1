"""Programs solved by whatever Pyomo finds: a program on the path (CBC, GLPK) or a library (gurobipy, cplex)."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.errors import ApplicationError
from pyomo.opt import TerminationCondition

from formulations.parts.arrays import LpArrays
from solvers.backends.pyomo_model import model_of
from solvers.backends.result import Claim, SolverTask
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status, StopReason

EXACT = {"cbc": "ratioGap", "gurobi": "MIPGap", "cplex": "mip_tolerances_mipgap", "xpress": "miprelstop"}
"""The solver's own word for the relative gap at which it stops; set to 0 where the name begins so."""

STATUS_MAP = {
    "optimal": (Status.OPTIMAL, StopReason.CONVERGED),
    "globallyOptimal": (Status.OPTIMAL, StopReason.CONVERGED),
    "feasible": (Status.FEASIBLE, StopReason.TIME),
    "maxTimeLimit": (Status.UNKNOWN, StopReason.TIME),
    "maxIterations": (Status.UNKNOWN, StopReason.BUDGET),
    "infeasible": (Status.INFEASIBLE, StopReason.CONVERGED),
    "infeasibleOrUnbounded": (Status.UNKNOWN, StopReason.CONVERGED),
    "unbounded": (Status.UNKNOWN, StopReason.CONVERGED),
}
"""All others tell of an error."""


def found(name: str) -> bool:
    """Whether Pyomo has an interface of this name, and finds what it needs."""
    logger = logging.getLogger("pyomo")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # it would warn of every program that it looks for
    try:
        return bool(pyo.SolverFactory(name).available(exception_flag=False))
    except (ApplicationError, RuntimeError, ValueError, ImportError, AttributeError):
        return False
    finally:
        logger.setLevel(level)


def run_found(name: str, task: SolverTask) -> Claim:
    """Solve by an interface that is found; start, options and on_incumbent have no use here."""
    program = task.program
    model = model_of(program)
    if not program.has_integers:
        model.dual = pyo.Suffix(direction=pyo.Suffix.IMPORT)
    solver = pyo.SolverFactory(name)
    gap = next((word for key, word in EXACT.items() if name.startswith(key)), None)
    if gap is not None and program.has_integers:
        solver.options[gap] = 0.0
    limit = {} if task.limits.time_s is None else {"timelimit": max(1, math.ceil(task.limits.time_s))}
    try:
        results = solver.solve(model, load_solutions=False, **limit)
    except (ApplicationError, RuntimeError, ValueError) as error:
        return Claim(Status.UNKNOWN, StopReason.ERROR, f"Pyomo with {name}: {str(error).splitlines()[0]}")
    condition: TerminationCondition = results.solver.termination_condition
    status, stopped_by = STATUS_MAP.get(condition.name, (Status.UNKNOWN, StopReason.ERROR))
    x = None
    if len(results.solution):
        model.solutions.load_from(results)
        x = _point(program, model)
        if status is Status.UNKNOWN and condition.name != "unbounded":
            status = Status.FEASIBLE
    bound = results.problem.lower_bound
    known = program.has_integers and x is not None and isinstance(bound, (int, float)) and math.isfinite(bound)
    return Claim(
        status,
        stopped_by,
        f"Pyomo with {name}: {condition.name}",
        x,
        float(bound) if known else None,
        None if program.has_integers or x is None else _prices(program, model),
        unbounded=condition.name == "unbounded",
        algorithm=f"{name} by Pyomo",
    )


def _point(program: LpArrays, model: Any) -> Floats:
    """float64[columns]; variables that stand in no row and cost nothing are at their bound nearest to 0."""
    idle = np.clip(0.0, program.lower, program.upper)
    values = [model.x[program.column_name(j)].value for j in range(program.columns)]
    return np.array([idle[j] if value is None else value for j, value in enumerate(values)], dtype=np.float64)


def _prices(program: LpArrays, model: Any) -> Floats | None:
    """float64[rows]; None where the solver tells none."""
    if not len(model.dual):
        return None
    names = [program.row_name(i) for i in range(program.rows)]
    return np.array([model.dual.get(model.row[name], 0.0) if name in model.row else 0.0 for name in names])
