"""Bound <= exact <= every heuristic, on hundreds of small random problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network.exact import METHODS, by_program
from solvers.network.polish import SearchBudget
from solvers.network.routing import route
from solvers.network.search import search_topology
from solvers.network.seeds import SEEDS
from solvers.network.space import ExactLimits, open_space
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.network import TopologyProblem
from topoopt.kinds.network.search import formula_bound

SIZES = [
    (2, 1, LinkDirection.UNIDIRECTIONAL),
    (3, 1, LinkDirection.UNIDIRECTIONAL),
    (3, 2, LinkDirection.UNIDIRECTIONAL),
    (4, 2, LinkDirection.UNIDIRECTIONAL),
    (5, 2, LinkDirection.UNIDIRECTIONAL),
    (3, 2, LinkDirection.BIDIRECTIONAL),
    (4, 2, LinkDirection.BIDIRECTIONAL),
    (4, 3, LinkDirection.BIDIRECTIONAL),
    (5, 2, LinkDirection.BIDIRECTIONAL),
]


@st.composite
def problems(draw: st.DrawFn) -> TopologyProblem:
    """Few servers, skewed demand that may have gaps; all servers send to the next one."""
    n, degree, links = draw(st.sampled_from(SIZES))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    demand = rng.lognormal(0.0, draw(st.sampled_from([0.0, 1.0, 2.0])), (n, n))
    demand *= rng.random((n, n)) < draw(st.sampled_from([0.4, 1.0]))
    demand[np.arange(n), (np.arange(n) + 1) % n] += 0.1
    np.fill_diagonal(demand, 0.0)
    return TopologyProblem("drawn", n, degree, links, demand)


@given(problem=problems(), seed=st.integers(0, 9))
@settings(max_examples=200)
def test_bound_exact_search(problem: TopologyProblem, seed: int) -> None:
    """The formulas stay below the best of all topologies, and every seed and the search stay above."""
    best = METHODS["branch-and-bound"](problem, ExactLimits())
    assert best.bound.value == pytest.approx(best.theta, rel=1e-6)
    assert formula_bound(problem)[0].value <= best.theta * (1 + 1e-6)
    found = search_topology(problem, seed=seed, budget=SearchBudget(proposals=500, evaluations=5))
    assert found.routing.theta >= best.theta * (1 - 1e-6)
    for make in SEEDS.values():
        try:
            topology = make(problem.servers, problem.degree, problem.links, problem.demand, np.random.default_rng(seed))
        except InfeasibleError:
            continue
        assert route(topology, problem.demand).theta >= best.theta * (1 - 1e-6)


@given(problem=problems(), seed=st.integers(0, 9))
@settings(max_examples=30)
def test_two_exact_methods_agree(problem: TopologyProblem, seed: int) -> None:
    """Branch and bound of our own finds what HiGHS finds on the joint program, and proves what HiGHS claims."""
    best = METHODS["branch-and-bound"](problem, ExactLimits())
    found = by_program(open_space(problem), None, ExactLimits(seed=seed))
    assert found.theta == pytest.approx(best.theta, rel=1e-5)
    assert found.bound.value == pytest.approx(best.theta, rel=1e-5)
