"""Routing, and links where they are free, whose largest theta over several demands is least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solvers.network.routing import RoutingResult, route
from solvers.network.routing.common import route_in_common
from solvers.network.worst_topology import worst_topologies
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.network import AdaptedRouting, CommonRouting, NetworkProblem, RoutingMode, RoutingProblem
from topoopt.core.network_solution import RoutedNetwork
from topoopt.core.topology import Topology

POOL = 6
"""Topologies that get a common routing."""

_UNIT = 2.0**-52


def worst_case(problem: NetworkProblem, goal: float, *, seed: int, stop: Stop) -> RoutedNetwork:
    """The topology given, or the best one found, with a routing for each demand or one for all, as the problem says.

    The routing of what was found is finished whatever `stop` says.

    Args:
        goal: a proven bound on the largest theta of every topology.

    Raises:
        InputError: too large for a common routing.
        InfeasibleError: servers with demand that nothing joins.
        LimitError: the time was up before anything was found.
    """
    common = problem.routing is RoutingMode.COMMON
    if isinstance(problem, RoutingProblem):
        topologies: Sequence[Topology] = [problem.topology]
    else:
        pool = worst_topologies(problem, seed=seed, goal=goal, keep=POOL if common else 1, stop=stop)
        topologies = [each.topology for each in pool]
    if not common:
        return _adapted(topologies[0], problem.demands)[0]
    best: tuple[float, Topology, CommonRouting] | None = None
    for topology in topologies:
        if best is not None and stop.reason() is not None:
            break
        # The interrupt without the deadline: a topology without a routing is no answer.
        routing = route_in_common(topology, problem.demands, stop=replace(stop, deadline=None))
        worst = _largest(topology, routing)
        if best is None or worst < best[0]:
            best = (worst, topology, routing)
    assert best is not None
    return _proven(best[1], best[2], problem.demands)


def _adapted(topology: Topology, demands: Floats) -> tuple[RoutedNetwork, list[RoutingResult]]:
    found = [route(topology, demand) for demand in demands]
    routing = AdaptedRouting(tuple(each.flow for each in found), tuple(each.certificate for each in found))
    return RoutedNetwork(topology, routing, max(each.bound for each in found)), found


def _largest(topology: Topology, routing: CommonRouting) -> float:
    return float((routing.amounts @ routing.split / topology.capacity).max())


def _proven(topology: Topology, routing: CommonRouting, demands: Floats) -> RoutedNetwork:
    """The common routing with the better of two proofs: its own prices, and what bounds a routing for each demand.

    A common routing is one for each demand too. The lengths of the worst demand are prices that are 0 in all others.
    """
    by_prices = price_bound(topology, routing)
    network, found = _adapted(topology, demands)
    if by_prices >= network.routing_bound:
        return RoutedNetwork(topology, routing, by_prices)
    worst = max(range(len(found)), key=lambda k: found[k].bound)
    prices = np.zeros_like(routing.prices)
    prices[worst] = found[worst].certificate.lengths
    return RoutedNetwork(topology, replace(routing, prices=prices), network.routing_bound)


def price_bound(topology: Topology, routing: CommonRouting) -> float:
    """What the prices of a common routing prove, less a margin for rounding; 0 where they are all 0."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    prices, n = routing.prices, topology.servers
    price = float((prices @ topology.capacity).sum())
    if price <= 0:
        return 0.0
    lengths = routing.amounts.T @ prices
    tails, heads = topology.arcs[:, 0], topology.arcs[:, 1]
    total = 0.0
    for (source, target), row in zip(routing.pairs.tolist(), lengths, strict=True):
        graph = csr_array((row, (tails, heads)), shape=(n, n))
        total += float(dijkstra(graph, indices=source)[target])
    terms = len(prices) + n + len(lengths) + prices.size + 8
    return total / price * (1.0 - 2.0 * terms * _UNIT)
