"""What a job's solution says of its iteration is simulated again: a solution changed in any of it is rejected."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.support.paths import INSTANCES
from topoopt.core.job_solution import ConvergencePoint, JobSolution
from topoopt.core.solution import Objective
from topoopt.kinds.instance_file import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.job.check import check_solution
from topoopt.verify.laws.findings import FULL, CheckDepth

INSTANCE = "tiny-4.yaml"


@cache
def solved():
    """A small job with its baselines."""
    instance = read_instance(INSTANCES / INSTANCE)
    return instance, solve(instance, SolveOptions(budget=20, seed=1))


def evaluated(solution: JobSolution, **changes) -> JobSolution:
    return replace(solution, evaluation=replace(solution.evaluation, **changes))


def broken_down(solution: JobSolution, **changes) -> JobSolution:
    return evaluated(solution, breakdown=replace(solution.evaluation.breakdown, **changes))


def squeezed(solution: JobSolution, factor: float) -> JobSolution:
    """All times of the iteration so much shorter, and everything that depends on them."""
    evaluation = solution.evaluation
    total = factor * evaluation.iteration_time_ms
    terms = ("compute_ms", "model_parallel_ms", "allreduce_ms", "idle_ms")

    def shorter(spans):
        return tuple(replace(span, start_ms=factor * span.start_ms, end_ms=factor * span.end_ms) for span in spans)

    changed = evaluated(
        solution,
        iteration_time_ms=total,
        breakdown=replace(
            evaluation.breakdown, **{name: factor * getattr(evaluation.breakdown, name) for name in terms}
        ),
        timeline=shorter(evaluation.timeline),
        critical_path=shorter(evaluation.critical_path),
        link_utilisation=evaluation.link_utilisation / factor,
    )
    last = solution.convergence[-1]
    return replace(
        changed,
        objective=Objective("iteration_time", total, "ms"),
        convergence=(*solution.convergence[:-1], ConvergencePoint(last.proposals, last.phase, total)),
        bound=replace(solution.bound, value=min(solution.bound.value, total)),
    )


def another_bar(solution: JobSolution, **changes) -> JobSolution:
    first, *rest = solution.evaluation.timeline
    return evaluated(solution, timeline=(replace(first, **changes), *rest))


CHANGES = {
    "6.9 % less, with everything that depends on it": (lambda s: squeezed(s, 0.931), "iteration-time"),
    "6.9 % more": (lambda s: squeezed(s, 1.069), "iteration-time"),
    "just beyond the tolerance": (lambda s: squeezed(s, 1 + 3e-6), "iteration-time"),
    "half the operators": (lambda s: replace(s, operators=s.operators[::2]), "operators"),
    "an operator on other servers": (
        lambda s: replace(s, operators=(replace(s.operators[0], servers=()), *s.operators[1:])),
        "operators",
    ),
    "an operator as it is not split": (
        lambda s: replace(s, operators=(replace(s.operators[0], split="x3"), *s.operators[1:])),
        "operators",
    ),
    "no timeline": (lambda s: evaluated(s, timeline=()), "timeline"),
    "a bar left out": (lambda s: evaluated(s, timeline=s.evaluation.timeline[1:]), "timeline"),
    "a bar twice": (lambda s: evaluated(s, timeline=(s.evaluation.timeline[0], *s.evaluation.timeline)), "timeline"),
    "a bar of another server": (lambda s: another_bar(s, lane=3), "timeline"),
    "a longer bar": (lambda s: another_bar(s, end_ms=1.01 * s.evaluation.timeline[0].end_ms), "timeline"),
    "bars out of order": (lambda s: evaluated(s, timeline=s.evaluation.timeline[::-1]), "timeline"),
    "another label on the critical path": (
        lambda s: evaluated(
            s,
            critical_path=(
                *s.evaluation.critical_path[:-1],
                replace(s.evaluation.critical_path[-1], label="something else"),
            ),
        ),
        "critical-path",
    ),
    "a tenth of the compute": (
        lambda s: broken_down(s, busiest_server_compute_ms=0.1 * s.evaluation.breakdown.busiest_server_compute_ms),
        "breakdown",
    ),
    "another time model": (lambda s: evaluated(s, time_model="fluid"), "unit"),
    "another unit": (lambda s: replace(s, objective=replace(s.objective, unit="us")), "unit"),
    "another objective": (lambda s: replace(s, objective=replace(s.objective, name="makespan")), "unit"),
    "busier links": (
        lambda s: evaluated(s, link_utilisation=1.01 * s.evaluation.link_utilisation),
        "link-utilisation",
    ),
    "a search that ends elsewhere": (lambda s: replace(s, convergence=s.convergence[:-1]), "convergence"),
    "a search that gets worse": (lambda s: replace(s, convergence=(*s.convergence, *s.convergence)), "convergence"),
    "proposals run backwards": (
        lambda s: replace(s, convergence=(replace(s.convergence[0], proposals=10**9), *s.convergence[1:])),
        "convergence",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_figure_is_rejected(change: str) -> None:
    """By its own code, and nothing was left out that could have told."""
    instance, solution = solved()
    spoil, code = CHANGES[change]
    findings = check_solution(instance, spoil(solution), FULL)
    assert code in {violation.code for violation in findings.violations}


def test_the_solution_itself_holds() -> None:
    """Everything is recomputed but the history of the search, in a solve too, as the job is small."""
    instance, solution = solved()
    findings = check_solution(instance, solution, FULL)
    assert findings.violations == ()
    assert [each.figure for each in findings.not_recomputed] == ["initial_ms, convergence"]
    assert solution.check.not_recomputed == findings.not_recomputed


def test_a_quick_check_names_what_it_leaves_out() -> None:
    """It passes what the full one passes, and says which figures it did not look at."""
    instance, solution = solved()
    findings = check_solution(instance, solution, CheckDepth(events=0))
    assert findings.ok
    left_out = {each.figure: each.reason for each in findings.not_recomputed}
    assert "quick" in left_out["evaluation (iteration time, breakdown, timeline, critical path)"]
