"""A class with a plan: the bound holds for every plan, and what a solution states of its plan is claimed at most."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import at_once_cases
from topoopt.core.job_solution import JobSolution
from topoopt.core.proofs import Argument
from topoopt.core.shared_cluster import Contention, SharedCluster
from topoopt.core.shared_cluster_jobs import JobClass
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.shared_plan import class_of_plan
from topoopt.core.solution import Decides, LeftOut
from topoopt.core.verdict import Status
from topoopt.kinds import kind_of
from topoopt.kinds.instance_file import read_instance
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster.solution_file import SOLUTION_FILE
from topoopt.verify.laws.findings import FULL, CheckFindings

FALSE_CLAIMS = Path("../shared/data/false_claims/planned_classes")

COMPUTE_MS = 3.0
"""Of `at_once_cases.job` with 2 ms forward: two operators, 2 ms forward and 4 ms back each, over up to four servers."""

FABRICS = ({"kind": "partitioned"}, {"kind": "ideal-switch", "server_gbps": 800})
"""A server has 200 Gbit/s of its own."""


def document(**changes: Any) -> dict[str, Any]:
    """Six jobs of one planned class of four servers arrive at a cluster of sixteen."""
    return {
        "schema_version": 1,
        "kind": "shared-cluster",
        "name": "planned",
        "cluster": {"servers": 16, "degree": 2, "link_gbps": 100},
        "classes": [{"name": "short", "plan": "short.json", "iterations": 100}],
        "jobs": {"count": 6, "load": 0.5},
        "fabrics": list(FABRICS),
        **changes,
    }


@cache
def planned(name: str) -> JobSolution:
    """The plan of a class, made once."""
    problem = at_once_cases.read(document())
    job = problem.classes[0].plan
    assert job is not None
    assert job.name == name
    found = solve(replace(job, search=replace(job.search, budget=50)))
    assert isinstance(found, JobSolution)
    return found


@pytest.fixture
def slower(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Plans as a search makes them that ends so much earlier: an iteration takes longer."""

    def made(factor: float) -> None:
        def scaled(one: JobClass, solution: JobSolution) -> JobClass:
            exact = class_of_plan(one, solution)
            return replace(exact, iteration_ms=(exact.iteration_ms[0] * factor,))

        monkeypatch.setattr("topoopt.kinds.shared_cluster.arrivals.class_of_plan", scaled)

    monkeypatch.setattr("topoopt.kinds.shared_cluster.arrivals.solve", lambda plan, _: planned(plan.name))
    return made


def checked(problem: SharedCluster, solution: SharedClusterSolution) -> CheckFindings:
    """By the kind's own checker."""
    return kind_of(problem).check(problem, solution, FULL)


def claims(left_out: tuple[LeftOut, ...]) -> Mapping[str, Decides]:
    """What the answer rests on, as it was not recomputed."""
    return {one.figure: one.decides for one in left_out if one.decides is not Decides.NOTHING}


PLANS = "times and bytes of planned classes"


def test_the_bound_of_a_planned_class_is_that_of_its_job(slower: Callable[[float], None]) -> None:
    """Runs whose plans differ have one bound, below both, and are not both optimal."""
    problem = at_once_cases.read(document())
    found = []
    for factor in (1.0, 1.1):
        slower(factor)
        solution = solve(problem)
        findings = checked(problem, solution)
        assert findings.ok, findings.violations
        assert claims(findings.not_recomputed) == {PLANS: Decides.VALUE}
        found.append(solution)
    first, second = found
    assert first.bound.value == second.bound.value
    assert COMPUTE_MS * (1 - 1e-9) <= first.bound.value <= first.objective.value * (1 + 1e-9)
    assert second.objective.value == pytest.approx(1.1 * first.objective.value)
    assert second.status is Status.FEASIBLE
    assert second.bound.value < first.objective.value * (1 + 1e-9)


