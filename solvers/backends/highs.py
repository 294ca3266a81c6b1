"""Linear programs by HiGHS."""

from __future__ import annotations

import highspy
import numpy as np

from formulations.arrays import LpArrays
from solvers.backends.result import LpResult, SolverLimits
from topoopt.core.status import Status, StopReason

_OUTCOME = {
    "kNotset": (Status.UNKNOWN, StopReason.ERROR),
    "kLoadError": (Status.UNKNOWN, StopReason.ERROR),
    "kModelError": (Status.UNKNOWN, StopReason.ERROR),
    "kPresolveError": (Status.UNKNOWN, StopReason.ERROR),
    "kSolveError": (Status.UNKNOWN, StopReason.ERROR),
    "kPostsolveError": (Status.UNKNOWN, StopReason.ERROR),
    "kModelEmpty": (Status.OPTIMAL, StopReason.CONVERGED),
    "kOptimal": (Status.OPTIMAL, StopReason.CONVERGED),
    "kInfeasible": (Status.INFEASIBLE, StopReason.CONVERGED),
    "kUnboundedOrInfeasible": (Status.UNKNOWN, StopReason.CONVERGED),
    "kUnbounded": (Status.UNKNOWN, StopReason.CONVERGED),
    "kObjectiveBound": (Status.UNKNOWN, StopReason.BUDGET),
    "kObjectiveTarget": (Status.FEASIBLE, StopReason.BUDGET),
    "kTimeLimit": (Status.UNKNOWN, StopReason.TIME),
    "kIterationLimit": (Status.UNKNOWN, StopReason.BUDGET),
    "kUnknown": (Status.UNKNOWN, StopReason.ERROR),
    "kSolutionLimit": (Status.UNKNOWN, StopReason.BUDGET),
    "kInterrupt": (Status.UNKNOWN, StopReason.INTERRUPTED),
    "kMemoryLimit": (Status.UNKNOWN, StopReason.ERROR),
    "kHighsInterrupt": (Status.UNKNOWN, StopReason.INTERRUPTED),
}


def outcome(status: highspy.HighsModelStatus) -> tuple[Status, StopReason]:
    """Our status of a HiGHS model status; every member of its enum has one (a test holds the table total)."""
    return _OUTCOME[status.name]


def solve_lp(program: LpArrays, limits: SolverLimits | None = None) -> LpResult:
    """Solve a linear program; the solver object does not leave this function."""
    limits = limits or SolverLimits()
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", limits.threads)
    if limits.time_s is not None:
        solver.setOptionValue("time_limit", float(limits.time_s))
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = program.columns, program.rows
    model.col_cost_, model.col_lower_, model.col_upper_ = program.cost, program.lower, program.upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = program.start.astype(np.int32)
    model.a_matrix_.index_ = program.index.astype(np.int32)
    model.a_matrix_.value_ = program.value
    if solver.passModel(model) == highspy.HighsStatus.kError:
        return LpResult(Status.UNKNOWN, StopReason.ERROR, None, None, "HiGHS refuses the model")
    solver.run()
    code = solver.getModelStatus()
    status, stopped_by = outcome(code)
    message = solver.modelStatusToString(code)
    solution = solver.getSolution()
    usable = status in (Status.OPTIMAL, Status.FEASIBLE) and (solution.value_valid or program.columns == 0)
    if not usable:
        return LpResult(status if status is Status.INFEASIBLE else Status.UNKNOWN, stopped_by, None, None, message)
    x = np.array(solution.col_value, dtype=np.float64)
    return LpResult(status, stopped_by, x, float(program.cost @ x), message)
