"""Routing, and links where they are free, whose largest theta over several demands is least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solvers.network.plans import topology_plan
from solvers.network.routing import route
from solvers.network.routing.common import CommonRouting, route_in_common
from solvers.network.worst_topology import worst_topologies
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.network import NetworkProblem, RoutingMode, RoutingPlan, RoutingProblem, price_certificate
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import SearchResult
from topoopt.core.topology import Topology

NAME = "worst-demand"
"""Of the method."""

POOL = 6
"""Topologies that get a common routing."""

_UNIT = 2.0**-52


def worst_case(problem: NetworkProblem, goal: float, *, seed: int, stop: Stop) -> SearchResult[RoutingPlan]:
    """The topology given, or the best one found, with a routing for each demand or one for all, as the problem says.

    The routing of what was found is finished whatever `stop` says.

    Args:
        goal: a proven bound on the largest theta of every topology.

    Returns:
        A plan whose bound holds for all routings over its links.

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
        topologies = [candidate.topology for candidate in pool]
    if not common:
        topology = topologies[0]
        results = [route(topology, demand) for demand in problem.demands]
        routing = RoutingPlan(flows=tuple(result.flow for result in results))
        proofs = tuple(proof for result in results for proof in result.certificates)
        bound = Bound(max(result.bound for result in results), Argument.ARC_LENGTHS)
    else:
        topology, split = _in_common(topologies, problem.demands, stop)
        prices, value = _proven(topology, split, problem.demands)
        routing, proofs = RoutingPlan(split=split.split), (price_certificate(prices),)
        bound = Bound(value, Argument.ARC_PRICES)
    plan = routing if isinstance(problem, RoutingProblem) else topology_plan(topology, routing)
    reason = stop.reason() or StopReason.CONVERGED
    return SearchResult(plan=plan, certificates=proofs, bounds=(bound,), stopped_by=reason, method=NAME)


def _in_common(topologies: Sequence[Topology], demands: Floats, stop: Stop) -> tuple[Topology, CommonRouting]:
    """The topology whose common routing is best, with that routing."""
    best: tuple[float, Topology, CommonRouting] | None = None
    for topology in topologies:
        if best is not None and stop.reason() is not None:
            break
        # The interrupt without the deadline: a topology without a routing is no answer.
        routing = route_in_common(topology, demands, stop=replace(stop, deadline=None))
        worst = float((routing.amounts @ routing.split / topology.capacity).max())
        if best is None or worst < best[0]:
            best = (worst, topology, routing)
    assert best is not None
    return best[1], best[2]


def _proven(topology: Topology, routing: CommonRouting, demands: Floats) -> tuple[Floats, float]:
    """Prices, and the bound that they prove: those of the common routing, or of a routing for each demand.

    A common routing is one for each demand too. The lengths of the worst demand are prices that are 0 in all others.
    """
    by_prices = price_bound(topology, routing)
    results = [route(topology, demand) for demand in demands]
    worst = max(range(len(results)), key=lambda k: results[k].bound)
    if by_prices >= results[worst].bound:
        return routing.prices, by_prices
    prices = np.zeros_like(routing.prices)
    prices[worst] = results[worst].certificate.lengths
    return prices, results[worst].bound


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
