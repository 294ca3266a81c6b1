"""Which circuits a scheduler sets for the bytes that wait: greedy, filled up, joined to one network (compiled)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Int32s
from topoopt.simulate.engine.queue import pop, push
from topoopt.simulate.jit import kernel
from topoopt.simulate.splitmix import below

Links = Int32s


PAIR_BITS = 24
PAIR = (1 << PAIR_BITS) - 1
"""Mask of a pair of servers (of 4096 at most), below the random bits that break ties."""


@kernel
def _drawn(state: NDArray[np.uint64]) -> int:
    return below(state, 1 << (63 - PAIR_BITS)) << PAIR_BITS


@kernel
def greedy_circuits(demand: Floats, degree: int, directed: bool, state: NDArray[np.uint64]) -> Links:
    """int32[n, n]: parallel circuits. The pair with most demand gets one, its demand is halved, and so on.

    A server has `degree` interfaces; directed circuits take a transmit side of one and a receive side of another, the
    others an interface at both ends, and go by the larger demand of both directions. Ties are broken at random.
    """
    n = len(demand)
    links = np.zeros((n, n), dtype=np.int32)
    out, into = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    pairs = 0
    for i in range(n):
        for j in range(n):
            if i != j and (directed or i < j) and (demand[i, j] > 0.0 or (not directed and demand[j, i] > 0.0)):
                pairs += 1
    keys, values = np.empty(pairs + 1), np.empty(pairs + 1, dtype=np.int64)
    count = 0
    for i in range(n):
        for j in range(n):
            if i == j or (not directed and i > j):
                continue
            wanted = demand[i, j] if directed else max(demand[i, j], demand[j, i])
            if wanted > 0.0:
                count = push(keys, values, count, -wanted, _drawn(state) | (i * n + j))
    while count > 0:
        left = keys[0]
        pair = values[0] & PAIR
        count = pop(keys, values, count)
        i, j = pair // n, pair % n
        if directed:
            if out[i] >= degree or into[j] >= degree:
                continue
            out[i] += 1
            into[j] += 1
            links[i, j] += 1
        else:
            if out[i] >= degree or out[j] >= degree:
                continue
            out[i] += 1
            out[j] += 1
            links[i, j] += 1
            links[j, i] += 1
        count = push(keys, values, count, 0.5 * left, _drawn(state) | pair)
    return links


@kernel
def fill_free(links: Links, degree: int, state: NDArray[np.uint64]) -> None:
    """Join free interfaces of different servers at random, pairs not yet joined first (fibre pairs)."""
    n = len(links)
    free = degree - links.sum(axis=1)
    partners = np.empty(n, dtype=np.int64)
    while True:
        first = -1
        for i in range(n):
            if free[i] > 0 and (first < 0 or free[i] > free[first]):
                first = i
        if first < 0:
            return
        count = 0
        for fresh in (True, False):
            for j in range(n):
                if j != first and free[j] > 0 and (links[first, j] == 0 or not fresh):
                    partners[count] = j
                    count += 1
            if count > 0:
                break
        if count == 0:
            return
        other = partners[below(state, count)]
        links[first, other] += 1
        links[other, first] += 1
        free[first] -= 1
        free[other] -= 1


@kernel
def component_of(links: Links, start: int) -> Bools:
    """bool[n]: servers that `start` reaches over fibre pairs."""
    n = len(links)
    seen = np.zeros(n, dtype=np.bool_)
    queue = np.empty(n, dtype=np.int64)
    seen[start] = True
    queue[0] = start
    begin, end = 0, 1
    while begin < end:
        v = queue[begin]
        begin += 1
        for j in range(n):
            if links[v, j] > 0 and not seen[j]:
                seen[j] = True
                queue[end] = j
                end += 1
    return seen


@kernel
def _take_link(links: Links, demand: Floats, inside: Bools) -> tuple[int, int]:
    """Remove the link of least demand among `inside` that is no bridge, and say where it was; (-1, -1): none."""
    n = len(links)
    ends = np.empty((n * n, 2), dtype=np.int64)
    worth = np.empty(n * n)
    count = 0
    for i in range(n):
        for j in range(i + 1, n):
            if inside[i] and inside[j] and links[i, j] > 0:
                ends[count, 0], ends[count, 1] = i, j
                worth[count] = max(demand[i, j], demand[j, i]) / links[i, j]
                count += 1
    for place in np.argsort(worth[:count], kind="mergesort"):
        i, j = ends[place, 0], ends[place, 1]
        links[i, j] -= 1
        links[j, i] -= 1
        if links[i, j] > 0 or component_of(links, i)[j]:
            return int(i), int(j)
        links[i, j] += 1
        links[j, i] += 1
    return -1, -1


@kernel
def _free_server(links: Links, degree: int, inside: Bools) -> int:
    best, most = -1, 0
    for i in range(len(links)):
        free = degree - links[i].sum()
        if inside[i] and free > most:
            best, most = i, free
    return best


@kernel
def _join(links: Links, a: int, b: int) -> None:
    links[a, b] += 1
    links[b, a] += 1


@kernel
def connect(links: Links, demand: Floats, degree: int) -> None:
    """Join all components, giving up links of least demand where no interface is free; degree 2 at least, or n = 2.

    A component without a free interface has a link that is no bridge: with two links or more at every server it has a
    circle (parallel links count). So every step joins two components and parts none.
    """
    while True:
        here = component_of(links, 0)
        other = -1
        for i in range(len(links)):
            if not here[i]:
                other = i
                break
        if other < 0:
            return
        there = component_of(links, other)
        u, v = _free_server(links, degree, here), _free_server(links, degree, there)
        if u >= 0 and v >= 0:
            _join(links, u, v)
        elif u >= 0 or v >= 0:
            free = u if u >= 0 else v
            c, e = _take_link(links, demand, there if u >= 0 else here)
            _join(links, free, c)
            if links[free].sum() < degree:
                _join(links, free, e)
        else:
            a, b = _take_link(links, demand, here)
            c, e = _take_link(links, demand, there)
            _join(links, a, c)
            _join(links, b, e)


@kernel
def scheduled_circuits(
    demand: Floats, degree: int, directed: bool, connected: bool, state: NDArray[np.uint64]
) -> Links:
    """Circuits for `demand`; `connected` (fibre pairs only): free interfaces are used and all servers joined."""
    links = greedy_circuits(demand, degree, directed, state)
    if connected:
        fill_free(links, degree, state)
        connect(links, demand, degree)
    return links


@kernel
def random_circuits(n: int, degree: int, state: NDArray[np.uint64]) -> Links:
    """Directed circuits before any demand is known: `degree` shifts of a random order of the servers."""
    links = np.zeros((n, n), dtype=np.int32)
    if n < 2:
        return links
    name, shift = np.arange(n), np.arange(1, n)
    for i in range(n - 1, 0, -1):
        j = below(state, i + 1)
        name[i], name[j] = name[j], name[i]
    for i in range(n - 2, 0, -1):
        j = below(state, i + 1)
        shift[i], shift[j] = shift[j], shift[i]
    for k in range(degree):
        for i in range(n):
            links[name[i], name[(i + shift[k % (n - 1)]) % n]] += 1
    return links
