"""Solvers that are not part of the installation, or not needed by any method: what Pyomo or OR-Tools finds here.

Everything they claim is checked as with all backends: points against rows and bounds, prices by weak duality. The bound
of an integer program is what the solver says.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial

from solvers.backends.backend import Backend, Engine
from solvers.backends.result import Features
from solvers.backends.table import SOLVERS
from topoopt.core.errors import InputError, Problem

_FEATURES = Features(
    continuous=True, integer=True, duals=False, warm_start=False, exact=True, streams=False, proves_unbounded=True
)

FOREIGN: dict[str, tuple[str, ...]] = {
    "scip": ("ortools:SCIP", "pyomo:scip"),
    "cbc": ("pyomo:cbc", "ortools:CBC"),
    "glpk": ("pyomo:glpk",),
    "gurobi": ("pyomo:gurobi_direct", "pyomo:gurobi", "ortools:GUROBI"),
    "cplex": ("pyomo:cplex_direct", "pyomo:cplex", "ortools:CPLEX"),
    "xpress": ("pyomo:xpress_direct", "ortools:XPRESS"),
    "mosek": ("pyomo:mosek_direct",),
    "copt": ("pyomo:copt_direct", "pyomo:copt"),
}
"""Where each is looked for, in this order; any other is named so by whoever wants it."""


def _or_tools(name: str) -> Engine:
    from solvers.backends import or_tools

    run = partial(or_tools.run_or_tools, name)
    return Engine(run, frozenset(), or_tools.STATUS_MAP, tuple(or_tools.STATUS_MAP))


def _pyomo(name: str) -> Engine:
    from pyomo.opt import TerminationCondition

    from solvers.backends import pyomo_found

    run = partial(pyomo_found.run_found, name)
    return Engine(run, frozenset(), pyomo_found.STATUS_MAP, tuple(TerminationCondition.__members__))


LOADERS: dict[str, tuple[str, Callable[[str], Engine]]] = {
    "ortools": ("OR-Tools with", _or_tools),
    "pyomo": ("Pyomo with", _pyomo),
}


def _found(place: str) -> bool:
    """Whether a solver is at a place such as `pyomo:cbc`."""
    library, _, name = place.partition(":")
    if library == "ortools":
        from solvers.backends import or_tools

        return or_tools.found(name)
    from solvers.backends import pyomo_found

    return pyomo_found.found(name)


def place_of(name: str) -> str | None:
    """Where a solver of the table is found; None: nowhere."""
    return next((place for place in FOREIGN[name] if _found(place)), None)


def any_solver(name: str) -> Backend:
    """A backend of ours, a solver of the table, or `pyomo:NAME` and `ortools:NAME` for whatever these find.

    Raises:
        InputError: no such name, or nothing is found there.
    """
    if name in SOLVERS:
        return SOLVERS[name]
    place: str | None = name
    if name in FOREIGN:
        place = place_of(name)
        if place is None:
            looked = ", ".join(FOREIGN[name])
            text = f"this solver is not found here (looked for {looked})"
            raise InputError([Problem(text, path="--solver", value=name, allowed="topoopt doctor lists those found")])
    library, _, own = name.partition(":") if name not in FOREIGN else (place or "").partition(":")
    if library not in LOADERS or not own:
        known = (*SOLVERS, *FOREIGN)
        close = get_close_matches(name, known) or list(known)
        allowed = f"{', '.join(close)}; or pyomo:NAME, ortools:NAME"
        raise InputError([Problem("unknown solver", path="--solver", value=name, allowed=allowed)])
    if name not in FOREIGN and not _found(name):
        text = f"{library} finds no such solver"
        raise InputError([Problem(text, path="--solver", value=name, allowed="topoopt doctor lists those found")])
    words, load = LOADERS[library]
    return Backend(name, f"{words} {own}", _FEATURES, partial(load, own))
