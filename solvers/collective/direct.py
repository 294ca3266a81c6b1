"""Schedules in which ranks need no relays: everything at once through switches, and rings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.collective.schedules import Row, of_rows
from topoopt.core.arrays import Bools
from topoopt.core.collective import CollectiveSchedule, Path
from topoopt.core.rated_network import RatedNetwork


def switched_paths(network: RatedNetwork, source: int) -> dict[int, Path]:
    """Ways of fewest links, and of the fastest ones, from a rank to those it reaches through switches alone."""
    out: dict[int, list[tuple[int, int]]] = {}
    for (tail, head), units in zip(network.arcs.tolist(), network.units.tolist(), strict=True):
        out.setdefault(tail, []).append((-units, head))
    found: dict[int, Path] = {source: (source,)}
    frontier = [source]
    while frontier:
        following = []
        for node in frontier:
            for _, head in sorted(out.get(node, ())):
                if head not in found:
                    found[head] = (*found[node], head)
                    if network.is_switch[head]:
                        following.append(head)
        frontier = following
    return {node: path for node, path in found.items() if node != source and not network.is_switch[node]}


def all_at_once(network: RatedNetwork) -> CollectiveSchedule | None:
    """An AllGather in one step; None where some rank needs a relay."""
    ranks = network.ranks.tolist()
    routes: dict[Path, int] = {}
    rows: list[Row] = []
    for block, source in enumerate(ranks):
        paths = switched_paths(network, source)
        if len(paths) < len(ranks) - 1:
            return None
        rows += [(block, source, head, 0, routes.setdefault(path, len(routes)), False) for head, path in paths.items()]
    return of_rows([1] * len(ranks), ranks, rows, tuple(routes))


def ring_gather(network: RatedNetwork, rings: Sequence[Sequence[int]]) -> CollectiveSchedule | None:
    """An AllGather round several rings at once, each with an equal part; None where a ring uses what is not there.

    Args:
        rings: of all ranks, in the order of sending.
    """
    ranks = network.ranks.tolist()
    routes: dict[Path, int] = {}
    ways = [_round(network, ring) for ring in rings]
    rows: list[Row] = []
    owner: list[int] = []
    for rank in ranks:
        for ring, way in zip(rings, ways, strict=True):
            if way is None:
                return None
            block, start = len(owner), list(ring).index(rank)
            owner.append(rank)
            for step in range(len(ring) - 1):
                path = way[(start + step) % len(ring)]
                rows.append((block, path[0], path[-1], step, routes.setdefault(path, len(routes)), False))
    return of_rows([1] * len(owner), owner, rows, tuple(routes))


def _round(network: RatedNetwork, ring: Sequence[int]) -> list[Path] | None:
    steps = []
    for tail, head in zip(ring, (*ring[1:], ring[0]), strict=True):
        path = switched_paths(network, tail).get(head)
        if path is None:
            return None
        steps.append(path)
    return steps


def natural_rings(network: RatedNetwork) -> list[list[int]]:
    """Rings p, 2p, 3p, ... of all ranks, of steps p without common factor with N, whose links are all there.

    Opposite rings both count; where none are there, the ranks in their order, which switches may join.
    """
    ranks = network.ranks
    n = len(ranks)
    linked: Bools = np.zeros((network.nodes, network.nodes), dtype=np.bool_)
    linked[network.arcs[:, 0], network.arcs[:, 1]] = True
    found = []
    for offset in range(1, n):
        ring = ranks[np.arange(n) * offset % n]
        if np.gcd(offset, n) == 1 and linked[ring, np.roll(ring, -1)].all():
            found.append(ring.tolist())
    return found or [ranks.tolist()]
