"""Solvers that are not part of the installation: what Pyomo finds here.

Everything they claim is checked as with all backends: points against rows and bounds, prices by weak duality. The bound
of an integer program is what the solver says.
"""

from __future__ import annotations

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
    "scip": ("pyomo:scip",),
    "cbc": ("pyomo:cbc",),
    "glpk": ("pyomo:glpk",),
    "gurobi": ("pyomo:gurobi_direct", "pyomo:gurobi"),
    "cplex": ("pyomo:cplex_direct", "pyomo:cplex"),
    "xpress": ("pyomo:xpress_direct",),
    "mosek": ("pyomo:mosek_direct",),
    "copt": ("pyomo:copt_direct", "pyomo:copt"),
}
"""Where each is looked for, in this order; any other is named so by whoever wants it."""


def _pyomo(name: str) -> Engine:
    from pyomo.opt import TerminationCondition

    from solvers.backends import pyomo_found

    run = partial(pyomo_found.run_found, name)
    return Engine(run, frozenset(), pyomo_found.STATUS_MAP, tuple(TerminationCondition.__members__))


def _found(place: str) -> bool:
    """Whether a solver is at a place such as `pyomo:cbc`."""
    from solvers.backends import pyomo_found

    return pyomo_found.found(place.partition(":")[2])


def place_of(name: str) -> str | None:
    """Where a solver of the table is found; None: nowhere."""
    return next((place for place in FOREIGN[name] if _found(place)), None)


def any_solver(name: str) -> Backend:
    """A backend of ours, a solver of the table, or `pyomo:NAME` for whatever Pyomo finds.

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
    if library != "pyomo" or not own:
        known = (*SOLVERS, *FOREIGN)
        close = get_close_matches(name, known) or list(known)
        allowed = f"{', '.join(close)}; or pyomo:NAME"
        raise InputError([Problem("unknown solver", path="--solver", value=name, allowed=allowed)])
    if name not in FOREIGN and not _found(name):
        allowed = "topoopt doctor lists those found"
        raise InputError([Problem("Pyomo finds no such solver", path="--solver", value=name, allowed=allowed)])
    return Backend(name, f"Pyomo with {own}", _FEATURES, partial(_pyomo, own))
