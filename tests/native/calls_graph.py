"""Small valid arguments of every function of the unit `graph`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.topology import semidirect_groups
from topoopt.native import graph

Draw = np.random.Generator


def random_arcs(draw: Draw) -> tuple[Ints, Ints, int]:
    """CSR arcs of a random digraph: first, head, n."""
    n = int(draw.integers(1, 9))
    tail, head = np.nonzero(draw.random((n, n)) < 0.3)
    return np.searchsorted(tail, np.arange(n + 1)).astype(np.int64), head.astype(np.int64), n


def random_coins(draw: Draw) -> tuple[int, Ints]:
    """Servers of a circulant, and its coins, ascending, with 1."""
    n = int(draw.integers(2, 24))
    return n, np.unique(np.append(draw.integers(1, n, 3), 1))


def random_links(draw: Draw, n: int, degree: int, *, regular: bool = False) -> Ints:
    """int64[m, 2], links such that no server has more than `degree`; regular: all have as many, if n or it is even."""
    while True:
        ends = np.sort(draw.permutation(np.repeat(np.arange(n), degree))[: n * degree // 2 * 2].reshape(-1, 2), axis=1)
        loops = ends[:, 0] == ends[:, 1]
        if not (regular and loops.any()):
            return np.ascontiguousarray(ends[~loops])


def link_counts(n: int, ends: Ints) -> Ints:
    """int64[n, n] of links."""
    counts = np.zeros((n, n), dtype=np.int64)
    np.add.at(counts, (ends[:, 0], ends[:, 1]), 1)
    return counts + counts.T


def symmetric_weights(draw: Draw, n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """float64[n, n] with ties and zeros."""
    weights = np.triu(draw.integers(0, 4, (n, n)).astype(np.float64), 1)
    return weights + weights.T


def _balance(draw: Draw) -> tuple[Any, ...]:
    n, coins = random_coins(draw)
    parcels = draw.integers(1, n, 6)
    inverse = draw.random(len(coins)) + 0.5
    return *graph.coin_decompositions(n, coins, 8), parcels, draw.random(6) + 0.1, inverse, 50, 3


def _order(draw: Draw) -> tuple[Any, ...]:
    _, coins = random_coins(draw)
    counts = draw.integers(0, 4, (5, len(coins)))
    return coins, draw.random(5), np.ones(len(coins)), draw.permutation(5), counts


def _paths(draw: Draw) -> tuple[Any, ...]:
    n, coins = random_coins(draw)
    first = np.array([0, 2, 3, 6])
    return n, draw.integers(0, n, 7).astype(np.int32), draw.integers(0, 3, 7), first, draw.choice(coins, 6)


def _cycles(draw: Draw) -> tuple[Any, ...]:
    n = int(draw.integers(5, 10))
    return link_counts(n, random_links(draw, n, 4, regular=True)), int(draw.integers(2**60))


def _duplex(draw: Draw) -> tuple[Any, ...]:
    n, degree = int(draw.integers(2, 10)), int(draw.integers(1, 5))
    return n, degree, random_links(draw, n, degree)


def _matching(draw: Draw) -> tuple[Any, ...]:
    n = int(draw.integers(1, 10))
    return symmetric_weights(draw, n), np.full(n, -1, dtype=np.int64)


def _climb(draw: Draw) -> tuple[Any, ...]:
    groups = semidirect_groups(int(draw.choice([8, 12, 21])))
    group = groups[int(draw.integers(len(groups)))]
    paired = bool(draw.integers(2))
    return graph.CayleySearch(3, 8, 6, 5), group.modulus, group.order, group.powers, paired, 20, 4


def _loads(draw: Draw) -> tuple[Any, ...]:
    first, tails, n = random_arcs(draw)
    into = np.repeat(np.arange(n), np.diff(first))  # the arcs are those into a server
    out = np.argsort(tails, kind="stable")
    distance = graph.hop_distances(np.searchsorted(tails[out], np.arange(n + 1)).astype(np.int64), into[out], n)
    distance = np.where(distance < 0, n, distance).astype(np.int32)
    order = np.argsort(distance, axis=1, kind="stable")
    return distance, order, first, tails, np.arange(len(tails)), draw.random(len(tails)) + 0.5


def _makespan(draw: Draw) -> tuple[Any, ...]:
    nodes, blocks, sends, links = 4, 3, 12, 6
    owner = draw.integers(0, nodes, blocks).astype(np.int32)
    block, tail, head = (draw.integers(0, high, sends).astype(np.int32) for high in (blocks, nodes, nodes))
    start = np.append(0, np.cumsum(draw.integers(1, 3, sends)))
    once = np.arange(start[-1])
    once[-2:] = once[0]
    return (
        block, tail, head, draw.random(sends) < 0.5,
        draw.integers(1, 5, blocks), owner, start, draw.integers(0, links, start[-1]), once, draw.random(links),
        draw.random(sends), nodes,
    )  # fmt: skip


def strongly_connected(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """CSR arcs of a ring over up to nine servers and some chords, in random order."""
    n = int(draw.integers(2, 10))
    ring = draw.permutation(n)
    joined = {*zip(ring.tolist(), np.roll(ring, 1).tolist(), strict=True)}
    joined |= {(int(i), int(j)) for i, j in draw.integers(n, size=(int(draw.integers(2 * n)), 2)) if i != j}
    head = [draw.permutation([j for i, j in sorted(joined) if i == v]) for v in range(n)]
    first = np.concatenate(([0], np.cumsum([len(row) for row in head]))).astype(np.int64)
    return first, np.concatenate(head).astype(np.int32)


def balanced_shortest_paths(draw: np.random.Generator) -> tuple[Any, ...]:
    """Arcs of up to three links, pairs in random order."""
    first, head = strongly_connected(draw)
    n = len(first) - 1
    return first, head, draw.integers(1, 4, size=len(head)).astype(np.int32), draw.permutation(n * (n - 1))


def join_cycles(draw: np.random.Generator) -> tuple[Any, ...]:
    """Factors of a circulant."""
    n, factors = int(draw.integers(3, 14)), int(draw.integers(1, 5))
    start = np.arange(n)
    distances = draw.integers(1, (n + 1) // 2, size=factors)
    stacked = np.array([np.column_stack(((start + p) % n, (start - p) % n)) for p in distances], dtype=np.int64)
    return stacked, 100 * n, int(draw.integers(99))


def _tree_network(draw: Draw) -> tuple[int, np.ndarray, np.ndarray]:
    """Nodes, tails and heads of a ring and some chords."""
    first, head = strongly_connected(draw)
    return len(first) - 1, np.repeat(np.arange(len(first) - 1, dtype=np.int32), np.diff(first)), head


def _cuts(draw: Draw) -> tuple[Any, ...]:
    nodes, tail, head = _tree_network(draw)
    ranks = np.arange(nodes, dtype=np.int32)
    return nodes, tail, head, draw.integers(0, 9, len(tail)), ranks, draw.integers(0, 3, nodes), ranks, True


def _rank_paths(draw: Draw) -> tuple[Any, ...]:
    nodes, tail, head = _tree_network(draw)
    return nodes, tail, head, draw.random(len(tail)), draw.random(nodes) < 0.5, False, np.arange(nodes, dtype=np.int32)


def _trees(draw: Draw) -> tuple[Any, ...]:
    nodes, tail, head = _tree_network(draw)
    capacity, count = draw.integers(nodes, 2 * nodes, len(tail)), draw.integers(0, 2, nodes)
    return nodes, tail, head, capacity, count, 64, bool(draw.random() < 0.5)


CALLS: dict[str, Callable[[Draw], tuple[Any, ...]]] = {
    "balanced_shortest_paths": balanced_shortest_paths,
    "join_cycles": join_cycles,
    "hop_distances": random_arcs,
    "breadth_first_trees": random_arcs,
    "circulant_hops": random_coins,
    "circulant_scores": lambda draw: (12, draw.integers(1, 12, (5, 3))),
    "coin_decompositions": lambda draw: (*random_coins(draw), 8),
    "balance_coins": _balance,
    "order_coins": _order,
    "circulant_paths": _paths,
    "hamiltonian_cycles": _cycles,
    "duplex_matchings": _duplex,
    "complete_matching": _matching,
    "CayleySearch": lambda draw: (int(draw.integers(1, 6)), 8, 60, int(draw.integers(2**60))),
    "CayleySearch.climb": _climb,
    "shortest_path_loads": _loads,
    "makespan": _makespan,
    "rank_cuts": _cuts,
    "rank_paths": _rank_paths,
    "least_tree": lambda draw: (draw.random((5, 5)), int(draw.integers(5))),
    "pack_trees": _trees,
}
