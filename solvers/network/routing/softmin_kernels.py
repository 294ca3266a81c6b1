"""Routing over soft shortest paths: one pass gives a bound, a flow that conserves and the slope of both."""

from __future__ import annotations

import numpy as np

from solvers.network.routing.shortest import shortest_tree
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel

CUT = 18.0
"""Lateness of a way, in units of the softness, from which on nothing takes it: exp(-18) is 1.5e-8."""


@kernel
def soft_loads(
    first: Ints,
    head: Ints,
    into: Ints,
    arc_in: Ints,
    tail_in: Ints,
    length: Floats,
    softness: float,
    demand: Floats,
    orders: Ints,
    begin: int,
    end: int,
    load: Floats,
    flow: Floats,
) -> tuple[float, float]:
    """Traffic of sources begin .. end - 1 over paths that lead away from the source all the way, by logit shares.

    With phi(v) = -softness log sum over arcs u->v, d(u) < d(v), of exp(-(phi(u) + length) / softness), the loads are
    the slope of sum D phi, and each server splits what it gets by these exponentials (Dial's logit loading,
    Transportation Research 5, 1971). Distances are exact, from the order of the last call.

    Args:
        first, head: int64[n+1], int64[m], arcs by tail.
        into, arc_in, tail_in: int64[n+1], int64[m], int64[m], arcs by head.
        length: float64[m], above 0.
        orders: int64[n, n], changed: servers sorted by distance from each source.
        load: float64[m], added to.
        flow: float64[n, m] set for these sources, or float64[0, m]: not wanted.

    Returns:
        sum D d and sum D phi of these sources.
    """
    n, m = len(orders), len(head)
    place, parent, distance = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    weight, need, ways = np.zeros(m), np.empty(n), np.empty(n)
    length_in = np.empty(m)
    for i in range(m):
        length_in[i] = length[arc_in[i]]
    hard, soft = 0.0, 0.0
    wanted = len(flow) > 0
    for s in range(begin, end):
        if wanted:
            for a in range(m):
                flow[s, a] = 0.0
        amount = 0.0
        for v in range(n):
            amount += demand[s, v]
        if amount == 0.0:
            continue
        order = orders[s]
        shortest_tree(first, head, length, s, order, place, distance, parent)
        need[:] = 0.0
        ways[s] = 1.0
        for k in range(1, n):
            v = order[k]
            reach = distance[v]
            if reach == np.inf:
                break
            total = 0.0
            for i in range(into[v], into[v + 1]):
                u = tail_in[i]
                late = distance[u] + length_in[i] - reach
                if distance[u] < reach and late < CUT * softness:
                    weight[i] = ways[u] * np.exp(-late / softness) if late > 0.0 else ways[u]
                    total += weight[i]
                else:
                    weight[i] = 0.0
            ways[v] = total
            if demand[s, v] > 0.0:
                need[v] = demand[s, v]
                hard += need[v] * reach
                soft += need[v] * (reach - softness * np.log(total))
        for k in range(n - 1, 0, -1):
            v = order[k]
            if need[v] == 0.0:
                continue
            each = need[v] / ways[v]
            for i in range(into[v], into[v + 1]):
                if weight[i] > 0.0:
                    part = each * weight[i]
                    a = arc_in[i]
                    load[a] += part
                    if wanted:
                        flow[s, a] = part
                    need[tail_in[i]] += part
    return hard, soft
