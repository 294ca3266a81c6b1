"""Compiled loops of routing on any topology: least-loaded shortest paths.

Price of an arc: (load after, relative to its parallel links)^4, so that the largest load decides long before the sum.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.jit import kernel, piece


@piece
def _cheapest(
    s: int,
    t: int,
    amount: float,
    ptr: Ints,
    head: Ints,
    to_target: Int32s,
    load: Floats,
    inverse_capacity: Floats,
    best: Floats,
    via: Ints,
    frontier: Ints,
) -> None:  # pragma: no cover - compiled
    """Layer by layer from s over arcs that bring t one hop nearer: via[v] = last arc to v, best[v] = its price."""
    best[s] = 0.0
    frontier[0] = s
    first = 0
    last = 1
    while first < last:
        u = frontier[first]
        first += 1
        if u == t:
            continue
        for a in range(ptr[u], ptr[u + 1]):
            v = head[a]
            if to_target[v] != to_target[u] - 1:
                continue
            x = (load[a] + amount) * inverse_capacity[a]
            x *= x
            price = best[u] + x * x
            if best[v] < 0.0:
                best[v] = price
                via[v] = a
                frontier[last] = v
                last += 1
            elif price < best[v]:
                best[v] = price
                via[v] = a
    for k in range(last):
        best[frontier[k]] = -1.0


@kernel
def route_kernel(
    order: Ints,
    source: Ints,
    target: Ints,
    amount: Floats,
    ptr: Ints,
    head: Ints,
    tail: Ints,
    hops_to: Int32s,
    inverse_capacity: Floats,
    load: Floats,
    path_ptr: Ints,
    path_arc: Ints,
    again: bool,
) -> None:  # pragma: no cover - compiled
    """Route each demand of `order` over its cheapest shortest path given the load so far; `again`: take it out first.

    hops_to[t, v] = hops from v to t. The arcs of demand k go to path_arc[path_ptr[k]:path_ptr[k+1]].
    """
    n = len(ptr) - 1
    best = np.full(n, -1.0)
    via = np.empty(n, dtype=np.int64)
    frontier = np.empty(n, dtype=np.int64)
    for index in range(len(order)):
        k = order[index]
        if again:
            for p in range(path_ptr[k], path_ptr[k + 1]):
                load[path_arc[p]] -= amount[k]
        s, t = source[k], target[k]
        _cheapest(s, t, amount[k], ptr, head, hops_to[t], load, inverse_capacity, best, via, frontier)
        v = t
        for p in range(path_ptr[k + 1] - 1, path_ptr[k] - 1, -1):
            a = via[v]
            path_arc[p] = a
            load[a] += amount[k]
            v = tail[a]


@kernel
def tree_loads_kernel(
    tail: Ints, via: Ints, order: Ints, amount: Floats, load: Floats
) -> None:  # pragma: no cover - compiled
    """Add to load[a] what all sources send over their trees: amount[s, v] from s to each v."""
    n = len(order)
    below = np.empty(n)
    for s in range(n):
        below[:] = amount[s]
        for k in range(n - 1, 0, -1):
            v = order[s, k]
            load[via[s, v]] += below[v]
            below[tail[via[s, v]]] += below[v]


@kernel
def tree_paths_kernel(
    order: Ints, source: Ints, target: Ints, tail: Ints, via: Ints, path_ptr: Ints, path_arc: Ints
) -> None:  # pragma: no cover - compiled
    """Arcs of the tree path of every demand of `order`, laid out as by `route_kernel`."""
    for k in order:
        v = target[k]
        for p in range(path_ptr[k + 1] - 1, path_ptr[k] - 1, -1):
            path_arc[p] = via[source[k], v]
            v = tail[path_arc[p]]
