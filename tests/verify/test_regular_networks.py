"""The checker's own enumeration of regular networks, against a count by networkx and against damaged proofs."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import networkx as nx
import numpy as np
import pytest

from solvers.network.enumeration import networks_of_excess
from solvers.network.exact import METHODS
from solvers.network.space import ExactLimits
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import EnumerationProof, TopologyProblem
from topoopt.core.proofs import Argument
from topoopt.verify.network.trees import enumeration_bound, least_numbering, tables_of_few_hops


def classes(tables: np.ndarray) -> int:
    """Networks that are not renamings of one another."""
    return len({min(least_numbering(table, root) for root in range(len(table))) for table in tables})


@pytest.mark.parametrize(("n", "d"), [(3, 2), (4, 2)])
def test_all_networks_are_listed(n: int, d: int) -> None:
    """With every sum of hops allowed, there are as many classes as among all tables of heads, compared by networkx."""
    rows = [[(a, b) for a in range(n) for b in range(a, n) if v not in (a, b)] for v in range(n)]
    graphs: list[nx.MultiDiGraph] = []
    for heads in product(*rows):
        if any(sum(row.count(v) for row in heads) != d for v in range(n)):
            continue
        graph = nx.MultiDiGraph((v, head) for v, row in enumerate(heads) for head in row)
        if len(graph) == n and nx.is_strongly_connected(graph):
            weighted = nx.DiGraph()
            for arc in set(graph.edges()):
                weighted.add_edge(*arc, links=graph.number_of_edges(*arc))
            same = nx.algorithms.isomorphism.numerical_edge_match("links", 1)
            if not any(nx.is_isomorphic(weighted, known, edge_match=same) for known in graphs):
                graphs.append(weighted)
    tables = tables_of_few_hops(n, d, n**3)
    assert tables is not None
    assert classes(tables) == len(graphs)


@pytest.mark.parametrize(("n", "d", "hops", "excess"), [(7, 2, 76, 6), (8, 2, 107, 3), (6, 3, 45, 3)])
def test_two_enumerations_count_the_same(n: int, d: int, hops: int, excess: int) -> None:
    """The orderly search of the solvers and the level-wise one of the checker find as many classes."""
    tables = tables_of_few_hops(n, d, hops)
    assert tables is not None
    orderly = sum(len(batch) for batch in networks_of_excess(n, d, 0, excess))
    assert classes(tables) == orderly > 0


def test_the_least_numbering_is_the_least_of_all() -> None:
    """Against all renamings of random networks that number servers in the order in which they are found."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        heads = np.array([[v for v in rng.permutation(5) if v != server][:2] for server in range(5)])
        tables = []
        for order in permutations(range(5)):
            place = np.argsort(order)
            rows = [sorted(int(place[v]) for v in heads[u]) for u in order]
            firsts = list(dict.fromkeys(v for row in [[0], *rows] for v in row))
            if firsts == [*range(5)]:
                tables.append((order[0], tuple(map(tuple, rows))))
        for root in {root for root, _ in tables}:
            assert least_numbering(heads, root) == min(table for start, table in tables if start == root)


def proof_of(n: int) -> tuple[EnumerationProof, float]:
    """What `enumerate` proves for uniform demand and degree 2."""
    problem = TopologyProblem("case", n, 2, LinkDirection.UNIDIRECTIONAL, np.ones((n, n)) - np.eye(n))
    found = METHODS["enumerate"](problem, ExactLimits())
    (proof,) = (proof for proof in found.certificates if proof.argument is Argument.LISTED_NETWORKS)
    return EnumerationProof.of(proof, n, 2), found.theta


@pytest.mark.parametrize(
    ("n", "theta"),
    [(6, 1 / 0.238095), (7, 5.5), (8, None), (9, None), pytest.param(12, None, marks=pytest.mark.heavy)],
)
def test_uniform_optima_are_proven_twice(n: int, theta: float | None) -> None:
    """Link lengths of every network with few hops prove the optimum, and lambda is the published one where there is."""
    proof, found = proof_of(n)
    assert theta is None or found == pytest.approx(theta, rel=1e-5)
    assert enumeration_bound(n, 2, proof, found) == pytest.approx(found, rel=1e-9)


def test_damaged_proofs_prove_less_or_nothing() -> None:
    """A missing network, lengths that are none, other shapes and larger claims do not pass."""
    proof, theta = proof_of(7)
    assert len(proof.heads) > 1
    with pytest.raises(InputError, match="not covered"):
        enumeration_bound(7, 2, EnumerationProof(proof.heads[1:], proof.lengths[1:]), theta)
    poor = proof.lengths.copy()
    poor[0] = np.arange(14).reshape(7, 2) + 1.0
    assert enumeration_bound(7, 2, replace(proof, lengths=poor), theta) < theta * (1 - 1e-3)
    for damaged in (
        replace(proof, lengths=-proof.lengths),
        replace(proof, heads=proof.heads + 7),
        replace(proof, heads=proof.heads[:, :6]),
    ):
        with pytest.raises(InputError):
            enumeration_bound(7, 2, damaged, theta)
    with pytest.raises(InputError, match="not covered"):
        enumeration_bound(7, 2, proof, theta * 1.05)
    with pytest.raises(InputError, match="more than can be listed"):
        enumeration_bound(40, 2, EnumerationProof(np.zeros((0, 40, 2), dtype=np.int64), np.zeros((0, 40, 2))), 9.0)
