"""What a value and a bound amount to, settled in one place: status, reasons to stop, tolerances.

What we know of a result and why the run that made it stopped are two separate things. Whatever holds a value against
a bound, the assembly of a solution, its checker or a comparison of runs, takes its tolerance from the table here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from topoopt.core.errors import CheckError
from topoopt.core.proofs import Bound


class Status(StrEnum):
    """What is proven about the returned plan."""

    OPTIMAL = "optimal"  # checked value equals a proven bound
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class StopReason(StrEnum):
    """Why the search ended."""

    CONVERGED = "converged"
    BUDGET = "budget"
    TIME = "time"
    MEMORY = "memory"
    GAP = "gap"
    INTERRUPTED = "interrupted"
    ERROR = "error"


class Tolerance(Enum):
    """Every tolerance for figures that should agree: the part of the larger one by which they may differ, and why."""

    ROUNDING = 1e-9, "sums of up to millions of doubles, added in another order"
    TANGENTS = 1.01e-9, "tangents are added down to a gap of 1e-9; what rounding may have added is taken off the bound"
    TIMES_ROUNDED_DOWN = 1e-7, "programs in integers count times rounded down to about 1e-8 of the largest"
    LONG_SUMS = 1e-7, "thousands of times, each the sum of many steps, are added up"
    EVENTS = 1e-6, "simulators add up many small spans of time, and may join events that are almost at once"
    LINEAR_PROGRAM = 1e-6, "solvers of linear programs meet constraints and optimality to about this much"
    FORMULA = (
        1e-5,
        "bounds with multipliers searched anew reach other multipliers on another processor: so much is left",
    )
    TIE = 1e-3, "bandwidths are found to about 1e-4, so that times this close are equal as far as we can tell"

    def __init__(self, relative: float, reason: str) -> None:
        self.relative = relative
        self.reason = reason

    def of(self, *figures: float) -> float:
        """By how much figures of this size may differ; 0 if the largest is not finite."""
        largest = max(map(abs, figures))
        return self.relative * largest if math.isfinite(largest) else 0.0


def meets(value: float, bound: float, tolerance: Tolerance, *, maximise: bool = False, absolute: float = 0.0) -> bool:
    """Whether a value is as good as its bound, so that nothing better exists; figures that are not finite never are.

    Args:
        value, bound: of the objective, in its unit.
        tolerance: how far apart they may be.
        maximise: whether the bound is an upper one.
        absolute: what they may differ besides, in their unit.
    """
    distance = bound - value if maximise else value - bound
    return math.isfinite(distance) and distance <= tolerance.of(value, bound) + absolute


def beats(value: float, bound: float, tolerance: Tolerance, *, maximise: bool = False, absolute: float = 0.0) -> bool:
    """Whether a value is better than its bound, so that one of them is wrong; NaN always is.

    Arguments as of `meets`.
    """
    distance = bound - value if maximise else value - bound
    return not distance >= -(tolerance.of(value, bound) + absolute)


def gap(value: float, bound: float, *, maximise: bool = False) -> float:
    """Part of the larger of the two by which a value may be from the best; 0 at its bound and past it.

    Arguments as of `meets`. NaN where one of them is NaN.
    """
    distance, larger = bound - value if maximise else value - bound, max(abs(value), abs(bound))
    if math.isinf(larger) and not math.isnan(distance):
        return 1.0 if distance > 0 else 0.0
    part = distance / larger if larger > 0 else 0.0
    return 0.0 if part < 0 else part  # not max(), which would make 0 of NaN


def capped(
    bound: float,
    value: float,
    tolerance: Tolerance = Tolerance.ROUNDING,
    *,
    maximise: bool = False,
    absolute: float = 0.0,
) -> float:
    """The bound as it is stated: rounding that carries it past the value that reaches it is taken off.

    Arguments as of `meets`.

    Raises:
        CheckError: the value is better than the bound by more than rounding, or one of them is NaN.
    """
    if beats(value, bound, tolerance, maximise=maximise, absolute=absolute):
        raise CheckError(f"the value {value!r} is better than its bound {bound!r}: one of them is wrong")
    return max(bound, value) if maximise else min(bound, value)


@dataclass(frozen=True)
class Settled:
    """What a checked value and bounds on it amount to.

    Attributes:
        status: `optimal` or `feasible`.
        bound: the tightest that the checker derives again, as it is stated.
        claimed_bound: a tighter one that rests on somebody's word; None where there is none.
    """

    status: Status
    bound: Bound
    claimed_bound: Bound | None = None


def settle(
    value: float,
    bounds: Iterable[Bound],
    tolerance: Tolerance,
    *,
    rounding: Tolerance = Tolerance.ROUNDING,
    maximise: bool = False,
    absolute: float = 0.0,
    conclusive: bool = True,
) -> Settled:
    """What a checked value and bounds on it amount to; only a verified bound makes it optimal.

    A claimed bound that the value contradicts counts for nothing.

    Args:
        value: of the objective, computed from the plan; finite.
        bounds: from below (above if `maximise`), at least one of them verified; infinite where nothing is proven.
        tolerance: gap up to which the value counts as optimal.
        rounding: by how much rounding may carry a bound past the value.
        maximise: whether more is better.
        absolute: what may be rounding besides, in the unit of the objective.
        conclusive: whether a value at its bound says that the plan is optimal; not where it was cut short, or where
            the objective is only the first of several figures.

    Raises:
        CheckError: the value is not finite, or better than a verified bound by more than rounding.
        ValueError: no bound is verified.
    """
    if not math.isfinite(value):
        raise CheckError(f"a plan has the value {value!r}")
    given = list(bounds)
    tightest = min if maximise else max
    proven = tightest((one for one in given if one.verified), key=lambda one: one.value)
    stated = capped(proven.value, value, rounding, maximise=maximise, absolute=absolute)
    optimal = conclusive and meets(value, stated, tolerance, maximise=maximise, absolute=absolute)
    claimed = [
        replace(one, value=capped(one.value, value, rounding, maximise=maximise, absolute=absolute))
        for one in given
        if not one.verified and not beats(value, one.value, rounding, maximise=maximise, absolute=absolute)
    ]
    best = tightest(claimed, key=lambda one: one.value, default=None)
    return Settled(
        Status.OPTIMAL if optimal else Status.FEASIBLE,
        replace(proven, value=stated),
        best if best is not None and beats(stated, best.value, rounding, maximise=maximise) else None,
    )
