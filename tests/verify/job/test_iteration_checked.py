"""What a job's solution says of its iteration is simulated again: a solution changed in any of it is rejected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.support.paths import INSTANCES
from topoopt.core.result import Objective, Result
from topoopt.kinds.files import read_instance
from topoopt.kinds.job.figures import JobFigures
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import FULL, CheckDepth
from topoopt.verify.job.check import CHECKER

INSTANCE = "tiny-4.yaml"


@cache
def solved():
    """A small job with its baselines."""
    instance = read_instance(INSTANCES / INSTANCE)
    return instance, solve(instance, SolveOptions(budget=20, seed=1))


def timed(result: Result[Any, Any], factor: float) -> Result[Any, Any]:
    """Another time, and a bound that is no larger."""
    total = factor * result.objective.value
    bound = replace(result.bound, value=min(result.bound.value, total))
    return replace(result, objective=Objective("iteration_time", total, "ms"), bound=bound)


def compared(result: Result[Any, Any], change: Callable[[Any], Any]) -> Result[Any, Any]:
    """Other strategies on the other fabrics."""
    comparison = result.plan.comparison
    rows = tuple(change(comparison.strategies))
    return replace(result, plan=replace(result.plan, comparison=replace(comparison, strategies=rows)))


CHANGES = {
    "6.9 % less, with everything that depends on it": (lambda r: timed(r, 0.931), "iteration-time"),
    "6.9 % more": (lambda r: timed(r, 1.069), "iteration-time"),
    "just beyond the tolerance": (lambda r: timed(r, 1 + 3e-6), "iteration-time"),
    "another unit": (lambda r: replace(r, objective=replace(r.objective, unit="us")), "objective"),
    "another objective": (lambda r: replace(r, objective=replace(r.objective, name="makespan")), "objective"),
    "a fabric with no strategy": (
        lambda r: compared(r, lambda rows: (replace(rows[0], strategy=replace(rows[0].strategy, placements=())),)),
        "comparison",
    ),
    "fabrics in another order": (lambda r: compared(r, lambda rows: rows[::-1]), "comparison"),
    "a fabric twice": (lambda r: compared(r, lambda rows: (*rows, rows[-1])), "comparison"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_figure_is_rejected(change: str) -> None:
    """By its own code, and nothing was left out that could have told."""
    instance, solution = solved()
    spoil, code = CHANGES[change]
    findings = CHECKER(instance, spoil(solution), FULL)
    assert code in {violation.code for violation in findings.violations}


def test_the_solution_itself_holds() -> None:
    """Everything is recomputed, in a solve too, as the job is small."""
    instance, solution = solved()
    findings = CHECKER(instance, solution, FULL)
    assert findings.violations == ()
    assert findings.not_recomputed == solution.check.not_recomputed == ()


def test_without_the_price_book_what_follows_from_it_is_left_out() -> None:
    """No prices, and no rate of the fat-tree of equal cost; the other fabrics are there."""
    _, solution = solved()
    comparison = replace(solution.plan.comparison, book_sha256="0" * 64)
    figures = JobFigures(solution.problem, replace(solution.plan, comparison=comparison))
    assert figures.prices is None
    assert {line.fabric for line in solution.figures.baselines} - {line.fabric for line in figures.baselines} == {
        "fat-tree"
    }


def test_a_quick_check_names_what_it_leaves_out() -> None:
    """It passes what the full one passes, and says which figures it did not look at."""
    instance, solution = solved()
    findings = CHECKER(instance, solution, CheckDepth(events=0))
    assert findings.ok
    left_out = {each.figure: each.reason for each in findings.not_recomputed}
    assert "quick" in left_out["iteration time"]


def test_a_plan_that_takes_too_long_to_simulate_is_left_out_and_said_to_be() -> None:
    """A thousand rings for every group make a thousand times the events: no file keeps the checker busy for hours."""
    instance, solution = solved()
    groups = tuple(
        replace(group, rings=tuple(replace(ring, share=ring.share / 1000) for ring in group.rings for _ in range(1000)))
        for group in solution.plan.rings
    )
    slow = replace(solution, plan=replace(solution.plan, rings=groups))
    findings = CHECKER(instance, slow, CheckDepth(events=10_000))
    reasons = {each.figure: each.reason for each in findings.not_recomputed}
    assert "events" in reasons["iteration time"]
