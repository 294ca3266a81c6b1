"""A class with a plan: the bound holds for every plan, and its times follow from the plan in the solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import topoopt
from tests.support import at_once_cases
from topoopt.core.errors import InputError
from topoopt.core.proofs import Argument, Status
from topoopt.core.result import Decides, LeftOut
from topoopt.core.shared_cluster import ShardPlan, SharedCluster
from topoopt.core.topology import Topology
from topoopt.core.workload import Placement, Strategy
from topoopt.kinds import kind_of
from topoopt.kinds.files import converted, read_instance
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster import SOLUTION_FILE
from topoopt.verify.checker import FULL, CheckFindings

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


SPLITS = ((1, 1), (1, 0), (0, 1), (0, 0))
"""Of the two operators of the job: over four servers (1) or on one (0); the first is the fastest plan there is."""


@cache
def planned(level: int) -> Any:
    """A plan of the class by its strategy, made once."""
    job = at_once_cases.read(document()).classes[0].plan
    assert job is not None
    ring = Topology.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)])
    return topoopt.evaluate(job, topology=ring, strategy=Strategy(tuple(Placement(k, 0) for k in SPLITS[level])))


@pytest.fixture
def slower(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Plans as a search makes them that ends so much earlier: an iteration takes longer."""

    def made(level: int) -> None:
        monkeypatch.setattr("topoopt.kinds.shared_cluster.methods.solve", lambda *_: planned(level))

    return made


def checked(problem: SharedCluster, solution: Any) -> CheckFindings:
    """By the kind's own checker."""
    return kind_of(problem).check(problem, solution, FULL)


def claims(left_out: tuple[LeftOut, ...]) -> Mapping[str, Decides]:
    """What the answer rests on, as it was not recomputed."""
    return {one.figure: one.decides for one in left_out if one.decides is not Decides.NOTHING}


def test_the_bound_of_a_planned_class_is_that_of_its_job(slower: Callable[[int], None]) -> None:
    """Runs whose plans differ have one bound, below both, and are not both optimal; nothing is claimed."""
    problem = at_once_cases.read(document())
    solutions = []
    for level in (0, 3):
        slower(level)
        solution = solve(problem)
        findings = checked(problem, solution)
        assert findings.ok, findings.violations
        assert not claims(findings.not_recomputed)
        solutions.append(solution)
    first, second = solutions
    assert first.bound.value == second.bound.value
    assert COMPUTE_MS * (1 - 1e-9) <= first.bound.value <= first.objective.value * (1 + 1e-9)
    assert second.objective.value > 1.5 * first.objective.value
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
def test_no_plan_beats_a_bound(slower: Callable[[int], None], length: str, goal: str, first: int) -> None:
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
    for level in range(4):
        slower(level)
        solution = solve(problem)
        findings = checked(problem, solution)
        assert findings.ok, findings.violations
        values.append(solution.objective.value)
        bounds.append(solution.bound.value)
        optimal += [solution.objective.value] * (solution.status is Status.OPTIMAL)
    assert max(bounds) <= min(values) * (1 + 1e-9)
    assert not optimal or max(optimal) <= min(optimal) * (1 + 1e-6)


def test_a_load_says_nothing_of_arrivals(slower: Callable[[int], None]) -> None:
    """Jobs that need all servers queue, but a slower plan has them arrive later: only their lengths count."""
    slower(0)
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


def _strategy(*rows: tuple[int, int]) -> Strategy:
    return Strategy(tuple(Placement(*row) for row in rows))


