"""Programs in arrays become Pyomo models, which HiGHS or any solver that Pyomo finds on this machine solves."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.errors import ApplicationError
from pyomo.contrib.solver.common.results import TerminationCondition
from pyomo.contrib.solver.common.util import NoDualsError, NoSolutionError
from pyomo.contrib.solver.solvers.highs import Highs
from pyomo.core.expr import LinearExpression
from pyomo.opt import TerminationCondition as TerminationConditionOpt
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

from formulations.programs import LpArrays
from solvers.backends.backend import Claim, SolverTask, bad_option
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status, StopReason


def model_of(program: LpArrays, start: Floats | None = None) -> Any:
    """A ConcreteModel with variables `x[name]`, constraints `row[name]`, and `cost` to minimise.

    Rows without coefficients are left out: Pyomo takes no constraint without variables.
    """
    columns = [program.column_name(j) for j in range(program.columns)]
    rows = [program.row_name(i) for i in range(program.rows)]
    if len(set(columns)) < len(columns) or len(set(rows)) < len(rows):
        raise ValueError("two columns, or two rows, have one name")
    position = {name: j for j, name in enumerate(columns)}
    whole = program.is_integer

    def domain(_: Any, name: str) -> Any:
        return pyo.Integers if whole[position[name]] else pyo.Reals

    def bounds(_: Any, name: str) -> tuple[float | None, float | None]:
        j = position[name]
        return _finite(program.lower[j]), _finite(program.upper[j])

    model = pyo.ConcreteModel()
    model.columns = pyo.Set(initialize=columns)
    model.x = pyo.Var(model.columns, domain=domain, bounds=bounds)
    variables = [model.x[name] for name in columns]
    if start is not None:
        for variable, value in zip(variables, start, strict=True):
            variable.set_value(float(value), skip_validation=True)
    matrix = program.matrix().tocsr()
    model.row = pyo.Constraint(pyo.Any)
    for i, name in enumerate(rows):
        entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
        if entries.start == entries.stop:
            continue
        terms = LinearExpression(
            linear_coefs=matrix.data[entries].tolist(), linear_vars=[variables[j] for j in matrix.indices[entries]]
        )
        low, high = _finite(program.row_lower[i]), _finite(program.row_upper[i])
        model.row[name] = (low, terms, high) if low != high or low is None else terms == low
    model.cost = pyo.Objective(
        expr=LinearExpression(linear_coefs=program.cost.tolist(), linear_vars=variables), sense=pyo.minimize
    )
    return model


def arrays_of(model: Any) -> LpArrays:
    """The arrays of any linear Pyomo model: active constraints, in model order; a maximisation has its cost negated.

    Constants in the objective are dropped; every variable that appears is a column, by its full name.

    Raises:
        ValueError: no objective, or more than one.
    """
    objectives = list(model.component_data_objects(pyo.Objective, active=True))
    if len(objectives) != 1:
        raise ValueError(f"a model needs one objective, not {len(objectives)}")
    form = LinearStandardFormCompiler().write(model, mixed_form=True, set_sense=pyo.minimize)
    matrix = form.A.tocsc()
    # The compiler splits a ranged constraint in two rows, each with its side; names tell them apart.
    side = [row.bound_type for row in form.rows]
    rhs = np.asarray(form.rhs, dtype=np.float64)
    low = np.array([b if s <= 0 else -np.inf for s, b in zip(side, rhs, strict=True)], dtype=np.float64)
    high = np.array([b if s >= 0 else np.inf for s, b in zip(side, rhs, strict=True)], dtype=np.float64)
    bounds = [variable.bounds for variable in form.columns]
    cost = np.asarray(form.c.todense(), dtype=np.float64).reshape(-1)
    return LpArrays(
        cost=cost,
        lower=np.array([-np.inf if a is None else a for a, _ in bounds], dtype=np.float64),
        upper=np.array([np.inf if b is None else b for _, b in bounds], dtype=np.float64),
        row_lower=low,
        row_upper=high,
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=np.asarray(matrix.data, dtype=np.float64),
        integer=np.array([not variable.is_continuous() for variable in form.columns], dtype=np.bool_),
        column_names=tuple(variable.name for variable in form.columns),
        row_names=_row_names(form.rows),
    )


def _row_names(rows: list[Any]) -> tuple[str, ...]:
    count: dict[str, int] = {}
    for row in rows:
        count[row.constraint.name] = count.get(row.constraint.name, 0) + 1
    return tuple(
        row.constraint.name
        if count[row.constraint.name] == 1
        else f"{row.constraint.name}_{'lower' if row.bound_type < 0 else 'upper'}"
        for row in rows
    )


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None


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


EXACT = {"cbc": "ratioGap", "gurobi": "MIPGap", "cplex": "mip_tolerances_mipgap", "xpress": "miprelstop"}
"""The solver's own word for the relative gap at which it stops; set to 0 where the name begins so."""

SOLVER_STATUS = {
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


def installed(name: str) -> bool:
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


def run_installed(name: str, task: SolverTask) -> Claim:
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
    condition: TerminationConditionOpt = results.solver.termination_condition
    status, stopped_by = SOLVER_STATUS.get(condition.name, (Status.UNKNOWN, StopReason.ERROR))
    x = None
    if len(results.solution):
        model.solutions.load_from(results)
        idle = np.clip(0.0, program.lower, program.upper)
        values = [model.x[program.column_name(j)].value for j in range(program.columns)]
        x = np.array([idle[j] if value is None else value for j, value in enumerate(values)], dtype=np.float64)
        if status is Status.UNKNOWN and condition.name != "unbounded":
            status = Status.FEASIBLE
    bound = results.problem.lower_bound
    proven = program.has_integers and x is not None and isinstance(bound, (int, float)) and math.isfinite(bound)
    return Claim(
        status,
        stopped_by,
        f"Pyomo with {name}: {condition.name}",
        x,
        float(bound) if proven else None,
        None if program.has_integers or x is None else _solver_prices(program, model),
        unbounded=condition.name == "unbounded",
        algorithm=f"{name} by Pyomo",
    )


def _solver_prices(program: LpArrays, model: Any) -> Floats | None:
    """float64[rows]; None where the solver tells none."""
    if not len(model.dual):
        return None
    names = [program.row_name(i) for i in range(program.rows)]
    return np.array([model.dual.get(model.row[name], 0.0) if name in model.row else 0.0 for name in names])
