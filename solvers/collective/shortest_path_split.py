"""All-to-All along shortest paths: how traffic splits over them so that the fullest link carries little."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.rated_network import RatedNetwork
from topoopt.simulate.jit import kernel

ROUNDS = 40
EAGERNESS = 0.5
"""How far the weight of a link falls with its load, at first."""


@kernel
def split(distance: Int32s, order: Ints, first: Ints, tails: Ints, label: Ints, weight: Floats, load: Floats) -> None:
    """Add what one unit of traffic to every other server loads links with; predecessors share by the links' weights.

    Args:
        distance: int32[s, n], hops from each source that counts.
        order: int64[s, n], servers by these distances, the source first.
        first, tails: in-links of v are tails[first[v] : first[v + 1]].
        label: int64[m], of each in-link, the entry of `weight` and `load` that is its own.
        weight: float64[l], positive.
        load: float64[l], added to.
    """
    n = distance.shape[1]
    due = np.empty(n)
    for row in range(len(distance)):
        due[:] = 1.0
        for place in range(n - 1, 0, -1):
            v = order[row, place]
            total = 0.0
            for link in range(first[v], first[v + 1]):
                if distance[row, tails[link]] == distance[row, v] - 1:
                    total += weight[label[link]]
            for link in range(first[v], first[v + 1]):
                if distance[row, tails[link]] == distance[row, v] - 1:
                    part = due[v] * weight[label[link]] / total
                    load[label[link]] += part
                    due[tails[link]] += part


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
        load = np.zeros(len(units))
        split(rows, order, first, tails, label, weight, load)
        use = load / units
        best = min(best, float(use.max()))
        mean = float(use.mean())
        if best <= mean * (1 + 1e-9):
            break
        weight = weight * np.exp(-EAGERNESS / (1 + attempt / 8) * (use / mean - 1))
    return 1.0 / best
