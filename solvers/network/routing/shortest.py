"""Compiled shortest paths: label correcting in the order of the last call, which is nearly right when lengths drift."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel


@kernel
def shortest_tree(
    first: Ints, head: Ints, length: Floats, source: int, order: Ints, place: Ints, distance: Floats, parent: Ints
) -> None:
    """Distances from `source` and the arc into each server on a shortest path (-1: none), lengths not negative.

    `order` (source first) is where servers are looked at; it is left sorted by distance. Exact whatever the order: a
    pass is repeated as long as it lowered a distance of a server already passed. `place` is scratch of n.
    """
    n = len(order)
    for v in range(n):
        distance[v] = np.inf
        parent[v] = -1
        place[order[v]] = v
    distance[source] = 0.0
    again = True
    while again:
        again = False
        for k in range(n):
            v = order[k]
            reach = distance[v]
            for arc in range(first[v], first[v + 1]):
                w = head[arc]
                through = reach + length[arc]
                if through < distance[w]:
                    distance[w] = through
                    parent[w] = arc
                    if place[w] < k:
                        again = True
    for k in range(1, n):
        v = order[k]
        reach = distance[v]
        j = k - 1
        while distance[order[j]] > reach:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = v


@kernel
def total_distance(first: Ints, head: Ints, length: Floats, demand: Floats, orders: Ints) -> float:
    """sum_ij demand_ij distance_ij over the first sources i, those of int64[sources, n] `orders`; pairs without demand
    do not count even when no path joins them."""
    n = demand.shape[1]
    place, parent, distance = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    total = 0.0
    for source in range(len(orders)):
        shortest_tree(first, head, length, source, orders[source], place, distance, parent)
        row = 0.0
        for v in range(n):
            if demand[source, v] > 0.0:
                row += demand[source, v] * distance[v]
        total += row
    return total


@kernel
def tree_flows(first: Ints, tail: Ints, head: Ints, length: Floats, demand: Floats, orders: Ints) -> Floats:
    """float64[sources, m]: all demand of the first sources, as many as `orders` has rows, over shortest trees."""
    n, m = demand.shape[1], len(head)
    flow = np.zeros((len(orders), m))
    place, parent, distance = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    need, hops = np.empty(n), np.empty(n, dtype=np.int64)
    for s in range(len(orders)):
        shortest_tree(first, head, length, s, orders[s], place, distance, parent)
        # lengths of 0 leave servers of equal distance in any order, so that children are counted off first
        hops[:] = 0
        for v in range(n):
            need[v] = demand[s, v]
            if parent[v] >= 0:
                hops[tail[parent[v]]] += 1
        for v in range(n):
            u = v
            while hops[u] == 0 and parent[u] >= 0:
                a = parent[u]
                flow[s, a] += need[u]
                need[tail[a]] += need[u]
                hops[u] = -1
                u = tail[a]
                hops[u] -= 1
    return flow


@kernel
def arcs_into(head: Ints, n: int) -> tuple[Ints, Ints]:
    """int64[n+1] and int64[m]: arcs into v are arcs[first[v]:first[v+1]]."""
    first, arcs = np.zeros(n + 1, dtype=np.int64), np.empty(len(head), dtype=np.int64)
    for a in range(len(head)):
        first[head[a] + 1] += 1
    for v in range(n):
        first[v + 1] += first[v]
    fill = first[:-1].copy()
    for a in range(len(head)):
        arcs[fill[head[a]]] = a
        fill[head[a]] += 1
    return first, arcs
