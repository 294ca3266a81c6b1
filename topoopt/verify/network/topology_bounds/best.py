"""The best of the bounds that hold for every topology of a degree."""

from __future__ import annotations

from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TwoLayerMultipliers
from topoopt.core.proofs import Argument, Bound
from topoopt.verify.network.topology_bounds.cuts import node_cut_bound
from topoopt.verify.network.topology_bounds.layered import layered_bound
from topoopt.verify.network.topology_bounds.two_layer import two_layer_from


def topology_bounds(
    n: int,
    d: int,
    demand: Floats,
    multipliers: TwoLayerMultipliers | None = None,
    links: LinkDirection = LinkDirection.UNIDIRECTIONAL,
    left: float = 1.0,
) -> tuple[Bound, ...]:
    """Node cut, layered and (with multipliers for it) two-layer bounds on theta over every topology of degree d.

    Args:
        multipliers: of the two-layer bound.
        links: single fibres or fibre pairs.
        left: part that counts of what searched prices of layers prove.

    Raises:
        InputError: bad demand, n below 2, or d below 1.
    """
    found = [
        Bound(node_cut_bound(n, d, demand)[0], Argument.NODE_CUT),
        Bound(layered_bound(n, d, demand, links, left=left)[0], Argument.LAYERED_MOORE),
    ]
    if multipliers is not None:
        found.append(Bound(two_layer_from(n, d, demand, multipliers)[0], Argument.TWO_LAYER))
    return tuple(found)


def best_topology_bound(n: int, d: int, demand: Floats, links: LinkDirection = LinkDirection.UNIDIRECTIONAL) -> Bound:
    """The largest of the bounds that need no multipliers."""
    return max(topology_bounds(n, d, demand, links=links), key=lambda bound: bound.value)
