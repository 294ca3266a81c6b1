"""Bounds on theta over all topologies of a problem by formulas that the checker evaluates."""

from __future__ import annotations

import numpy as np

from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem, TwoLayerMultipliers
from topoopt.core.proofs import Argument, Bound
from topoopt.core.verdict import Tolerance
from topoopt.verify.network.topology_bounds import topology_bounds, two_layer_from


def peer_cut(problem: TopologyProblem) -> float:
    """The node cut where parallel links are forbidden: a server has no more links than peers it may be joined to."""
    n = problem.servers
    allowed = ~np.eye(n, dtype=np.bool_)
    for tail, head in problem.forbidden:
        allowed[tail, head] = False
        if problem.links is LinkDirection.BIDIRECTIONAL:
            allowed[head, tail] = False
    worst = 0.0
    for demand, peers in ((problem.demand, allowed), (problem.demand.T, allowed.T)):
        most = np.full(n, problem.degree)
        if not problem.parallel_links:
            most = np.minimum(most, peers.sum(axis=1))
        traffic = demand.sum(axis=1)
        worst = max(worst, float((traffic / np.maximum(most, 1)).max()))
    return worst


def formulas(problem: TopologyProblem, left: float = 1.0) -> tuple[Bound, ...]:
    """Cuts and layered Moore distances, which hold for every topology the problem allows; one demand.

    Args:
        left: part of what searched multipliers prove.
    """
    found = topology_bounds(problem.servers, problem.degree, problem.demand, links=problem.links, left=left)
    return found if problem.parallel_links else (*found, Bound(peer_cut(problem), Argument.PEER_CUT))


SEARCHED = frozenset({Argument.LAYERED_MOORE, Argument.TWO_LAYER, Argument.FAILED_LINK_HOPS})
"""Arguments whose multipliers are searched anew where they do not stand in the file."""

LEFT = 1 - Tolerance.FORMULA.relative / 2
"""What is left of what such multipliers prove when it is stated, so that any other search proves as much."""


def quick_bound(problem: TopologyProblem) -> Bound:
    """The largest of the formulas, as it may be stated without multipliers."""
    return max(formulas(problem, LEFT), key=lambda bound: bound.value)


def two_layer_bound(problem: TopologyProblem, multipliers: TwoLayerMultipliers, iterations: int) -> Bound:
    """A little less than multipliers prove, whoever found them; the iterations are noted for the next check."""
    value = two_layer_from(problem.servers, problem.degree, problem.demand, multipliers)[0]
    return Bound(value * LEFT, Argument.TWO_LAYER, iterations)
