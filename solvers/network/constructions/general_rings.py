"""Rings of any group on any connected topology: several member orders over least-loaded shortest paths."""

from __future__ import annotations

from itertools import permutations
from math import gcd

import numpy as np

from formulations.job.path_split import PathSplit, build_arrays, shares_of
from solvers.backends import BACKENDS, SolverLimits
from solvers.network.constructions.graph import ArcGraph
from topoopt.core.arrays import Floats, Ints
from topoopt.core.routing import Ring
from topoopt.native import routing

ARITHMETIC_ORDERS = 4
ORDERS_TRIED = 6
ALL_ORDERS_SIZE = 5
ORDERS_TRIED_SMALL = 24
LONGEST_ORDER = 1.5
TWO_OPT_SIZE = 64
HOP_PRICE = 0.01
LEAST_SHARE = 0.01

Routed = tuple[tuple[int, ...], Ints, Ints]
"""A member order, and its paths: arcs of the path from member i are arcs[ptr[i]:ptr[i+1]]."""


def general_group_rings(graph: ArcGraph, members: tuple[int, ...], limit: int, *, seed: int = 0) -> tuple[Ring, ...]:
    """At most `limit` rings of a group; each next one is the order and paths that raise the largest load least."""
    orders = _orders(graph, sorted(members), seed)
    load = np.zeros(len(graph.head))
    rings: list[Routed] = []
    for _ in range(limit):
        best: tuple[tuple[float, int], Floats, Routed] | None = None
        for order in orders:
            trial = load.copy()
            ptr, arcs = _route(graph, order, trial)
            value = (float((trial * graph.inverse_capacity).max()), len(arcs))
            if best is None or value < best[0]:
                best = (value, trial, (order, ptr, arcs))
        assert best is not None
        load = best[1]
        rings.append(best[2])
    shares = _shares(graph, [arcs for _, _, arcs in rings])
    kept = shares >= LEAST_SHARE
    shares = np.where(kept, shares, 0.0) / shares[kept].sum()
    return tuple(
        Ring(order, float(share), _paths(graph, order, ptr, arcs))
        for (order, ptr, arcs), share in zip(rings, shares, strict=True)
        if share > 0
    )


def _route(graph: ArcGraph, order: tuple[int, ...], load: Floats) -> tuple[Ints, Ints]:
    """Paths from each member to the next, as arc ids in rows; `load` grows by one per arc used."""
    source = np.array(order, dtype=np.int64)
    target = np.roll(source, -1)
    ptr = np.concatenate(([0], np.cumsum(graph.hops_to[target, source], dtype=np.int64)))
    arcs = np.empty(int(ptr[-1]), dtype=np.int64)
    routing.route_demands(
        np.arange(len(order), dtype=np.int64), source, target, np.ones(len(order)), graph.ptr, graph.head,
        graph.hops_to, graph.inverse_capacity, load, ptr, arcs, False,
    )  # fmt: skip
    return ptr, arcs


def _paths(graph: ArcGraph, order: tuple[int, ...], ptr: Ints, arcs: Ints) -> tuple[tuple[int, ...], ...]:
    heads = graph.head[arcs].tolist()
    return tuple((server, *heads[ptr[i] : ptr[i + 1]]) for i, server in enumerate(order))


def _shares(graph: ArcGraph, rings: list[Ints]) -> Floats:
    if len(rings) == 1:
        return np.ones(1)
    used, row = np.unique(np.concatenate(rings), return_inverse=True)
    sizes = np.array([len(arcs) for arcs in rings])
    data = PathSplit(
        demand=np.zeros(len(rings), dtype=np.int64),
        resource=row.astype(np.int64),
        alternative=np.repeat(np.arange(len(rings)), sizes),
        use=graph.inverse_capacity[used][row],
        resources=len(used),
        price=HOP_PRICE * sizes / len(graph.head),
    )
    result = BACKENDS["highs-simplex"](build_arrays(data), SolverLimits())
    return np.full(len(rings), 1.0 / len(rings)) if result.x is None else shares_of(data, result.x)


def _orders(graph: ArcGraph, members: list[int], seed: int) -> list[tuple[int, ...]]:
    """Different member orders of few hops, both ways round: ascending, arithmetic, and a two-opted tour."""
    size = len(members)
    hops = graph.hops_to[np.ix_(members, members)].T.astype(np.int64)  # hops[i, j] from member i to member j
    if size <= ALL_ORDERS_SIZE:
        every = [(0, *rest) for rest in permutations(range(1, size))]
        return _shortest_orders(hops, members, every, ORDERS_TRIED_SMALL)
    multipliers = [q for q in range(1, size) if gcd(q, size) == 1]
    every = [tuple(q * i % size for i in range(size)) for q in multipliers[: ARITHMETIC_ORDERS + 1]]
    every += [_tour(hops, start) for start in np.random.default_rng(seed).permutation(size)[:2].tolist()]
    every += [(order[0], *reversed(order[1:])) for order in every]
    return _shortest_orders(hops, members, every, ORDERS_TRIED)


def _shortest_orders(hops: Ints, members: list[int], every: list[tuple[int, ...]], limit: int) -> list[tuple[int, ...]]:
    lengths = {order: int(hops[order, np.roll(order, -1)].sum()) for order in every}
    ranked = sorted(lengths, key=lambda order: lengths[order])
    shortest = lengths[ranked[0]]
    return [tuple(members[i] for i in order) for order in ranked[:limit] if lengths[order] <= LONGEST_ORDER * shortest]


def _tour(hops: Ints, start: int) -> tuple[int, ...]:
    """Nearest neighbour from `start`, then two-opt on small groups (reversals count both directions of hops)."""
    size = len(hops)
    left = np.ones(size, dtype=bool)
    order = [start]
    left[start] = False
    while len(order) < size:
        order.append(int(np.argmin(np.where(left, hops[order[-1]], np.iinfo(np.int64).max))))
        left[order[-1]] = False
    if size > TWO_OPT_SIZE or size < 4 or not np.array_equal(hops, hops.T):
        return tuple(order)
    gained = True
    while gained:
        gained = False
        for i in range(size - 1):
            for j in range(i + 2, size if i else size - 1):
                a, b, c, d = order[i], order[i + 1], order[j], order[(j + 1) % size]
                if hops[a, c] + hops[b, d] < hops[a, b] + hops[c, d]:
                    order[i + 1 : j + 1] = reversed(order[i + 1 : j + 1])
                    gained = True
    return tuple(order)
