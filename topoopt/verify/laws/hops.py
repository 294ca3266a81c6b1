"""Hop counts between all servers, by breadth-first search from all of them at once."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Ints


def hop_counts(linked: Bools) -> Ints:
    """int64[n, n]: fewest arcs from i to j, 0 on the diagonal, -1 where there is no way.

    Args:
        linked: bool[n, n], whether there is an arc i -> j.
    """
    n = len(linked)
    hops = np.full((n, n), -1, dtype=np.int64)
    np.fill_diagonal(hops, 0)
    steps = linked.astype(np.float32)
    frontier = np.eye(n, dtype=np.float32)
    distance = 0
    while frontier.any():
        distance += 1
        reached = ((frontier @ steps) > 0) & (hops < 0)
        hops[reached] = distance
        frontier = reached.astype(np.float32)
    return hops


def diameter_and_mean(hops: Ints) -> tuple[int, float]:
    """Largest and mean hop count over ordered pairs of different servers; (-1, inf) if some pair is not connected."""
    n = len(hops)
    if n < 2:
        return 0, 0.0
    if (hops < 0).any():
        return -1, float("inf")
    return int(hops.max()), float(hops.sum()) / (n * (n - 1))
