"""Schedules of whole shards: in the fewest steps, through switches too, and round rings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from solvers.collective.schedules import Row, of_rows
from topoopt.core.arrays import Bools, Floats
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


def fewest_steps(network: RatedNetwork, root: int | None = None, *, multicast: bool = False) -> CollectiveSchedule:
    """An AllGather of whole shards, or a broadcast from a root, in fewest steps; to pass on over switches is one.

    Of the ranks that have a shard a step before, the one whose links have carried least in the step sends it. With
    `multicast` a link carries what one rank sends several others once.
    """
    ranks = network.ranks.tolist()
    ways = {rank: switched_paths(network, rank) for rank in ranks}
    feeding = {head: [tail for tail in ranks if head in ways[tail]] for head in ranks}
    number = {(tail, head): place for place, (tail, head) in enumerate(network.arcs.tolist())}
    arcs = {path: [number[hop] for hop in itertools.pairwise(path)] for own in ways.values() for path in own.values()}
    distance = {rank: _steps_from(ways, rank) for rank in ranks}
    sources, place = ranks if root is None else [root], {rank: at for at, rank in enumerate(ranks)}
    routes: dict[Path, int] = {}
    rows: list[Row] = []
    load: dict[int, Floats] = {}
    passed: dict[tuple[int, int], set[int]] = {}
    for turn in range(len(ranks)):  # every rank sends its shard on in turn, so that none is always first
        for block, source in enumerate(sources):
            head = ranks[(place[source] + turn) % len(ranks)]
            far = distance[source][head]
            if far == 0:
                continue
            carried = load.setdefault(far - 1, np.zeros(len(network.arcs)))
            near = [ways[tail][head] for tail in feeding[head] if distance[source][tail] == far - 1]

            def fresh(way: Path, shard: int = block) -> list[int]:
                return [arc for arc in arcs[way] if arc not in passed.get((shard, way[0]), ())]

            def fullest(way: Path, before: Floats = carried) -> float:
                own = fresh(way)
                return float(((before[own] + 1) / network.units[own]).max(initial=0.0))

            path = min(near, key=fullest)
            carried[fresh(path)] += 1
            if multicast:
                passed.setdefault((block, path[0]), set()).update(arcs[path])
            rows.append((block, path[0], head, far - 1, routes.setdefault(path, len(routes)), False))
    return of_rows([1] * len(sources), sources, rows, tuple(routes))


def _steps_from(ways: Mapping[int, Mapping[int, Path]], source: int) -> dict[int, int]:
    """Messages that something needs one after the other to get to every rank."""
    found, frontier = {source: 0}, [source]
    while frontier:
        following = []
        for node in frontier:
            for head in ways[node]:
                if head not in found:
                    found[head] = found[node] + 1
                    following.append(head)
        frontier = following
    return found


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
