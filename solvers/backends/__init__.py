"""Solvers behind one signature each, by name.

`SOLVERS` is the table. `BACKENDS` are the lines of it that take any linear program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from formulations.programs import LpArrays
from solvers.backends.backend import Backend, Features, LpResult, OnIncumbent, Options, SolverLimits
from solvers.backends.infeasible import InfeasibleSubset, infeasible_subset
from solvers.backends.table import SOLVERS, solve_guarded, solver_named
from topoopt.core.proofs import Status

BACKENDS: dict[str, Backend] = {name: backend for name, backend in SOLVERS.items() if backend.features.continuous}


def self_test(table: Mapping[str, Backend] = SOLVERS) -> dict[str, str | None]:
    """Solve min x, 1 <= x <= 9 with every backend: None for each that answers 1, else what went wrong.

    x is whole for backends that take nothing else.
    """
    unit = np.ones(1)
    program = LpArrays(
        cost=unit,
        lower=np.zeros(1),
        upper=9 * unit,
        row_lower=unit,
        row_upper=np.full(1, np.inf),
        start=np.array([0, 1], dtype=np.int64),
        index=np.zeros(1, dtype=np.int64),
        value=unit,
    )
    whole = replace(program, integer=np.ones(1, dtype=np.bool_))
    return {name: _issue(solve, program if solve.features.continuous else whole) for name, solve in table.items()}


def _issue(solve: Backend, program: LpArrays) -> str | None:
    try:
        solve.load()  # on a busy machine a library takes seconds to load, which are not the solver's
        result = solve(program, SolverLimits(time_s=10.0))
    except Exception as error:  # a broken installation may fail in any way; the caller reports it
        return f"{type(error).__name__}: {error}"
    if result.status is not Status.OPTIMAL or result.objective is None or abs(result.objective - 1.0) > 1e-6:
        return f"wrong answer: {result.message}, {result.objective}"
    return None


__all__ = [
    "BACKENDS",
    "SOLVERS",
    "Backend",
    "Features",
    "InfeasibleSubset",
    "LpResult",
    "OnIncumbent",
    "Options",
    "SolverLimits",
    "infeasible_subset",
    "self_test",
    "solve_guarded",
    "solver_named",
]
