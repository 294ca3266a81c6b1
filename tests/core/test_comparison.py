"""Gaps of runs set side by side, on runs made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoopt.core.outcomes import ComparedRun, best_of, compared
from topoopt.core.proofs import Argument, Bound


def cut(value: float) -> Bound:
    """A verified bound."""
    return Bound(value, Argument.NODE_CUT)


RUN = ComparedRun("a.yaml", "a", "routing", "m", 0, "feasible", "time", "theta", "", 4.0, cut(2.0), None, "", True, 1.0)
NOTHING = replace(RUN, outcome="limit", stopped_by="", value=None, bound=None, checked=False)


def test_gaps_are_to_the_best_value_and_the_best_bound() -> None:
    """Values 4 and 5, bounds 2 and 3 of different runs: 5 is 25 % above the best, (5 - 3) / 5 above the bound."""
    rows = compared([RUN, replace(RUN, method="n", value=5.0, bound=cut(3.0)), NOTHING])
    assert [row.gap_to_best for row in rows] == [0.0, 0.25, None]
    assert [row.gap_to_bound for row in rows] == [0.25, pytest.approx(0.4), None]
    assert not any(row.proven for row in rows)


def test_a_bound_that_is_met_proves_all_rows() -> None:
    """One run proves 4, another reaches it: both gaps are to the optimum."""
    rows = compared([RUN, replace(RUN, method="n", value=5.0, bound=cut(4.0))])
    assert all(row.proven for row in rows)
    assert [row.gap_to_best for row in rows] == [0.0, 0.25]
    assert rows[1].gap_to_bound == pytest.approx(0.2)


def test_maximising_turns_the_gaps_round() -> None:
    """Values 4 and 5 under upper bounds 8 and 10: the best is 5, the tightest bound 8."""
    more = replace(RUN, maximise=True, bound=cut(8.0))
    rows = compared([more, replace(more, value=5.0, bound=cut(10.0))])
    assert [row.gap_to_best for row in rows] == [0.25, 0.0]
    assert [row.gap_to_bound for row in rows] == [0.5, pytest.approx(3 / 8)]
    assert best_of([more, replace(more, value=8.0)]).proven


def test_instances_are_kept_apart_by_file() -> None:
    """Two files with instances of one name set no best for each other."""
    rows = compared([RUN, replace(RUN, file="b.yaml", value=1.0, bound=cut(1.0))])
    assert [row.gap_to_best for row in rows] == [0.0, 0.0]
    assert [row.proven for row in rows] == [False, True]


def test_rejected_runs_set_no_best() -> None:
    """A value and a bound the checker rejects count for nothing, but have gaps to the others."""
    bad = replace(RUN, value=1.0, bound=cut(3.9), checked=False)
    assert bad.rejected
    rows = compared([RUN, bad])
    assert rows[0].gap_to_best == 0.0
    assert rows[0].gap_to_bound == 0.5
    assert compared([bad])[0].gap_to_best is None


def test_a_value_below_the_bound_of_another_is_a_contradiction() -> None:
    """4 cannot be reached when another run proves 4.1; rounding is no contradiction."""
    assert best_of([RUN, replace(RUN, value=5.0, bound=cut(4.1))]).contradicted
    assert not best_of([RUN, replace(RUN, value=5.0, bound=cut(4.0 + 1e-9))]).contradicted
    assert not best_of([RUN]).contradicted


def test_zero_and_nothing() -> None:
    """A value of 0 is at its bound of 0; beside 4 its gap has no number; nothing found has no best."""
    zero = replace(RUN, value=0.0, bound=cut(0.0))
    rows = compared([zero, RUN])
    assert (rows[0].gap_to_best, rows[0].gap_to_bound) == (0.0, 0.0)
    assert (rows[1].gap_to_best, rows[1].gap_to_bound) == (None, 0.5)
    assert best_of([NOTHING]).value is None
    assert best_of([]).by is None


def scaled_cut(run: ComparedRun, factor: float) -> Bound:
    """Its bound in another unit."""
    assert run.bound is not None
    return replace(run.bound, value=factor * run.bound.value)


numbers = st.floats(0.1, 100.0)


@given(pairs=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6), factor=st.floats(0.01, 100.0))
@settings(max_examples=80)
def test_gaps_do_not_depend_on_the_unit(pairs: list[tuple[float, float]], factor: float) -> None:
    """Scaling all values and bounds leaves the gaps, the best has none, and no gap is negative."""
    runs = [replace(RUN, seed=i, value=low + more, bound=cut(low)) for i, (low, more) in enumerate(pairs)]
    rows = compared(runs)
    scaled = compared([replace(run, value=factor * run.value, bound=scaled_cut(run, factor)) for run in runs])  # type: ignore[operator]
    for row, other in zip(rows, scaled, strict=True):
        assert row.gap_to_best == pytest.approx(other.gap_to_best, abs=1e-12)
        assert row.gap_to_bound == pytest.approx(other.gap_to_bound, abs=1e-12)
        assert row.gap_to_bound is not None
        assert 0 <= row.gap_to_bound < 1
    assert min(row.gap_to_best or 0.0 for row in rows) == 0.0
