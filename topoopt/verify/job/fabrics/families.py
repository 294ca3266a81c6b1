"""Which links a fabric of direct links has: exactly these where its name says so, lawful ones where they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.job import FabricGraph
from topoopt.verify.job.fabrics.asked import AskedFabric
from topoopt.verify.laws.hops import hop_counts

Law = Callable[[Ints, FabricGraph, AskedFabric, Cluster], str]
"""What is wrong with the links int64[n, n] of a fabric; empty: nothing."""


def links_of(graph: FabricGraph, servers: int) -> Ints | None:
    """int64[n, n], links from each server to each other; None if they are no table of links."""
    rows = np.array(graph.links, dtype=np.int64).reshape(-1, 3)
    ends = rows[:, :2]
    if not len(rows) or (ends < 0).any() or (ends >= servers).any() or (rows[:, 2] < 1).any():
        return None
    links = np.zeros((servers, servers), dtype=np.int64)
    np.add.at(links, (rows[:, 0], rows[:, 1]), rows[:, 2])
    return links if (links > 0).sum() == len(rows) and not links.diagonal().any() else None


def fault_of(links: Ints, graph: FabricGraph, asked: AskedFabric, cluster: Cluster) -> str:
    """Why these are not the links of a fabric of the cluster; empty if they are."""
    one_way = asked.kind == "generalized-kautz"
    return unlawful(links, cluster, one_way=one_way) or LAWS[asked.kind](links, graph, asked, cluster)


def unlawful(links: Ints, cluster: Cluster, *, one_way: bool = False) -> str:
    """Why servers cannot be joined so."""
    if max(links.sum(axis=0).max(), links.sum(axis=1).max()) > cluster.degree:
        return f"more than {cluster.degree} links at a server"
    if not one_way and not np.array_equal(links, links.T):
        return "links that lead one way only"
    return "servers that cannot reach each other" if (hop_counts(links > 0) < 0).any() else ""


def dark_fault(links: Ints, cluster: Cluster) -> str:
    """All interfaces are used; one is dark if their number is odd."""
    n, d = cluster.servers, cluster.degree
    return "dark interfaces" if n * d - links.sum() != n * d % 2 else ""


def _same(links: Ints, due: Ints | None) -> str:
    return "" if due is not None and np.array_equal(links, due) else "other links than the fabric has"


def _random_regular(links: Ints, graph: FabricGraph, asked: AskedFabric, cluster: Cluster) -> str:
    """All interfaces are used, parallel links only where every pair has them."""
    n, d = cluster.servers, cluster.degree
    apart = links[~np.eye(n, dtype=bool)]
    parallel = "" if set(apart.tolist()) <= {d // (n - 1), d // (n - 1) + 1} else "parallel links"
    return dark_fault(links, cluster) or parallel


def _expander(links: Ints, graph: FabricGraph, asked: AskedFabric, cluster: Cluster) -> str:
    """The rings of all servers are half the interfaces' cycles both ways; an odd interface joins pairs."""
    n, d = cluster.servers, cluster.degree
    # A cycle is gone round both ways, so each of its links is crossed by two rings; that of two servers by one alone.
    ways = 2 if n > 2 else 1
    rest = 2 * links
    for ring in graph.rings:
        if len(ring) == n:
            for a, b in pairwise((*ring, ring[0])):
                rest[a, b] -= 2 // ways
                rest[b, a] -= 2 // ways
    rings = sum(len(ring) == n for ring in graph.rings)
    due = d // 2 * ways
    matching = np.array_equal(np.sort(rest.sum(axis=1))[n % 2 :], np.full(n - n % 2, 2 * (d % 2)))
    good = rings == max(due, 1) and (d < 2 or ((rest >= 0).all() and matching))
    return "" if good else "links that are not the rings of all servers and pairs"


