"""The checker of shared clusters rejects whatever is changed in a right solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from tests.support.shared_cases import PARTITIONED, fat_tree, shared_cluster
from topoopt.core.proofs import Argument, Bound, Status
from topoopt.core.result import Objective, Result
from topoopt.core.shared_cluster import (
    FAT_TREE,
    Fabric,
    FabricRun,
    Goal,
    JobClass,
    JobTable,
    SharedCluster,
    ranges_text,
)
from topoopt.kinds import kind_of
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster.figures import objective_of
from topoopt.verify.checker import FULL
from topoopt.verify.shared_cluster.times import least_total_s

RANDOM = Fabric("thin", FAT_TREE, 400.0, 4.0)
CLASSES = (
    JobClass("two", 2, (100.0,), 60.0, allreduce_bytes=2e9),
    JobClass("four", 4, (150.0,), 100.0, 1e9, 1.5e9),
)


@pytest.fixture(scope="module")
def problem() -> SharedCluster:
    """Two groups of eight servers, moves, contention."""
    jobs = [(float(j), j % 2, 20 + 7 * j) for j in range(14)]
    return shared_cluster(
        jobs,
        CLASSES,
        servers=16,
        ports=8,
        switching_s=0.5,
        fabrics=(PARTITIONED, RANDOM, fat_tree(paths="hashed")),
        queue="reserve",
        defragment=True,
    )


@pytest.fixture(scope="module")
def solution(problem: SharedCluster) -> Result[Any, Any]:
    """A right one."""
    found = solve(problem)
    assert found.check.ok, found.check.violations
    return found


def changed(solution: Result[Any, Any], place: int, **fields: Any) -> Result[Any, Any]:
    """One schedule replaced."""
    schedules = list(solution.plan.schedules)
    schedules[place] = replace(schedules[place], **fields)
    return replace(solution, plan=replace(solution.plan, schedules=tuple(schedules)))


def shifted(array: np.ndarray, at: int, by: float) -> np.ndarray:
    """One entry changed."""
    altered = array.copy()
    altered[at] += by
    return altered


def with_servers(solution: Result[Any, Any], place: int, first: Any) -> Result[Any, Any]:
    """The first stay has other servers."""
    texts = solution.plan.schedules[place].servers
    return changed(solution, place, servers=(ranges_text(np.array(sorted(first))), *texts[1:]))


def swapped_server(solution: Result[Any, Any], place: int) -> Result[Any, Any]:
    """The first stay gets a server of one that overlaps it."""
    stays = solution.figures.runs[place].stays
    other = next(s for s in range(1, len(stays)) if stays.held_from_s[s] < stays.held_to_s[0])
    return with_servers(solution, place, [stays.servers_of(other)[0], *stays.servers_of(0)[1:]])


def ends(solution: Result[Any, Any], place: int, at: int, by: float) -> Result[Any, Any]:
    """One end is another."""
    return changed(solution, place, end_s=shifted(solution.plan.schedules[place].end_s, at, by))


def starts(solution: Result[Any, Any], place: int, by: float) -> Result[Any, Any]:
    """All starts are others."""
    return changed(solution, place, start_s=solution.plan.schedules[place].start_s + by)


CHANGES: dict[str, tuple[str, Callable[[Result[Any, Any]], Result[Any, Any]]]] = {
    "a server twice": ("servers", lambda s: swapped_server(s, 0)),
    "a server twice where jobs contend": ("servers", lambda s: swapped_server(s, 1)),
    "a shard over two groups": (
        "shard",
        lambda s: with_servers(s, 0, [*s.figures.runs[0].stays.servers_of(0)[1:], 15]),
    ),
    "a server more": ("size", lambda s: with_servers(s, 0, [*s.figures.runs[0].stays.servers_of(0), 15])),
    "a server that does not exist": ("stays", lambda s: with_servers(s, 0, [0, 16])),
    "too early an end": ("work", lambda s: ends(s, 0, -1, -0.1)),
    "too late an end": ("work", lambda s: ends(s, 0, -1, 0.1)),
    "too early an end where jobs contend": ("contention", lambda s: ends(s, 1, 0, -0.01)),
    "too late an end where jobs contend": ("contention", lambda s: ends(s, 1, -1, 0.1)),
    "a start before the arrival": ("times", lambda s: starts(s, 0, -0.1)),
    "later starts": ("work", lambda s: starts(s, 0, 0.01)),
    "a job left out": (
        "runs",
        lambda s: changed(
            s,
            2,
            **{name: getattr(s.plan.schedules[2], name)[1:] for name in ("job", "start_s", "end_s", "servers")},
        ),
    ),
    "a job that has not ended": (
        "runs",
        lambda s: changed(s, 1, unfinished=np.array([3]), cut_s=float(s.plan.schedules[1].end_s.max())),
    ),
    "a cut with nobody at work": ("stays", lambda s: changed(s, 1, cut_s=1e6)),
    "stays in another order": (
        "stays",
        lambda s: changed(
            s, 1, job=s.plan.schedules[1].job[::-1].copy(), start_s=s.plan.schedules[1].start_s[::-1].copy()
        ),
    ),
    "a fabric left out": (
        "runs",
        lambda s: replace(s, plan=replace(s.plan, schedules=s.plan.schedules[:-1])),
    ),
    "no fabric": ("plan", lambda s: replace(s, plan=replace(s.plan, schedules=()))),
    "draws": ("plan", lambda s: replace(s, plan=replace(s.plan, draws=1))),
    "another way of scheduling": ("decisions", lambda s: replace(s, method="backfill")),
    "no way of scheduling": ("method", lambda s: replace(s, method="lottery")),
    "another objective": ("objective", lambda s: replace(s, objective=Objective("mean_completion_time", 1.0, "s"))),
    "another bound": ("bound", lambda s: replace(s, bound=Bound(0.5, Argument.ALONE))),
    "called optimal": ("status", lambda s: replace(s, status=Status.OPTIMAL)),
    "another instance": ("instance-sha256", lambda s: replace(s, instance_sha256="0" * 64)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_solution_is_rejected(problem: SharedCluster, solution: Result[Any, Any], name: str) -> None:
    """Each change is told by the code of the law it breaks."""
    code, change = CHANGES[name]
    assert code in {violation.code for violation in kind_of(problem).check(problem, change(solution), FULL).violations}


def test_fabrics_that_are_not_there_are_named(problem: SharedCluster, solution: Result[Any, Any]) -> None:
    """The first fabric alone, as a search for the objective leaves it, is no whole solution: the check says so."""
    alone = solve(problem, SolveOptions(objective_only=True))
    first = replace(solution, plan=replace(solution.plan, schedules=solution.plan.schedules[:1]))
    for one in (alone, first):
        findings = kind_of(problem).check(problem, one, FULL)
        assert findings.ok
        assert "jobs on thin, tree" in {each.figure for each in findings.not_recomputed}
    assert not any(
        each.figure.startswith("jobs on") for each in kind_of(problem).check(problem, solution, FULL).not_recomputed
    )


@pytest.mark.parametrize("goal", get_args(Goal))
def test_the_objective_is_found_twice(problem: SharedCluster, monkeypatch: pytest.MonkeyPatch, goal: Goal) -> None:
    """What the simulation states is met by the checker's own sum; altered in the simulation alone, it is rejected."""
    problem = replace(problem, goal=goal)
    assert solve(problem).check.ok

    def altered(goal: Goal, run: FabricRun, jobs: JobTable) -> Objective:
        exact = objective_of(goal, run, jobs)
        return replace(exact, value=1.01 * exact.value)

    monkeypatch.setattr("topoopt.kinds.shared_cluster.figures.objective_of", altered)
    assert any(text.startswith("objective") for text in solve(problem).check.violations)


