"""Mixed-integer programs by solvers that OR-Tools links or loads, such as SCIP and CBC."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp  # type: ignore[attr-defined]

from formulations.parts.arrays import LpArrays
from solvers.backends.result import Claim, SolverTask
from topoopt.core.verdict import Status, StopReason

LINKED = ("SCIP", "CBC")
"""In every distribution of OR-Tools."""

LOADED = {"GUROBI": "GUROBI_HOME", "XPRESS": "XPRESSDIR", "CPLEX": "CPLEX_HOME"}
"""Looked for where this variable of the environment says; asking without it writes warnings."""

STATUS_MAP = {
    "OPTIMAL": (Status.OPTIMAL, StopReason.CONVERGED),
    "FEASIBLE": (Status.FEASIBLE, StopReason.TIME),
    "INFEASIBLE": (Status.INFEASIBLE, StopReason.CONVERGED),
    "UNBOUNDED": (Status.UNKNOWN, StopReason.CONVERGED),
    "ABNORMAL": (Status.UNKNOWN, StopReason.ERROR),
    "MODEL_INVALID": (Status.UNKNOWN, StopReason.ERROR),
    "NOT_SOLVED": (Status.UNKNOWN, StopReason.ERROR),
}

NAMES = {getattr(pywraplp.Solver, name): name for name in STATUS_MAP}


def found(name: str) -> bool:
    """Whether OR-Tools has a solver of this name (capitals) here."""
    if name in LINKED:
        return True
    return name in LOADED and LOADED[name] in os.environ and pywraplp.Solver.CreateSolver(name) is not None


def run_or_tools(name: str, task: SolverTask) -> Claim:
    """Solve by a solver that is found; start, options and on_incumbent have no use here."""
    program = task.program
    solver = pywraplp.Solver.CreateSolver(name)
    columns = _filled(solver, program)
    if task.limits.time_s is not None:
        solver.SetTimeLimit(max(1, round(1000 * task.limits.time_s)))
    parameters = pywraplp.MPSolverParameters()
    parameters.SetDoubleParam(parameters.RELATIVE_MIP_GAP, 0.0)
    status_name = NAMES[solver.Solve(parameters)]
    status, stopped_by = STATUS_MAP[status_name]
    has_point = status in (Status.OPTIMAL, Status.FEASIBLE)
    claims_bound = has_point  # these solvers treat linear programs as mixed-integer ones, and tell no prices
    return Claim(
        status,
        stopped_by,
        f"{name}: {status_name}",
        np.array([column.solution_value() for column in columns], dtype=np.float64) if has_point else None,
        float(solver.Objective().BestBound()) if claims_bound else None,
        unbounded=status_name == "UNBOUNDED",
        algorithm=f"{name} of OR-Tools",
    )


def _filled(solver: Any, program: LpArrays) -> list[Any]:
    """Hand the program over; its columns."""
    whole = program.is_integer
    columns = [
        solver.Var(float(program.lower[j]), float(program.upper[j]), bool(whole[j]), "") for j in range(program.columns)
    ]
    objective = solver.Objective()
    for column, cost in zip(columns, program.cost.tolist(), strict=True):
        objective.SetCoefficient(column, cost)
    objective.SetMinimization()
    matrix = program.matrix().tocsr()
    for i in range(program.rows):
        row = solver.Constraint(float(program.row_lower[i]), float(program.row_upper[i]), "")
        for k in range(matrix.indptr[i], matrix.indptr[i + 1]):
            row.SetCoefficient(columns[matrix.indices[k]], float(matrix.data[k]))
    return columns
