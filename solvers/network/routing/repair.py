"""From a flow that is nearly one to a flow that conserves exactly, near it."""

from __future__ import annotations

import numpy as np

from solvers.network.routing.shortest import arcs_into, shortest_tree
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel, piece

_DUST = 1e-12  # of a source's demand: less flow than this on an arc is none


@piece
def cancel_cycles(first: Ints, tail: Ints, head: Ints, dust: float, flow: Floats) -> None:
    """Take circulations out of one flow (float64[m], changed): loads only fall, what stays at each server does not.

    Depth-first walks along arcs that have flow; a walk that meets itself has found a cycle, which loses its least arc.
    """
    n = len(first) - 1
    following = first[:-1].copy()
    state = np.zeros(n, dtype=np.int64)  # 0 new, 1 on the walk, 2 done
    walk = np.empty(n, dtype=np.int64)  # arcs of the walk
    for begin in range(n):
        if state[begin] != 0:
            continue
        v, size = begin, 0
        state[v] = 1
        while True:
            while following[v] < first[v + 1] and (flow[following[v]] <= dust or state[head[following[v]]] == 2):
                following[v] += 1
            if following[v] == first[v + 1]:
                state[v] = 2
                if size == 0:
                    break
                size -= 1
                v = tail[walk[size]]
                continue
            arc = following[v]
            w = head[arc]
            walk[size] = arc
            size += 1
            if state[w] == 0:
                state[w] = 1
                v = w
                continue
            start = size - 1
            least = flow[arc]
            while tail[walk[start]] != w:
                start -= 1
                least = min(least, flow[walk[start]])
            for i in range(start, size):
                flow[walk[i]] -= least
                if i > start:
                    state[tail[walk[i]]] = 0
            size = start
            v = w


@piece
def forward_order(
    first: Ints, head: Ints, source: int, dust: float, flow: Floats, nearest: Ints, place: Ints, sequence: Ints
) -> None:
    """Fill `sequence` with all servers, source first, so that an acyclic flow runs forward; `place` is its inverse.

    Servers without any flow into them come last, as in `nearest`; those that send flow all the same come early.
    """
    n = len(nearest)
    coming = np.zeros(n, dtype=np.int64)
    sends = np.zeros(n, dtype=np.bool_)
    for v in range(n):
        for a in range(first[v], first[v + 1]):
            if flow[a] > dust and head[a] != source:
                coming[head[a]] += 1
                sends[v] = True
    empty = coming == 0
    place[:] = -1
    sequence[0] = source
    place[source] = 0
    count, ready = 1, 0
    for v in range(n):
        if empty[v] and sends[v] and v != source:
            place[v] = count
            sequence[count] = v
            count += 1
    while ready < count:
        v = sequence[ready]
        ready += 1
        for a in range(first[v], first[v + 1]):
            w = head[a]
            if flow[a] > dust and w != source:
                coming[w] -= 1
                if coming[w] == 0:
                    place[w] = count
                    sequence[count] = w
                    count += 1
    for v in nearest:
        if place[v] < 0:
            place[v] = count
            sequence[count] = v
            count += 1


@kernel
def repaired_flow(
    first: Ints, tail: Ints, head: Ints, length: Floats, demand: Floats, orders: Ints, given: Floats
) -> Floats:
    """float64[s, m]: for each of the first sources, those of int64[s, n] `orders`, traffic enters every server in the
    proportions of `given`, and just enough of it.

    Cycles are taken out first; then proportions are followed back from the targets. A server that needs traffic and is
    given none gets it over its shortest path for `length` (positive), from the last server on that path which comes
    earlier in the order of the flow.
    """
    n, m = demand.shape[1], len(head)
    flow = np.zeros((len(orders), m))
    place, parent, distance = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    sequence, need, rough = np.empty(n, dtype=np.int64), np.empty(n), np.empty(m)
    into, arc_in = arcs_into(head, n)
    for s in range(len(orders)):
        amount = 0.0
        for v in range(n):
            amount += demand[s, v]
            need[v] = demand[s, v]
        if amount == 0.0:
            continue
        shortest_tree(first, head, length, s, orders[s], place, distance, parent)
        dust = _DUST * amount
        for a in range(m):
            usable = head[a] != s and distance[tail[a]] < np.inf
            rough[a] = given[s, a] if usable else 0.0
        cancel_cycles(first, tail, head, dust, rough)
        forward_order(first, head, s, dust, rough, orders[s], place, sequence)
        for k in range(n - 1, 0, -1):
            v = sequence[k]
            if need[v] == 0.0:
                continue
            kept = 0.0
            for i in range(into[v], into[v + 1]):
                if rough[arc_in[i]] > dust:
                    kept += rough[arc_in[i]]
            if kept > 0.0:
                for i in range(into[v], into[v + 1]):
                    a = arc_in[i]
                    if rough[a] > dust:
                        part = need[v] * (rough[a] / kept)
                        flow[s, a] += part
                        need[tail[a]] += part
            else:
                u = v
                while True:
                    a = parent[u]
                    flow[s, a] += need[v]
                    u = tail[a]
                    if place[u] < k:
                        break
                need[u] += need[v]
    return flow
