"""An exchange of all with all on a circulant: routes that look the same from every server, of least load."""

from __future__ import annotations

import numpy as np

from solvers.network.routing.circulant import route_circulant
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.routing import PathTable
from topoopt.native import routing
from topoopt.simulate.llm_training.network.routing import path_table

ACCURACY = 1e-6
"""Of the largest load."""

LEAST = 1e-6
"""Share of a routing that is worth its paths."""


def circulant_routes(servers: int, offsets: Ints, capacity: Floats) -> PathTable:
    """Routes of all pairs, each of which sends equally much.

    Args:
        servers: n, joined by links v -> v + offset.
        offsets, capacity: int64[c], float64[c]: of each class of links, and how many lie side by side.

    Raises:
        InfeasibleError: a pair has no path.
    """
    n = servers
    weight = np.ones(n)
    weight[0] = 0.0
    found = route_circulant(offsets.tolist(), weight, capacity=capacity.tolist(), accuracy=ACCURACY)
    words: dict[tuple[int, ...], float] = {}
    paths = routing.CirculantPaths(offsets, n)
    kept = found.share >= LEAST
    for share, lengths in zip(found.share[kept] / found.share[kept].sum(), found.routing_lengths[kept], strict=True):
        paths.distances(lengths)
        steps = paths.steps()
        for displacement in range(1, n):
            word = _word(offsets, steps, displacement)
            words[word] = words.get(word, 0.0) + float(share)
    source, target = (side.ravel() for side in np.nonzero(~np.eye(n, dtype=bool)))
    every, parts = np.arange(n), []
    for word, share in words.items():
        rows = (every[:, None] + np.concatenate([[0], np.cumsum(word)])[None, :]) % n
        place = rows[:, 0] * (n - 1) + rows[:, -1] - (rows[:, -1] > rows[:, 0])
        parts.append((place, rows, np.full(n, share)))
    return path_table(n, source, target, parts)


def _word(offsets: Ints, steps: Int32s, displacement: int) -> tuple[int, ...]:
    """Offsets of a shortest path, class by class."""
    n, left, word = steps.shape[1], displacement, []
    for own, counts in zip(offsets[::-1].tolist(), steps[::-1], strict=True):
        count = int(counts[left])
        word += [own] * count
        left = (left - own * count) % n
    return tuple(word)
