"""A value and a bound settle into what is stated of them: no rounding and no fault may pass for a proof."""

import math

import pytest

from topoopt.core.errors import CheckError
from topoopt.core.proofs import Argument, Bound, Settled, Status, Tolerance, beats, capped, meets, settle


def proven(value: float) -> Bound:
    """A verified bound."""
    return Bound(value, Argument.NODE_CUT)


def claimed(value: float) -> Bound:
    """A bound on a solver's word."""
    return Bound(value, Argument.TOPOLOGY_BRANCHING)


@pytest.mark.parametrize(
    ("value", "bound", "maximise", "stated", "status"),
    [
        (10.0, 10.0, False, 10.0, Status.OPTIMAL),
        (10.0, 10.0 + 5e-9, False, 10.0, Status.OPTIMAL),  # rounding lifts a lower bound above what reaches it
        (10.0, 10.0 - 5e-9, True, 10.0, Status.OPTIMAL),  # and drops an upper bound below
        (10.0, 10.0 - 9e-6, False, 10.0 - 9e-6, Status.OPTIMAL),  # inside the gap of a linear program
        (10.0, 10.0 + 9e-6, True, 10.0 + 9e-6, Status.OPTIMAL),
        (10.0, 9.9999, False, 9.9999, Status.FEASIBLE),
        (10.0, 10.0001, True, 10.0001, Status.FEASIBLE),
        (10.0, -math.inf, False, -math.inf, Status.FEASIBLE),  # nothing is proven
        (10.0, math.inf, True, math.inf, Status.FEASIBLE),
        (0.0, 0.0, False, 0.0, Status.OPTIMAL),
        (0.0, -1.0, False, -1.0, Status.FEASIBLE),
        (-3.0, -3.0 + 2e-9, False, -3.0, Status.OPTIMAL),
    ],
)
def test_a_value_and_a_bound_settle(value, bound, maximise, stated, status):
    verdict = settle(value, (proven(bound),), Tolerance.LINEAR_PROGRAM, maximise=maximise)
    assert (verdict.bound, verdict.status, verdict.claimed_bound) == (proven(stated), status, None)


@pytest.mark.parametrize(
    ("value", "bound", "maximise"),
    [
        (10.0, 10.0 + 1e-7, False),
        (10.0, 10.0 - 1e-7, True),
        (0.0, 1e-12, False),  # a part of nothing is nothing
        (10.0, math.inf, False),
        (10.0, -math.inf, True),
        (10.0, math.nan, False),
        (math.nan, 1.0, False),
        (math.inf, 1.0, False),
        (-math.inf, 1.0, False),
    ],
)
def test_a_value_better_than_its_bound_is_an_error(value, bound, maximise):
    with pytest.raises(CheckError):
        settle(value, (proven(bound),), Tolerance.LINEAR_PROGRAM, maximise=maximise)


def test_a_value_at_its_bound_that_was_cut_short_is_not_optimal():
    verdict = settle(1.0, (proven(1.0),), Tolerance.ROUNDING, conclusive=False)
    assert verdict == Settled(Status.FEASIBLE, proven(1.0))


def test_an_absolute_part_is_forgiven_around_zero():
    verdict = settle(0.0, (proven(1e-10),), Tolerance.ROUNDING, absolute=1e-9)
    assert verdict == Settled(Status.OPTIMAL, proven(0.0))


def test_a_claimed_bound_never_makes_optimal():
    """It stands beside the verified one where it is tighter, capped at the value like that."""
    verdict = settle(10.0, (claimed(10.0 + 1e-9), proven(8.0)), Tolerance.LINEAR_PROGRAM)
    assert verdict == Settled(Status.FEASIBLE, proven(8.0), claimed(10.0))
    verdict = settle(10.0, (claimed(12.0), claimed(11.0), proven(13.0)), Tolerance.LINEAR_PROGRAM, maximise=True)
    assert verdict == Settled(Status.FEASIBLE, proven(13.0), claimed(11.0))


@pytest.mark.parametrize("value", [8.0, 7.0, 8.0 * (1 + 1e-10), 10.1, math.inf, math.nan])
def test_a_claim_that_says_less_or_is_contradicted_counts_for_nothing(value):
    assert settle(10.0, (proven(8.0), claimed(value)), Tolerance.LINEAR_PROGRAM).claimed_bound is None


def test_without_a_verified_bound_nothing_settles():
    with pytest.raises(ValueError, match="empty"):
        settle(10.0, (claimed(9.0),), Tolerance.LINEAR_PROGRAM)


def test_a_wider_rounding_caps_what_the_usual_one_refuses():
    with pytest.raises(CheckError):
        capped(1.0 + 5e-8, 1.0)
    assert capped(1.0 + 5e-8, 1.0, Tolerance.TIMES_ROUNDED_DOWN) == 1.0


def test_meeting_and_beating_never_hold_for_what_is_no_number():
    for value, bound in ((math.nan, 1.0), (1.0, math.nan), (math.inf, math.inf)):
        assert not meets(value, bound, Tolerance.TIE)
        assert beats(value, bound, Tolerance.TIE)


def test_every_tolerance_has_a_reason_of_its_own():
    assert len({tolerance.reason for tolerance in Tolerance}) == len(Tolerance)
    assert all(0 < tolerance.relative <= 1e-3 and tolerance.reason for tolerance in Tolerance)
