"""Cheapest shortest paths on a circulant: the shortest paths of a displacement are the same from every source.

So the arcs on them are listed once a displacement, in the order in which distances from the source grow, and a pair
looks at its own arcs alone, in a row. Elsewhere they are searched anew for every pair (`route_kernels`), which takes
ten times as long where many paths tie, as on circulants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.network.constructions.graph import ArcGraph, row_ptr
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.jit import kernel


class DisplacementPaths(NamedTuple):
    """All shortest paths from server 0, by displacement x (n) of their ends.

    A *node* of x is a server on a shortest path to x, numbered by hops from server 0: 0 is server 0, the last one is x.
    The *place* of an arc is (index of its displacement) * 2 n + its tail, counted on beyond n for other sources.

    Attributes:
        node_ptr: int64[n+1]; nodes of displacement x are node_ptr[x]..node_ptr[x+1].
        arc_ptr: int64[n+1]; arcs on its paths are arc_ptr[x]..arc_ptr[x+1], by head.
        first: int32[N], the first arc into each node, counted from the first of the displacement.
        tail, head: int32[A], nodes.
        place: int32[A].
        hops: int64[n], of each displacement.
        arc_of: int64[2 n d], number of the arc at each place.
    """

    node_ptr: Ints
    arc_ptr: Ints
    first: Int32s
    tail: Int32s
    head: Int32s
    place: Int32s
    hops: Ints
    arc_of: Ints


def displacement_paths(graph: ArcGraph) -> DisplacementPaths:
    """Of a circulant."""
    n = graph.servers
    shift = (graph.head - graph.tail) % n
    coins, coin = np.unique(shift, return_inverse=True)
    places = np.empty(len(coins) * 2 * n, dtype=np.int64)
    for further in (0, n):
        places[coin * 2 * n + graph.tail + further] = np.arange(len(graph.head))
    hops = graph.hops_to[:, 0].astype(np.int64)
    servers = np.arange(n)
    rest = hops[(servers[:, None] - servers) % n]
    x, v = np.nonzero(hops + rest == hops[:, None])
    by_hops = np.lexsort((v, hops[v], x))
    x, v = x[by_hops], v[by_hops]
    node_ptr = row_ptr(x, n)
    local = np.full((n, n), -1, dtype=np.int32)
    local[x, v] = np.arange(len(x)) - node_ptr[x]
    before = (v[:, None] - coins) % n
    node, step = np.nonzero((local[x[:, None], before] >= 0) & (hops[before] == hops[v][:, None] - 1))
    tail = before[node, step]
    arc_ptr = row_ptr(x[node], n)
    return DisplacementPaths(
        node_ptr,
        arc_ptr,
        (row_ptr(node, len(x))[:-1] - arc_ptr[x]).astype(np.int32),
        local[x[node], tail],
        (node - node_ptr[x[node]]).astype(np.int32),
        (step * 2 * n + tail).astype(np.int32),
        hops,
        places,
    )


@kernel
def displacement_kernel(
    source: Ints,
    target: Ints,
    amount: Floats,
    begin: Ints,
    paths: DisplacementPaths,
    load: Floats,
    path_arc: Ints,
    again: bool,
) -> None:  # pragma: no cover - compiled
    """Route demands in this order, each over its cheapest shortest path given the load so far.

    Prices are those of `route_kernels`, (load after)^4, and (load after)^8 for `again`, where the largest load counts
    more; all arcs have the same number of parallel links.

    Args:
        source, target, amount: of each demand.
        begin: where its arcs go in `path_arc`.
        paths: of the circulant.
        load: float64[m], by arc; changed.
        path_arc: written.
        again: they have paths there, each is taken out first.
    """
    n = np.uint64(len(paths.hops))
    one, two = np.uint64(1), np.uint64(2)
    # A place and the same one n further are kept alike, so that a source is added without a division.
    carried = load[paths.arc_of]
    place_of = np.empty(len(load), dtype=np.int64)
    for place in range(len(paths.arc_of)):
        place_of[paths.arc_of[place]] = place  # the further one
    best = np.empty(n)
    price = np.empty(np.diff(paths.arc_ptr).max())
    for k in range(len(source)):
        x = np.uint64(target[k] - source[k] + (len(paths.hops) if target[k] < source[k] else 0))
        s, hops = np.uint64(source[k]), paths.hops[x]
        low, nodes = np.uint64(paths.arc_ptr[x]), np.uint64(paths.node_ptr[x])
        if again:
            for back in range(hops):
                taken = np.uint64(place_of[path_arc[begin[k] + back]])
                carried[taken] -= amount[k]
                carried[taken - n] = carried[taken]
        arcs = np.uint64(paths.arc_ptr[x + one]) - low
        for a in range(arcs):
            after = carried[np.uint64(paths.place[low + a]) + s] + amount[k]
            after *= after
            after *= after
            price[a] = after * after if again else after
        end = np.uint64(paths.node_ptr[x + one]) - nodes
        best[0] = 0.0
        for v in range(one, end):
            best[v] = np.inf
        for a in range(arcs):  # by head, and no tail comes after its heads
            head = np.uint64(paths.head[low + a])
            best[head] = min(best[np.uint64(paths.tail[low + a])] + price[a], best[head])
        end -= one
        for back in range(hops):
            at = np.uint64(paths.first[nodes + end])
            while best[np.uint64(paths.tail[low + at])] + price[at] != best[end]:
                at += one
            taken = np.uint64(paths.place[low + at]) + s
            carried[taken] += amount[k]
            carried[taken + n if taken % (two * n) < n else taken - n] = carried[taken]
            path_arc[begin[k] + hops - 1 - back] = paths.arc_of[taken]
            end = np.uint64(paths.tail[low + at])
    for place in range(len(paths.arc_of)):
        load[paths.arc_of[place]] = carried[place]
