"""Arguments behind bounds, kind by kind: what each proves passes; more, or any other in its place, is rejected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from tests.support import at_once_cases
from tests.support.paths import INSTANCES
from tests.support.valid_solutions import FEW_STRATEGIES, written
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import TopooptError
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.proofs import CLAIMED, Argument, Bound, Status
from topoopt.kinds import kind_of
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.allocation import CHECKER
from topoopt.verify.checker import BRIEF
from topoopt.verify.hierarchy import arguments as hierarchy_arguments
from topoopt.verify.network.checker import checker_of
from topoopt.verify.placement.check import checker_of as placement_checker_of

SKEWED = np.array([[0, 3, 1, 1, 2], [1, 0, 2, 1, 1], [1, 1, 0, 4, 1], [2, 1, 1, 0, 1], [1, 1, 5, 1, 0]], dtype=float)
UNIFORM = np.ones((4, 4)) - np.eye(4)

Table = Callable[[Any, Any], Mapping[Argument, Callable[[], float]]]


def _network(problem: Any, solution: Any) -> Mapping[Argument, Callable[[], float]]:
    return {
        argument: partial(derive, problem, solution.certificates)
        for argument, derive in checker_of(problem).arguments(problem).items()
    }


def _allocation(problem: Any, solution: Any) -> Mapping[Argument, Callable[[], float]]:
    return {
        argument: partial(derive, problem, solution.certificates)
        for argument, derive in CHECKER.arguments(problem).items()
    }


def _placement(problem: Any, solution: Any) -> Mapping[Argument, Callable[[], float]]:
    return {
        argument: partial(derive, problem, solution.certificates)
        for argument, derive in placement_checker_of(problem).arguments(problem).items()
    }


def _hierarchy(problem: Any, solution: Any) -> Mapping[Argument, Callable[[], float]]:
    return {
        argument: partial(derive, problem, solution.certificates)
        for argument, derive in hierarchy_arguments(problem).items()
    }


def _own(problem: Any, solution: Any) -> Mapping[Argument, Callable[[], float]]:
    """Of kinds with one argument for a problem: what the solution rests on."""
    return {solution.bound.argument: partial(float, solution.bound.value)}


@dataclass(frozen=True)
class Case:
    """A problem, how it is solved, the table of what its kind derives again, and the status with each of that."""

    problem: Callable[[], Any]
    table: Table
    options: SolveOptions = field(default_factory=lambda: SolveOptions(seed=1))
    status: Status = Status.FEASIBLE


def shipped(name: str) -> Callable[[], Any]:
    """An instance of ours."""
    return partial(read_instance, INSTANCES / f"{name}.yaml")


def _common() -> RoutingProblem:
    given = read_instance(INSTANCES / "networks" / "k4-4.yaml")
    n = given.topology.servers
    demands = np.stack([np.roll(np.eye(n), k, axis=1) for k in (1, 2)])
    return RoutingProblem("common", given.topology, demands, routing="common")


def _skewed(**fields: Any) -> TopologyProblem:
    return TopologyProblem("skewed", 5, 2, LinkDirection.UNIDIRECTIONAL, SKEWED, **fields)


CASES = {
    "routing": Case(shipped("networks/k4-4"), _network),
    "routing, common": Case(_common, _network),
    "topology": Case(_skewed, _network, SolveOptions(method="kautz")),
    "topology, no parallel links": Case(partial(_skewed, parallel_links=False), _network),
    "topology, listed": Case(shipped("networks/uniform-8-2"), _network, SolveOptions(method="enumerate")),
    "allocation, one route": Case(shipped("networks/parking-lot-5"), _allocation),
    "allocation, routes": Case(shipped("networks/guarantees-6"), _allocation),
    "hierarchy": Case(shipped("hierarchical/resnet50-3d"), _hierarchy),
    "placement, throughput": Case(shipped("placement/branches-3"), _placement, SolveOptions(method="slices")),
    "job": Case(shipped("tiny-4"), _own, SolveOptions(budget=20, seed=1)),
    "jobs that arrive": Case(shipped("shared/trace-16"), _own),
    "jobs at once": Case(lambda: at_once_cases.read(at_once_cases.instance()), _own),
    "collective, sum": Case(shipped("collectives/ring-5"), _own),
    "collective, all-to-all": Case(shipped("collectives/dgx2-2-all-to-all"), _own, status=Status.OPTIMAL),
    "llm-training": Case(partial(written, FEW_STRATEGIES), _own, status=Status.OPTIMAL),
}


@cache
def solved(case: str) -> tuple[Any, Any]:
    """A problem with its solution, which passes."""
    problem = CASES[case].problem()
    solution = solve(problem, CASES[case].options)
    assert solution.check.violations == ()
    return problem, solution


def passes(problem: Any, solution: Any, **fields: Any) -> bool:
    """Whether the checker accepts the solution with other fields."""
    return not kind_of(problem).check(problem, replace(solution, **fields), BRIEF).violations


KNOWN = (Status.OPTIMAL, Status.FEASIBLE)


@pytest.mark.parametrize("case", CASES)
def test_what_an_argument_proves_passes_and_more_does_not(case: str) -> None:
    """Each argument of the table stands for its own bound; a millionth more than it proves is found out."""
    problem, solution = solved(case)
    value, maximise = solution.objective.value, kind_of(problem).maximise(problem)
    tried = 0
    for argument, derive in CASES[case].table(problem, solution).items():
        try:
            proven = derive()
        except (TopooptError, ValueError):  # what has no certificate in this file: no value makes it pass
            assert not passes(problem, solution, bound=Bound(value, argument), status=CASES[case].status)
            continue
        stated = max(proven, value) if maximise else min(proven, value)
        raised = stated * (1 - 1e-6) if maximise else stated * (1 + 1e-6)
        accepted = [
            [
                passes(problem, solution, bound=Bound(bound, argument), claimed_bound=None, status=status)
                for status in KNOWN
            ]
            for bound in (stated, raised)
        ]
        assert any(accepted[0]), argument  # optimal at its bound, feasible else
        assert not any(accepted[1]), argument
        tried += 1
    assert tried


@pytest.mark.parametrize("case", CASES)
def test_any_other_argument_proves_nothing(case: str) -> None:
    """Bound = value, status = optimal: only what really proves that much may say so."""
    problem, solution = solved(case)
    value = solution.objective.value
    table = CASES[case].table(problem, solution)
    for argument in Argument:
        if passes(problem, solution, bound=Bound(value, argument), status=Status.OPTIMAL, claimed_bound=None):
            assert argument in table
            assert argument not in CLAIMED
            assert table[argument]() == pytest.approx(value, rel=1e-6)
