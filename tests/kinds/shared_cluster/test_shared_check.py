"""The checker of shared clusters rejects whatever is changed in a right solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.shared_cases import PARTITIONED, fat_tree, shared_cluster
from topoopt.core.proofs import Argument, Bound
from topoopt.core.shared_cluster import (
    FAT_TREE,
    Fabric,
    Goal,
    QueueOrder,
    SharedCluster,
)
from topoopt.core.shared_cluster_jobs import JobClass, JobTable
from topoopt.core.shared_cluster_runs import FabricRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.solution import Objective
from topoopt.core.verdict import Status
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.simulate.cluster.objective import objective_of
from topoopt.verify.shared_cluster.bounds import least_total_s
from topoopt.verify.shared_cluster.check import check_shared_cluster

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
        queue=QueueOrder.RESERVE,
        defragment=True,
    )


@pytest.fixture(scope="module")
def solution(problem: SharedCluster) -> SharedClusterSolution:
    """A right one."""
    found = solve(problem)
    assert found.check.ok, found.check.violations
    return found


def run_changed(solution: SharedClusterSolution, place: int, **fields: Any) -> SharedClusterSolution:
    """One run replaced."""
    runs = list(solution.runs)
    runs[place] = replace(runs[place], **fields)
    return replace(solution, runs=tuple(runs))


def stays_changed(solution: SharedClusterSolution, place: int, **fields: Any) -> SharedClusterSolution:
    """Stays of one run replaced."""
    return run_changed(solution, place, stays=replace(solution.runs[place].stays, **fields))


def shifted(array: np.ndarray, at: int, by: float) -> np.ndarray:
    """One entry changed."""
    changed = array.copy()
    changed[at] += by
    return changed


def swapped_server(solution: SharedClusterSolution, place: int) -> SharedClusterSolution:
    """The first stay gets a server of one that overlaps it."""
    stays = solution.runs[place].stays
    servers = stays.servers.copy()
    other = next(s for s in range(1, len(stays)) if stays.held_from_s[s] < stays.held_to_s[0])
    servers[0] = stays.servers_of(other)[0]
    return stays_changed(solution, place, servers=servers)


CHANGES: dict[str, tuple[str, Callable[[SharedClusterSolution], SharedClusterSolution]]] = {
    "a server twice": ("servers", lambda s: swapped_server(s, 0)),
    "a server twice where jobs contend": ("servers", lambda s: swapped_server(s, 1)),
    "a shard over two groups": (
        "shard",
        lambda s: stays_changed(
            s, 0, servers=np.where(np.arange(len(s.runs[0].stays.servers)) == 0, 15, s.runs[0].stays.servers)
        ),
    ),
    "too early an end": (
        "work",
        lambda s: stays_changed(
            s,
            0,
            work_to_s=shifted(s.runs[0].stays.work_to_s, -1, -0.1),
            held_to_s=shifted(s.runs[0].stays.held_to_s, -1, -0.1),
        ),
    ),
    "too early an end where jobs contend": (
        "work",
        lambda s: stays_changed(
            s,
            1,
            work_to_s=shifted(s.runs[1].stays.work_to_s, 0, -0.01),
            held_to_s=shifted(s.runs[1].stays.held_to_s, 0, -0.01),
        ),
    ),
    "a start before the arrival": (
        "times",
        lambda s: stays_changed(s, 0, held_from_s=s.runs[0].stays.held_from_s - 0.1),
    ),
    "no time for circuits": ("switching", lambda s: stays_changed(s, 0, work_from_s=s.runs[0].stays.held_from_s)),
    "servers kept after the work": (
        "held",
        lambda s: stays_changed(s, 1, held_to_s=shifted(s.runs[1].stays.held_to_s, -1, 0.1)),
    ),
    "a job left out": ("finished", lambda s: run_changed(s, 1, finished=s.runs[1].finished & (np.arange(14) > 0))),
    "a fabric left out": ("runs", lambda s: replace(s, runs=s.runs[:-1])),
    "another fabric": ("fabric", lambda s: run_changed(s, 1, fabric=replace(RANDOM, oversubscription=2.0))),
    "another objective": ("objective", lambda s: replace(s, objective=Objective("mean_completion_time", 1.0, "s"))),
    "another bound": ("bound", lambda s: replace(s, bound=Bound(0.5, Argument.ALONE))),
    "called optimal": ("status", lambda s: replace(s, status=Status.OPTIMAL)),
    "another instance": ("instance-sha256", lambda s: replace(s, instance_sha256="0" * 64)),
    "another class": ("classes", lambda s: replace(s, classes=(replace(s.classes[0], compute_ms=1.0), s.classes[1]))),
    "another arrival": (
        "jobs",
        lambda s: replace(s, jobs=replace(s.jobs, arrival_s=shifted(s.jobs.arrival_s, -1, 1.0))),
    ),
    "fewer iterations": (
        "jobs",
        lambda s: replace(s, jobs=replace(s.jobs, iterations=np.maximum(1, s.jobs.iterations - 1))),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_solution_is_rejected(problem: SharedCluster, solution: SharedClusterSolution, name: str) -> None:
    """Each change is told by the code of the law it breaks."""
    code, change = CHANGES[name]
    assert code in {violation.code for violation in check_shared_cluster(problem, change(solution)).violations}


def test_fabrics_that_are_not_there_are_named(problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """The first fabric alone, as a search for the objective leaves it, is no whole solution: the check says so."""
    alone = solve(problem, SolveOptions(objective_only=True))
    for one in (alone, replace(solution, runs=solution.runs[:1])):
        findings = check_shared_cluster(problem, one)
        assert findings.ok
        assert "jobs on thin, tree" in {each.figure for each in findings.not_recomputed}
    assert not any(each.figure.startswith("jobs on") for each in check_shared_cluster(problem, solution).not_recomputed)


@pytest.mark.parametrize("goal", Goal)
def test_the_objective_is_found_twice(problem: SharedCluster, monkeypatch: pytest.MonkeyPatch, goal: Goal) -> None:
    """What the simulation states is met by the checker's own sum; altered in the simulation alone, it is rejected."""
    problem = replace(problem, goal=goal)
    assert solve(problem).check.ok

    def altered(goal: Goal, run: FabricRun, jobs: JobTable) -> Objective:
        found = objective_of(goal, run, jobs)
        return replace(found, value=1.01 * found.value)

    monkeypatch.setattr("topoopt.kinds.shared_cluster.arrivals.objective_of", altered)
    assert any(text.startswith("objective") for text in solve(problem).check.violations)