LENGTHS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "iterations, load": ({"iterations": 100}, {"count": 6, "load": 0.9}),
    "length, load": ({"duration_s": 0.02}, {"count": 6, "load": 0.9}),
    "length, spread": ({"duration_s": 0.05}, {"count": 6, "rate_per_s": 20, "spread": "exponential"}),
    "iterations, together": ({"iterations": 3}, {"count": 6, "arrival": "together"}),
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("goal", ["mean-iteration-time", "mean-completion-time"])
@pytest.mark.parametrize("first", [0, 1])
def test_no_plan_beats_a_bound(slower: Callable[[float], None], length: str, goal: str, first: int) -> None:
    """Of any plan: a slower one changes how many iterations fit, and when jobs arrive, and contradicts no bound."""
    one, jobs = LENGTHS[length]
    fabrics = [FABRICS[first], FABRICS[1 - first]]
    optical = {"switching_time_s": 0.004}
    classes = [{"name": "short", "plan": "short.json", **one}]
    problem = at_once_cases.read(
        document(
            classes=classes, jobs=jobs, fabrics=fabrics, objective=goal, optical=optical, scheduling={"queue": "fifo"}
        )
    )
    values, bounds, optimal = [], [], []
    for factor in (1.0, 1.02, 1.3, 1.7, 2.6):
        slower(factor)
        solution = solve(problem)
        findings = checked(problem, solution)
        assert findings.ok, findings.violations
        values.append(solution.objective.value)
        bounds.append(solution.bound.value)
        optimal += [solution.objective.value] * (solution.status is Status.OPTIMAL)
    assert max(bounds) <= min(values) * (1 + 1e-9)
    assert not optimal or max(optimal) <= min(optimal) * (1 + 1e-6)


def test_a_load_says_nothing_of_arrivals(slower: Callable[[float], None]) -> None:
    """Jobs that need all servers queue, but a slower plan has them arrive later: only their lengths count."""
    slower(1.0)
    optical = {"switching_time_s": 1.0}
    common = {
        "objective": "mean-completion-time",
        "optical": optical,
        "cluster": document()["cluster"] | {"servers": 4},
    }
    by_load = solve(at_once_cases.read(document(jobs={"count": 6, "load": 0.9}, **common)))
    by_rate = solve(at_once_cases.read(document(jobs={"count": 6, "rate_per_s": 50}, **common)))
    assert by_load.bound.argument is Argument.ALONE_AT_ONCE
    assert by_rate.bound.argument is Argument.REMAINING_TIME


