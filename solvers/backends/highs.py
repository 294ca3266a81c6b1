"""Linear and mixed-integer programs by HiGHS (dual simplex, IPX without crossover, PDLP, branch and cut)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.programs import LpArrays
from solvers.backends.backend import Claim, Options, SolverTask, bad_option
from topoopt.core.proofs import Status, StopReason

if TYPE_CHECKING:
    import highspy

STATUS_MAP = {
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

# Options per algorithm for linear programs. `ipm` could mean HiPO where its extra package is installed; `ipx` cannot.
ALGORITHMS: dict[str, dict[str, str]] = {
    "simplex": {"solver": "simplex"},
    "ipx": {"solver": "ipx", "run_crossover": "off"},
    "pdlp": {"solver": "pdlp"},
}
# Coefficients up to which each algorithm is chosen. Concurrent flow at degree 4 has 50 k at 64 servers (simplex took
# 4-38 s there, IPX about 1 s) and 800 k at 256 (IPX 35 s, PDLP 41 s and a tenth of the memory).
SIMPLEX_UP_TO = 40_000
IPX_UP_TO = 1_000_000


def outcome(status: highspy.HighsModelStatus) -> tuple[Status, StopReason]:
    """Our status of a HiGHS model status; every member of its enum has one (a test holds the table total)."""
    return STATUS_MAP[status.name]


def algorithm_for(nonzeros: int) -> str:
    """Algorithm for a linear program of this many coefficients."""
    if nonzeros <= SIMPLEX_UP_TO:
        return "simplex"
    return "ipx" if nonzeros <= IPX_UP_TO else "pdlp"


@cache
def option_names() -> frozenset[str]:
    import highspy

    return frozenset(name for name in dir(highspy.HighsOptions) if not name.startswith("_"))


def run_highs(task: SolverTask) -> Claim:
    """Solve with the algorithm the size asks for, unless the option `solver` names one."""
    algorithm = "" if task.program.has_integers or "solver" in task.options else algorithm_for(task.program.nonzeros)
    return run_algorithm(algorithm, task)


def run_algorithm(algorithm: str, task: SolverTask) -> Claim:
    """Solve with one of ALGORITHMS, or "" for what HiGHS and the options choose."""
    import highspy

    program, limits = task.program, task.limits
    settings: dict[str, Any] = {"threads": limits.threads, "random_seed": limits.seed, **ALGORITHMS.get(algorithm, {})}
    if program.has_integers:
        # The default stops at a gap of 1e-4 and calls it optimal.
        settings |= {"mip_rel_gap": 0.0, "mip_feasibility_tolerance": min(1e-6, limits.feasibility)}
    else:
        tolerance = min(1e-7, limits.feasibility)
        settings |= {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
        settings |= {"pdlp_optimality_tolerance": min(1e-7, limits.optimality)}
    settings |= dict(task.options)
    claim, code = _solved(task, settings, limits.time_s)
    if code == highspy.HighsModelStatus.kUnboundedOrInfeasible and settings.get("presolve") != "off":
        # Presolve alone cannot tell; the solver itself can.
        claim, _ = _solved(task, settings | {"presolve": "off"}, task.time_left_s())
    return claim


def highs_model(program: LpArrays) -> highspy.HighsLp:
    import highspy

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = program.columns, program.rows
    model.col_cost_, model.col_lower_, model.col_upper_ = program.cost, program.lower, program.upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = program.start.astype(np.int32)
    model.a_matrix_.index_ = program.index.astype(np.int32)
    model.a_matrix_.value_ = program.value
    if program.has_integers:
        kind = highspy.HighsVarType
        model.integrality_ = [kind.kInteger if whole else kind.kContinuous for whole in program.is_integer]
    return model


def load(solver: Any, program: LpArrays) -> None:
    """Hand the arrays to a `highspy.Highs`.

    Raises:
        ValueError: HiGHS refuses the model.
    """
    import highspy

    if solver.passModel(highs_model(program)) == highspy.HighsStatus.kError:
        raise ValueError("HiGHS refuses the model")


def _solved(task: SolverTask, settings: Options, time_s: float | None) -> tuple[Claim, highspy.HighsModelStatus]:
    import highspy

    program, start = task.program, task.start
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    if time_s is not None:
        solver.setOptionValue("time_limit", float(time_s))
    for name, value in settings.items():
        if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise bad_option("HiGHS", name, value)
    try:
        load(solver, program)
    except ValueError as error:
        return Claim(Status.UNKNOWN, StopReason.ERROR, str(error)), highspy.HighsModelStatus.kModelError
    start_columns = np.flatnonzero(np.isfinite(start)) if start is not None else np.zeros(0, dtype=np.int64)
    if start is not None and 0 < len(start_columns) < len(start):  # HiGHS completes it
        solver.setSolution(len(start_columns), start_columns.astype(np.int32), start[start_columns])
    elif start is not None and len(start_columns):
        given = highspy.HighsSolution()
        given.col_value = list(start)
        given.value_valid = True
        solver.setSolution(given)
    if task.on_incumbent is not None and program.has_integers:
        report = task.on_incumbent
        solver.cbMipImprovingSolution += lambda event: report(np.array(event.data_out.mip_solution, dtype=np.float64))
    solver.run()
    code = solver.getModelStatus()
    status, stopped_by = outcome(code)
    solution, info = solver.getSolution(), solver.getInfo()
    x = np.array(solution.col_value, dtype=np.float64) if solution.value_valid else None
    bound, row_dual = None, None
    if program.has_integers:
        bound = float(info.mip_dual_bound) if status is not Status.INFEASIBLE else None
    elif solution.dual_valid:
        row_dual = np.array(solution.row_dual, dtype=np.float64)
    claim = Claim(
        status,
        stopped_by,
        str(solver.modelStatusToString(code)),
        x,
        bound,
        row_dual,
        unbounded=code == highspy.HighsModelStatus.kUnbounded,
        algorithm=_ran(info, integers=program.has_integers),
    )
    return claim, code


def _ran(info: Any, *, integers: bool) -> str:
    """Which algorithm did the work, by its iteration counts rather than by what was asked."""
    if integers:
        return "branch and cut"
    counts = {"pdlp": info.pdlp_iteration_count, "ipx": info.ipm_iteration_count}
    counts |= {"simplex": info.simplex_iteration_count}
    ran = [name for name, count in counts.items() if count > 0]
    return "+".join(ran) or "presolve"