def test_a_long_run_is_followed_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are enough to see that a job had too little time."""
    monkeypatch.setattr("topoopt.verify.shared_cluster.contention.MOMENTS", 30)
    jobs = [(2.0 * j, 0, 30) for j in range(60)]
    problem = shared_cluster(jobs, CLASSES, servers=16, fabrics=(RANDOM,))
    solution = solve(problem)
    assert solution.check.ok
    stays = solution.runs[0].stays
    ends = stays.held_to_s - 0.05 * (stays.held_to_s - stays.held_from_s)
    wrong = stays_changed(solution, 0, work_to_s=ends, held_to_s=ends)
    assert "work" in {violation.code for violation in check_shared_cluster(problem, wrong).violations}


def test_least_total_time_of_one_machine() -> None:
    """Shortest remaining time first by hand: 4 from 0 s is interrupted at 1 s by 1, ends at 5 s; 2 from 6 s at 8 s."""
    assert least_total_s(np.array([0.0, 1.0, 6.0]), np.array([4.0, 1.0, 2.0])) == pytest.approx(5.0 + 1.0 + 2.0)


def test_two_bounds_on_the_completion_time() -> None:
    """Ten jobs of all servers at once wait for each other: the area bound is met by running one after the other."""
    problem = shared_cluster([(0.0, 0, 10)] * 10, [JobClass("all", 8, (1000.0,), 1000.0)])
    solution = solve(problem)
    assert solution.bound.value == pytest.approx(55.0)
    assert solution.status is Status.OPTIMAL
