"""Hop distances in a topology."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.topology import Topology


def hop_matrix(topology: Topology) -> NDArray[np.int32]:
    """int32[n, n]: hops from i to j over the arcs; -1 where there is no path."""
    n = topology.servers
    arcs = np.zeros((n, n), dtype=np.float32)
    arcs[topology.arcs[:, 0], topology.arcs[:, 1]] = 1.0
    hops = np.full((n, n), -1, dtype=np.int32)
    reached = np.eye(n, dtype=bool)
    hops[reached] = 0
    frontier = reached.copy()
    distance = 0
    while frontier.any():
        distance += 1
        frontier = (frontier.astype(np.float32) @ arcs > 0) & ~reached
        hops[frontier] = distance
        reached |= frontier
    return hops


def diameter_and_mean_hops(topology: Topology) -> tuple[int, float]:
    """Largest and mean distance over all ordered pairs of distinct servers.

    Raises:
        ValueError: some server cannot reach another.
    """
    hops = hop_matrix(topology)
    if (hops < 0).any():
        raise ValueError("the topology is not connected")
    n = topology.servers
    return int(hops.max()), float(hops.sum() / (n * (n - 1)))
