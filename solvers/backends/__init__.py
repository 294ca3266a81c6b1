"""Solvers behind one signature each, by name."""

from __future__ import annotations

import numpy as np

from formulations.arrays import LpArrays
from solvers.backends.highs import solve_lp as solve_with_highs
from solvers.backends.result import LpBackend, LpResult, SolverLimits
from topoopt.core.status import Status

BACKENDS: dict[str, LpBackend] = {"highs": solve_with_highs}


def self_test() -> dict[str, str | None]:
    """Solve min x, x >= 1 with every backend: None for each that answers 1, else what went wrong."""
    row, column = np.ones(1), np.ones(1)
    free = np.full(1, np.inf)
    program = LpArrays(
        cost=column,
        lower=np.zeros(1),
        upper=free,
        row_lower=row,
        row_upper=free,
        start=np.array([0, 1], dtype=np.int64),
        index=np.zeros(1, dtype=np.int64),
        value=np.ones(1),
    )
    return {name: _fault(solve, program) for name, solve in BACKENDS.items()}


def _fault(solve: LpBackend, program: LpArrays) -> str | None:
    try:
        result = solve(program, SolverLimits(time_s=10.0))
    except Exception as error:  # a broken installation may fail in any way; the caller reports it
        return f"{type(error).__name__}: {error}"
    if result.status is not Status.OPTIMAL or result.objective is None or abs(result.objective - 1.0) > 1e-6:
        return f"wrong answer: {result.message}, {result.objective}"
    return None


__all__ = ["BACKENDS", "LpBackend", "LpResult", "SolverLimits", "self_test"]