CHANGES: dict[str, tuple[str, Callable[[ShardPlan], ShardPlan]]] = {
    "a split that does not exist": ("classes", lambda shard: replace(shard, strategy=_strategy((2, 0), (1, 0)))),
    "an offset that does not exist": ("classes", lambda shard: replace(shard, strategy=_strategy((1, 1), (1, 0)))),
    "an operator left out": ("classes", lambda shard: replace(shard, strategy=Strategy(shard.strategy.placements[:1]))),
    "links that are not there": ("classes", lambda shard: replace(shard, switches=((-1,) * 4, shard.switches[1]))),
    "links to themselves": ("classes", lambda shard: replace(shard, switches=((0, 1, 2, 3), shard.switches[1]))),
    "a server more": ("classes", lambda shard: replace(shard, switches=tuple((*r, -1) for r in shard.switches))),
    "no rings": ("classes", lambda shard: replace(shard, rings=())),
    "a ring that carries less": (
        "classes",
        lambda shard: replace(shard, rings=((0.25, shard.rings[0][1]), *shard.rings[1:])),
    ),
    "routes of nothing": ("classes", lambda shard: replace(shard, paths=((1.0, (0, 7)),))),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("jobs", [{"count": 6, "load": 0.5}, {"at_once": [2], "repetitions": 1}])
def test_what_is_no_plan_is_rejected(slower: Callable[[int], None], name: str, jobs: dict[str, Any]) -> None:
    """A plan keeps the constraints of its job."""
    slower(0)
    at_once = "at_once" in jobs
    one = {"name": "short", "plan": "short.json"} | ({} if at_once else {"iterations": 100})
    problem = at_once_cases.read(document(classes=[one], jobs=jobs, contention="coinciding"))
    solution = solve(problem)
    assert checked(problem, solution).ok
    code, change = CHANGES[name]
    (plan,) = solution.plan.classes
    altered = replace(plan, shard=change(plan.shard))
    lie = replace(solution, plan=replace(solution.plan, classes=(altered,)))
    assert {each.code for each in checked(problem, lie).violations} == {code}


@pytest.mark.parametrize("jobs", [{"count": 6, "rate_per_s": 50}, {"at_once": [2], "repetitions": 1}])
def test_the_value_is_that_of_the_plan(slower: Callable[[int], None], jobs: dict[str, Any]) -> None:
    """A faster plan than that in the file is a lie: times, compute and bytes follow from it alone."""
    at_once = "at_once" in jobs
    one = {"name": "short", "plan": "short.json"} | ({} if at_once else {"iterations": 100})
    problem = at_once_cases.read(document(classes=[one], jobs=jobs, contention="coinciding"))
    solutions = []
    for level in (0, 3):
        slower(level)
        solutions.append(solve(problem))
    fast, slow = solutions
    lie = replace(fast, plan=replace(fast.plan, classes=slow.plan.classes))
    assert {each.code for each in checked(problem, lie).violations} <= {"objective", "bound", "times", "work", "queue"}
    assert not checked(problem, lie).ok


def test_a_mean_below_any_plan_is_rejected() -> None:
    """The file that claimed 0.001 ms."""
    if not FALSE_CLAIMS.exists():
        pytest.skip(f"no {FALSE_CLAIMS}")
    problem = read_instance(FALSE_CLAIMS / "planned.yaml")
    assert isinstance(problem, SharedCluster)
    with pytest.raises(InputError, match="earlier format"):
        SOLUTION_FILE.read(FALSE_CLAIMS / "lie.json")
    with pytest.raises(InputError, match="do not hold the plan"):
        converted(FALSE_CLAIMS / "lie.json", FALSE_CLAIMS / "planned.yaml", FULL)


def test_jobs_at_once_by_formula_are_bounded_by_all_plans(slower: Callable[[int], None]) -> None:
    """Faster than its shard a server may hide what a chain of operators shows, but not compute of its own."""
    problem = at_once_cases.read(
        document(
            classes=[{"name": "short", "plan": "short.json"}],
            jobs={"at_once": [2], "repetitions": 1},
            contention="coinciding",
        )
    )
    bounds = []
    for level in (0, 3):
        slower(level)
        solution = solve(problem)
        findings = checked(problem, solution)
        assert findings.ok, findings.violations
        assert not claims(findings.not_recomputed)
        bounds.append(solution.bound.value)
    assert bounds[0] == bounds[1] >= COMPUTE_MS * (1 - 1e-9)


def test_times_of_flows_are_not_claimed() -> None:
    """Flows on shards are simulated again, so that the value is not claimed, nor where all times are given."""
    problem, solution = at_once_cases.solved()
    assert problem.contention == "flows"
    assert claims(checked(problem, solution).not_recomputed) == {}
    given = at_once_cases.read(at_once_cases.published(jobs={"at_once": [5], "repetitions": 2}))
    assert claims(checked(given, solve(given)).not_recomputed) == {}


def test_the_rate_of_equal_cost_is_worked_out_again() -> None:
    """It follows from the shipped prices; a value at any other rate is rejected."""
    one = {"name": "given", "servers": 8, "iteration_ms": 100, "compute_ms": 60, "allreduce_gbytes": 0.4}
    jobs = {"at_once": [2], "repetitions": 1}
    fabrics = [{"kind": "fat-tree"}, {"name": "second", "kind": "fat-tree"}]
    problem = at_once_cases.read(document(classes=[one], jobs=jobs, contention="coinciding", fabrics=fabrics))
    solution = solve(problem)
    findings = checked(problem, solution)
    assert findings.ok, findings.violations
    assert not findings.not_recomputed
    rate = solution.figures.fabrics[0].server_gbps
    slower = replace(problem, fabrics=(replace(problem.fabrics[0], server_gbps=0.9 * rate), problem.fabrics[1]))
    lie = replace(solve(slower), problem=problem)
    assert "objective" in {each.code for each in checked(problem, lie).violations}


def test_the_least_of_given_times_is_not_anybodys_choice() -> None:
    """Of several times of a class a job has the one that is drawn, where flows are simulated, too."""
    problem = at_once_cases.read(at_once_cases.published(jobs={"at_once": [5], "repetitions": 2}))
    solution = solve(problem)
    assert checked(problem, solution).ok
    runs = solution.figures.draws
    least = [min(problem.classes[index].iteration_ms) for run in runs for index in run.classes]
    mean = math.fsum(least) / 10
    assert mean < solution.objective.value
    lie = replace(solution, objective=replace(solution.objective, value=mean))
    assert "objective" in {each.code for each in checked(problem, lie).violations}
