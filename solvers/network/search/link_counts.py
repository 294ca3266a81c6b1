"""Exact integer link counts for given loads, and their alternation with routing (idea of ATRO, arXiv 2507.13717).

For loads L_ij on logical links, theta is reached exactly when ceil(L_ij / theta) links per pair fit the degrees; the
counts only change at theta = L_ij / k, so a binary search over these values is exact. When every demand goes over its
own direct link (L = D) this is the optimum over all one-hop networks.
"""

from __future__ import annotations

import numpy as np

from solvers.network.constructions.assemble import ArcList, assemble
from solvers.network.routing import route
from solvers.network.routing.result import RoutingResult
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.topology import Topology

_ROUND = 1e-9
"""Loads within this of a whole number of links count as that number."""


def best_link_counts(loads: Floats, degree: int, links: LinkDirection) -> tuple[float, Ints] | None:
    """Least theta and int64[n, n] counts >= loads / theta within the degrees; None if a server has too many pairs.

    Args:
        loads: float64[n, n], not negative, zero diagonal; fibre pairs must carry the larger of both directions.
    """
    if links is LinkDirection.BIDIRECTIONAL:
        loads = np.maximum(loads, loads.T)
    loaded = loads[loads > 0]
    values = np.unique((loaded[:, None] / np.arange(1, degree + 1)).ravel())
    if len(values) == 0:
        return 0.0, np.zeros(loads.shape, dtype=np.int64)

    def counts(theta: float) -> Ints:
        return np.ceil(loads / theta - _ROUND).astype(np.int64)

    def fits(theta: float) -> bool:
        needed = counts(theta)
        return bool(needed.sum(axis=1).max() <= degree and needed.sum(axis=0).max() <= degree)

    if not fits(float(values[-1])):
        return None
    low, high = -1, len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(float(values[middle])):
            high = middle
        else:
            low = middle
    return float(values[high]), counts(float(values[high]))


def filled(counts: Ints, loads: Floats, degree: int, links: LinkDirection) -> ArcList:
    """Unit arcs of the counts, and of as many more links as the free ports allow, the most loaded pairs first."""
    from scipy.optimize import linear_sum_assignment

    n = len(counts)
    counts = counts.copy()
    worth = loads / max(float(loads.max()), 1e-300)
    if links is LinkDirection.BIDIRECTIONAL:
        worth = worth + worth.T
        while True:
            free = degree - counts.sum(axis=1)
            gain = np.where(np.minimum(free[:, None], free[None, :]) > 0, worth + 1.0 / (1.0 + counts), -1.0)
            np.fill_diagonal(gain, -1.0)
            i, j = np.unravel_index(int(gain.argmax()), gain.shape)
            if gain[i, j] < 0:
                break
            counts[i, j] += 1
            counts[j, i] += 1
    else:
        tails = np.repeat(np.arange(n), np.maximum(degree - counts.sum(axis=1), 0))
        heads = np.repeat(np.arange(n), np.maximum(degree - counts.sum(axis=0), 0))
        gain = worth[np.ix_(tails, heads)] + 1.0 / (1.0 + counts[np.ix_(tails, heads)])
        gain[tails[:, None] == heads[None, :]] = -1e6
        for a, b in zip(*linear_sum_assignment(-gain), strict=True):
            if tails[a] != heads[b]:
                counts[tails[a], heads[b]] += 1
    pairs = np.argwhere(counts > 0).astype(np.int64)
    return np.repeat(pairs, counts[pairs[:, 0], pairs[:, 1]], axis=0)


def loads_of(topology: Topology, routing: RoutingResult) -> Floats:
    """float64[n, n]: what a routing puts on each logical link."""
    loads = np.zeros((topology.servers, topology.servers))
    loads[topology.arcs[:, 0], topology.arcs[:, 1]] = routing.flow.load(topology)
    return loads


def one_hop_topology(demand: Floats, degree: int, links: LinkDirection) -> tuple[float, Topology] | None:
    """Best theta when every demand has links of its own, with that topology; None when that does not fit or connect."""
    found = best_link_counts(demand, degree, links)
    if found is None:
        return None
    try:
        arcs = filled(found[1], demand, degree, links)
        return found[0], assemble(len(demand), degree, links, [arcs], "one link per demand")
    except InfeasibleError:
        return None


def alternate(
    topology: Topology, routing: RoutingResult, demand: Floats, *, rounds: int, accuracy: float
) -> tuple[Topology, RoutingResult]:
    """Link counts and routing in turn while theta falls; never worse than what it is given."""
    for _ in range(rounds):
        loads = loads_of(topology, routing)
        found = best_link_counts(loads, topology.degree, topology.links)
        if found is None:
            break
        arcs = filled(found[1], loads, topology.degree, topology.links)
        try:
            new = assemble(topology.servers, topology.degree, topology.links, [arcs], f"{topology.origin}, recounted")
        except InfeasibleError:
            break
        if np.array_equal(new.arcs, topology.arcs) and np.array_equal(new.multiplicity, topology.multiplicity):
            break
        rerouted = route(new, demand, accuracy=accuracy)
        if rerouted.theta >= routing.theta * (1.0 - 1e-9):
            break
        topology, routing = new, rerouted
    return topology, routing
