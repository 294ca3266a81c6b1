"""Compiled shortest paths of at most h hops, and the exact flow near a rough one whose paths have at most h hops.

Both work on the layers 0..h of servers: an arc goes from a layer to the next, and traffic may wait from a layer to the
next at its server, so that h layers hold all paths of at most h hops.
"""

from __future__ import annotations

import numpy as np

from solvers.network.routing.shortest import arcs_into
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel

WAIT = -2
"""Parent of a server that is reached as well with a hop less."""


@kernel
def limited_tree(tail: Ints, head: Ints, length: Floats, source: int, distance: Floats, parent: Ints) -> None:
    """Fill distance[k, v], the least length over paths of at most k hops, and parent[k, v], the last arc of one.

    Args:
        distance: float64[h+1, n]; parent: int64[h+1, n], WAIT where k - 1 hops do as well, -1 where there is no path.
    """
    layers, n = distance.shape
    distance[0, :] = np.inf
    parent[0, :] = -1
    distance[0, source] = 0.0
    for k in range(1, layers):
        for v in range(n):
            distance[k, v] = distance[k - 1, v]
            parent[k, v] = WAIT if distance[k - 1, v] < np.inf else -1
        for a in range(len(head)):
            through = distance[k - 1, tail[a]] + length[a]
            if through < distance[k, head[a]]:
                distance[k, head[a]] = through
                parent[k, head[a]] = a


@kernel
def limited_total(tail: Ints, head: Ints, length: Floats, demand: Floats, max_hops: int) -> float:
    """sum_ij demand_ij distance_ij over paths of at most `max_hops` hops; pairs without demand do not count."""
    n = len(demand)
    distance, parent = np.empty((max_hops + 1, n)), np.empty((max_hops + 1, n), dtype=np.int64)
    total = 0.0
    for source in range(n):
        limited_tree(tail, head, length, source, distance, parent)
        row = 0.0
        for v in range(n):
            if demand[source, v] > 0.0:
                row += demand[source, v] * distance[max_hops, v]
        total += row
    return total


@kernel
def limited_flow(tail: Ints, head: Ints, length: Floats, demand: Floats, given: Floats, dust: float) -> Floats:
    """float64[h, n, m]: what enters a server in a layer does so in the proportions of `given` (float64[h, n, m]).

    Followed back from the targets in the last layer; what waited counts as entering from the layer before. Where
    nothing is given, traffic comes over the shortest path for `length` (not negative). No demand may be out of reach.
    """
    hops, n, m = given.shape
    flow = np.zeros((hops, n, m))
    into, arc_in = arcs_into(head, n)
    distance, parent = np.empty((hops + 1, n)), np.empty((hops + 1, n), dtype=np.int64)
    waits = np.empty((hops + 1, n))  # waits[k, v]: given to wait at v from layer k to layer k + 1
    need = np.empty((hops + 1, n))
    for s in range(n):
        amount = 0.0
        for v in range(n):
            amount += demand[s, v]
        if amount == 0.0:
            continue
        limited_tree(tail, head, length, s, distance, parent)
        for k in range(hops):
            for v in range(n):
                waits[k, v] = waits[k - 1, v] if k > 0 else 0.0
            if k > 0:
                for a in range(m):
                    waits[k, head[a]] += given[k - 1, s, a]
            for a in range(m):
                waits[k, tail[a]] -= given[k, s, a]
            for v in range(n):
                waits[k, v] = max(0.0, waits[k, v])
        need[:] = 0.0
        for v in range(n):
            need[hops, v] = demand[s, v]
        need[hops, s] = 0.0
        small = dust * amount
        for k in range(hops, 0, -1):
            for v in range(n):
                if need[k, v] == 0.0 or v == s:
                    continue
                total = waits[k - 1, v] if distance[k - 1, v] < np.inf and waits[k - 1, v] > small else 0.0
                waiting = total
                for i in range(into[v], into[v + 1]):
                    a = arc_in[i]
                    if given[k - 1, s, a] > small and distance[k - 1, tail[a]] < np.inf:
                        total += given[k - 1, s, a]
                if total == 0.0:
                    a = parent[k, v]
                    if a == WAIT:
                        need[k - 1, v] += need[k, v]
                    else:
                        flow[k - 1, s, a] += need[k, v]
                        need[k - 1, tail[a]] += need[k, v]
                    continue
                need[k - 1, v] += need[k, v] * (waiting / total)
                for i in range(into[v], into[v + 1]):
                    a = arc_in[i]
                    if given[k - 1, s, a] > small and distance[k - 1, tail[a]] < np.inf:
                        part = need[k, v] * (given[k - 1, s, a] / total)
                        flow[k - 1, s, a] += part
                        need[k - 1, tail[a]] += part
    return flow
