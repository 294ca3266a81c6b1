"""Every kind and every method: the same problem in other units has the same status, and its objective in those units.

Each problem is solved as it is and with all its demands, times or rates multiplied by one factor (`support.scaled`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest

from tests.support import allocation_cases, at_once_cases, hierarchical_cases, placement_cases
from tests.support.allocation_cases import along
from tests.support.scaled import scaled
from tests.support.smallest import problem_of
from topoopt.core.allocation import AllocationGoal, AllocationProblem
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.placement import Latency, Sharing, StageShape, Throughput
from topoopt.core.proofs import Argument
from topoopt.core.topology import Topology
from topoopt.kinds import KINDS, kind_of
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

FEW = (2.0**-40, 1e9)
"""Factors that every run takes; the others are for `heavy`."""

MORE = (1e-12, 1e-9, 1e-6, 1e-3, 1e3, 1e6, 2.0**40, 1e12)

ONE_WAY = LinkDirection.UNIDIRECTIONAL

ROUGH = {"pdlp": 1e-5, "frank-wolfe": 1e-2, "softmin": 5e-2}
"""Methods that end at a gap, anywhere within it."""

IN_DIGITS = {Argument.RELAY_BLOCKS: 1e-5, Argument.RELAY_CASES: 1e-5}
"""Bounds whose prices are decimals of few digits, which fit some units better than others; else 1e-6."""


def networks() -> dict[str, Any]:
    """A topology, and routings with all that may be asked of them."""
    demand = np.random.default_rng(3).random((5, 5))
    np.fill_diagonal(demand, 0.0)
    arcs = [(i, (i + step) % 5) for i in range(5) for step in (1, 2)]
    given = Topology.of_arcs(5, arcs, degree=2, links=ONE_WAY, origin="chords")
    uniform = np.ones((5, 5)) - np.eye(5)
    both = np.array([demand, demand.T])
    routing = RoutingProblem("routing", given, demand)
    topology = TopologyProblem("topology", 5, 2, ONE_WAY, demand)
    return {
        "topology": topology,
        "topology, uniform": replace(topology, demand=uniform),
        "topology, several": replace(topology, demand=both),
        "routing": routing,
        "routing, uniform": replace(routing, demand=uniform),
        "routing, hops": replace(routing, max_hops=3),
        "routing, price": replace(routing, hop_price=0.1),
        "routing, common": replace(routing, demand=both),
        "routing, adapted": replace(routing, demand=both, routing="adapted"),
    }


def allocations() -> dict[str, AllocationProblem]:
    """Transfers with and without a choice of routes, under each goal."""
    square = allocation_cases.network(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 0)])
    cases = {}
    for goal in get_args(AllocationGoal):
        fields: dict[str, dict[str, float]]
        fields = {"a": {"size_bytes": 1e9}, "b": {"size_bytes": 3e9}, "c": {"size_bytes": 2e8}}
        if goal != "completion-time":
            fields = {name: {"max_gbps": 33.0} if name == "c" else {} for name in "abc"}
        if goal == "weighted":
            fields["b"]["weight"] = 2.0
        if goal == "min-guarantee":
            fields["b"]["min_gbps"] = 7.0
        split = [along(square, "a", (0, 1, 2), (0, 2), **fields["a"]), along(square, "b", (0, 2), **fields["b"]),
                 along(square, "c", (2, 3, 0), (2, 0), **fields["c"])]  # fmt: skip
        single = [along(square, "a", (0, 1, 2), **fields["a"]), along(square, "b", (1, 2), **fields["b"]),
                  along(square, "c", (1, 2, 3), **fields["c"])]  # fmt: skip
        cases[f"allocation, {goal}"] = allocation_cases.problem(square, split, goal=goal)
        cases[f"allocation of single routes, {goal}"] = allocation_cases.problem(square, single, goal=goal)
    given = cases[f"allocation, {'min-guarantee'}"]
    return {**cases, "allocation, sum": replace(given, surplus="sum")}


def placements() -> dict[str, Any]:
    """Pipelines of every shape, and steps with every way to share."""
    pipelines = {
        f"placement, {stages}": placement_cases.random_problem(
            5, operators=4, devices=2, backward=True,
            settings=Throughput(stages=stages, stages_per_device=2 if stages == "interleaved" else 1),
        )
        for stages in get_args(StageShape)
    }  # fmt: skip
    step = placement_cases.random_problem(6, operators=4, devices=2)
    return {**pipelines, **{f"placement, {way}": replace(step, objective=Latency(way)) for way in get_args(Sharing)}}


def hierarchies() -> dict[str, Any]:
    """Every objective."""
    make = hierarchical_cases.random_instance
    documents = {
        "time": make(3, objective="time", pareto_points=2),
        "time x cost": make(3, objective="time-times-cost"),
        "cost": make(3, objective="cost", time_limit_ns=2e9),
    }
    return {f"hierarchy, {name}": hierarchical_cases.problem_of(each) for name, each in documents.items()}


@cache
def cases() -> dict[str, Any]:
    """All of them."""
    return {
        **networks(),
        **allocations(),
        **placements(),
        **hierarchies(),
        "shared cluster": problem_of("shared-cluster"),
        "shared cluster of jobs at once": at_once_cases.read(at_once_cases.instance()),
        "job": problem_of("co-optimisation"),
        "collective": problem_of("collective"),
        "llm-training": problem_of("llm-training"),
        "dag-topology": problem_of("dag-topology"),
        "regional-circuits": problem_of("regional-circuits"),
        "parallel-circuits": problem_of("parallel-circuits"),
    }


def runs() -> list[Any]:
    """Every case with every method that covers it, and every factor."""
    found = []
    for name, problem in cases().items():
        for method, line in kind_of(problem).methods(problem).items():
            if line.covers(problem) is not None:
                continue
            found += [pytest.param(name, method, factor, id=f"{name}-{method}-{factor:.3g}") for factor in FEW]
            found += [
                pytest.param(name, method, factor, id=f"{name}-{method}-{factor:.3g}", marks=pytest.mark.heavy)
                for factor in MORE
            ]
    return found


@cache
def as_it_is(name: str, method: str) -> Any:
    """Solved in its own units; None where the method does not cover it after all."""
    try:
        return solve(cases()[name], options_of(cases()[name], method))
    except InputError:
        return None


def options_of(problem: Any, method: str) -> SolveOptions:
    """Small budgets instead of limits of time, so that the same is done in all units."""
    budget = 40 if kind_of(problem).takes_budget else None
    return SolveOptions(method=method, seed=0, budget=budget, objective_only=True)


def test_every_kind_is_here() -> None:
    """A new kind is scaled too."""
    assert {problem.kind for problem in cases().values()} == set(KINDS)


@pytest.mark.parametrize(("name", "method", "factor"), runs())
def test_other_units_change_nothing_but_units(name: str, method: str, factor: float) -> None:
    """Status and verdict the same, objective times the factor to rounding (or the gap of the method)."""
    expected = as_it_is(name, method)
    problem, unit = scaled(cases()[name], factor)
    if expected is None:
        with pytest.raises(InputError):
            solve(problem, options_of(problem, method))
        return
    found = solve(problem, options_of(problem, method))
    assert found.check.ok is expected.check.ok  # what is wrong with a plan is for the tests of its kind
    tolerance = ROUGH.get(method, 1e-9)
    robust = expected.figures.robustness if problem.kind == "topology" else None
    if robust is not None:  # of networks whose worst failure is as bad, any may come
        assert found.figures.robustness.worst_theta == pytest.approx(unit * robust.worst_theta, rel=tolerance, abs=0.0)
        return
    assert found.status is expected.status or method in ROUGH
    assert found.objective.value == pytest.approx(unit * expected.objective.value, rel=tolerance, abs=0.0)
    assert (found.bound is None) is (expected.bound is None)
    if expected.bound is not None:
        close = max(tolerance, IN_DIGITS.get(expected.bound.argument, 1e-6))
        assert found.bound.value == pytest.approx(unit * expected.bound.value, rel=close, abs=0.0)
