"""A backend is a library behind the common signature: its program is scaled, and whatever it claims is checked.

Solvers meet rows, bounds and reduced costs to absolute tolerances, and drop coefficients below 1e-9: what a program
of numbers near 1 is solved to says nothing for one of 1e-9, or of small numbers beside large ones. So every program
whose numbers are not near 1 is equilibrated first (geometric means of rows and continuous columns in turn: Curtis and
Reid, 1972, simplified), then solved, checked and translated back. Integer columns keep their unit.

Residuals, objective and dual bound are computed from the program anew; a claim that fails is not passed on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import numpy as np
from numpy.typing import ArrayLike

from formulations.programs import LpArrays, shape_errors
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem, raise_any
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
    """What a library is asked: options are known to exist, the program to be sound; see `Backend.__call__`.

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


NEAR = 2.0**20
"""Programs whose numbers lie between 1/NEAR and NEAR are solved as they are."""

LARGEST = 500
"""Power of two by which a row or column is multiplied at most."""

TINY = 2.0**-100
"""Part of the largest number of its sort up to which another one counts as 0: no sum of doubles would show it."""

SWEEPS = 8
"""Rows and columns in turn; a few suffice."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """What a program was multiplied by: rows, columns (x = column * x of the scaled program) and the objective."""

    row: Floats
    column: Floats
    cost: float

    def applied(self, program: LpArrays) -> LpArrays:
        value = program.value * self.row[program.index] * np.repeat(self.column, np.diff(program.start))
        return replace(
            program,
            value=value,
            cost=program.cost * self.column * self.cost,
            lower=program.lower / self.column,
            upper=program.upper / self.column,
            row_lower=program.row_lower * self.row,
            row_upper=program.row_upper * self.row,
        )

    def point(self, x: Floats) -> Floats:
        """A point of the program as one of the scaled program."""
        return x / self.column

    def telling(self, on_incumbent: OnIncumbent) -> OnIncumbent:
        """What hands points of the scaled program on as points of the program."""
        return lambda x: on_incumbent(x * self.column)

    def back(self, result: LpResult) -> LpResult:
        """The result of the scaled program as one of the program."""

        def times(values: Floats | None, factor: Floats) -> Floats | None:
            return None if values is None else values * factor

        return replace(
            result,
            x=times(result.x, self.column),
            raw_x=times(result.raw_x, self.column),
            objective=None if result.objective is None else result.objective / self.cost,
            bound=None if result.bound is None else result.bound / self.cost,
            row_dual=times(result.row_dual, self.row / self.cost),
            column_dual=times(result.column_dual, 1.0 / (self.column * self.cost)),
            message=f"{result.message} (numbers of the scaled program)" if result.message else "",
        )


def scaling_of(program: LpArrays) -> Scaling | None:
    """How to scale a program; None: its numbers are near 1 already."""
    sides = np.concatenate((program.row_lower, program.row_upper))
    bounds = np.concatenate((program.lower, program.upper, sides))
    if _near(program.value, least=True) and _near(sides, least=True) and _near(bounds) and _near(program.cost):
        return None
    return _equilibrated(program)


def _near(values: Floats, *, least: bool = False) -> bool:
    """Whether the largest of the finite numbers that are not 0 (and the least, if asked) is near 1."""
    sizes = _counting(values[np.isfinite(values)])
    if not len(sizes):
        return True
    return bool((sizes.min() if least else sizes.max()) >= 1 / NEAR and sizes.max() <= NEAR)


def _counting(values: Floats) -> Floats:
    sizes = np.abs(values)
    return np.asarray(sizes[sizes > TINY * sizes.max(initial=0.0)])


def _equilibrated(program: LpArrays) -> Scaling:
    matrix = program.matrix().copy()
    matrix.data[np.abs(matrix.data) <= TINY * np.abs(matrix.data).max(initial=0.0)] = 0.0
    matrix.eliminate_zeros()
    size = np.log2(np.abs(matrix.data))
    rows, columns = matrix.indices, np.repeat(np.arange(program.columns), np.diff(matrix.indptr))
    sides = np.stack((program.row_lower, program.row_upper))
    finite = np.isfinite(sides)
    finite &= np.abs(sides) > TINY * np.abs(sides[finite]).max(initial=0.0)
    with_sides = np.concatenate((rows, np.nonzero(finite)[1]))
    free = ~program.is_integer
    row, column = np.zeros(program.rows), np.zeros(program.columns)
    for _ in range(SWEEPS):
        row = -_middle(np.concatenate((size + column[columns], np.log2(np.abs(sides[finite])))), with_sides, len(row))
        column = np.where(free, -_middle(size + row[rows], columns, len(column)), 0.0)
    row, column = 2.0 ** _whole(row), 2.0 ** _whole(column)
    largest = float((np.abs(program.cost) * column).max(initial=0.0))
    return Scaling(row, column, float(2.0 ** -_whole(np.log2(largest))) if largest > 0 else 1.0)


def _whole(powers: ArrayLike) -> Floats:
    """Whole powers of two, none so large that a product of two would be infinite."""
    return np.asarray(np.clip(np.rint(powers), -LARGEST, LARGEST), dtype=np.float64)


def _middle(values: Floats, index: Ints, count: int) -> Floats:
    """float64[count]: half way between the least and the largest value at each place; 0 where there is none."""
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, index, values)
    np.maximum.at(most, index, values)
    some = np.isfinite(least)
    return np.where(some, 0.5 * (np.where(some, least, 0.0) + np.where(some, most, 0.0)), 0.0)


Vector = Floats


def residual(program: LpArrays, x: Vector) -> float:
    """Largest violation by x: rows and bounds relative to 1 + |bound|, and integrality; inf if x is not finite."""
    if len(x) != program.columns or not np.isfinite(x).all():
        return float("inf")
    worst = 0.0
    for value, low, high in (
        (x, program.lower, program.upper),
        (program.matrix() @ x, program.row_lower, program.row_upper),
    ):
        for excess, bound in ((low - value, low), (value - high, high)):
            finite = np.isfinite(bound)
            if finite.any():
                worst = max(worst, float((excess[finite] / (1.0 + np.abs(bound[finite]))).max()))
    # An infinite bound on the wrong side (x >= inf) admits nothing.
    if any((bad).any() for bad in (np.isposinf(program.lower), np.isneginf(program.upper))):
        return float("inf")
    if any((bad).any() for bad in (np.isposinf(program.row_lower), np.isneginf(program.row_upper))):
        return float("inf")
    whole = program.is_integer
    if whole.any():
        worst = max(worst, float(np.abs(x[whole] - np.rint(x[whole])).max()))
    return worst


def polished(program: LpArrays, x: Vector, tolerance: float) -> Vector:
    """x with bounds respected and integers rounded, where that does not break a row; else x."""
    tidy = np.clip(x, program.lower, program.upper) if bool((program.lower <= program.upper).all()) else x.copy()
    whole = program.is_integer
    tidy[whole] = np.rint(tidy[whole])
    return tidy if residual(program, tidy) <= tolerance else x


def dual_bound(
    program: LpArrays, row_dual: Vector, x: Vector | None = None, *, tolerance: float = 1e-9
) -> tuple[float, Vector]:
    """Value of the Lagrangian with these row prices, and the reduced costs cost - row_dual A (float64[columns]).

    By weak duality it is a lower bound on the linear relaxation for any prices at all, and -inf when a reduced cost
    asks for a bound that does not exist. A reduced cost below `tolerance` (relative to 1 + the largest cost) that does
    so counts for |reduced cost * x| instead of for minus infinity: solvers leave such dust on columns without bounds.
    """
    scale = 1.0 + float(np.abs(program.cost).max(initial=0.0))
    prices = row_dual.copy()
    prices[(prices > 0) & np.isneginf(program.row_lower)] = 0.0
    prices[(prices < 0) & np.isposinf(program.row_upper)] = 0.0
    reduced = program.cost - program.matrix().T @ prices
    total = 0.0
    for price, low, high in ((prices, program.row_lower, program.row_upper), (reduced, program.lower, program.upper)):
        side = np.where(price > 0, low, high)
        negligible = (np.abs(price) <= tolerance * scale) & ~np.isfinite(side)
        used = (price != 0) & ~negligible
        total += float((price[used] * side[used]).sum())
        if x is not None and price is reduced:
            total -= float(np.abs(price[negligible] * x[negligible]).sum())
    return (total if np.isfinite(total) else float("-inf")), reduced


def judged(program: LpArrays, limits: SolverLimits, claim: Claim, start: Vector | None) -> LpResult:
    """The result that a claim and a start support once both are checked."""
    notes = [claim.message] if claim.message else []
    candidates: list[tuple[float, bool, Vector, float]] = []  # objective, is start, point, residual
    for point, is_start in ((claim.x, False), (start, True)):
        if point is None or (claim.unbounded and not is_start):  # an unbounded program's point means nothing
            continue
        if len(point) == program.columns and np.isfinite(point).all():
            tidy = polished(program, np.asarray(point, dtype=np.float64), limits.feasibility)
        else:
            tidy = point
        broken = residual(program, tidy)
        if broken <= limits.feasibility:
            candidates.append((float(program.cost @ tidy), is_start, tidy, broken))
        elif is_start:
            notes.append(f"the start is not feasible (residual {broken:.2g})")
        elif claim.status in (Status.OPTIMAL, Status.FEASIBLE):
            notes.append(f"claimed solution violates the program (residual {broken:.2g}): not accepted")

    bound, column_dual = claim.bound, None
    if claim.row_dual is not None and not program.has_integers:
        bound, column_dual = dual_bound(
            program, claim.row_dual, candidates[0][2] if candidates else None, tolerance=limits.optimality
        )
    if bound is not None and not np.isfinite(bound):
        bound = None
    if not candidates:
        status = Status.INFEASIBLE if claim.status is Status.INFEASIBLE else Status.UNKNOWN
        stop = claim.stopped_by
        if claim.status in (Status.OPTIMAL, Status.FEASIBLE) and stop is StopReason.CONVERGED:
            stop = StopReason.ERROR
        return LpResult(
            status, stop, None, None, "; ".join(notes), bound, claim.row_dual, column_dual,
            raw_x=claim.x, unbounded=claim.unbounded, algorithm=claim.algorithm,
        )  # fmt: skip

    objective, from_start, x, broken = min(candidates, key=lambda entry: (entry[0], entry[1]))
    slack = limits.optimality * (1.0 + abs(objective))
    status, stop = Status.FEASIBLE, claim.stopped_by
    if claim.status is Status.INFEASIBLE:
        notes.append("a feasible point is known, so the claim of infeasibility is wrong: not accepted")
        stop = StopReason.ERROR
    if bound is not None and bound > objective + slack:
        notes.append(f"claimed bound {bound:.9g} exceeds the objective {objective:.9g} of a feasible point: dropped")
        bound, stop = None, StopReason.ERROR
    elif claim.status is Status.OPTIMAL or stop in (StopReason.TIME, StopReason.BUDGET, StopReason.GAP):
        if bound is not None and objective - bound <= slack:
            status = Status.OPTIMAL
        elif claim.status is Status.OPTIMAL:
            if bound is None:
                notes.append("claimed optimal without a bound that proves it")
            else:
                notes.append(f"claimed optimal, but the bound recomputed is {bound:.9g} against {objective:.9g}")
                stop = StopReason.GAP if stop is StopReason.CONVERGED else stop
    return LpResult(
        status, stop, x, objective, "; ".join(notes), bound, claim.row_dual, column_dual, broken,
        raw_x=claim.x, unbounded=claim.unbounded, algorithm=claim.algorithm, from_start=from_start,
    )  # fmt: skip


@dataclass(frozen=True)
class Engine:
    """A library, loaded.

    Attributes:
        run: solves and translates.
        options: names of the options it passes through, in the library's words.
        status_map: ours of each of its statuses.
        statuses: all statuses the installed library declares.
    """

    run: RunBackend
    options: frozenset[str]
    status_map: Mapping[str, tuple[Status, StopReason]]
    statuses: tuple[str, ...]


@dataclass(frozen=True)
class Backend:
    """One line of the table of backends; calling it solves.

    Attributes:
        name: in the table.
        library: package and solver, for people.
        features: what it can do.
        load: imports the library.
    """

    name: str
    library: str
    features: Features
    load: Callable[[], Engine]

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
        limits, options = limits or SolverLimits(), options or {}
        refuse(self, program, options, start)
        claim = trivial(program)
        if claim is not None:
            return judged(program, limits, claim, start)
        scaling = scaling_of(program) if self.features.continuous else None
        task = SolverTask(program, limits, options, start, on_incumbent)
        result = self._in_units(scaling, task)
        if scaling is not None and result.x is None and result.stopped_by is StopReason.ERROR:
            # No units suit numbers that lie too far apart; as they are given they may do.
            result = self._in_units(None, task)
        return result

    def _in_units(self, scaling: Scaling | None, task: SolverTask) -> LpResult:
        """Solve and check a program in the units of a scaling; None: as it is."""
        if scaling is None:
            return judged(task.program, task.limits, self._ran(task), task.start)
        telling = None if task.on_incumbent is None else scaling.telling(task.on_incumbent)
        start = None if task.start is None else scaling.point(task.start)
        scaled = replace(task, program=scaling.applied(task.program), start=start, on_incumbent=telling)
        return scaling.back(self._in_units(None, scaled))

    def covers(self, program: LpArrays) -> str | None:
        """None if the features cover the program, else what is missing, in words."""
        if program.has_integers and not self.features.integer:
            return "integer variables"
        if not program.is_integer.all() and not self.features.continuous:
            first = program.column_name(int(np.argmin(program.is_integer)))
            return f"continuous variables ({first} is one)"
        return None

    def _ran(self, task: SolverTask) -> Claim:
        claim = self.load().run(task)
        failed = claim.status is Status.UNKNOWN and claim.stopped_by is StopReason.ERROR
        # Several libraries answer "not solved" for a time limit; past the limit that is what it was.
        return replace(claim, stopped_by=StopReason.TIME) if failed and task.time_left_s() == 0.0 else claim


def refuse(backend: Backend, program: LpArrays, options: Options, start: Floats | None) -> None:
    """Raise InputError, with all problems, for what the backend cannot take at all."""
    problems = [Problem(issue, path="program") for issue in shape_errors(program)]
    if not problems and (missing := backend.covers(program)) is not None:
        problems.append(Problem(f"{backend.name} cannot solve programs with {missing}", path="program"))
    if not problems and start is not None and len(start) != program.columns:
        problems.append(Problem(f"has {len(start)} entries, not {program.columns}", path="start"))
    accepted = backend.load().options if options else frozenset()
    for name in options:
        if name not in accepted:
            close = get_close_matches(name, sorted(accepted), n=3, cutoff=0.5)
            hint = f"close to: {', '.join(close)}" if close else f"one of {len(accepted)} options of {backend.library}"
            problems.append(Problem(f"unknown option of {backend.name}", path=name, allowed=hint))
    raise_any(problems)


def trivial(program: LpArrays) -> Claim | None:
    """The answer to programs that need no solver and that libraries answer differently; None for all others."""
    # A bound of +inf below or -inf above leaves nothing too.
    column_bad = (program.lower > program.upper) | np.isposinf(program.lower) | np.isneginf(program.upper)
    if column_bad.any():
        name = program.column_name(int(np.argmax(column_bad)))
        return Claim(Status.INFEASIBLE, StopReason.CONVERGED, f"the bounds of {name} leave no value")
    row_bad = (program.row_lower > program.row_upper) | np.isposinf(program.row_lower) | np.isneginf(program.row_upper)
    empty = np.bincount(program.index, minlength=program.rows) == 0
    row_bad |= empty & ((program.row_lower > 0) | (program.row_upper < 0))
    if row_bad.any():
        name = program.row_name(int(np.argmax(row_bad)))
        return Claim(Status.INFEASIBLE, StopReason.CONVERGED, f"the bounds of {name} leave no value")
    if program.columns == 0:
        return Claim(
            Status.OPTIMAL, StopReason.CONVERGED, "no variables", np.zeros(0), 0.0, np.zeros(program.rows)
        )  # fmt: skip
    return None


def bad_option(backend: str, name: str, value: object) -> InputError:
    """The error of an option whose value the library refuses."""
    return InputError([Problem(f"{backend} refuses the value", path=name, value=repr(value))])
