"""Bounds on theta after the worst single link failure, over every topology of a degree.

What is left after a failure is a topology of the degree, too, so every bound on those holds. Whichever links there are,
one of the busiest server may fail, which leaves it d - 1: theta >= its demand / (d - 1). And wherever the link was, at
most one arc (two without a fibre pair) less than all are left for the demand's hops, of which there are at least as
many as the layered Moore distances say.
"""

from __future__ import annotations

import math

from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.proofs import Argument, Bound
from topoopt.verify.network.topology_bounds.best import topology_bounds
from topoopt.verify.network.topology_bounds.layered import layered_bound, most_arcs


def failed_link_bounds(n: int, d: int, links: LinkDirection, demand: Floats, left: float = 1.0) -> tuple[Bound, ...]:
    """These bounds; infinite when the only link of a server with demand may fail.

    Args:
        left: as of `topology_bounds`.

    Raises:
        InputError: bad demand, n below 2, or d below 1.
    """
    whole = topology_bounds(n, d, demand, links=links, left=left)
    busiest = float(max(demand.sum(axis=0).max(), demand.sum(axis=1).max()))
    node = busiest / (d - 1) if d > 1 else math.inf
    arcs = most_arcs(n, d, links)
    rest = arcs - (2 if links is LinkDirection.BIDIRECTIONAL else 1)
    hops = layered_bound(n, d, demand, links, left=left)[0] * arcs / rest if rest > 0 else math.inf
    return (*whole, Bound(node, Argument.FAILED_LINK_CUT), Bound(hops, Argument.FAILED_LINK_HOPS))


def failed_link_bound(n: int, d: int, links: LinkDirection, demand: Floats, left: float = 1.0) -> Bound:
    """The largest of them."""
    return max(failed_link_bounds(n, d, links, demand, left), key=lambda bound: bound.value)
