"""Linear programs by GLOP, the simplex code of OR-Tools."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from ortools.glop.parameters_pb2 import GlopParameters
from ortools.linear_solver.python import model_builder_helper as helper

from solvers.backends.proto_options import field_names, fill
from solvers.backends.result import Claim, SolverTask
from solvers.backends.settle import settled
from topoopt.core.verdict import Status, StopReason

STATUS_MAP = {
    "OPTIMAL": (Status.OPTIMAL, StopReason.CONVERGED),
    "FEASIBLE": (Status.FEASIBLE, StopReason.TIME),
    "INFEASIBLE": (Status.INFEASIBLE, StopReason.CONVERGED),
    "UNBOUNDED": (Status.UNKNOWN, StopReason.CONVERGED),
    "ABNORMAL": (Status.UNKNOWN, StopReason.ERROR),
    "NOT_SOLVED": (Status.UNKNOWN, StopReason.ERROR),
    "MODEL_IS_VALID": (Status.UNKNOWN, StopReason.ERROR),
    "CANCELLED_BY_USER": (Status.UNKNOWN, StopReason.INTERRUPTED),
    "UNKNOWN_STATUS": (Status.UNKNOWN, StopReason.ERROR),
    "MODEL_INVALID": (Status.UNKNOWN, StopReason.ERROR),
    "INVALID_SOLVER_PARAMETERS": (Status.UNKNOWN, StopReason.ERROR),
    "SOLVER_TYPE_UNAVAILABLE": (Status.UNKNOWN, StopReason.ERROR),
    "INCOMPATIBLE_OPTIONS": (Status.UNKNOWN, StopReason.ERROR),
}


@cache
def option_names() -> frozenset[str]:
    """Fields of GlopParameters."""
    return field_names(GlopParameters.DESCRIPTOR)


def run_glop(task: SolverTask) -> Claim:
    """Solve by simplex; start and on_incumbent have no use here."""
    parameters = GlopParameters()
    fill(parameters, {"random_seed": task.limits.seed, **task.options}, "GLOP")
    text = str(parameters)  # protocol buffer text format

    def solve(task: SolverTask) -> Claim:
        return _solved(task, text)

    claim = solve(task)
    # GLOP calls unbounded programs infeasible when its presolve finds them.
    if claim.unbounded or claim.status is Status.INFEASIBLE:
        return settled(claim, task, solve)
    return claim


def _solved(task: SolverTask, parameters: str) -> Claim:
    program = task.program
    model: Any = helper.ModelBuilderHelper()
    model.fill_model_from_sparse_data(
        program.lower, program.upper, program.cost, program.row_lower, program.row_upper, program.matrix().tocsr()
    )
    solver = helper.ModelSolverHelper("GLOP")
    solver.enable_output(False)
    solver.set_solver_specific_parameters(parameters)
    if task.limits.time_s is not None:
        solver.set_time_limit_in_seconds(task.limits.time_s)
    solver.solve(model)
    name = solver.status().name
    status, stopped_by = STATUS_MAP[name]
    solved = bool(solver.has_solution())
    return Claim(
        status,
        stopped_by,
        f"GLOP: {name}" + (f", {solver.status_string()}" if solver.status_string() else ""),
        np.array(solver.variable_values(), dtype=np.float64) if solved else None,
        row_dual=np.array(solver.dual_values(), dtype=np.float64) if solved else None,
        unbounded=name == "UNBOUNDED",
        algorithm="simplex",
    )
