"""Hop counts between all servers, by breadth-first search from many of them at once."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.core.process import end_if_left

_SOURCES = 512
"""Servers searched from at once: enough that rings of thousands take few steps, few enough for the cache."""


def hop_counts(linked: Bools) -> Ints:
    """int64[n, n]: fewest arcs from i to j, 0 on the diagonal, -1 where there is no way.

    Args:
        linked: bool[n, n], whether there is an arc i -> j.
    """
    n = len(linked)
    hops = np.full((n, n), -1, dtype=np.int64)
    tail, head = np.nonzero(linked)
    first = np.searchsorted(tail, np.arange(n + 1))
    for begin in range(0, n, _SOURCES):
        _search(hops[begin : begin + _SOURCES].reshape(-1), begin, n, first, head)
    return hops


def _search(hops: Ints, begin: int, n: int, first: Ints, head: Ints) -> None:
    """Fill in the rows of some sources: a pair stands at (source - begin) * n + server; every arc is looked at once."""
    found = np.arange(len(hops) // n) * (n + 1) + begin
    hops[found] = 0
    last = np.empty(len(hops), dtype=np.int64)
    distance = 0
    while len(found):
        end_if_left()
        distance += 1
        server = found % n
        degree = first[server + 1] - first[server]
        ends = np.cumsum(degree)
        arcs = np.arange(ends[-1]) + np.repeat(first[server] - (ends - degree), degree)
        there = np.repeat(found - server, degree) + head[arcs]
        there = there[hops[there] < 0]
        hops[there] = distance
        places = np.arange(len(there))
        last[there] = places
        found = there[last[there] == places]  # each pair once


def diameter_and_mean(hops: Ints) -> tuple[int, float]:
    """Largest and mean hop count over ordered pairs of different servers; (-1, inf) if some pair is not connected."""
    n = len(hops)
    if n < 2:
        return 0, 0.0
    if (hops < 0).any():
        return -1, float("inf")
    return int(hops.max()), float(hops.sum()) / (n * (n - 1))
