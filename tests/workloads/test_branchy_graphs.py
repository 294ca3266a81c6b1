"""Generated graphs for placement: their shape, their mirror image, and that seeds decide."""

from __future__ import annotations

import networkx as nx
import pytest

from topoopt.core.errors import InputError
from topoopt.workloads.models import GRAPH_FAMILIES, ForwardNode, branchy_graph, graph_of


@pytest.mark.parametrize("family", list(GRAPH_FAMILIES))
@pytest.mark.parametrize(("layers", "branches"), [(1, 1), (3, 4)])
def test_training_graph_is_acyclic_and_mirrored(family: str, layers: int, branches: int) -> None:
    """As many backward operators as forward ones, co-located in pairs, and every forward tensor answered."""
    operators, tensors = branchy_graph(family, layers, branches, 7, training=True)
    n = len(operators) // 2
    assert [operator.backward for operator in operators] == [False] * n + [True] * n
    pairs = [(t.producer, user) for t in tensors for user in t.consumers]
    assert nx.is_directed_acyclic_graph(nx.DiGraph(pairs))
    forward = {(u, v) for u, v in pairs if v < n}
    assert {(v + n, u + n) for u, v in forward} == {(u, v) for u, v in pairs if u >= n}
    for index in range(n):
        assert operators[index].colocation == operators[n + index].colocation


def test_seed_decides() -> None:
    """Equal seeds, equal graphs; another seed, other times."""
    one, same, other = (branchy_graph("layered", 3, 3, seed, training=False) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_tensor_is_shared_by_readers_of_equal_size() -> None:
    """Two readers of all of it share one tensor, a reader of half has its own."""
    nodes = [
        ForwardNode("a", 1.0, 2.0, 3, ()),
        *(ForwardNode(name, 1.0, 2.0, 0, ((0, size),)) for name, size in (("b", 8), ("c", 8), ("d", 4))),
    ]
    _, tensors = graph_of(nodes, training=False)
    assert {(t.consumers, t.size_bytes) for t in tensors} == {((1, 2), 8), ((3,), 4)}


def test_unknown_family_and_huge_graphs_are_refused() -> None:
    """Before anything is built."""
    with pytest.raises(InputError, match="no such family"):
        branchy_graph("spiral", 1, 1, 0, training=True)
    with pytest.raises(InputError, match="too large"):
        branchy_graph("layered", 1000, 1000, 0, training=True)
