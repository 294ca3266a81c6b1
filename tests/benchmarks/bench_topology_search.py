"""Certified gaps of the topology search at balanced skew and theta at uniform demand, degree 4, with their times."""

from __future__ import annotations

import time

from solvers.network.search import search_topology
from tests.benchmarks.figures import Figure
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem
from topoopt.kinds.network.bounds import formula_bound
from topoopt.workloads.demand_matrices import demand_matrix

DEGREE = 4
SKEWED = ((16, 3.0, 300.0), (32, 5.0, 300.0), (64, 6.0, 300.0), (128, 8.0, 300.0))
"""Servers, goal for the gap in per cent, and for the time of the search in seconds."""

UNIFORM = ((16, 6.70), (32, 17.57), (64, 43.14))
"""Servers, and theta of the search in the reference table."""


def _problem(servers: int, family: str) -> TopologyProblem:
    demand = demand_matrix(family, servers, seed=1)
    return TopologyProblem(f"{family}-{servers}", servers, DEGREE, LinkDirection.UNIDIRECTIONAL, demand)


def topology_search_figures() -> list[Figure]:
    """Gap = theta / bound - 1; theta from a checked routing, the bound from a certificate re-evaluated by formula."""
    search_topology(_problem(6, "balanced-skew"))  # compile
    figures = []
    for servers, goal, seconds in SKEWED:
        problem = _problem(servers, "balanced-skew")
        began = time.process_time()
        theta = search_topology(problem).routing.theta
        took = time.process_time() - began
        began = time.process_time()
        gap = 100.0 * (theta / formula_bound(problem).bound.value - 1.0)
        bounding = time.process_time() - began
        name = f"topology of {servers}, balanced skew"
        figures.append(Figure(f"{name}: certified gap (theta {theta:.4g})", gap, "%", goal))
        figures.append(Figure(f"{name}: search (bound {bounding:.3g} s)", took, "s", seconds))
    for servers, goal in UNIFORM:
        theta = search_topology(_problem(servers, "uniform")).routing.theta
        figures.append(Figure(f"topology of {servers}, uniform: theta", theta, "", goal))
    return figures
