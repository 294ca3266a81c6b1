"""Demands of any size, and small entries beside large ones: the same networks, the same proofs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solvers.network.enumeration import maximal_networks
from solvers.network.exact import branch, cut_off, without_negligible
from solvers.network.space import open_space
from solvers.network.space import route as exact_route
from solvers.stop import Stop
from tests.support.network_cases import on_network
from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import RoutingProblem, SourceFlow, TopologyProblem
from topoopt.core.proofs import Status
from topoopt.core.result import RobustSearchSettings
from topoopt.core.topology import Topology
from topoopt.kinds import kind_of
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import FULL
from topoopt.verify.laws.routing import check_flow, check_hops
from topoopt.verify.network.checker import check_network

ONE_WAY = LinkDirection.UNIDIRECTIONAL


def drawn(seed: int, n: int = 5) -> Floats:
    """A dense demand of entries up to 1."""
    rng = np.random.default_rng(seed)
    demand = rng.random((n, n)) * (rng.random((n, n)) < 0.8)
    np.fill_diagonal(demand, 0.0)
    return demand


def spread(seed: int, n: int = 5) -> Floats:
    """A demand whose entries are spread over 14 orders of magnitude."""
    demand = 10.0 ** np.random.default_rng(seed).uniform(-14, 0, (n, n))
    np.fill_diagonal(demand, 0.0)
    return demand


def problem_of(demand: Floats, **fields: Any) -> TopologyProblem:
    """A topology of two one-way links a server."""
    return TopologyProblem("case", len(demand), 2, ONE_WAY, demand, **fields)


def least_theta(problem: TopologyProblem) -> float:
    """Every network routed, one by one."""
    space = open_space(problem)
    routed = [exact_route(problem.demand, counts) for counts in maximal_networks(space) if space.fits(counts)]
    return min(each.theta for each in routed if each is not None)


def chordal(n: int) -> Topology:
    """i -> i + 1 and i -> i + 2."""
    arcs = [(i, (i + step) % n) for i in range(n) for step in (1, 2)]
    return Topology.of_arcs(n, arcs, degree=2, links=ONE_WAY, origin="chords")


@pytest.mark.parametrize("method", ["auto", "exact", "milp", "branch-and-bound"])
@pytest.mark.parametrize("factor", [1e-12, 1e-9, 1e-6])
def test_exact_methods_prove_small_demands(method: str, factor: float) -> None:
    """The best of all networks for the demand as it is, times the factor."""
    demand = drawn(3, 4)
    best = least_theta(problem_of(demand))
    found = solve(problem_of(demand * factor), SolveOptions(method=method))
    assert found.check.ok, found.check.violations
    assert found.status is Status.OPTIMAL
    assert found.figures.theta == pytest.approx(best * factor, rel=1e-9)
    assert found.bound is not None
    assert found.bound.value == pytest.approx(best * factor, rel=1e-6)


RULES: dict[str, dict[str, Any]] = {
    "forbidden": {"forbidden": ((0, 1), (2, 3))},
    "kept": {"kept": tuple((i, (i + 1) % 4) for i in range(4)), "max_changed": 1},
    "single": {"parallel_links": False},
}


@pytest.mark.parametrize("rule", RULES)
def test_robust_designs_of_small_demands(rule: str) -> None:
    """Theta after the worst failure is that of the demand as it is, times the factor, under every constraint."""
    demand = drawn(4, 4)
    settings = RobustSearchSettings(method="robust")
    whole, small = (solve(problem_of(demand * factor, search=settings, **RULES[rule])) for factor in (1.0, 1e-9))
    assert whole.check.ok
    assert small.check.ok
    assert whole.figures.robustness is not None
    assert small.figures.robustness is not None
    assert small.figures.robustness.worst_theta == pytest.approx(1e-9 * whole.figures.robustness.worst_theta, rel=1e-9)


def test_robust_designs_without_a_neighbour() -> None:
    """Three servers in a triangle of single links: no other network, so that none is one exchange away."""
    demand = np.ones((3, 3)) - np.eye(3)
    problem = TopologyProblem("triangle", 3, 3, LinkDirection.BIDIRECTIONAL, demand, parallel_links=False)
    found = solve(problem, SolveOptions(method="robust"))
    assert found.check.ok, found.check.violations
    assert found.figures.theta == pytest.approx(1.0)  # every pair has its own link
    assert found.figures.robustness is not None
    assert found.figures.robustness.worst_theta == pytest.approx(2.0)  # 0 - 1 fails: 1 and 1 over 0 - 2 each way


@pytest.mark.parametrize("seed", range(12))
def test_branch_and_bound_keeps_spread_demands(seed: int) -> None:
    """Its bound is none that a network beats, and it calls no problem infeasible that a network solves.

    Independent: the best of all networks, each routed.
    """
    problem = problem_of(spread(seed, 4))
    best = least_theta(problem)
    space = open_space(problem)
    found = branch(space, None, Stop(), seed)
    assert found.bound <= best * (1 + 1e-7)
    assert found.bound >= best * (1 - 1e-6)
    assert found.counts is not None
    assert cut_off(space, found.counts) is None
    routed = exact_route(problem.demand, found.counts)
    assert routed is not None
    assert routed.theta == pytest.approx(best, rel=1e-6)


def test_short_of_time_the_bound_of_a_spread_demand_holds() -> None:
    """A run that is cut short claims nothing that all networks together contradict."""
    for seed in range(3):
        problem = problem_of(spread(seed, 4))
        best = least_theta(problem)
        found = solve(problem, SolveOptions(method="milp", time_limit_s=0.2))
        assert found.check.ok, found.check.violations
        assert found.bound is None or found.bound.value <= best * (1 + 1e-9)
        assert found.status is not Status.OPTIMAL or found.figures.theta <= best * (1 + 1e-6)


def test_only_dust_is_left_out_of_a_program() -> None:
    """The least entries go, as long as they are no more than that together."""
    demand = np.array([[0.0, 1.0, 3e-9], [4e-9, 0.0, 5e-9], [2.0, 1e-7, 0.0]])
    left = without_negligible(demand, 1e-8)
    np.testing.assert_array_equal(left, [[0.0, 1.0, 0.0], [0.0, 0.0, 5e-9], [2.0, 1e-7, 0.0]])


PROBLEMS: dict[str, dict[str, Any]] = {
    "free": {},
    "hops": {"max_hops": 4},
    "price": {"hop_price": 0.1},
    "common": {"several": True},
    "adapted": {"several": True, "routing": "adapted"},
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_every_routing_delivers_small_entries(case: str) -> None:
    """Entries of 1e-14 beside those of 1: each method delivers each of them, as the checker sees to 1e-9 of it."""
    fields = dict(PROBLEMS[case])
    demand = spread(7, 6)
    if fields.pop("several", False):
        demand = np.array([demand, demand.T])
    problem = RoutingProblem("case", chordal(6), demand, **fields)
    ran = 0
    for method, line in kind_of(problem).methods(problem).items():
        if method == "orbits" or line.covers(problem) is not None or (method in FREE_ONLY and case != "free"):
            continue
        found = solve(problem, SolveOptions(method=method))
        assert found.check.ok, (method, found.check.violations)
        ran += 1
    assert ran >= 2


FREE_ONLY = ("frank-wolfe", "softmin")
"""Methods that know no limits or prices of hops."""


def small_beside_large() -> tuple[Topology, Floats, Floats]:
    """A one-way ring of three, 1 from 0 to 2 and 1e-12 from 0 to 1; the flow of both."""
    ring = Topology.of_arcs(3, [(0, 1), (1, 2), (2, 0)], degree=1, links=ONE_WAY, origin="ring")
    demand = np.zeros((3, 3))
    demand[0, 2], demand[0, 1] = 1.0, 1e-12
    flow = np.zeros((3, 3))
    flow[0] = [1.0 + 1e-12, 1.0, 0.0]
    return ring, demand, flow


def test_small_entries_left_undelivered_are_found() -> None:
    """Leaving out 1e-12 beside 1, or delivering it to another server, breaks the law of flows; all of it passes."""
    ring, demand, flow = small_beside_large()
    assert check_flow(ring, demand, SourceFlow(flow)).ok
    lost = flow.copy()
    lost[0, 0] = 1.0
    assert any("server 1" in text for text in check_flow(ring, demand, SourceFlow(lost)).violations)
    elsewhere = flow.copy()
    elsewhere[0, 1] += 1e-12
    assert not check_flow(ring, demand, SourceFlow(elsewhere)).ok
    half = flow.copy()
    half[0, 0] = 1.0 + 0.5e-12
    assert not check_flow(ring, demand, SourceFlow(half)).ok


def test_small_entries_on_long_ways_are_found() -> None:
    """2e-12 of a flow of 1 goes two hops where one is allowed: the hops do not add up."""
    ring, demand, _ = small_beside_large()
    demand[0, 2] = 2e-12
    demand[0, 1] = 1.0
    flow = np.zeros((3, 3))
    flow[0] = [1.0 + 2e-12, 2e-12, 0.0]
    assert check_flow(ring, demand, SourceFlow(flow)).ok
    at_once = np.zeros((1, 3, 3))
    at_once[0] = flow
    assert check_hops(ring, SourceFlow(flow, at_once), 1)
    split = np.zeros((2, 3, 3))
    split[0, 0], split[1, 0] = [1.0 + 2e-12, 0.0, 0.0], [0.0, 2e-12, 0.0]
    assert check_hops(ring, SourceFlow(flow, split), 2) == ()


def test_a_solution_that_leaves_small_entries_is_rejected() -> None:
    """The checker of solutions says so as well."""
    ring, demand, flow = small_beside_large()
    problem = RoutingProblem("case", ring, demand)
    found = solve(problem)
    assert found.check.ok, found.check.violations
    flow[0, 0] = 1.0
    damaged = on_network(found, flow=flow)
    assert "flow" in {law.code for law in check_network(problem, damaged, FULL).violations}
