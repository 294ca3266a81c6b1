"""Hops between all pairs of servers, compiled: a breadth-first search from each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.simulate.jit import kernel


@kernel
def hop_distances(first: NDArray[np.int64], head: NDArray[np.int32] | NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """int64[n, n]: hops between all pairs, -1 where there is no path."""
    hops = np.full((n, n), -1, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    for source in range(n):
        row = hops[source]
        row[source] = 0
        queue[0] = source
        begin, end = 0, 1
        while begin < end:
            v = queue[begin]
            begin += 1
            for arc in range(first[v], first[v + 1]):
                if row[head[arc]] < 0:
                    row[head[arc]] = row[v] + 1
                    queue[end] = head[arc]
                    end += 1
    return hops
