"""Bounds on theta over all topologies by formulas, which the checker derives again."""

from __future__ import annotations

from topoopt.core.network_problem import TopologyProblem
from topoopt.core.solution import Bound
from topoopt.verify.topology_bounds import best_topology_bound

TWO_LAYER = "two-layer distances"
"""Name of the one formula that takes long on large problems (seconds at 64 servers, half a minute at 128)."""


def quick_bound(problem: TopologyProblem) -> Bound:
    """Cuts and layered Moore distances, which hold for every topology of the degree."""
    return best_topology_bound(problem.servers, problem.degree, problem.demand, two_layer_iterations=0)


def formula_bound(problem: TopologyProblem) -> Bound:
    """The best of all formulas, the two-layer bound included."""
    return best_topology_bound(problem.servers, problem.degree, problem.demand)
