"""Linear programs by PDLP of OR-Tools (primal-dual hybrid gradient): large ones, to a tolerance, little memory."""

from __future__ import annotations

from functools import cache

import numpy as np
from ortools.pdlp import solve_log_pb2, solvers_pb2
from ortools.pdlp.python import pdlp

from solvers.backends.proto_options import field_names, fill
from solvers.backends.result import Claim, Options, SolverTask
from solvers.backends.settle import settled
from topoopt.core.verdict import Status, StopReason

STATUS_MAP = {
    "TERMINATION_REASON_UNSPECIFIED": (Status.UNKNOWN, StopReason.ERROR),
    "TERMINATION_REASON_OPTIMAL": (Status.OPTIMAL, StopReason.CONVERGED),
    "TERMINATION_REASON_PRIMAL_INFEASIBLE": (Status.INFEASIBLE, StopReason.CONVERGED),
    "TERMINATION_REASON_DUAL_INFEASIBLE": (Status.UNKNOWN, StopReason.CONVERGED),
    "TERMINATION_REASON_PRIMAL_OR_DUAL_INFEASIBLE": (Status.UNKNOWN, StopReason.CONVERGED),
    "TERMINATION_REASON_TIME_LIMIT": (Status.UNKNOWN, StopReason.TIME),
    "TERMINATION_REASON_ITERATION_LIMIT": (Status.UNKNOWN, StopReason.BUDGET),
    "TERMINATION_REASON_KKT_MATRIX_PASS_LIMIT": (Status.UNKNOWN, StopReason.BUDGET),
    "TERMINATION_REASON_INTERRUPTED_BY_USER": (Status.UNKNOWN, StopReason.INTERRUPTED),
    "TERMINATION_REASON_NUMERICAL_ERROR": (Status.UNKNOWN, StopReason.ERROR),
    "TERMINATION_REASON_INVALID_PROBLEM": (Status.UNKNOWN, StopReason.ERROR),
    "TERMINATION_REASON_INVALID_INITIAL_SOLUTION": (Status.UNKNOWN, StopReason.ERROR),
    "TERMINATION_REASON_INVALID_PARAMETER": (Status.UNKNOWN, StopReason.ERROR),
    "TERMINATION_REASON_OTHER": (Status.UNKNOWN, StopReason.ERROR),
}

_OPTIMALITY = "termination_criteria.simple_optimality_criteria"


@cache
def option_names() -> frozenset[str]:
    """Fields of PrimalDualHybridGradientParams, nested ones with dots (termination_criteria.iteration_limit)."""
    return field_names(solvers_pb2.PrimalDualHybridGradientParams.DESCRIPTOR)


def run_pdlp(task: SolverTask) -> Claim:
    """Solve to a hundredth of the tolerances of `limits`, unless the options say otherwise; on_incumbent has no use.

    A looser tolerance given by the options is fine, but the point then often fails the check and is found in `raw_x`
    of the result, beside `row_dual`.
    """
    eps = 0.01 * min(task.limits.feasibility, task.limits.optimality)
    settings: Options = {"num_threads": task.limits.threads}
    if not any(name.startswith("termination_criteria.detailed_optimality") for name in task.options):
        settings = {**settings, f"{_OPTIMALITY}.eps_optimal_absolute": eps, f"{_OPTIMALITY}.eps_optimal_relative": eps}
    settings = {**settings, **task.options}

    def solve(task: SolverTask) -> Claim:
        return _solved(task, settings)

    claim = solve(task)
    if claim.message.endswith(("_DUAL_INFEASIBLE", "_PRIMAL_OR_DUAL_INFEASIBLE")):
        return settled(claim, task, solve)
    return claim


def _solved(task: SolverTask, options: Options) -> Claim:
    program, start = task.program, task.start
    parameters = solvers_pb2.PrimalDualHybridGradientParams()
    if task.limits.time_s is not None:
        parameters.termination_criteria.time_sec_limit = task.limits.time_s
    fill(parameters, options, "PDLP")
    quadratic = pdlp.QuadraticProgram()
    quadratic.resize_and_initialize(program.columns, program.rows)
    quadratic.objective_vector = program.cost
    quadratic.constraint_matrix = program.matrix()
    quadratic.constraint_lower_bounds, quadratic.constraint_upper_bounds = program.row_lower, program.row_upper
    quadratic.variable_lower_bounds, quadratic.variable_upper_bounds = program.lower, program.upper
    begin = None
    if start is not None and np.isfinite(start).all():
        begin = pdlp.PrimalAndDualSolution()
        begin.primal_solution, begin.dual_solution = start, np.zeros(program.rows)
    result = pdlp.primal_dual_hybrid_gradient(quadratic, parameters, begin)
    name = solve_log_pb2.TerminationReason.Name(result.solve_log.termination_reason)
    status, stopped_by = STATUS_MAP[name]
    x = np.array(result.primal_solution, dtype=np.float64)
    row_dual = np.array(result.dual_solution, dtype=np.float64)
    usable = "INFEASIBLE" not in name and len(x) == program.columns
    return Claim(
        status,
        stopped_by,
        f"PDLP: {name}",
        x if usable else None,
        row_dual=row_dual if usable and len(row_dual) == program.rows else None,
        algorithm="pdlp",
    )
