"""Networks made of smaller ones, and Cayley digraphs, against networkx and the definitions."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import (
    SemidirectGroup,
    UnitGraph,
    cartesian_product,
    copied,
    de_bruijn_arcs,
    kautz_arcs,
    line_digraph,
    mesh_arcs,
    moore_bound,
    semidirect_groups,
)

PAIRS, SINGLE = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL


def graph_of(one: UnitGraph) -> nx.MultiDiGraph:
    made = nx.MultiDiGraph()
    made.add_nodes_from(range(one.servers))
    made.add_edges_from(one.arcs.tolist())
    return made


def random_graph(seed: int, servers: int) -> UnitGraph:
    """A ring and some chords."""
    draw = np.random.default_rng(seed)
    ring = [(i, (i + 1) % servers) for i in range(servers)]
    chords = [tuple(draw.choice(servers, 2, replace=False).tolist()) for _ in range(servers)]
    return UnitGraph(servers, np.array([*ring, *chords], dtype=np.int64))


@pytest.mark.parametrize("seed", range(5))
def test_line_digraphs_are_those_of_networkx(seed: int) -> None:
    """Links become servers, followed by those that begin where they end; parallel links stay apart."""
    graph = random_graph(seed, 6)
    found = graph_of(line_digraph(graph))
    assert nx.is_isomorphic(nx.DiGraph(found), nx.DiGraph(nx.line_graph(graph_of(graph))))
    assert found.number_of_edges() == nx.line_graph(graph_of(graph)).number_of_edges()


@pytest.mark.parametrize("seed", range(3))
def test_products_are_those_of_networkx(seed: int) -> None:
    """Server (a, b) is number a n_right + b, link by link."""
    left, right = random_graph(seed, 4), random_graph(seed + 50, 5)
    due = nx.cartesian_product(graph_of(left), graph_of(right))
    numbered = sorted((5 * a + b, 5 * c + e) for (a, b), (c, e) in due.edges())
    assert sorted(map(tuple, cartesian_product(left, right).arcs.tolist())) == numbered


def test_copies_are_linked_as_their_originals() -> None:
    """Every copy of u to every copy of v, no others."""
    graph = random_graph(1, 5)
    due = sorted((3 * u + i, 3 * v + j) for u, v in graph.arcs.tolist() for i in range(3) for j in range(3))
    assert sorted(map(tuple, copied(graph, 3).arcs.tolist())) == due


@pytest.mark.parametrize("group", [*semidirect_groups(24), SemidirectGroup(7, 3, 2), SemidirectGroup(8, 2, 3)], ids=str)
def test_semidirect_products_are_groups(group: SemidirectGroup) -> None:
    """Associative, with an identity and inverses: every product of three elements."""
    n = group.elements
    table = np.array([group.products(np.arange(n), np.int64(y)) for y in range(n)]).T
    assert (table[0] == np.arange(n)).all()
    assert (table[:, 0] == np.arange(n)).all()
    assert (table[table, :] == table[:, table]).all()
    assert all(table[x, group.inverse(x)] == 0 == table[group.inverse(x), x] for x in range(n))


def test_a_twist_that_is_none() -> None:
    """r^k must be 1 modulo m."""
    with pytest.raises(ValueError, match=r"3\^4 is not 1 modulo 7"):
        SemidirectGroup(7, 4, 3)


def test_groups_of_a_prime_size() -> None:
    """Only the cyclic one; of 21 elements the cyclic one by both its factors, and the one that does not commute."""
    assert semidirect_groups(13) == [SemidirectGroup(13, 1, 1)]
    assert SemidirectGroup(7, 3, 2) in semidirect_groups(21)
    assert SemidirectGroup(7, 3, 4) not in semidirect_groups(21)  # 4 = 2^2, the same group


@pytest.mark.parametrize(("n", "d"), [(8, 2), (16, 2), (9, 3), (16, 4), (11, 3)])
@pytest.mark.parametrize("make", [kautz_arcs, de_bruijn_arcs])
def test_loops_joined_or_dropped(make, n: int, d: int) -> None:
    """The rule of Imase and Itoh, or of Reddy, Pradhan and Kuhl; joined graphs are regular without loops."""
    signs = (-1, range(1, d + 1)) if make is kautz_arcs else (1, range(d))
    rule = {(x, (signs[0] * (d * x + a)) % n) for x in range(n) for a in signs[1]}
    assert set(map(tuple, make(n, d, joined=False).tolist())) == {arc for arc in rule if arc[0] != arc[1]}
    joined = make(n, d)
    assert (joined[:, 0] != joined[:, 1]).all()
    for side in range(2):
        assert (np.bincount(joined[:, side]) == d).all()


def test_meshes_are_grids() -> None:
    """Neighbours differ by one in one place."""
    places = list(itertools.product(range(3), range(4), range(2)))
    due = {
        (i, j)
        for (i, one), (j, other) in itertools.product(enumerate(places), repeat=2)
        if sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 1
    }
    arcs = mesh_arcs((3, 4, 2)).tolist()
    assert set(map(tuple, arcs)) == due
    assert len(arcs) == len(due)


@pytest.mark.parametrize(
    ("n", "d", "links", "diameter", "distances"),
    [
        (10, 3, PAIRS, 2, 15),  # Petersen is a Moore graph
        (50, 7, PAIRS, 2, 91),  # Hoffman and Singleton's too
        (17, 4, PAIRS, 3, 28),  # 1 + 4 + 12, but no such graph
        (21, 4, SINGLE, 3, 36),  # 1 + 4 + 16, but no such digraph (Bridges and Toueg)
        (9, 2, PAIRS, 4, 20),
        (9, 1, SINGLE, 8, 36),
        (5, 4, SINGLE, 1, 4),
        (1024, 4, SINGLE, 5, 4 + 32 + 192 + 1024 + 5 * 683),
        (1024, 4, PAIRS, 6, 4 + 24 + 108 + 432 + 5 * 324 + 6 * 539),
    ],
)
def test_moore_bounds(n: int, d: int, links: LinkDirection, diameter: int, distances: int) -> None:
    """Layers counted by hand."""
    assert moore_bound(n, d, links) == (diameter, distances)


def test_too_few_links() -> None:
    """One fibre pair joins two servers, not three."""
    with pytest.raises(ValueError, match="cannot connect 3 servers"):
        moore_bound(3, 1, PAIRS)
