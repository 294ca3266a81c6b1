"""Distances in a topology, in hops, as pages and terminals show them."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.topology import Topology


def fewest_hops(topology: Topology) -> Ints:
    """int64[n, n]: hops from i to j over the arcs, -1 where there is no path."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    n, arcs = topology.servers, topology.arcs
    linked = csr_array((np.ones(len(arcs), dtype=np.int8), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    found = shortest_path(linked, method="D", unweighted=True)
    return np.where(np.isinf(found), -1, found).astype(np.int64)


def diameter_and_mean_hops(topology: Topology) -> tuple[int, float] | tuple[None, None]:
    """Largest and mean distance over all ordered pairs of distinct servers; None where some cannot reach another."""
    n = topology.servers
    if n < 2:
        return 0, 0.0
    hops = fewest_hops(topology)
    return (None, None) if (hops < 0).any() else (int(hops.max()), float(hops.sum() / (n * (n - 1))))
