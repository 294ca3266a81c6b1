"""Families are drawn as what they are: grids and tori as lattices, cubes by their axes, Kautz graphs as two columns."""

from __future__ import annotations

import base64
import re

import networkx as nx
import numpy as np
import pytest

import topoopt
from topoopt.core.arrays import Floats
from topoopt.core.topology import Topology, kautz_arcs
from topoopt.page.networks import (
    MOST_DRAWN,
    SIZE,
    adjacency_plot,
    bent,
    circle_of_circuits,
    find_links,
    layout_of,
    topology_svg,
)


def lattice(dims: list[int], *, periodic: bool) -> Topology:
    """A grid or torus by networkx, servers numbered with the last axis the fastest."""
    graph = nx.grid_graph(dim=dims[::-1], periodic=periodic)
    number = {node: place for place, node in enumerate(sorted(graph))}
    arcs = [(number[a], number[b]) for a, b in graph.edges for a, b in ((a, b), (b, a))]
    return Topology.of_arcs(len(number), np.array(sorted(set(arcs))), degree=None, origin="")


@pytest.mark.parametrize(
    ("dims", "periodic", "name"),
    [
        ([3, 4], False, "grid 3 × 4"),
        ([4, 4], True, "torus 4 × 4"),
        ([3, 3, 3], True, "torus 3 × 3 × 3"),
        ([2, 2, 2], False, "hypercube of 3 dimensions"),
        ([2, 2, 2, 2], False, "hypercube of 4 dimensions"),
    ],
)
def test_lattices_are_known_by_their_links(dims: list[int], periodic: bool, name: str) -> None:
    """Neighbours on the last axis stand side by side, at one distance, and no two servers on one spot."""
    found = layout_of(lattice(dims, periodic=periodic))
    assert found is not None
    assert found.name == name
    assert not found.columns
    n = int(np.prod(dims))
    assert len({(round(x, 3), round(y, 3)) for x, y in found.places}) == n
    assert all(0 <= x <= SIZE and 0 <= y <= SIZE for x, y in found.places)
    rows = np.array(found.places).reshape(-1, dims[-1], 2)
    steps = np.diff(rows, axis=1)
    assert np.allclose(steps[..., 1], 0)
    assert np.allclose(steps[..., 0], steps[0, 0, 0])


def test_kautz_graphs_are_two_columns() -> None:
    """Every server on both sides; a link goes from left to right."""
    topology = Topology.of_arcs(12, kautz_arcs(12, 2), degree=2, origin="")
    found = layout_of(topology)
    assert found is not None
    assert found.columns
    assert found.name == "generalized Kautz graph of degree 2"
    drawn = topology_svg(topology, find_links(topology), np.zeros(len(topology.arcs)), lambda _: "")
    assert len(re.findall(r"<circle", drawn)) == 24
    assert all(float(x) == found.places[0][0] for x in re.findall(r' d="M([\d.]+) [^"]*" marker-mid', drawn))


def test_others_stand_on_a_circle() -> None:
    """A ring, a circulant, and a torus with one link moved are none of these families."""
    ring = topoopt.Topology.from_edges([(i, (i + 1) % 8) for i in range(8)])
    circulant = topoopt.Topology.from_edges([(i, (i + p) % 16) for i in range(16) for p in (1, 4)])
    edges = {(min(a, b), max(a, b)) for a, b in lattice([4, 4], periodic=True).arcs.tolist()}
    moved = topoopt.Topology.from_edges(sorted((edges - {(0, 1)}) | {(0, 10)}))
    assert [layout_of(each) for each in (ring, circulant, moved)] == [None, None, None]


def test_links_bend_round_servers_on_their_way() -> None:
    """The link round a torus would hide behind the row it closes."""
    places = [(0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (30.0, 0.0)]
    assert "Q" not in bent(places[0], places[1], places)
    assert "Q" in bent(places[0], places[3], places)


def test_many_nodes_are_a_matrix() -> None:
    """Up to 64 nodes have lines; of more there is one matrix, of links, loads and circuits alike."""
    for n, drawn in ((MOST_DRAWN, "topology"), (MOST_DRAWN + 1, "heat")):
        ring = Topology.of_arcs(n, np.array([(k, (k + 1) % n) for k in range(n)]), degree=None, origin="")
        circuits = [(k, (k + 1) % n, 2, 0.5, "") for k in range(n)]
        links = topology_svg(ring, find_links(ring), np.zeros(n), lambda arc: "")
        for picture in (links, circle_of_circuits(circuits, [""] * n, "Circuits")):
            assert re.findall(r'class="(topology|heat)[" ]', picture) == [drawn]


def test_groups_order_the_matrix() -> None:
    """Cells stand in the order that is given: servers 0 and 2, which are linked, come first."""
    values = [cells(adjacency_plot(3, np.array([(0, 2)]), np.array([4]), "", order=order)) for order in ((), (0, 2, 1))]
    assert [np.argwhere(matrix).tolist() for matrix in values] == [[[0, 2]], [[0, 1]]]
    assert values[0].max() == 4


def cells(picture: str) -> Floats:
    """The values of a matrix that is drawn."""
    match = re.search(r'data-values="([^"]*)"', picture)
    assert match is not None
    return np.frombuffer(base64.b64decode(match[1]), dtype="<f4").reshape(3, 3).astype(np.float64)
