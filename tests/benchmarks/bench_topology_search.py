"""Certified gaps of the topology search at balanced skew and theta at uniform demand, degree 4, with their times."""

from __future__ import annotations

import time

from solvers.network.search import search_topology
from tests.benchmarks.figures import Figure
from tests.support.hop_certificate import HopCertificate, evaluate_hop
from tests.support.hop_proof import hop_proof
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem
from topoopt.verify.network.topology_bounds import best_topology_bound
from topoopt.workloads.demand_matrices import demand_matrix

DEGREE = 4
SKEWED = ((16, 6.0, 20.0), (32, 8.0, 30.0), (64, 11.0, 30.0), (128, 19.0, 60.0))
"""Servers, goal for the gap in per cent, and for the time of the search in seconds."""

UNIFORM = ((16, 6.70), (32, 17.57), (64, 43.14))
"""Servers, and theta of the search in the reference table."""


def _problem(servers: int, family: str) -> TopologyProblem:
    demand = demand_matrix(family, servers, seed=1)
    return TopologyProblem(f"{family}-{servers}", servers, DEGREE, LinkDirection.UNIDIRECTIONAL, demand)


def _bound(problem: TopologyProblem) -> float:
    """Best certified bound: cuts, layers, two layers, and up to 16 servers the hop program."""
    n, demand = problem.servers, problem.demand
    bound = best_topology_bound(n, DEGREE, demand).value
    if n <= 16 and (proof := hop_proof(n, DEGREE, demand, bound)) is not None:
        parts = dict(proof.multipliers)
        certificate = HopCertificate(guess=proof.guess, long=float(parts.pop("long")[0]), **parts)
        bound = max(bound, evaluate_hop(n, DEGREE, demand, certificate))
    return bound


def topology_search_figures() -> list[Figure]:
    """Gap = theta / bound - 1; theta from a checked routing, the bound from a certificate re-evaluated by formula."""
    search_topology(_problem(6, "balanced-skew"))  # compile
    figures = []
    for servers, goal, seconds in SKEWED:
        problem = _problem(servers, "balanced-skew")
        began = time.perf_counter()
        theta = search_topology(problem).routing.theta
        took = time.perf_counter() - began
        began = time.perf_counter()
        gap = 100.0 * (theta / _bound(problem) - 1.0)
        bounding = time.perf_counter() - began
        name = f"topology of {servers}, balanced skew"
        figures.append(Figure(f"{name}: certified gap (theta {theta:.4g})", gap, "%", goal))
        figures.append(Figure(f"{name}: search (bound {bounding:.3g} s)", took, "s", seconds))
    for servers, goal in UNIFORM:
        theta = search_topology(_problem(servers, "uniform")).routing.theta
        figures.append(Figure(f"topology of {servers}, uniform: theta", theta, "", goal))
    return figures
