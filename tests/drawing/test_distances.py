"""Distances of topologies against NetworkX: where all servers are alike, and where they are not."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology
from topoopt.drawing.distances import all_alike, diameter_and_mean_hops, fewest_hops


@pytest.mark.parametrize(
    ("n", "offsets"), [(2, [1]), (12, [1]), (13, [1, 5]), (20, [3, 7]), (9, [3]), (30, [1, 6, 29])]
)
@pytest.mark.parametrize("turned", [False, True])
def test_as_networkx_says(n: int, offsets: list[int], turned: bool) -> None:
    """Circulants, connected or not, and the same with one link turned to another server."""
    arcs = np.array([(v, (v + p) % n) for v in range(n) for p in offsets])
    if turned and n > 3:
        arcs[0, 1] = next(w for w in range(1, n) if w not in arcs[: len(offsets), 1])
    topology = Topology.of_arcs(n, arcs, degree=n, links=LinkDirection.UNIDIRECTIONAL, origin="made")
    assert all_alike(topology) == (not turned or n == 2)
    graph = nx.DiGraph(arcs.tolist())
    graph.add_nodes_from(range(n))
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    assert fewest_hops(topology).tolist() == [[lengths[i].get(j, -1) for j in range(n)] for i in range(n)]
    expected = (None, None)
    if nx.is_strongly_connected(graph):
        expected = (nx.diameter(graph), nx.average_shortest_path_length(graph))
    assert diameter_and_mean_hops(topology) == (expected if expected[0] is None else pytest.approx(expected))
