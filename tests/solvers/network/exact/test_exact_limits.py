"""Exact topology methods at their limits: refusals, infeasible problems, what is never lost, demand of any size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from solvers.network.exact import METHODS
from solvers.network.local import refuse_large
from solvers.network.space import ExactLimits, open_space
from solvers.stop import Stop
from tests.support.every_topology import plain_theta
from tests.support.exact_cases import LIMITS, ONE_WAY, PAIRS, check, problem, skewed
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import TopologyPlan
from topoopt.core.result import SearchResult


def test_infeasible_hop_limits() -> None:
    """Below the Moore bound at once; above it by the program, with the smallest limit known and the Moore bound."""
    with pytest.raises(InfeasibleError, match="Moore bound is 3 hops"):
        METHODS["milp"](problem(8, 2, max_hops=2), LIMITS)
    # Six servers, one interface each: only the ring of 6 joins them, diameter 5 = the Moore bound.
    with pytest.raises(InfeasibleError, match="Moore bound is 5 hops"):
        METHODS["exact"](problem(6, 1, max_hops=4), LIMITS)
    # d = 2, n = 7 = 1 + 2 + 4: a Moore digraph of diameter 2 does not exist (Plesnik and Znam 1974).
    with pytest.raises(InfeasibleError, match=r"Moore bound is 2 hops, the smallest limit known to be feasible 3"):
        METHODS["milp"](problem(7, 2, max_hops=2), LIMITS)


def test_refusals_list_every_problem() -> None:
    """Bad demand, bad limits, unknown arcs: all named at once; methods refuse what they do not cover."""
    bad = problem(3, 0, np.array([[1.0, -1.0, 0.0]] * 3), max_hops=0, forbidden=((0, 9),))
    for method in METHODS.values():
        with pytest.raises(InputError) as caught:
            method(bad, LIMITS)
        assert {p.path for p in caught.value.problems} == {"degree", "demand", "max_hops", "forbidden"}
    with pytest.raises(InputError, match="enumerate"):
        METHODS["enumerate"](problem(5, 2, skewed(5, 0), max_hops=3), LIMITS)
    with pytest.raises(InputError, match="branch and bound"):
        METHODS["branch-and-bound"](problem(11, 2), LIMITS)
    with pytest.raises(InputError, match="too many circulants"):
        METHODS["circulant"](problem(200, 6), LIMITS)
    with pytest.raises(InputError, match="demand"):
        METHODS["exact"](problem(3, 1, np.zeros((3, 3))), LIMITS)


def test_everything_forbidden_is_infeasible() -> None:
    """A server nobody may send to: branch and bound and program both say so."""
    case = problem(4, 2, forbidden=((0, 3), (1, 3), (2, 3)))
    for method in ("branch-and-bound", "milp"):
        with pytest.raises(InfeasibleError):
            METHODS[method](case, LIMITS)


def test_a_given_incumbent_is_never_lost() -> None:
    """With no time at all, the program still returns the network it was given, and an honest bound."""
    case = problem(7, 2, skewed(7, 2, balanced=True))
    known = METHODS["circulant"](case, LIMITS)
    result = METHODS["milp"](case, ExactLimits(stop=Stop().within(0.05), incumbent=known.plan.topology))
    assert result.theta <= known.theta * (1 + 1e-9)
    assert result.bound.value <= result.theta
    assert result.bound.value >= open_space(case).bound.value * (1 - 1e-9)


def test_same_seed_same_result() -> None:
    """Two runs of the program give the same links and the same flow."""
    case = problem(5, 2, skewed(5, 4, balanced=True))
    one, two = (METHODS["milp"](case, LIMITS) for _ in range(2))
    np.testing.assert_array_equal(one.plan.topology.arcs, two.plan.topology.arcs)
    np.testing.assert_array_equal(one.plan.flows[0].flow, two.plan.flows[0].flow)


@pytest.mark.parametrize("method", ["exact", "milp", "branch-and-bound"])
def test_a_network_is_kept_before_the_long_part(method: str) -> None:
    """Whoever has to leave a method has its first network, with a bound that holds."""
    kept: list[SearchResult[TopologyPlan]] = []
    case = problem(5, 2, skewed(5, 4, balanced=True))
    result = METHODS[method](case, ExactLimits(on_incumbent=kept.append))
    assert kept
    for first in kept:
        assert all(bound.verified and bound.value <= result.theta * (1 + 1e-9) for bound in first.bounds)
        topology = first.plan.topology
        load = first.plan.flows[0].load(topology) / topology.capacity
        assert load.max() >= result.theta * (1 - 1e-9)


@pytest.mark.parametrize("seed", [3, 6])
@pytest.mark.parametrize("links", [ONE_WAY, PAIRS])
def test_demand_over_fourteen_orders_of_magnitude(seed: int, links: LinkDirection) -> None:
    """Small demands beside large ones, below what solvers call 0: the bound is exact all the same, and is reached."""
    n = 4 + seed % 2
    demand = 10.0 ** np.random.default_rng(seed).uniform(-14, 0, (n, n))
    np.fill_diagonal(demand, 0.0)
    case = problem(n, 2, demand, links=links)
    result = METHODS["branch-and-bound"](case, LIMITS)
    counts = check(case, result)
    assert result.optimal
    assert result.bound.verified
    assert plain_theta(demand / demand.sum(), counts) * demand.sum() == pytest.approx(result.theta, rel=1e-6)


def test_most_servers_of_a_local_search_are_named() -> None:
    """53 at degree 4: (2^30 / 8)^(1/4) / 2 is 53.8."""
    space: Any = SimpleNamespace(problem=SimpleNamespace(servers=53, degree=4))
    refuse_large(space)
    space.problem.servers = 54
    with pytest.raises(InputError, match=r"<= 53, or method portfolio"):
        refuse_large(space)
