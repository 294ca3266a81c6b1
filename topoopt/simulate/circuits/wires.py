"""A network as the circuit simulator sees it: links with rates, and the route of every queue, found when needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.hops import hop_distances
from topoopt.simulate.jit import kernel


class Wires(NamedTuple):
    """Links of the moment.

    Attributes:
        forwarding: whether routes may be longer than one hop.
        shared: whether several queues may use a link.
        link_rate: float64[L], bytes per ms.
        first: int64[n+1], head: int32[L]; links of server i are first[i]..first[i+1]. Empty where all routes are given.
        distance: int64[n, n], hops; -1: no way.
        used: float64[L], bytes of routes laid over each link so far.
        source, target: int32[Q], ends of each queue.
        low, high: int64[Q]; the route of queue q is store[low[q]:high[q]]; low -1: not looked for yet.
        store: int32[...]; filled: int64[1], how much of it is in use.
    """

    forwarding: bool
    shared: bool
    link_rate: Floats
    first: Ints
    head: Int32s
    distance: Ints
    used: Floats
    source: Int32s
    target: Int32s
    low: Ints
    high: Ints
    store: Int32s
    filled: Ints


@kernel
def lay_wires(links: Int32s, link_rate: float, forwarding: bool, source: Int32s, target: Int32s) -> Wires:
    """Wires of parallel circuits (int32[n, n]), each of `link_rate` bytes per ms; no routes yet."""
    n, queues = len(links), len(source)
    first = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        first[i + 1] = first[i]
        for j in range(n):
            if links[i, j] > 0:
                first[i + 1] += 1
    head = np.empty(first[n], dtype=np.int32)
    rate = np.empty(first[n])
    at = 0
    for i in range(n):
        for j in range(n):
            if links[i, j] > 0:
                head[at] = j
                rate[at] = links[i, j] * link_rate
                at += 1
    longest = 1
    distance = np.empty((0, 0), dtype=np.int64)
    if forwarding:
        distance = hop_distances(first, head, n)
        longest = max(1, int(distance.max()))
    return Wires(
        forwarding,
        forwarding,
        rate,
        first,
        head,
        distance,
        np.zeros(len(rate)),
        source,
        target,
        np.full(queues, -1, dtype=np.int64),
        np.full(queues, -1, dtype=np.int64),
        np.empty(queues * longest, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
    )


@kernel
def route(x: Wires, q: int, amount: float) -> int:
    """Hops of the route of queue q, found if it has none yet; 0: there is no way now.

    Among the links that lead nearer to the target, the one with least bytes laid over it for its rate is taken.
    """
    if x.low[q] >= 0:
        return int(x.high[q] - x.low[q])
    at, goal = int(x.source[q]), int(x.target[q])
    filled = x.filled[0]
    x.low[q] = filled
    while at != goal:
        best = -1
        for arc in range(x.first[at], x.first[at + 1]):
            to = x.head[arc]
            if x.forwarding:
                nearer = x.distance[to, goal] >= 0 and x.distance[to, goal] == x.distance[at, goal] - 1
            else:
                nearer = to == goal
            if nearer and (best < 0 or x.used[arc] / x.link_rate[arc] < x.used[best] / x.link_rate[best]):
                best = arc
        if best < 0:
            filled = x.filled[0]
            break
        x.used[best] += amount
        x.store[filled] = best
        filled += 1
        at = int(x.head[best])
    x.filled[0] = filled
    x.high[q] = filled
    return int(filled - x.low[q])
