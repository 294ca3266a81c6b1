"""Networks that look the same from every server, told by the checker in its own way."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.topology import Topology


def arcs_by_step(topology: Topology) -> Ints | None:
    """int64[steps, n]: the arcs that lead equally far round the ring of all servers, by tail.

    None where a server lacks an arc that another one has, seen from itself.
    """
    n, arcs = topology.servers, topology.arcs.astype(np.int64)
    if not len(arcs) or len(arcs) % n:
        return None
    steps = (arcs[:, 1] - arcs[:, 0]) % n
    order = np.lexsort((arcs[:, 0], steps)).reshape(-1, n)
    one_each = (arcs[order, 0] == np.arange(n)).all() and (steps[order] == steps[order[:, :1]]).all()
    return order if one_each else None


def steps_of(topology: Topology, classes: Ints) -> list[int]:
    """How far the arcs of each class lead."""
    tails, heads = topology.arcs[classes[:, 0]].astype(np.int64).T
    steps: list[int] = ((heads - tails) % topology.servers).tolist()
    return steps


def seen_from_itself(table: Floats, server: int) -> Floats:
    """float64[n]: the row of a server in a table of pairs, itself first, then those after it round the ring."""
    return np.concatenate((table[server, server:], table[server, :server]))


def turned_distances(topology: Topology, lengths: Ints, far: int) -> Ints | None:
    """int64[n, n]: distances where arcs and their lengths are the same from every server; else None.

    Those from server 0 by Bellman and Ford, one class of arcs after another; the others follow. `far`: no path.
    """
    classes = arcs_by_step(topology)
    if classes is None or (lengths[classes] != lengths[classes[:, :1]]).any():
        return None
    n = topology.servers
    of_class = lengths[classes[:, 0]].tolist()
    distance = np.full(n, far)
    distance[0] = 0
    for _ in range(n):
        before = distance.copy()
        for step, length in zip(steps_of(topology, classes), of_class, strict=True):
            np.minimum(distance, np.roll(distance, step) + length, out=distance)
        if np.array_equal(before, distance):
            break
    twice = np.concatenate((distance, distance))
    return np.array([twice[n - s : 2 * n - s] for s in range(n)])