def test_a_long_run_is_followed_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are enough to see that a job had too little time."""
    monkeypatch.setattr("topoopt.verify.shared_cluster.times.MOMENTS", 30)
    jobs = [(2.0 * j, 0, 30) for j in range(60)]
    problem = shared_cluster(jobs, CLASSES, servers=16, fabrics=(RANDOM,))
    solution = solve(problem)
    assert solution.check.ok
    schedule = solution.plan.schedules[0]
    wrong = changed(solution, 0, end_s=schedule.end_s - 0.05 * (schedule.end_s - schedule.start_s))
    findings = kind_of(problem).check(problem, wrong, FULL)
    assert "contention" in {violation.code for violation in findings.violations}


def test_least_total_time_of_one_machine() -> None:
    """Shortest remaining time first by hand: 4 from 0 s is interrupted at 1 s by 1, ends at 5 s; 2 from 6 s at 8 s."""
    assert least_total_s(np.array([0.0, 1.0, 6.0]), np.array([4.0, 1.0, 2.0])) == pytest.approx(5.0 + 1.0 + 2.0)


def test_two_bounds_on_the_completion_time() -> None:
    """Ten jobs of all servers at once wait for each other: the area bound is met by running one after the other."""
    problem = shared_cluster([(0.0, 0, 10)] * 10, [JobClass("all", 8, (1000.0,), 1000.0)])
    solution = solve(problem)
    assert solution.bound.value == pytest.approx(55.0)
    assert solution.status is Status.OPTIMAL
