"""What every backend takes and gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from formulations.parts.arrays import LpArrays
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status, StopReason

OptionValue = bool | int | float | str
Options = Mapping[str, OptionValue]
OnIncumbent = Callable[[Floats], None]


@dataclass(frozen=True)
class SolverLimits:
    """How long and how wide a solver may run, and how exact a point must be to count as a solution.

    Attributes:
        time_s: wall-clock seconds; None: no limit.
        threads: of the solver.
        feasibility: largest violation of a row or bound, relative to 1 + |bound|; integers round within it.
        optimality: largest gap between objective and proven bound, relative to 1 + |objective|, called optimal.
        seed: of the solver's tie-breaks, where it has any.
    """

    time_s: float | None = None
    threads: int = 1
    feasibility: float = 1e-6
    optimality: float = 1e-6
    seed: int = 0


@dataclass(frozen=True, eq=False)
class SolverTask:
    """What a library is asked: options are known to exist, the program to be sound; see `LpBackend`.

    Attributes:
        began: time.monotonic() when it was asked.
    """

    program: LpArrays
    limits: SolverLimits
    options: Options
    start: Floats | None = None
    on_incumbent: OnIncumbent | None = None
    began: float = field(default_factory=time.monotonic)

    def time_left_s(self, least: float = 0.0) -> float | None:
        """Seconds of the limit that are left, so many at least; None without a limit."""
        limit = self.limits.time_s
        return None if limit is None else max(least, limit - (time.monotonic() - self.began))


@dataclass(frozen=True)
class Features:
    """What a backend can do; a program that needs more is refused.

    Attributes:
        continuous, integer: kinds of variables it takes.
        duals: returns prices of rows of linear programs.
        warm_start: the solver itself uses a start (every backend keeps the start as incumbent in any case).
        exact: ends at a vertex, so that linear programs come out to rounding; else to an asked tolerance.
        streams: reports better integer solutions as it finds them.
        proves_unbounded: tells unbounded programs from unsolved ones.
    """

    continuous: bool
    integer: bool
    duals: bool
    warm_start: bool
    exact: bool
    streams: bool
    proves_unbounded: bool


@dataclass(frozen=True, eq=False)
class Claim:
    """What a solver says, before anybody checks it.

    Attributes:
        status, stopped_by: from the status map of the backend.
        message: the solver's own words.
        x: float64[columns], or None.
        bound: lower bound on the objective, or None.
        row_dual: float64[rows] prices of a linear program (>= 0 pushes the row up), or None.
        unbounded: the objective is said to fall without end.
        algorithm: what ran, if there was a choice.
    """

    status: Status
    stopped_by: StopReason
    message: str
    x: Floats | None = None
    bound: float | None = None
    row_dual: Floats | None = None
    unbounded: bool = False
    algorithm: str = ""


@dataclass(frozen=True, eq=False)
class LpResult:
    """Outcome of a linear or mixed-integer program; every number was recomputed from the arrays.

    Attributes:
        status: what is known; OPTIMAL and FEASIBLE come with `x`, the others without.
        stopped_by: why the solver ended.
        x: float64[columns] within the feasibility tolerance, None when there is no such point.
        objective: cost of `x`.
        message: the solver's own words, then what the check had to say against them.
        bound: lower bound on the optimum: for linear programs evaluated from `row_dual`, whatever its quality; for
            integer ones as the solver says; None: nothing known.
        row_dual: float64[rows], prices of a linear program.
        column_dual: float64[columns], cost - row_dual A.
        residual: largest relative violation of `x`, of rows, bounds and integrality.
        raw_x: the solver's last point even if it violates rows; for callers that repair it themselves.
        unbounded: the solver proved that the objective falls without end (status is UNKNOWN then).
        algorithm: what ran, if there was a choice.
        from_start: `x` is the start the caller gave, since the solver had nothing better.
    """

    status: Status
    stopped_by: StopReason
    x: Floats | None
    objective: float | None
    message: str
    bound: float | None = None
    row_dual: Floats | None = None
    column_dual: Floats | None = None
    residual: float | None = None
    raw_x: Floats | None = None
    unbounded: bool = False
    algorithm: str = ""
    from_start: bool = False


RunBackend = Callable[[SolverTask], Claim]
"""The part of a backend that talks to its library: solves and translates, checking nothing.

Raises InputError for an option with a value that the library refuses.
"""


class LpBackend(Protocol):
    """A solver of linear or mixed-integer programs."""

    def __call__(
        self,
        program: LpArrays,
        limits: SolverLimits | None = None,
        options: Options | None = None,
        start: Floats | None = None,
        *,
        on_incumbent: OnIncumbent | None = None,
    ) -> LpResult:
        """Solve within the limits; never raises for infeasible or unbounded programs.

        Args:
            program: what to solve.
            limits: time, threads, tolerances.
            options: the solver's own, by its own names.
            start: float64[columns], a point to begin with; the result is never worse than it, if it is feasible. NaN
                for columns not known: HiGHS completes such a start, others do without it.
            on_incumbent: called with each better integer solution the solver streams.

        Raises:
            InputError: malformed arrays, a program the backend's features do not cover, unknown or bad options.
        """
        ...
