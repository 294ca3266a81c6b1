"""Topologies made in code: from links, from graphs of networkx, and back."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.topology import Topology

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_a_ring_from_its_links_has_both_arcs_of_each() -> None:
    """The 4-ring by hand: every server linked to both neighbours, distances 1 and 3 at all of them."""
    ring = Topology.from_edges(RING)
    assert (ring.servers, ring.degree, ring.links, ring.offsets) == (4, 2, LinkDirection.BIDIRECTIONAL, (1, 3))
    assert ring.adjacency().tolist() == [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]


def test_single_fibres_lead_one_way_and_repeat_as_parallel_links() -> None:
    """Arcs 0 -> 1 (twice) and 1 -> 0 among three servers: not symmetric, degree 2, no circulant."""
    net = Topology.from_edges(np.array([(0, 1), (1, 0), (0, 1)]), servers=3, links="unidirectional")
    assert net.adjacency().tolist() == [[0, 2, 0], [1, 0, 0], [0, 0, 0]]
    assert (net.degree, net.links, net.offsets) == (2, LinkDirection.UNIDIRECTIONAL, ())


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        ([(0, 1), (1, 4)], {"servers": 4}, r"edges\[1\]: unknown server \(value: \[1, 4\]\); allowed: 0 to 3"),
        ([(0, -1)], {}, r"edges\[0\]: unknown server"),
        ([(0, 1), (2, 2)], {}, r"edges\[1\]: a link from a server to itself"),
        (RING, {"degree": 1}, r"degree: more links than the degree \(value: server 0: 2 out, 2 in\); allowed: 1"),
        ([(0, 1, 2)], {}, "not a list of edges.*pairs of whole numbers"),
        ([(0.0, 1.0)], {}, "not a list of edges"),
        ([(0, 1), (1,)], {}, "not a list of edges"),
        (RING, {"links": "both"}, "unknown links.*bidirectional, unidirectional"),
    ],
)
def test_wrong_edges_are_named(edges: list[tuple[int, ...]], options: dict[str, int], message: str) -> None:
    """Every refusal says which edge, what stands there, and what is allowed."""
    with pytest.raises(InputError, match=message):
        Topology.from_edges(edges, **options)


def test_graphs_of_networkx() -> None:
    """The 3-cube has 8 servers of degree 3; its adjacency is that of networkx itself."""
    graph = nx.hypercube_graph(3)
    cube = Topology.from_networkx(graph)
    assert (cube.servers, cube.degree, cube.links) == (8, 3, LinkDirection.BIDIRECTIONAL)
    assert np.array_equal(cube.adjacency(), nx.to_numpy_array(graph, dtype=int))
    heavy = nx.DiGraph([(1, 0, {"multiplicity": 2}), (0, 1, {"multiplicity": 2})])
    assert Topology.from_networkx(heavy).adjacency().tolist() == [[0, 2], [2, 0]]


def test_all_edges_of_a_graph_survive_the_way_there_and_back() -> None:
    """One edge of the multigraph for each parallel link; degree and origin come back as well."""
    net = Topology.from_edges([*RING, (0, 1)], degree=4, origin="by hand")
    graph = net.to_networkx()
    assert (graph.number_of_nodes(), graph.number_of_edges(), graph.number_of_edges(0, 1)) == (4, 10, 2)
    again = Topology.from_networkx(graph)
    assert np.array_equal(again.adjacency(), net.adjacency())
    assert (again.degree, again.links, again.origin) == (4, LinkDirection.BIDIRECTIONAL, "by hand")


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] != pair[1])))
def test_round_trips(edges: list[tuple[int, int]]) -> None:
    """Edges, topology, graph, topology: the same links; renumbering the servers renumbers the matrix and no more."""
    net = Topology.from_edges(edges, servers=7, links="unidirectional")
    assert int(net.adjacency().sum()) == len(edges)
    assert np.array_equal(Topology.from_networkx(net.to_networkx()).adjacency(), net.adjacency())
    order = np.array([3, 1, 4, 0, 6, 2, 5])
    moved = Topology.from_edges([(order[a], order[b]) for a, b in edges], servers=7, links="unidirectional")
    assert np.array_equal(moved.adjacency()[np.ix_(order, order)], net.adjacency())
