"""The table of backends: name, library, declared features. Libraries are loaded at first use: some take a second."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from functools import partial

from solvers.backends.backend import Backend, Engine
from solvers.backends.result import Features
from topoopt.core.errors import InputError, Problem

_HIGHS = Features(
    continuous=True, integer=True, duals=True, warm_start=True, exact=True, streams=True, proves_unbounded=True
)
_INEXACT = replace(_HIGHS, integer=False, warm_start=False, exact=False, streams=False)
_CP_SAT = replace(_HIGHS, continuous=False, duals=False)
_PYOMO = replace(_HIGHS, warm_start=False, streams=False)


def _highs(algorithm: str | None = None) -> Engine:
    import highspy

    from solvers.backends import highs

    run = highs.run_highs if algorithm is None else partial(highs.run_algorithm, algorithm)
    return Engine(run, highs.option_names(), highs.STATUS_MAP, tuple(highspy.HighsModelStatus.__members__))


def _cp_sat() -> Engine:
    from ortools.sat.python import cp_model

    from solvers.backends import cp_sat

    return Engine(
        cp_sat.run_cp_sat, cp_sat.option_names(), cp_sat.STATUS_MAP, tuple(cp_model.CpSolverStatus.__members__)
    )


def _pyomo() -> Engine:
    from pyomo.contrib.solver.common.results import TerminationCondition

    from solvers.backends import pyomo_highs

    return Engine(
        pyomo_highs.run_pyomo,
        pyomo_highs.option_names(),
        pyomo_highs.STATUS_MAP,
        tuple(TerminationCondition.__members__),
    )


SOLVERS: dict[str, Backend] = {
    "highs": Backend("highs", "HiGHS, algorithm by size", _HIGHS, _highs),
    "highs-simplex": Backend("highs-simplex", "HiGHS dual simplex", _HIGHS, partial(_highs, "simplex")),
    "highs-ipx": Backend("highs-ipx", "HiGHS interior point, no crossover", _INEXACT, partial(_highs, "ipx")),
    "cp-sat": Backend("cp-sat", "OR-Tools CP-SAT", _CP_SAT, _cp_sat),
    "pyomo": Backend("pyomo", "Pyomo with HiGHS", _PYOMO, _pyomo),
}


def solver_named(name: str) -> Backend:
    """The backend of that name.

    Raises:
        InputError: there is none; the close names, or all, are listed.
    """
    if name in SOLVERS:
        return SOLVERS[name]
    close = get_close_matches(name, list(SOLVERS)) or list(SOLVERS)
    raise InputError([Problem("unknown solver", value=name, allowed=", ".join(close))])
