"""Certified gaps of the topology search at balanced skew and theta at uniform demand, degree 4, with their times."""

from __future__ import annotations

import time

from solvers.network.polish import budget_of
from solvers.network.relays import cases_of
from solvers.network.search import search_topology
from tests.benchmarks.figures import Figure
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem
from topoopt.kinds.network.search import formula_bound
from topoopt.workloads.demands import demand_matrix

DEGREE = 4
SKEWED = ((16, 3.0, 20_000_000), (32, 5.0, 32_000_000), (64, 6.0, 80_000_000), (128, 8.0, 50_000_000))
"""Servers, goal for the gap in per cent, and swaps that the annealing proposes."""

LIMIT_S = 300.0
"""Goal for search, bound and check, of processor time."""

UNIFORM = ((16, 6.70), (32, 17.57), (64, 43.14))
"""Servers, and theta of the search in the reference table."""


def _problem(servers: int, family: str) -> TopologyProblem:
    demand = demand_matrix(family, servers, seed=1)
    return TopologyProblem(f"{family}-{servers}", servers, DEGREE, LinkDirection.UNIDIRECTIONAL, demand)


def _skewed(servers: int, goal: float, proposals: int) -> list[Figure]:
    problem = _problem(servers, "balanced-skew")
    began = time.process_time()
    theta = search_topology(problem, budget=budget_of(servers, proposals, 1e-4)).routing.theta
    took = time.process_time() - began
    began = time.process_time()
    bound = formula_bound(problem, cases=cases_of(servers, proposals))[0]
    bounding = time.process_time() - began
    name = f"topology of {servers}, balanced skew"
    gap = 100.0 * (theta / bound.value - 1.0)
    return [
        Figure(f"{name}: certified gap (theta {theta:.5g}, {bound.argument} {bound.value:.5g})", gap, "%", goal),
        Figure(
            f"{name}: search ({took:.3g} s) and bound with its check ({bounding:.3g} s)", took + bounding, "s", LIMIT_S
        ),
    ]


def topology_search_figures(only: int | None = None) -> list[Figure]:
    """Gap = theta / bound - 1; theta from a checked routing, the bound from a certificate re-evaluated by formula.

    Args:
        only: servers of the one size with skew that is asked for; None: all sizes.
    """
    small = _problem(6, "balanced-skew")
    search_topology(small)  # compile
    formula_bound(small)
    figures: list[Figure] = []
    for servers, goal, proposals in SKEWED:
        if only in (None, servers):
            figures += _skewed(servers, goal, proposals)
    if only is not None:
        return figures
    for servers, bound in UNIFORM:
        theta = search_topology(_problem(servers, "uniform")).routing.theta
        figures.append(Figure(f"topology of {servers}, uniform: theta", theta, "", bound))
    return figures
