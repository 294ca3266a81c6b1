"""Bounds on theta over all topologies by formulas that the checker evaluates."""

from __future__ import annotations

from topoopt.core.network import TopologyProblem, TwoLayerMultipliers
from topoopt.core.solution import Argument, Bound, Proof
from topoopt.verify.network.topology_bounds import best_topology_bound, two_layer_from


def quick_bound(problem: TopologyProblem) -> Bound:
    """Cuts and layered Moore distances, which hold for every topology of the degree."""
    return best_topology_bound(problem.servers, problem.degree, problem.demand)


def two_layer_bound(problem: TopologyProblem, multipliers: TwoLayerMultipliers, iterations: int) -> Bound:
    """What multipliers prove, whoever found them; how many iterations that took is written down for the next check."""
    value = two_layer_from(problem.servers, problem.degree, problem.demand, multipliers)[0]
    name = f"two-layer distances ({iterations} iterations)"
    return Bound(value, name, Proof(Argument.TWO_LAYER, iterations))
