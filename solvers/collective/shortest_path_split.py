"""All-to-All along shortest paths: how traffic splits over them so that the fullest link carries little."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.rated_network import RatedNetwork
from topoopt.native import graph

ROUNDS = 40
EAGERNESS = 0.5
"""How far the weight of a link falls with its load, at first."""


def shortest_path_rate(network: RatedNetwork, distance: Int32s, generators: Ints | None = None) -> float:
    """Rate of every ordered pair that shortest paths allow, in units of the network: All-to-All attains it.

    Splits are improved over some rounds: a link that is fuller than the mean gets less weight.

    Args:
        network: without switches.
        distance: int32[n, n], hops from row to column; with `generators` the first row does.
        generators: int64[m], of a Cayley digraph: number of the generator of each arc. All links of a generator carry
            the same then, and one source tells how much.
    """
    n = network.nodes
    into = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    first = np.searchsorted(network.arcs[into, 1], np.arange(n + 1))
    tails = network.arcs[into, 0].astype(np.int64)
    units = network.units[into].astype(np.float64)
    label = np.arange(len(into), dtype=np.int64)
    rows = distance
    if generators is not None:
        label, rows = generators[into], distance[:1]
        units = np.bincount(label, units) / np.bincount(label)
    rows = np.ascontiguousarray(rows, dtype=np.int32)
    order = np.argsort(rows, axis=1, kind="stable")
    weight, best = units.copy(), np.inf
    for attempt in range(ROUNDS):
        use = graph.shortest_path_loads(rows, order, first, tails, label, weight) / units
        best = min(best, float(use.max()))
        mean = float(use.mean())
        if best <= mean * (1 + 1e-9):
            break
        weight = weight * np.exp(-EAGERNESS / (1 + attempt / 8) * (use / mean - 1))
    return 1.0 / best
