"""Topologies by name: `topoopt.topologies`."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from topoopt.core.errors import InputError
from topoopt.library import topologies


@pytest.mark.parametrize(
    ("name", "sizes", "graph"),
    [
        ("ring", {"servers": 7}, nx.cycle_graph(7)),
        ("hypercube", {"dimension": 3}, nx.hypercube_graph(3)),
        ("complete-bipartite", {"sides": (2, 3)}, nx.complete_bipartite_graph(2, 3)),
        ("circulant", {"servers": 9, "offsets": [1, 2]}, nx.circulant_graph(9, [1, 2])),
    ],
)
def test_families_are_those_of_networkx(name: str, sizes: dict[str, object], graph: nx.Graph) -> None:
    """Adjacency equal to that of an independent builder, every link given to a switch."""
    found = topologies.family(name, **sizes)
    assert np.array_equal(found.adjacency(), nx.to_numpy_array(graph, nodelist=sorted(graph), dtype=int))
    assert int((found.switches >= 0).sum()) == int(found.multiplicity.sum())


def test_distances_of_totient_make_a_circulant() -> None:
    """TotientPerms of 16 servers with four interfaces: the circulant of its distances has its diameter."""
    found = topologies.totient(16, 4)
    rings = topologies.circulant(16, found.distances)
    assert rings.degree == 4
    assert nx.diameter(rings.to_networkx()) == found.diameter


def test_every_family_says_what_it_needs() -> None:
    """Names and needs of all families; a family without its sizes is refused by their names."""
    for name, needs in topologies.families().items():
        with pytest.raises(InputError) as refused:
            topologies.family(name)
        assert [problem.path for problem in refused.value.problems] == list(needs)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"name": "torsu", "dims": [4]}, "did you mean torus"),
        ({"name": "ring", "servers": 4, "links": "both"}, "unknown links.*bidirectional, unidirectional"),
        ({"name": "ring", "servers": 4, "degree": 2}, "degree: ring has no such key"),
        ({"name": "circulant", "servers": 4, "offsets": [2]}, "not connected"),
    ],
)
def test_refusals(sizes: dict[str, object], message: str) -> None:
    """What is wrong, by name."""
    with pytest.raises(InputError, match=message):
        topologies.family(**sizes)
