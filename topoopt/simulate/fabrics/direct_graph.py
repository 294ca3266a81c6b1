"""Fabrics that are a fixed graph of links between the servers: balanced shortest paths, rings, and the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from topoopt.core.arrays import Draws, Int32s, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.routing import GroupRings, PathTable, Ring
from topoopt.native import graph
from topoopt.simulate.fabrics.options import US_PER_MS, FabricOptions, Group, server_pairs, single_path_table
from topoopt.simulate.network import Network, compile_network

TOUR_STARTS = 8
"""Members from which a tour is tried."""
FAR = np.iinfo(np.int64).max
SHUN = 2
"""Cost of a link that another tour takes, in hops. Between 1 and 5 the fullest link of Kautz graphs of 12 to 128
servers was least with 2."""


def shortest_paths(links: Int32s, seed: int) -> Int32s:
    """int32[n (n - 1), w]: a shortest path of each ordered pair, padded with -1; ties go to the least used link.

    Pairs are routed in random order, links at a server are tried in random order.

    Args:
        links: int32[n, n], parallel links i -> j, of a strongly connected graph.
        seed: of these orders.
    """
    n = len(links)
    draws = Draws(seed)
    joined = [np.flatnonzero(row) for row in links]
    head = [servers[draws.permutation(len(servers))] for servers in joined]
    first = np.concatenate(([0], np.cumsum([len(servers) for servers in head]))).astype(np.int64)
    arcs = np.concatenate(head).astype(np.int32)
    parallel = links[np.repeat(np.arange(n), np.diff(first)), arcs].astype(np.int32)
    return graph.balanced_shortest_paths(first, arcs, parallel, draws.permutation(n * (n - 1)))


def graph_network(
    cluster: Cluster,
    groups: Sequence[Group],
    options: FabricOptions,
    links: Int32s,
    orders: Mapping[Group, Sequence[Group]] | None = None,
    *,
    both_ways: bool = False,
) -> Network:
    """One shortest path a pair; rings of each group in the orders given, else along one short tour.

    The fixed cost of a ring round is that over a direct link times the mean number of hops between ring neighbours.

    Args:
        cluster: whose interfaces are the links.
        groups: AllReduce groups.
        options: the seed of the paths counts.
        links: int32[n, n], parallel links i -> j.
        orders: ring orders of some groups, by their sorted members; an order whose ring neighbours are all joined
            goes over the direct links.
        both_ways: every ring also goes the other way round, half the payload each (links lead both ways).
    """
    n = cluster.servers
    source, _ = server_pairs(n)
    routes = single_path_table(n, source, shortest_paths(links, options.seed))
    hops = route_hops(routes, n)
    known = orders or {}
    rings = []
    for group in groups:
        chosen = known.get(tuple(sorted(group)))
        mine = list(chosen) if chosen else [short_tour(group, hops)]
        if both_ways and len(group) > 2:
            mine += [order[::-1] for order in mine]
        rings.append(_rings(group, mine, routes))
    arcs = np.argwhere(links > 0).astype(np.int32)
    return compile_network(
        servers=n,
        link_ends=arcs,
        link_rate=links[arcs[:, 0], arcs[:, 1]].astype(np.float64) * cluster.link_bytes_per_ms,
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=_mean_ring_hops(rings) * cluster.ring_round_latency_us / US_PER_MS,
        routes=routes,
        rings=tuple(rings),
        link_sharing=cluster.link_sharing,
    )


def _rings(group: Group, orders: Sequence[Group], routes: PathTable) -> GroupRings:
    """Rings of equal shares along the routes of the pairs, which list every ordered pair in order."""
    n = routes.nodes_total

    def path(source: int, target: int) -> tuple[int, ...]:
        return routes.path(source * (n - 1) + target - (target > source))

    share = 1.0 / len(orders)
    rings = [Ring(order, share, tuple(map(path, order, order[1:] + order[:1]))) for order in orders]
    return GroupRings(group, tuple(rings))


def route_hops(routes: PathTable, servers: int) -> Ints:
    """int64[n, n]: hops of the first route of each pair."""
    table = np.zeros((servers, servers), dtype=np.int64)
    table[routes.source, routes.target] = np.diff(routes.path_ptr)[routes.pair_ptr[:-1]] - 1
    return table


def short_tour(group: Group, hops: Ints) -> Group:
    """The members in an order whose ring crosses few links: the best nearest-neighbour tour over a few starts.

    Of equally near members the one of the smallest number is next. Any whole numbers do for `hops`.
    """
    members = np.array(sorted(group), dtype=np.int64)
    table = hops[np.ix_(members, members)]

    def tour(start: int) -> tuple[int, Group]:
        at, length = start, 0
        free = np.ones(len(members), dtype=bool)
        order = [start]
        free[start] = False
        while len(order) < len(members):
            to = int(np.argmin(np.where(free, table[at], FAR)))
            length += int(table[at, to])
            order.append(to)
            free[to] = False
            at = to
        return length + int(table[at, start]), tuple(members[order].tolist())

    starts = np.searchsorted(members, group[:TOUR_STARTS]).tolist()
    return min((tour(start) for start in starts), key=lambda found: found[0])[1]


def spread_tours(group: Group, routes: PathTable, links: Int32s) -> list[Group]:
    """Short tours of a group that together load the fullest link least, of up to as many as a server has links.

    Each tour shuns the links of those before it: a hop costs as much more as its links are already taken.
    """
    n = len(links)
    hops = route_hops(routes, n)
    table = np.zeros((n, n), dtype=np.int64)
    used = np.zeros((n, n), dtype=np.int64)
    pair = routes.source.astype(np.int64) * n + routes.target
    owner = np.repeat(pair, np.diff(routes.path_ptr) - 1)
    inner = np.ones(len(routes.node) - 1, dtype=bool)
    inner[routes.path_ptr[1:-1] - 1] = False
    tail, head = routes.node[:-1][inner], routes.node[1:][inner]
    orders: list[Group] = []
    best, least = 1, np.inf
    for count in range(1, int(links.sum(axis=1).max()) + 1):
        full = used[tail, head] // links[tail, head]
        table[:] = hops + np.bincount(owner, weights=full, minlength=n * n).reshape(n, n) * SHUN
        order = short_tour(group, table)
        orders.append(order)
        on_ring = np.zeros(n * n, dtype=bool)
        on_ring[np.array(order) * n + np.roll(order, -1)] = True
        np.add.at(used, (tail[on_ring[owner]], head[on_ring[owner]]), 1)
        load = float((used[links > 0] / links[links > 0]).max()) / count
        if load < least:
            best, least = count, load
    return orders[:best]


def _mean_ring_hops(rings: Sequence[GroupRings]) -> float:
    hops = [len(path) - 1 for group in rings for ring in group.rings for path in ring.paths]
    return sum(hops) / len(hops) if hops else 1.0
