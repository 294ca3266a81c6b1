"""What the checker proves of a placement by trying everything, where that is little work."""

from __future__ import annotations

from collections.abc import Iterable

from solvers.stop import Stop
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.proofs import Bound
from topoopt.core.verdict import Tolerance, meets
from topoopt.verify.placement.arguments import tried_again as derivations

FEW_ASSIGNMENTS = 4**10
"""Assignments of co-located groups to devices that are tried whatever is claimed."""

FEW_OPERATORS = 8
"""The same for schedules."""

FULL_S = 10.0
"""Seconds left with which the whole effort of a check is spent; with less, as much less."""


def tried_again(problem: PlacementProblem, value: float, known: Iterable[Bound], stop: Stop) -> tuple[Bound, ...]:
    """A verified bound on the objective, if a claim says that nothing is better than the value, or problems are small.

    None where a bound that is verified already says so.

    Args:
        problem: any.
        value: of the placement found, ms.
        known: bounds of formulas and of the search.
        stop: no more is tried than a part of the time left allows.
    """
    if isinstance(problem.objective, Throughput):
        few = len(problem.devices) ** len(problem.colocated()) <= FEW_ASSIGNMENTS
    else:
        few = len(problem.operators) <= FEW_OPERATORS
    closed = [bound for bound in known if meets(value, bound.value, Tolerance.TIMES_ROUNDED_DOWN)]
    if any(bound.verified for bound in closed) or not (few or closed):
        return ()
    left = stop.remaining_s()
    share = 1.0 if left is None else min(1.0, left / FULL_S)
    if stop.interrupted.is_set():
        return ()
    for argument, derive in derivations(problem, value, share).items():
        try:
            return (Bound(derive(), argument),)
        except ValueError:  # too much of it
            continue
    return ()
