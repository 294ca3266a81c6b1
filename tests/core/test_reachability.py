"""Who reaches whom, against NetworkX."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from topoopt.core.topology import reachable_from, strongly_connected, unreachable_pair


@pytest.mark.parametrize("seed", range(60))
def test_as_networkx_says(seed: int) -> None:
    """Random graphs about as dense as where they come apart: the verdict, and a pair that has no path indeed."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 12))
    arcs = draw.integers(0, n, (int(draw.integers(0, 4 * n)), 2)).astype(np.int32)
    graph = nx.DiGraph(arcs.tolist())
    graph.add_nodes_from(range(n))
    assert strongly_connected(n, arcs) == nx.is_strongly_connected(graph)
    found, hops = reachable_from(n, arcs, source=n - 1)
    lengths = nx.single_source_shortest_path_length(graph, n - 1)
    assert hops.tolist() == [lengths.get(v, -1) for v in range(n)]
    assert sorted(found.tolist()) == sorted(lengths)
    assert np.diff(hops[found], prepend=0).min() >= 0
    pair = unreachable_pair(n, arcs)
    if pair is not None:
        assert not nx.has_path(graph, *pair)


def test_a_long_ring_and_one_cut() -> None:
    """Ten thousand servers in a ring reach each other; without one link the last does not reach the first."""
    n = 10_000
    ring = np.column_stack((np.arange(n), (np.arange(n) + 1) % n))
    assert unreachable_pair(n, ring) is None
    assert unreachable_pair(n, ring[:-1]) == (1, 0)
