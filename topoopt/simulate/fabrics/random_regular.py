"""Random regular graph: direct links without a plan (Jellyfish; the Expander baseline of the TopoOpt paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.routing import GroupRings, PathTable
from topoopt.simulate.fabrics.options import (
    US_PER_MS,
    FabricOptions,
    Group,
    ordered_rings,
    server_pairs,
    single_path_table,
)
from topoopt.simulate.jit import kernel
from topoopt.simulate.network import Network, compile_network

ATTEMPTS = 100
TOUR_STARTS = 8
"""Members from which a tour is tried."""


def random_regular_links(servers: int, degree: int, seed: int) -> NDArray[np.int32]:
    """int32[n, n], symmetric: parallel links between servers of a connected random d-regular multigraph.

    Parallel links only where d >= n: every pair gets d // (n - 1), the rest is a random graph without. With n * d odd,
    one server has one interface dark.

    Raises:
        InputError: no connected graph exists (degree 1, three servers or more), or the degree is not positive.
    """
    if degree < 1 or (degree == 1 and servers > 2):
        raise InputError(
            [Problem("no connected graph of this degree", path="degree", value=str(degree), allowed=">= 2")]
        )
    if servers == 1:
        return np.zeros((1, 1), dtype=np.int32)
    everywhere, rest = divmod(degree, servers - 1)
    draw = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        links = _random_simple_graph(servers, rest, draw) + everywhere
        np.fill_diagonal(links, 0)
        if _connected(links):
            return links
    raise InputError([Problem(f"no connected random graph in {ATTEMPTS} attempts", path="degree", value=str(degree))])


def _random_simple_graph(servers: int, degree: int, draw: np.random.Generator) -> NDArray[np.int32]:
    """Adjacency of a random simple graph, regular but for one server if servers * degree is odd; degree < n - 1."""
    import networkx as nx

    odd = servers * degree % 2
    graph = nx.random_regular_graph(degree - odd, servers, seed=int(draw.integers(2**31)))
    links = np.zeros((servers, servers), dtype=np.int32)
    for u, v in graph.edges():
        links[u, v] = links[v, u] = 1
    if odd:
        # One more interface for all but one server: a largest matching among pairs not yet joined, ties at random.
        free: Any = nx.Graph()
        free.add_nodes_from(range(servers))
        for u, v in np.argwhere(np.triu(links == 0, 1)).tolist():
            free.add_edge(u, v, weight=int(draw.integers(1, 1000)))
        for u, v in nx.max_weight_matching(free, maxcardinality=True):
            links[u, v] = links[v, u] = 1
    return links


def _connected(links: NDArray[np.int32]) -> bool:
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(links, directed=False, return_labels=False)) == 1


@kernel
def _walk(
    pair_order: NDArray[np.int64],
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    distance: NDArray[np.int32],
    neighbour: NDArray[np.int32],
    links: NDArray[np.int32],
    paths: NDArray[np.int32],
) -> None:
    """Fill `paths` pair by pair; of the neighbours nearer the target, go to the one over the least used link."""
    n = len(distance)
    used = np.zeros((n, n), dtype=np.float64)
    for row in range(len(pair_order)):
        pair = pair_order[row]
        at = source[pair]
        goal = target[pair]
        paths[pair, 0] = at
        step = 0
        while at != goal:
            best = -1
            for column in range(neighbour.shape[1]):
                to = neighbour[at, column]
                if to < 0:
                    break
                nearer = distance[to, goal] == distance[at, goal] - 1
                if nearer and (best < 0 or used[at, to] / links[at, to] < used[at, best] / links[at, best]):
                    best = to
            used[at, best] += 1.0
            at = best
            step += 1
            paths[pair, step] = at


def shortest_paths(links: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """int32[n (n - 1), w]: a shortest path of each ordered pair, padded with -1; ties go to the least used link.

    Pairs are routed in random order, links at a server are tried in random order.
    """
    from scipy.sparse.csgraph import shortest_path

    n = len(links)
    distance = shortest_path(links > 0, unweighted=True, directed=False).astype(np.int32)
    draw = np.random.default_rng(seed)
    neighbour = np.full((n, max(1, int((links > 0).sum(axis=1).max(initial=0)))), -1, dtype=np.int32)
    for server in range(n):
        joined = draw.permutation(np.flatnonzero(links[server]))
        neighbour[server, : len(joined)] = joined
    source, target = server_pairs(n)
    paths = np.full((len(source), int(distance.max(initial=0)) + 1), -1, dtype=np.int32)
    _walk(draw.permutation(len(source)).astype(np.int64), source, target, distance, neighbour, links, paths)
    return paths


def random_regular(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Bidirectional links of a random graph, one shortest path per pair, one ring per group along a short tour.

    The fixed cost of a ring round is that over a direct link times the mean number of hops between ring neighbours.
    """
    n = cluster.servers
    links = random_regular_links(n, cluster.degree, options.seed)
    source, _ = server_pairs(n)
    routes = single_path_table(n, source, shortest_paths(links, options.seed))
    hops = _hops(routes, cluster.servers)
    rings = ordered_rings([(group, short_tour(group, hops)) for group in groups], routes)
    arcs = np.argwhere(links > 0).astype(np.int32)
    return compile_network(
        servers=n,
        link_ends=arcs,
        link_rate=links[arcs[:, 0], arcs[:, 1]].astype(np.float64) * cluster.link_bytes_per_ms,
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=_mean_ring_hops(rings) * cluster.ring_round_latency_us / US_PER_MS,
        routes=routes,
        rings=rings,
    )


def _hops(routes: PathTable, servers: int) -> NDArray[np.int64]:
    """int64[n, n]: hops of the route of each pair."""
    table = np.zeros((servers, servers), dtype=np.int64)
    table[routes.source, routes.target] = np.diff(routes.path_ptr)[routes.pair_ptr[:-1]] - 1
    return table


def short_tour(group: Group, hops: NDArray[np.int64]) -> Group:
    """The members in an order whose ring crosses few links: the best nearest-neighbour tour over a few starts."""

    def tour(start: int) -> Group:
        order, left = [start], sorted(set(group) - {start})
        while left:
            order.append(min(left, key=lambda member: (int(hops[order[-1], member]), member)))
            left.remove(order[-1])
        return tuple(order)

    def length(order: Group) -> int:
        return sum(int(hops[a, b]) for a, b in zip(order, order[1:] + order[:1], strict=True))

    return min((tour(start) for start in group[:TOUR_STARTS]), key=length)


def _mean_ring_hops(rings: Sequence[GroupRings]) -> float:
    hops = [len(path) - 1 for group in rings for ring in group.rings for path in ring.paths]
    return sum(hops) / len(hops) if hops else 1.0
