"""Cheapest shortest paths on circulants, against all shortest paths of networkx priced one by one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from solvers.network.assembly import arc_graph
from solvers.network.routes import balanced_routes, circulant_topology, link_loads
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.topology import Topology
from topoopt.native import routing
from topoopt.simulate.network import hop_matrix

BOTH, ONE_WAY = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL


@pytest.mark.parametrize(
    ("n", "distances", "links"), [(12, (1, 5), BOTH), (16, (1, 4), BOTH), (13, (1, 3, 4), ONE_WAY), (10, (1, 5), BOTH)]
)
@pytest.mark.parametrize("again", [False, True])
def test_each_demand_takes_its_cheapest_shortest_path(
    n: int, distances: tuple[int, ...], links: LinkDirection, again: bool
) -> None:
    """Given the loads so far, no shortest path has a lower price than the one taken: powers 4 or 8 of loads after."""
    degree = sum(1 if links is ONE_WAY or 2 * p == n else 2 for p in distances)
    graph = arc_graph(circulant_topology(n, degree, links, distances))
    rng = np.random.default_rng(1)
    pair = rng.permutation(np.flatnonzero(~np.eye(n, dtype=bool)))
    source, target, amount = pair // n, pair % n, rng.lognormal(0, 1, len(pair))
    begin = np.concatenate(([0], np.cumsum(graph.hops_to[target, source])))
    arcs, load = np.empty(begin[-1], dtype=np.int64), np.zeros(len(graph.head))
    paths = routing.DisplacementPaths(graph.tail, graph.head, n)
    paths.route(source, target, amount, begin[:-1], load, arcs, False)
    before = arcs.copy()
    if again:
        paths.route(source, target, amount, begin[:-1], load, arcs, True)
    numbers = {(int(u), int(v)): a for a, (u, v) in enumerate(zip(graph.tail, graph.head, strict=True))}
    plain, now = nx.DiGraph(list(numbers)), np.zeros(len(graph.head))
    if again:
        np.add.at(now, before, np.repeat(amount, np.diff(begin)))
    power = 8 if again else 4
    for k in range(len(pair)):
        taken = arcs[begin[k] : begin[k + 1]]
        assert graph.tail[taken[0]] == source[k]
        assert graph.head[taken[-1]] == target[k]
        assert np.array_equal(graph.head[taken[:-1]], graph.tail[taken[1:]])
        if again:
            now[before[begin[k] : begin[k + 1]]] -= amount[k]
        prices = [
            sum((now[numbers[hop]] + amount[k]) ** power for hop in nx.utils.pairwise(path))
            for path in nx.all_shortest_paths(plain, source[k], target[k])
        ]
        assert ((now[taken] + amount[k]) ** power).sum() == pytest.approx(min(prices), rel=1e-9)
        now[taken] += amount[k]
    np.testing.assert_allclose(load, now, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("parcels", [1, 2])
def test_skewed_traffic_on_a_large_circulant(parcels: int) -> None:
    """Every path is shortest, every byte is carried, the same for the same seed; less on the worst link than by
    first shortest paths."""
    n = 320
    topology = circulant_topology(n, 6, BOTH, (1, 7, 45))
    weights = np.random.default_rng(2).lognormal(0, 1.0, (n, n))
    np.fill_diagonal(weights, 0.0)
    routes = balanced_routes(topology, weights, paths_per_pair=parcels)
    hops = hop_matrix(topology)
    of_pair = np.repeat(np.arange(len(routes.source)), np.diff(routes.pair_ptr))
    of_path = hops[routes.source[of_pair], routes.target[of_pair]]
    assert np.array_equal(np.diff(routes.path_ptr) - 1, of_path)
    load = link_loads(topology, routes, weights)
    assert load.sum() == pytest.approx((weights * hops).sum())
    assert routes.node.tobytes() == balanced_routes(topology, weights, paths_per_pair=parcels).node.tobytes()
    tree_load = np.zeros((n, n))
    plain = nx.DiGraph([tuple(arc) for arc in topology.arcs.tolist()])
    for s in range(n):
        for t, path in nx.single_source_shortest_path(plain, s).items():
            for u, v in nx.utils.pairwise(path):
                tree_load[u, v] += weights[s, t]
    assert load.max() < 0.9 * tree_load.max()


def test_servers_without_a_route_are_named() -> None:
    """Two pairs that are joined among themselves: nothing leads from 2 to 0."""
    arcs = np.array([(0, 1), (1, 0), (2, 3), (3, 2)], dtype=np.int32)
    with pytest.raises(InfeasibleError, match="no route from server 2 to server 0"):
        arc_graph(Topology.of_arcs(4, arcs))
