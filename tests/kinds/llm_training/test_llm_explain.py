"""What more memory, links or servers would gain is the best strategy of the changed cluster, found by search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.llm_training import strategies
from tests.support.smallest import problem_of, solution_of
from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError
from topoopt.kinds.llm_training.methods import explain
from topoopt.kinds.pipeline import Question, solve


def test_gains_are_solved_again() -> None:
    """Each is what `solve` finds for the changed cluster; nothing that is added makes the best strategy slower."""
    problem, solution = problem_of("llm-training"), solution_of("llm-training")
    found = explain(solution, Question())
    gains = {one["change"]: one for one in found.figures["changes"]}
    assert not found.late
    cluster = problem.cluster
    changed = {
        "16 GiB more memory a GPU": replace(cluster, gpu_memory_bytes=cluster.gpu_memory_bytes + 16 * GIB),
        "links twice as fast": replace(cluster, link_gbps=2 * cluster.link_gbps),
        "8 servers": replace(cluster, servers=8),
    }
    for change, own in changed.items():
        again = solve(replace(problem, cluster=own)).objective.value
        assert gains[change]["iteration_time_s"] == pytest.approx(again, rel=1e-9)
        faster = 100 * (solution.objective.value / again - 1)
        assert gains[change]["faster_percent"] == pytest.approx(faster, abs=1e-6)
        assert gains[change]["faster_percent"] >= -1e-9
    assert any("transfers between stages" in word for word in found.words)


def test_the_instance_in_the_solution_serves() -> None:
    """The solution is explained by its own instance; one of another instance is refused."""
    problem, solution = problem_of("llm-training"), solution_of("llm-training")
    assert explain(solution, Question(checks=1)).figures["changes"]
    other = replace(problem, sha256="0" * 64)
    with pytest.raises(InputError, match="not a solution of this instance"):
        explain(replace(solution, problem=other), Question(checks=1))


def test_gains_on_a_network_are_of_that_network() -> None:
    """Not of an ideal switch: each is what `solve` finds on the fabric of the plan, with a link more or faster ones."""
    problem = problem_of("llm-training")
    space = replace(problem.space, tensor=(4,), context=(1,), pipeline=(1, 2), zero=(1,), short_ends=())
    cluster = replace(problem.cluster, per_gpu=False, gpu_memory_bytes=None, degree=2)
    problem = replace(problem, space=space, cluster=cluster, fabrics=("direct-connect",))
    solution = solve(problem)
    assert solution.objective.value > solution.figures.ranked[0].iteration_time_s
    found = explain(solution, Question())
    gains = {one["change"]: one for one in found.figures["changes"]}
    changed = {
        "1 more link a server": replace(cluster, degree=3),
        "links twice as fast": replace(cluster, link_gbps=2 * cluster.link_gbps),
    }
    for change, own in changed.items():
        again = solve(replace(problem, cluster=own)).objective.value
        assert gains[change]["iteration_time_s"] == pytest.approx(again, rel=1e-9)
        assert gains[change]["faster_percent"] == pytest.approx(100 * (solution.objective.value / again - 1), abs=1e-6)
    assert found.notes == (
        "gains are those of the best strategy of the changed cluster on direct-connect, searched anew",
    )


def test_gains_of_a_search_that_gave_up_are_at_least_so_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The patience of a search that need not prove anything ends: no limit was met, and yet nothing is proven."""
    problem = problem_of("llm-training")
    space = replace(problem.space, tensor=(2, 4), context=(1,), pipeline=(1, 2), zero=(1,), short_ends=())
    monkeypatch.setattr(strategies, "PATIENCE", 0)
    monkeypatch.setattr(strategies, "FIRST", 1)
    found = explain(solve(replace(problem, space=space, prove=False)), Question(checks=1))
    assert found.late
    assert [change["proven"] for change in found.figures["changes"]] == [False]
    assert "faster at least" in found.words[-1]
