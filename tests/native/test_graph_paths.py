"""Balanced shortest paths and joined cycles of the unit `graph`, against plain Python and networkx."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest

from tests.native.calls_graph import balanced_shortest_paths, join_cycles
from topoopt.native import graph


def links_of(cycle: list[int]) -> Counter[tuple[int, ...]]:
    """Its links, ends sorted."""
    return Counter(tuple(sorted(pair)) for pair in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_paths_follow_the_rule(seed: int) -> None:
    """Each hop goes to the neighbour nearer the target over the link least used so far, the first of equal ones."""
    first, head, links, order = balanced_shortest_paths(np.random.default_rng(seed))
    n = len(first) - 1
    arcs = {v: list(zip(head[first[v] : first[v + 1]], links[first[v] : first[v + 1]], strict=True)) for v in range(n)}
    joined = nx.DiGraph((v, int(to)) for v, row in arcs.items() for to, _ in row)
    distance = dict(nx.all_pairs_shortest_path_length(joined))
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    used: Counter[tuple[int, int]] = Counter()
    expected = np.full((len(pairs), max(max(row.values()) for row in distance.values()) + 1), -1)
    for pair in order.tolist():
        path, goal = [pairs[pair][0]], pairs[pair][1]
        while path[-1] != goal:
            at = path[-1]
            nearer = [(to, count) for to, count in arcs[at] if distance[to][goal] == distance[at][goal] - 1]
            path.append(min(nearer, key=lambda arc: used[at, arc[0]] / arc[1])[0])
            used[at, path[-1]] += 1
        expected[pair, : len(path)] = path
    assert graph.balanced_shortest_paths(first, head, links, order).tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_joined_cycles_are_hamiltonian_over_the_same_links(seed: int) -> None:
    """Each visits all servers, and together they use every link of the factors once."""
    factors, tries, search_seed = join_cycles(np.random.default_rng(seed))
    n = factors.shape[1]
    joined = nx.Graph((v, int(u)) for factor in factors for v in range(n) for u in factor[v])
    cycles = graph.join_cycles(factors, tries, search_seed)
    if cycles is None:
        assert not all(nx.is_connected(nx.Graph((v, int(u)) for v in range(n) for u in one[v])) for one in factors)
        return
    assert nx.is_connected(joined)
    assert all(sorted(cycle) == list(range(n)) for cycle in cycles.tolist())
    each_way = Counter(tuple(sorted((v, int(u)))) for factor in factors for v in range(n) for u in factor[v])
    assert sum((links_of(cycle) for cycle in cycles.tolist()), Counter()) == {
        link: count // 2 for link, count in each_way.items()
    }


def test_a_cycle_stays_as_it_is() -> None:
    """One Hamiltonian factor is walked from server 0 towards its first neighbour; two servers share parallel links."""
    ring = np.array([[[2, 1], [0, 3], [3, 0], [1, 2]]])
    assert graph.join_cycles(ring, 0, 1).tolist() == [[0, 2, 3, 1]]
    assert graph.join_cycles(np.array([[[1, 1], [0, 0]]]), 0, 1).tolist() == [[0, 1]]
    assert graph.join_cycles(np.zeros((0, 3, 2), dtype=np.int64), 9, 1).shape == (0, 3)
    apart = np.array([[[1, 1], [0, 0], [3, 3], [2, 2]]])
    assert graph.join_cycles(apart, 99, 1) is None, "one factor alone exchanges nothing"


def test_refusals() -> None:
    """Links of one direction only, servers that are not there, graphs that are not strongly connected."""
    for factors in ([[[1, 2], [2, 2], [0, 1]]], [[[1, 3], [2, 0], [0, 1]]], [[[-1, 1], [2, 0], [0, 1]]]):
        with pytest.raises(ValueError, match="factors"):
            graph.join_cycles(np.array(factors), 9, 1)
    first, head, links, order = (np.array(x) for x in ([0, 1, 1], [1], [1], [0, 1]))
    with pytest.raises(ValueError, match="strongly"):
        graph.balanced_shortest_paths(first, head.astype(np.int32), links.astype(np.int32), order)
    with pytest.raises(TypeError):
        graph.balanced_shortest_paths(first, head, links, order)
