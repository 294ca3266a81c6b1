"""Search for Haar graphs on which breadth-first broadcasts take few steps: random sets of elements of every group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.stop import Stop
from topoopt.core.cayley import SemidirectGroup, haar_arcs, semidirect_groups

KEPT = 3
"""Graphs that are told, best first."""

MOST_DRAWS = 300


@dataclass(frozen=True, order=True)
class HaarGraph:
    """What a draw gives: its diameter, the sum of the distances from a server of either side, and how it is made."""

    steps: int
    distances: int
    group: tuple[int, int, int]
    generators: tuple[int, ...]


def search_haar(servers: int, degree: int, stop: Stop, *, visits: int, seed: int) -> list[HaarGraph]:
    """The best of so many draws; same arguments, same result, unless stopped.

    The group moves each side onto itself, so two searches tell the distances of all.

    Args:
        servers: n, even; degree: d, at most n / 2.
        stop: ends the search early.
        visits: about how many links are followed in all.
        seed: of the draws.
    """
    half = servers // 2
    if servers % 2 or not 1 <= degree <= half:
        return []
    groups = semidirect_groups(half)
    if not groups:
        return []
    draws = min(visits // (2 * servers * degree), MOST_DRAWS)
    rng = np.random.default_rng(seed)
    found: set[HaarGraph] = set()
    for draw in range(draws):
        if stop.reason() is not None:
            break
        group = groups[draw % len(groups)]
        others = 1 + rng.choice(half - 1, degree - 1, replace=False) if degree > 1 else np.zeros(0, dtype=np.int64)
        made = _measured(group, (0, *sorted(others.tolist())))
        if made is not None:
            found.add(made)
    return sorted(found)[:KEPT]


def _measured(group: SemidirectGroup, generators: tuple[int, ...]) -> HaarGraph | None:
    """Diameter and distances; None where it is not connected."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    n = 2 * group.elements
    arcs = haar_arcs(group, generators)
    links = csr_array((np.ones(len(arcs)), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    far = shortest_path(links, unweighted=True, indices=[0, group.elements])
    if not np.isfinite(far).all():
        return None
    return HaarGraph(int(far.max()), int(far.sum()), (group.modulus, group.order, group.twist), generators)
