"""What solutions of all kinds have: the gap, the verdict of the checker; and the options that replace settings."""

from __future__ import annotations

import math

import pytest

from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import UNCHECKED, CheckResult, LeftOut, Objective, SearchSettings, SolutionHead


def head(value: float, bound: float) -> SolutionHead:
    """A head with this objective and bound."""
    return SolutionHead(
        name="n",
        kind="k",
        status=Status.OPTIMAL,
        stopped_by=StopReason.CONVERGED,
        objective=Objective("time", value, "ms"),
        bound=Bound(bound, Argument.NODE_CUT),
        check=UNCHECKED,
        seed=0,
        method="m",
        instance_sha256="",
        versions=(),
    )


@pytest.mark.parametrize(("value", "bound", "gap"), [(4.0, 3.0, 0.25), (4.0, 4.0, 0.0), (0.0, 0.0, 0.0)])
def test_gap_is_relative_to_the_objective(value: float, bound: float, gap: float) -> None:
    """The gap is (objective - bound) / objective, 0 for an objective of 0."""
    assert head(value, bound).gap == gap


def test_gap_is_not_negative() -> None:
    """A bound that rounding lifts above the objective leaves no gap."""
    assert head(1.0, math.nextafter(1.0, 2.0)).gap == 0.0


def test_gap_of_no_number_is_none() -> None:
    """NaN as a bound is not taken for a gap of 0."""
    assert math.isnan(head(1.0, math.nan).gap)


def test_verdict_without_violations_keeps_the_status() -> None:
    """A solution that passes stays what it was."""
    judged = head(1.0, 1.0).judged(())
    assert (judged.check, judged.status, judged.stopped_by) == (
        CheckResult(True, ()),
        Status.OPTIMAL,
        StopReason.CONVERGED,
    )


def test_verdict_with_violations_takes_the_status_away() -> None:
    """A solution that is rejected is no solution, and says why."""
    judged = head(1.0, 1.0).judged(["flow: too much"])
    assert (judged.check, judged.status, judged.stopped_by) == (
        CheckResult(False, ("flow: too much",)),
        Status.UNKNOWN,
        StopReason.ERROR,
    )


def test_options_replace_settings_unless_left_out() -> None:
    """0 is an option like any other; None leaves the setting of the instance."""
    settings = SearchSettings(method="exact", budget=5, time_limit_s=2.0, seed=3)
    assert settings.but(seed=0, time_limit_s=0.0, budget=None) == SearchSettings("exact", 5, 0.0, 0)


def test_what_a_check_leaves_out_stands_in_the_solution() -> None:
    """A verdict keeps the figures that were not recomputed, with the reason, whether or not it passes."""
    left_out = (LeftOut("iteration time", "--quick"),)
    assert head(1.0, 1.0).judged((), left_out).check == CheckResult(True, (), left_out)
    assert head(1.0, 1.0).judged(["flow: too much"], left_out).check.not_recomputed == left_out
