"""Backends by name: ours, those that Pyomo finds on this machine, and any of ours in a child process that is killed in
time.

Libraries are loaded at first use: some take a second.

What a solver that Pyomo finds claims is checked as with all backends: points against rows and bounds, prices by weak
duality. The bound of an integer program is what the solver says.

A child process streams better solutions as its solver finds them, so that a kill loses none of them. It ends by
itself when the parent does.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import IO

from formulations.programs import LpArrays
from solvers.backends.backend import (
    Backend,
    Claim,
    Engine,
    Features,
    LpResult,
    OnIncumbent,
    Options,
    SolverLimits,
    judged,
    refuse,
    trivial,
)
from solvers.processes import ended, receive, send, started
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import Status, StopReason

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

    from solvers.backends import highs as highs_module
    from solvers.backends import pyomo_backends as pyomo_highs

    return Engine(
        pyomo_highs.run_pyomo,
        highs_module.option_names(),
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


_PYOMO_SOLVER = Features(
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


def _pyomo_solver(name: str) -> Engine:
    from pyomo.opt import TerminationCondition

    from solvers.backends import pyomo_backends

    run = partial(pyomo_backends.run_installed, name)
    return Engine(run, frozenset(), pyomo_backends.SOLVER_STATUS, tuple(TerminationCondition.__members__))


def _installed(candidate: str) -> bool:
    from solvers.backends import pyomo_backends

    return pyomo_backends.installed(candidate.partition(":")[2])


def place_of(name: str) -> str | None:
    """Where a solver of the table is found; None: nowhere."""
    return next((candidate for candidate in FOREIGN[name] if _installed(candidate)), None)


def any_solver(name: str) -> Backend:
    """A backend of ours, a solver of the table, or `pyomo:NAME` for whatever Pyomo finds.

    Raises:
        InputError: no such name, or nothing is found there.
    """
    if name in SOLVERS:
        return SOLVERS[name]
    location: str | None = name
    if name in FOREIGN:
        location = place_of(name)
        if location is None:
            looked = ", ".join(FOREIGN[name])
            text = f"this solver is not found here (looked for {looked})"
            raise InputError(
                [Problem(text, path="--set solver", value=name, allowed="topoopt doctor lists those found")]
            )
    library, _, own = name.partition(":") if name not in FOREIGN else (location or "").partition(":")
    if library != "pyomo" or not own:
        choices = (*SOLVERS, *FOREIGN)
        close = get_close_matches(name, choices) or list(choices)
        allowed = f"{', '.join(close)}; or pyomo:NAME"
        raise InputError([Problem("unknown solver", path="--set solver", value=name, allowed=allowed)])
    if name not in FOREIGN and not _installed(name):
        allowed = "topoopt doctor lists those found"
        raise InputError([Problem("Pyomo finds no such solver", path="--set solver", value=name, allowed=allowed)])
    return Backend(name, f"Pyomo with {own}", _PYOMO_SOLVER, partial(_pyomo_solver, own))


# Time for the child to start, import its library and hand back the result, beyond the solver's own limit.
GRACE_S = 5.0

KILLED = {
    StopReason.TIME: "killed: over its time limit",
    StopReason.INTERRUPTED: "killed: interrupted",
    StopReason.MEMORY: "killed: over the memory limit",
}
"""Why a child was killed, for people."""

CHILD = (sys.executable, "-c", "from solvers.backends.table import serve; serve()")
"""Starts a child: not with -m, as the package that imports this module would load it twice."""

# How often an interrupt is looked for.
_LOOK_S = 0.1


def solve_guarded(
    name: str,
    program: LpArrays,
    limits: SolverLimits | None = None,
    options: Options | None = None,
    start: Floats | None = None,
    *,
    grace_s: float = GRACE_S,
    on_incumbent: OnIncumbent | None = None,
    stop: Stop | None = None,
    command: tuple[str, ...] = CHILD,
) -> LpResult:
    """Solve by a backend of the table in a child process, killed `grace_s` seconds after the time limit.

    Args:
        name: of the backend.
        program, limits, options, start, on_incumbent: see `Backend.__call__`; without a time limit nothing is killed.
        grace_s: how long the child may overrun.
        stop: once interrupted or over its memory limit, the child is killed; its deadline is not looked at, `limits`
            is for that.
        command: starts the child; for tests.

    Returns:
        The backend's result, or, if the child was killed or died, the best of the start and the solutions streamed,
        with stopped_by TIME, MEMORY, INTERRUPTED or ERROR.

    Raises:
        InputError: as the backend's, and for an unknown name.
    """
    limits, options, backend = limits or SolverLimits(), options or {}, solver_named(name)
    refuse(backend, program, options, start)
    if (claim := trivial(program)) is not None:
        return judged(program, limits, claim, start)
    child = started(command)
    listener = _Listener(child.stdout, program, limits, on_incumbent)
    try:
        listener.start()
        with suppress(OSError):  # the child died; the listener sees the end of its output
            send(child.stdin, (name, program, limits, dict(options), start))
        with (stop or Stop()).memory.child(child.pid):
            killed = listener.wait(None if limits.time_s is None else limits.time_s + grace_s, stop)
    finally:
        ended(child, listener)
    if listener.refusal is not None:
        raise listener.refusal
    result = listener.result
    if result is not None and (result.x is not None or listener.best is None):
        return result
    if result is not None:
        # The last solution streamed is a candidate too, should the final one fail its check.
        return judged(
            program, limits, Claim(result.status, result.stopped_by, result.message, listener.best, result.bound), start
        )
    stopped_by, reason = StopReason.ERROR, f"ended without a result (exit code {child.returncode})"
    if killed is not None:
        stopped_by, reason = killed, KILLED[killed]
    return judged(program, limits, Claim(Status.UNKNOWN, stopped_by, f"{name} {reason}", listener.best), start)


class _Listener(threading.Thread):
    def __init__(
        self, stream: IO[bytes] | None, program: LpArrays, limits: SolverLimits, on_incumbent: OnIncumbent | None
    ) -> None:
        super().__init__(daemon=True)
        self._stream, self._program, self._limits, self._on_incumbent = stream, program, limits, on_incumbent
        self.best: Floats | None = None
        self.result: LpResult | None = None
        self.refusal: InputError | None = None

    def run(self) -> None:
        while (message := receive(self._stream)) is not None:
            kind, content = message
            if kind == "incumbent":
                self._take(content)
            elif kind == "result":
                self.result = content
                return
            else:
                self.refusal = InputError(content)
                return

    def wait(self, seconds: float | None, stop: Stop | None) -> StopReason | None:
        """Until the child has ended by itself (None), the seconds are over, or `stop` says that it must end."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while self.is_alive() and (left := deadline - time.monotonic()) > 0:
            if stop is not None and stop.interrupted.is_set():
                return StopReason.INTERRUPTED
            if stop is not None and stop.memory.look():
                return StopReason.MEMORY
            self.join(min(left, _LOOK_S))
        return StopReason.TIME if self.is_alive() else None

    def _take(self, x: Floats) -> None:
        checked = judged(self._program, self._limits, Claim(Status.UNKNOWN, StopReason.TIME, "", x), self.best)
        if checked.x is not None and not checked.from_start:
            self.best = checked.x
            if self._on_incumbent is not None:
                self._on_incumbent(checked.x)


def serve() -> None:
    """Answer the one request on standard input, then end the process."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not mix with the messages
    name, program, limits, options, start = receive(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    backend = SOLVERS[name]
    began = time.monotonic()
    backend.load()
    if limits.time_s is not None:  # imports count for the one who waits
        limits = replace(limits, time_s=max(0.01, limits.time_s - (time.monotonic() - began)))
    try:
        result = backend(program, limits, options, start, on_incumbent=lambda x: send(out, ("incumbent", x)))
    except InputError as error:
        send(out, ("refused", error.problems))
    else:
        send(out, ("result", result))
    os._exit(0)  # no library may hang in its clean-up


def _end_with_parent() -> None:
    sys.stdin.buffer.read(1)  # nothing more is ever written, so this ends when the parent does
    os._exit(1)
