"""Haar graphs: fibre pairs between two sides of servers, good where Cayley digraphs have few elements of order two."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from solvers.collective.breadth_first import search_haar, step_loads
from solvers.stop import Stop
from tests.support import collective_networks as nets
from topoopt.core.topology import haar_arcs


@pytest.mark.parametrize(("n", "degree", "most"), [(64, 3, 7), (256, 3, 11)])
def test_cubic_graphs_of_powers_of_two(n: int, degree: int, most: int) -> None:
    """Steps stay near the Moore bound (5 and 7) and every link is used alike: the least factor there is."""
    best = search_haar(n, degree, Stop(), visits=2_000_000, seed=0)[0]
    arcs = haar_arcs(best.group, best.generators)
    graph = nx.Graph(arcs.tolist())
    assert nx.is_bipartite(graph)
    assert set(dict(graph.degree()).values()) == {degree}
    assert nx.diameter(graph) == best.steps <= most
    loads, distance = step_loads(nets.network(n, [(tail, head, 1) for tail, head in arcs.tolist()]))
    assert len(loads) == best.steps
    assert Fraction(degree, n) * sum(loads) >= Fraction(n - 1, n)
    assert best.distances == int(distance[[0, n // 2]].sum())
    sums = np.unique(distance.sum(axis=1))
    assert set(sums.tolist()) <= set(distance[[0, n // 2]].sum(axis=1).tolist())


def test_the_same_seed_finds_the_same() -> None:
    one, again, other = (search_haar(60, 3, Stop(), visits=100_000, seed=seed) for seed in (5, 5, 6))
    assert one == again != other


@pytest.mark.parametrize(("n", "degree"), [(2, 1), (7, 3), (4, 3), (6, 3)])
def test_sizes_at_the_edge(n: int, degree: int) -> None:
    """An odd number of servers, more links than the other side has servers: none; all of them: complete bipartite."""
    found = search_haar(n, degree, Stop(), visits=10_000, seed=0)
    assert [one.steps for one in found[:1]] == ([2] if (n, degree) == (6, 3) else [])
