"""Compiled shortest paths on a circulant with a length per distance, their loads and flows."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel


@kernel
def shortest_loads(
    n: int, coins: Ints, lengths: Floats, weights: Floats, loads: Floats, tree: Ints
) -> bool:  # pragma: no cover - compiled
    """Shortest paths from 0: tree[v] is the coin (number) of the last hop to v, loads[c] the weighted uses of coin c.

    Paths of equal length go by fewer hops. Returns False when some displacement is not reached.
    """
    far = np.full(n, np.inf)
    hops = np.full(n, n + 1, dtype=np.int64)
    done = np.zeros(n, dtype=np.bool_)
    tree[:] = -1
    far[0] = 0.0
    hops[0] = 0
    loads[:] = 0.0
    order = np.empty(n, dtype=np.int64)
    for step in range(n):
        u = -1
        for v in range(n):
            if not done[v] and (u < 0 or far[v] < far[u] or (far[v] == far[u] and hops[v] < hops[u])):
                u = v
        if np.isinf(far[u]):
            return False
        done[u] = True
        order[step] = u
        for c in range(len(coins)):
            v = (u + coins[c]) % n
            reach = far[u] + lengths[c]
            if not done[v] and (reach < far[v] or (reach == far[v] and hops[u] + 1 < hops[v])):
                far[v] = reach
                hops[v] = hops[u] + 1
                tree[v] = c
    carried = weights.copy()
    for step in range(n - 1, 0, -1):
        v = order[step]
        c = tree[v]
        loads[c] += carried[v]
        u = (v - coins[c]) % n
        carried[u] += carried[v]
    return True


@kernel
def tree_flow(n: int, coins: Ints, tree: Ints, weights: Floats, flow: Floats) -> None:  # pragma: no cover - compiled
    """Add to flow[v, c], what leaves v by coin c, weights[t] along the path of the tree to every t."""
    for t in range(1, n):
        v = t
        while v != 0:
            c = tree[v]
            v = (v - coins[c]) % n
            flow[v, c] += weights[t]