CHANGES: dict[str, Callable[[JobClass], JobClass]] = {
    "an iteration that no plan has": lambda one: replace(one, iteration_ms=(0.5,), compute_ms=0.5),
    "hardly less than the bound": lambda one: replace(one, iteration_ms=(COMPUTE_MS * (1 - 1e-7),), compute_ms=1.0),
    "less compute than there is": lambda one: replace(one, compute_ms=COMPUTE_MS * 0.99),
    "no compute": lambda one: replace(one, compute_ms=0.0),
    "more compute than an iteration lasts": lambda one: replace(one, compute_ms=one.iteration_ms[0] * 1.01),
    "more bytes than can be sent": lambda one: replace(one, allreduce_bytes=one.iteration_ms[0] * 25e6 * 1.01),
    "two times of one plan": lambda one: replace(one, iteration_ms=one.iteration_ms * 2),
    "fewer servers": lambda one: replace(one, servers=3),
    "fewer iterations": lambda one: replace(one, iterations=99),
    "times of a fabric": lambda one: replace(one, fabric_ms=(("ideal-switch", 4.0),)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("jobs", [{"count": 6, "load": 0.5}, {"at_once": [2], "repetitions": 1}])
def test_what_no_plan_has_is_rejected(slower: Callable[[float], None], name: str, jobs: dict[str, Any]) -> None:
    """Whatever follows from it: figures of a class are held against what holds for every plan of its job."""
    slower(1.0)
    at_once = "at_once" in jobs
    one = {"name": "short", "plan": "short.json"} | ({} if at_once else {"iterations": 100})
    problem = at_once_cases.read(document(classes=[one], jobs=jobs, contention="coinciding"))
    solution = solve(problem)
    assert checked(problem, solution).ok
    lie = replace(solution, classes=tuple(map(CHANGES[name], solution.classes)))
    assert {each.code for each in checked(problem, lie).violations} == {"classes"}


def test_a_mean_below_any_plan_is_rejected() -> None:
    """The file that claimed 0.001 ms."""
    if not FALSE_CLAIMS.exists():
        pytest.skip(f"no {FALSE_CLAIMS}")
    problem = read_instance(FALSE_CLAIMS / "planned.yaml")
    assert isinstance(problem, SharedCluster)
    findings = checked(problem, SOLUTION_FILE.read(FALSE_CLAIMS / "lie.json"))
    assert {each.code for each in findings.violations} == {"classes"}


def test_jobs_at_once_by_formula_are_bounded_by_all_plans(slower: Callable[[float], None]) -> None:
    """Faster than its shard a server may hide what a chain of operators shows, but not compute of its own."""
    problem = at_once_cases.read(
        document(
            classes=[{"name": "short", "plan": "short.json"}],
            jobs={"at_once": [2], "repetitions": 1},
            contention="coinciding",
        )
    )
    bounds = []
    for factor in (1.0, 1.2):
        slower(factor)
        solution = solve(problem)
        findings = checked(problem, solution)
        assert findings.ok, findings.violations
        assert claims(findings.not_recomputed) == {PLANS: Decides.VALUE}
        bounds.append([plan.bound.value for plan in solution.plans] + [solution.bound.value])
    assert bounds[0] == bounds[1]
    assert min(bounds[0]) >= COMPUTE_MS * (1 - 1e-9)


def test_times_of_flows_are_claimed() -> None:
    """Flows are not simulated again, so that the value is claimed; where all times are given, it is not."""
    problem, solution = at_once_cases.solved()
    assert problem.contention is Contention.FLOWS
    claimed = claims(checked(problem, solution).not_recomputed)
    assert claimed == {"times of planned classes, alone and together": Decides.VALUE}
    given = at_once_cases.read(at_once_cases.published(jobs={"at_once": [5], "repetitions": 2}))
    assert claims(checked(given, solve(given)).not_recomputed) == {}


def test_the_rate_of_equal_cost_is_worked_out_again() -> None:
    """One that follows from no price at hand is claimed where the objective rests on it; no rate is above the links."""
    one = {"name": "given", "servers": 8, "iteration_ms": 100, "compute_ms": 60, "allreduce_gbytes": 0.4}
    jobs = {"at_once": [2], "repetitions": 1}
    fabrics = [{"kind": "fat-tree"}, {"name": "second", "kind": "fat-tree"}]
    problem = at_once_cases.read(document(classes=[one], jobs=jobs, contention="coinciding", fabrics=fabrics))
    solution = solve(problem)
    findings = checked(problem, solution)
    assert findings.ok, findings.violations
    assert not findings.not_recomputed
    rate = solution.rates_gbps[0]
    other = checked(problem, replace(solution, rates_gbps=(rate * 0.9, rate)))
    assert claims(other.not_recomputed) == {"server rate of fat-tree": Decides.VALUE, "bound": Decides.BOUND}
    second = checked(problem, replace(solution, rates_gbps=(rate, rate * 0.9)))
    assert "server rate of second" in {each.figure for each in second.not_recomputed}
    assert claims(second.not_recomputed) == {}
    beyond = checked(problem, replace(solution, rates_gbps=(rate, 200.1)))
    assert {each.code for each in beyond.violations} == {"rates"}


def test_the_least_of_given_times_is_not_anybodys_choice() -> None:
    """Of several times of a class a job has the one that is drawn, where flows are simulated, too."""
    problem = at_once_cases.read(at_once_cases.published(jobs={"at_once": [5], "repetitions": 2}))
    solution = solve(problem)
    assert checked(problem, solution).ok
    least = tuple(
        replace(run, times_ms=(tuple(min(problem.classes[index].iteration_ms) for index in run.classes),))
        for run in solution.draws
    )
    assert least != solution.draws
    mean = math.fsum(time for run in least for time in run.times_ms[0]) / 10
    lie = replace(solution, draws=least, objective=replace(solution.objective, value=mean))
    assert {each.code for each in checked(problem, lie).violations} == {"draw"}
