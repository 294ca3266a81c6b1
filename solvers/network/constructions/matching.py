"""Maximum-weight matchings for model-parallel traffic: one interface of every server to the partner that needs it most.

Bidirectional links: a matching of the servers (TopoOpt, Algorithm 1). It is exact (Blossom, networkx) up to
`EXACT_SERVERS` servers that have demand; above that, greedy with pairwise exchanges, since Blossom takes minutes there.
Unidirectional links: a permutation without fixed points, the assignment problem, exact at any size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topoopt import native
from topoopt.core.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    import networkx as nx

EXACT_SERVERS = 64


def discount(weights: Floats, tails: Ints, heads: Ints, count: int) -> None:
    """Scale the demand of pairs by c/(c+1), c links now between them: the worth of a parallel link falls."""
    weights[tails, heads] *= count / (count + 1.0)


def best_matching(weights: Floats, allowed: Bools) -> list[tuple[int, int]]:
    """Pairs (i < j) of a heaviest matching of the allowed servers that leaves at most one of them over.

    Args:
        weights: float64[n, n], symmetric, non-negative: worth of a link between two servers.
        allowed: bool[n], servers with a free interface.
    """
    import networkx as nx

    servers = np.flatnonzero(allowed)
    inner = np.ascontiguousarray(weights[np.ix_(servers, servers)])
    np.fill_diagonal(inner, 0.0)
    busy = np.flatnonzero(inner.sum(axis=1) > 0)
    partner = np.full(len(servers), -1, dtype=np.int64)
    if len(busy) <= EXACT_SERVERS:
        graph: nx.Graph[int] = nx.Graph()
        rows, columns = np.nonzero(np.triu(inner, 1))
        # Blossom on floats of 10^9 bytes stays exact when scaled to integers.
        scale = 2.0**40 / max(float(inner.max(initial=0.0)), 1.0)
        graph.add_weighted_edges_from(
            (int(i), int(j), round(float(inner[i, j]) * scale)) for i, j in zip(rows, columns, strict=True)
        )
        for i, j in sorted(tuple(sorted(pair)) for pair in nx.max_weight_matching(graph)):
            partner[i], partner[j] = j, i
    matched = native.graph.complete_matching(inner, partner).tolist()
    return [(int(servers[i]), int(servers[j])) for i, j in enumerate(matched) if i < j]


def best_permutation(weights: Floats) -> Ints:
    """int64[n]: head of each server's arc, a permutation without fixed points of greatest total weight (n >= 2)."""
    from scipy.optimize import linear_sum_assignment

    n = len(weights)
    cost = -weights.copy()
    np.fill_diagonal(cost, float(np.abs(weights).sum()) + n)
    return np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)