def _torus(links: Ints, graph: FabricGraph, asked: AskedFabric, cluster: Cluster) -> str:
    n, axes = cluster.servers, 2 if asked.kind.endswith("2d") else 3
    twisted = asked.kind.startswith("twisted")
    shapes = [asked.shape] if asked.shape is not None else list(_shapes(n, axes, 2))
    fitting = [shape for shape in shapes if prod(shape) == n and (not twisted or min(shape) < max(shape))]
    if not fitting or cluster.degree < 2 * axes:
        return "no such torus"
    shape = min(fitting, key=lambda sides: (sum(sides), sides))
    copies, spare = divmod(cluster.degree // 2, axes)
    longest_first = sorted(range(axes), key=lambda axis: (-shape[axis], axis))
    due = np.zeros((n, n), dtype=np.int64)
    for here in range(n):
        place = np.unravel_index(here, shape)
        for axis, side in enumerate(shape):
            after = list(map(int, place))
            after[axis] = (after[axis] + 1) % side
            if twisted and side == min(shape) and place[axis] == side - 1:  # wraps, and goes half round the longest
                for other, length in enumerate(shape):
                    if length == max(shape):
                        after[other] = (after[other] + length // 2) % length
            there = int(np.ravel_multi_index(tuple(after), shape))
            count = copies + (longest_first.index(axis) < spare)
            due[here, there] += count
            due[there, here] += count
    return _same(links, due)


def _shapes(servers: int, axes: int, least: int) -> Iterator[tuple[int, ...]]:
    """Ascending sides of at least `least` with that product."""
    if axes == 1:
        yield from [(servers,)] if servers >= least else []
        return
    for side in range(least, int(servers ** (1 / axes) + 1e-9) + 1):
        if servers % side == 0:
            yield from ((side, *rest) for rest in _shapes(servers // side, axes - 1, side))


def _hypercube(links: Ints, graph: FabricGraph, asked: AskedFabric, cluster: Cluster) -> str:
    """Servers whose numbers differ in one bit; interfaces that are left over are parallel links, low bits first."""
    n, d = cluster.servers, cluster.degree
    bits = n.bit_length() - 1
    if n != 1 << bits or d < bits:
        return "no such hypercube"
    due = np.zeros((n, n), dtype=np.int64)
    for here in range(n):
        for bit in range(bits):
            due[here, here ^ 1 << bit] = d // bits + (bit < d % bits)
    return _same(links, due)


def _kautz(links: Ints, graph: FabricGraph, asked: AskedFabric, cluster: Cluster) -> str:
    """Arcs i -> -(d i + a) mod n, a = 1..d (Imase and Itoh 1981); those to itself lead round a ring of such servers.

    Is there but one of these, it is exchanged with the first arc that has neither end there.
    """
    n = cluster.servers
    if cluster.links is not LinkDirection.UNIDIRECTIONAL:
        return "one-way links, where interfaces are patched in pairs"
    everywhere, d = divmod(cluster.degree, n - 1)
    arcs = [[i, -(d * i + a) % n] for i in range(n) for a in range(1, d + 1)]
    own = [arc for arc in arcs if arc[0] == arc[1]]
    heads = [arc[0] for arc in own]
    for arc, head in zip(own, heads[1:] + heads[:1], strict=True):
        arc[1] = head
    if len(own) == 1:
        other = next(arc for arc in arcs if own[0][0] not in arc)
        own[0][1], other[1] = other[1], own[0][1]
    due = np.full((n, n), everywhere, dtype=np.int64)
    np.fill_diagonal(due, 0)
    for tail, head in arcs:
        due[tail, head] += 1
    return _same(links, due)


LAWS: dict[str, Law] = {
    "random-regular": _random_regular,
    "expander": _expander,
    "torus-2d": _torus,
    "torus-3d": _torus,
    "twisted-torus-2d": _torus,
    "twisted-torus-3d": _torus,
    "hypercube": _hypercube,
    "generalized-kautz": _kautz,
}
"""Laws by fabric; a fabric that is not here is not built again."""
