"""Search for Cayley digraphs and Haar graphs on which breadth-first broadcasts take few steps and balance.

Haar graphs are drawn: random sets of elements of every group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from solvers.stop import Stop
from topoopt.core.cluster import LinkDirection
from topoopt.core.graphs import SemidirectGroup, haar_arcs, semidirect_groups
from topoopt.native import graph

MOST_DEGREE = 10
"""Generators up to which all sets of them are looked at."""
PATIENCE = 100
MOST_AT_ONCE = 50_000_000
"""Links followed between two looks at the limits."""


@dataclass(frozen=True)
class CayleyDigraph:
    """What a search finds for one number of steps.

    Attributes:
        group: whose elements are the servers.
        generators: of the links out of each.
        steps: diameter, T_L.
        bandwidth: factor T_B of breadth-first broadcasts.
        distances: sum of the distances from a server to all others.
    """

    group: SemidirectGroup
    generators: tuple[int, ...]
    steps: int
    bandwidth: Fraction
    distances: int


def search_cayley(
    servers: int, degree: int, links: LinkDirection, stop: Stop, *, visits: int, most_steps: int, seed: int
) -> list[CayleyDigraph]:
    """The best found of every number of steps.

    All groups Z_m x| Z_k of the size are tried; again and again the half with the larger distances is left out, and the
    others get twice the draws, until one is left. Same arguments, same result, unless stopped.

    Args:
        servers: n; degree: d, at most n - 1 and `MOST_DEGREE`.
        links: fibre pairs need generators with their inverses.
        stop: ends the search early.
        visits: about how many links are followed in all, a measure of work.
        most_steps: diameters looked for.
        seed: of the draws.
    """
    parts = math.lcm(*range(1, degree + 1))
    search = graph.CayleySearch(degree, most_steps, parts, seed)
    owner: dict[int, SemidirectGroup] = {}
    groups = semidirect_groups(servers)
    rounds = max(len(groups) - 1, 0).bit_length() + 1
    # Each draw follows all links of one search, and sums over the sets of generators for a few steps.
    cost = degree * (servers + 2 * 2**degree)
    share = max(visits // (rounds * cost), 1)
    at_once = max(MOST_AT_ONCE // cost, 1)
    while True:
        met: list[tuple[int, int]] = []
        for index, group in enumerate(groups):
            least, left = -1, max(share // len(groups), 1)
            sizes = group.modulus, group.order, group.powers, links is LinkDirection.BIDIRECTIONAL
            while left > 0 and stop.reason() is None:
                reached, improved = search.climb(*sizes, min(left, at_once), PATIENCE)
                left -= at_once
                least = reached if least < 0 or 0 <= reached < least else least
                owner |= dict.fromkeys(improved.tolist(), group)
            if least >= 0:
                met.append((least, index))
        if len(groups) == 1 or stop.reason() is not None or not met:
            break
        groups = [groups[index] for _, index in sorted(met)[: (len(met) + 1) // 2]]
    return [
        CayleyDigraph(
            owner[steps],
            tuple(search.generators[steps].tolist()),
            steps,
            Fraction(degree * int(search.load[steps]), parts * servers),
            int(search.far[steps]),
        )
        for steps in sorted(owner)
    ]


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
    candidates: set[HaarGraph] = set()
    for draw in range(draws):
        if stop.reason() is not None:
            break
        group = groups[draw % len(groups)]
        others = 1 + rng.choice(half - 1, degree - 1, replace=False) if degree > 1 else np.zeros(0, dtype=np.int64)
        made = _measured(group, (0, *sorted(others.tolist())))
        if made is not None:
            candidates.add(made)
    return sorted(candidates)[:KEPT]


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
