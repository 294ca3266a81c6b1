"""Distances of topologies against NetworkX: where all servers are alike, and where they are not."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology
from topoopt.page.networks import box_of, diameter_and_mean_hops, fewest_hops


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
    assert (box_of(topology) is not None) == (not turned or n == 2)
    as_said(topology)


@pytest.mark.parametrize("dims", [(4, 4), (3, 5), (2, 3, 4), (2, 2, 2, 2)])
def test_tori_as_networkx_says(dims: tuple[int, ...]) -> None:
    """Places of a box look alike, also where no ring of all servers does."""
    ends = nx.convert_node_labels_to_integers(nx.grid_graph(dims[::-1], periodic=True), ordering="sorted")
    arcs = np.array(sorted(ends.to_directed().edges))
    topology = Topology.of_arcs(len(ends), arcs, degree=8, links=LinkDirection.UNIDIRECTIONAL, origin="made")
    assert box_of(topology) is not None
    as_said(topology)


def as_said(topology: Topology) -> None:
    """Distances, diameter and mean are those of NetworkX."""
    n = topology.servers
    graph = nx.DiGraph(topology.arcs.tolist())
    graph.add_nodes_from(range(n))
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    assert fewest_hops(topology).tolist() == [[lengths[i].get(j, -1) for j in range(n)] for i in range(n)]
    expected = (None, None)
    if nx.is_strongly_connected(graph):
        expected = (nx.diameter(graph), nx.average_shortest_path_length(graph))
    assert diameter_and_mean_hops(topology) == (expected if expected[0] is None else pytest.approx(expected))
