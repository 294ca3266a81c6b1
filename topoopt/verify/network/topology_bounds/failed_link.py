"""Bounds on theta after the worst single link failure, over every topology of a degree.

What is left after a failure is a topology of the degree, too, so every bound on those holds. Whichever links there are,
one of the busiest server may fail, which leaves it d - 1: theta >= its demand / (d - 1). And wherever the link was, at
most n d - 1 arcs are left for the demand's hops (n d - 2 without a fibre pair), of which there are at least as many as
the layered Moore distances say.
"""

from __future__ import annotations

import math

from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.solution import Bound
from topoopt.verify.network.topology_bounds.best import best_topology_bound
from topoopt.verify.network.topology_bounds.layered import layered_bound


def failed_link_bound(n: int, d: int, links: LinkDirection, demand: Floats) -> Bound:
    """The largest of these bounds; infinite when the only link of a server with demand may fail.

    Raises:
        InputError: bad demand, n below 2, or d below 1.
    """
    whole = best_topology_bound(n, d, demand)
    busiest = float(max(demand.sum(axis=0).max(), demand.sum(axis=1).max()))
    node = busiest / (d - 1) if d > 1 else math.inf
    gone = 2 if links is LinkDirection.BIDIRECTIONAL else 1
    left = n * d - gone
    hops = layered_bound(n, d, demand)[0] * n * d / left if left > 0 else math.inf
    found = (
        Bound(whole.value, f"{whole.proved_by}, without failure"),
        Bound(node, "node cut with a link less"),
        Bound(hops, "layered Moore distances with a link less"),
    )
    return max(found, key=lambda bound: bound.value)
