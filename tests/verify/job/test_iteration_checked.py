"""What a job's solution says of its iteration is simulated again: a solution changed in any of it is rejected."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.support.paths import INSTANCES
from topoopt.core.job_solution import ConvergencePoint, JobSolution
from topoopt.core.solution import Objective
from topoopt.kinds.instance_file import read_instance
from topoopt.kinds.job.check import check_job
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.laws.findings import FULL, CheckDepth

INSTANCE = "tiny-4.yaml"


@cache
def solved():
    """A small job with its baselines."""
    instance = read_instance(INSTANCES / INSTANCE)
    return instance, solve(instance, SolveOptions(budget=20, seed=1))


def evaluated(solution: JobSolution, **changes) -> JobSolution:
    return replace(solution, evaluation=replace(solution.evaluation, **changes))


def squeezed(solution: JobSolution, factor: float) -> JobSolution:
    """All times of the iteration so much shorter, and everything that depends on them."""
    evaluation = solution.evaluation
    total = factor * evaluation.iteration_time_ms

    def shorter(spans):
        return tuple(replace(span, start_ms=factor * span.start_ms, end_ms=factor * span.end_ms) for span in spans)

    changed = evaluated(
        solution,
        timeline=shorter(evaluation.timeline),
        critical_path=shorter(evaluation.critical_path),
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


def another_baseline(solution: JobSolution, place: int, factor: float, **changes) -> JobSolution:
    lines = list(solution.baselines)
    lines[place] = replace(lines[place], iteration_time_ms=factor * lines[place].iteration_time_ms, **changes)
    return replace(solution, baselines=tuple(lines))


def rewired(solution: JobSolution, **changes) -> JobSolution:
    return another_baseline(solution, 3, 1.0, graph=replace(solution.baselines[3].graph, **changes))


def priced(solution: JobSolution, usd) -> JobSolution:
    return replace(solution, prices=replace(solution.prices, usd=tuple(usd)))


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
    "another time model": (lambda s: evaluated(s, time_model="fluid"), "unit"),
    "another unit": (lambda s: replace(s, objective=replace(s.objective, unit="us")), "unit"),
    "another objective": (lambda s: replace(s, objective=replace(s.objective, name="makespan")), "unit"),
    "busier links": (
        lambda s: evaluated(s, link_bytes=1.01 * s.evaluation.link_bytes),
        "link-bytes",
    ),
    "baselines ten times as slow": (
        lambda s: replace(
            s, baselines=tuple(replace(b, iteration_time_ms=10 * b.iteration_time_ms) for b in s.baselines)
        ),
        "baseline",
    ),
    "a baseline a little slower": (lambda s: another_baseline(s, 0, 1.001), "baseline"),
    "a random graph a little slower": (lambda s: another_baseline(s, 3, 1.001), "baseline"),
    "a baseline of another strategy": (
        lambda s: another_baseline(s, 1, 1.0, strategy=replace(s.plan.strategy, placements=())),
        "baseline",
    ),
    "a random graph without links": (lambda s: another_baseline(s, 3, 1.0, graph=None), "baseline"),
    "a switch with links": (lambda s: another_baseline(s, 0, 1.0, graph=s.baselines[3].graph), "baseline"),
    "a random graph with a dark interface": (
        lambda s: another_baseline(
            s, 3, 1.0, graph=replace(s.baselines[3].graph, links=s.baselines[3].graph.links[1:])
        ),
        "baseline",
    ),
    "a random graph without rings": (
        lambda s: rewired(s, rings=()),
        "baseline",
    ),
    "the seed of another run": (lambda s: replace(s, seed=s.seed + 2), "baseline"),
    "baselines in another order": (lambda s: replace(s, baselines=s.baselines[::-1]), "baseline"),
    "prices a tenth": (lambda s: priced(s, [(name, 0.1 * usd) for name, usd in s.prices.usd]), "prices"),
    "one price a little lower": (
        lambda s: priced(s, [*s.prices.usd[:-1], (s.prices.usd[-1][0], 0.999 * s.prices.usd[-1][1])]),
        "prices",
    ),
    "a price left out": (lambda s: priced(s, s.prices.usd[:-1]), "prices"),
    "another name of the price book": (lambda s: replace(s, prices=replace(s.prices, book="ours")), "prices"),
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
    findings = check_job(instance, spoil(solution), FULL)
    assert code in {violation.code for violation in findings.violations}


def test_the_solution_itself_holds() -> None:
    """Everything is recomputed but the history of the search, in a solve too, as the job is small."""
    instance, solution = solved()
    findings = check_job(instance, solution, FULL)
    assert findings.violations == ()
    assert [each.figure for each in findings.not_recomputed] == ["first plan, progress of the search"]
    assert solution.check.not_recomputed == findings.not_recomputed


def test_prices_of_an_unknown_book_are_not_recounted_and_that_is_said() -> None:
    """Nor is the rate of the fat-tree of equal cost, which follows from them; the other baselines are."""
    instance, solution = solved()
    other = replace(solution, prices=replace(solution.prices, book="ours", book_sha256="0" * 64))
    findings = check_job(instance, other, FULL)
    assert findings.violations == ()
    assert [each.figure for each in findings.not_recomputed][1:] == ["baseline fat-tree", "prices"]


def test_a_quick_check_names_what_it_leaves_out() -> None:
    """It passes what the full one passes, and says which figures it did not look at."""
    instance, solution = solved()
    findings = check_job(instance, solution, CheckDepth(events=0))
    assert findings.ok
    left_out = {each.figure: each.reason for each in findings.not_recomputed}
    assert "quick" in left_out["iteration time, timeline, critical path"]


def test_a_plan_that_takes_too_long_to_simulate_is_left_out_and_said_to_be() -> None:
    """A thousand rings for every group make a thousand times the events: no file keeps the checker busy for hours."""
    instance, solution = solved()
    groups = tuple(
        replace(group, rings=tuple(replace(ring, share=ring.share / 1000) for ring in group.rings for _ in range(1000)))
        for group in solution.plan.rings
    )
    slow = replace(solution, plan=replace(solution.plan, rings=groups))
    findings = check_job(instance, slow, CheckDepth(events=10_000))
    reasons = {each.figure: each.reason for each in findings.not_recomputed}
    assert "events" in reasons["iteration time, timeline, critical path"]
