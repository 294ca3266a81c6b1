"""Optimal is said of a solution whose value meets its bound, and of no other: one rule for every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from tests.support.cli_cases import job, operator
from tests.support.valid_solutions import CASES, HEAD, Valid, written
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import CheckResult, Decides, LeftOut
from topoopt.files.documents import Document
from topoopt.kinds import kind_of
from topoopt.kinds.files import build_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import FULL

BROADCAST = (
    HEAD + "collective, topology: {family: ring, servers: 4, link_gbytes_per_s: 10}, collective: allgather, "
    "bytes: 1MB, objective: latency}"
)
"""Two steps on a ring of four, whose diameter is two."""


def alone() -> Any:
    """A job that computes on both servers and sends nothing: no plan takes less than it computes."""
    return build_instance(Document("case.json", job(2, 1, [operator("o", 2, weights=0)]), lambda _: {}))


OPTIMAL: dict[str, Callable[[], Any]] = {
    **{
        name: CASES[name].problem
        for name in (
            "routing", "topology, bounds", "allocation, water-filling", "allocation, programs",
            "allocation, completion time", "placement, pipeline", "dag-topology", "regional-circuits, split",
            "hierarchy", "hierarchy, speeds",
        )
    },
    "job": alone,
    "collective": partial(written, BROADCAST),
}  # fmt: skip
"""Problems that are solved to the end."""

FEASIBLE = {name: CASES[name] for name in ("topology, totient", "collective, sum", "job", "dag-topology, slack")}
"""Some that are not, with the options of the search."""

LEFT_OUT = CheckResult(True, (), (LeftOut("bound", "a quick check", Decides.BOUND),))


@cache
def solved(name: str) -> tuple[Any, Any]:
    """A problem that is solved to the end, and its solution."""
    problem = OPTIMAL[name]()
    return problem, solve(problem, SolveOptions(seed=1))


def codes(problem: Any, solution: Any) -> set[str]:
    """What the checker objects to."""
    return {one.code for one in kind_of(problem).check(problem, solution, FULL).violations}


@pytest.mark.parametrize("name", OPTIMAL)
def test_optimal_is_said_both_ways(name: str) -> None:
    """A value at its bound is called optimal, and one that is a tenth away is not."""
    problem, solution = solved(name)
    assert solution.status is Status.OPTIMAL
    assert codes(problem, solution) == set()
    assert codes(problem, replace(solution, status=Status.FEASIBLE)) == {"status"}
    value = solution.objective.value
    for worse in (0.9 * value, 1.1 * value):
        far = replace(solution, bound=replace(solution.bound, value=worse))
        if (worse > value) is (name in ("allocation, water-filling", "allocation, programs")):
            assert "status" in codes(problem, far)
            assert "status" not in codes(problem, replace(far, status=Status.FEASIBLE))


@pytest.mark.parametrize("case", FEASIBLE.values(), ids=FEASIBLE)
def test_what_is_not_proven_is_called_feasible(case: Valid) -> None:
    """The searches end without a proof, and say so."""
    problem = case.problem()
    solution = solve(problem, case.options)
    assert solution.status is Status.FEASIBLE
    assert codes(problem, solution) == set()
    assert codes(problem, replace(solution, status=Status.OPTIMAL)) == {"status"}


@pytest.mark.parametrize("name", OPTIMAL)
def test_a_bound_that_is_only_claimed(name: str) -> None:
    """A file that says itself that its bound was left out by the check says feasible."""
    problem, solution = solved(name)
    assert codes(problem, replace(solution, status=Status.FEASIBLE, check=LEFT_OUT)) == set()


def test_levels_that_were_cut_short() -> None:
    """The least rate may be at its bound before those above it are fair."""
    problem, solution = solved("allocation, programs")
    early = replace(solution, stopped_by=StopReason.TIME)
    assert codes(problem, replace(early, status=Status.FEASIBLE)) == set()
    assert codes(problem, early) == set()
