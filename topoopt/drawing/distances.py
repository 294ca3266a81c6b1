"""Distances in a topology, in hops, as pages and terminals show them."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.graphs import RingBox, boxes_of, found_from, turns_of
from topoopt.core.topology import Topology


def fewest_hops(topology: Topology) -> Ints:
    """int64[n, n]: hops from i to j over the arcs, -1 where there is no path."""
    n = topology.servers
    box = box_of(topology)
    if box is not None:
        seen, everyone = found_from(n, topology.arcs)[1], np.arange(n)
        return np.array([seen[box.products(everyone, back)] for back in box.inverses(everyone)])
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    arcs = topology.arcs
    linked = csr_array((np.ones(len(arcs), dtype=np.int8), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    found = shortest_path(linked, method="D", unweighted=True)
    return np.where(np.isinf(found), -1, found).astype(np.int64)


def box_of(topology: Topology) -> RingBox | None:
    """Where every server has the same arcs as server 0, seen from its place in it: what one reaches says it of all."""
    n, arcs = topology.servers, topology.arcs
    if turns_of(arcs, n) is not None:
        return RingBox((n,))
    tail, head = arcs[np.lexsort((arcs[:, 1], arcs[:, 0]))].astype(np.int64).T
    return next(boxes_of(n, tail, head), None)


def diameter_and_mean_hops(topology: Topology) -> tuple[int, float] | tuple[None, None]:
    """Largest and mean distance over all ordered pairs of distinct servers; None where some cannot reach another."""
    n = topology.servers
    if n < 2:
        return 0, 0.0
    alike = box_of(topology) is not None
    hops = found_from(n, topology.arcs)[1][None] if alike else fewest_hops(topology)
    return (None, None) if (hops < 0).any() else (int(hops.max()), float(hops.sum() / (len(hops) * (n - 1))))
