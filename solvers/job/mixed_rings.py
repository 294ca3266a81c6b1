"""From a mix of ring orders with its flow (`solvers.job.mix_result`) to rings and routes a plan can hold.

The flow of every source is taken apart into paths. A pair's model-parallel bytes split over its paths in proportion;
a ring order becomes several rings of the same order, over paths matched by cumulative share, so that together they put
on the links what the flow does, but for rings too small to be worth their rounds.
"""

from __future__ import annotations

import numpy as np

from solvers.job.mix_result import RingMix
from topoopt.core.arrays import Floats
from topoopt.core.routing import Demand, GroupRings, PathTable, Ring

LEAST_SHARE = 0.02
"""Rings of a smaller share are dropped, the others take their place."""

MOST_RINGS = 16
"""Rings per group at most."""

Paths = list[tuple[float, tuple[int, ...]]]
"""(fraction, nodes), largest fraction first, fractions sum to 1."""


def paths_of_flow(mix: RingMix) -> dict[tuple[int, int], Paths]:
    """Paths of every pair that the flow serves."""
    n, arcs = mix.topology.servers, mix.topology.arcs
    into: list[list[int]] = [[] for _ in range(n)]
    for arc, head in enumerate(arcs[:, 1].tolist()):
        into[head].append(arc)
    tail = arcs[:, 0].tolist()
    found: dict[tuple[int, int], Paths] = {}
    for s in range(n):
        flow = mix.flow.flow[s].copy()
        stays = np.bincount(arcs[:, 1], weights=flow, minlength=n) - np.bincount(arcs[:, 0], weights=flow, minlength=n)
        dust = 1e-9 * float(flow.sum())
        for v in range(n):
            if v == s or stays[v] <= dust:
                continue
            pieces: Paths = []
            left = float(stays[v])
            while left > dust:
                walk = _widest_walk(flow, into, tail, s, v)
                if walk is None:
                    break
                amount = min(left, float(flow[walk].min()))
                if amount <= 0:
                    break
                flow[walk] -= amount
                left -= amount
                pieces.append((amount, (s, *(int(arcs[a, 1]) for a in walk))))
            total = sum(amount for amount, _ in pieces)
            if total > 0:
                found[s, v] = sorted(((a / total, path) for a, path in pieces), key=lambda piece: (-piece[0], piece[1]))
    return found


def mixed_routes(base: PathTable, paths: dict[tuple[int, int], Paths]) -> PathTable:
    """The table with the paths of these pairs in place of its own."""
    share: list[float] = []
    nodes: list[tuple[int, ...]] = []
    pair_ptr = [0]
    for index, pair in enumerate(zip(base.source.tolist(), base.target.tolist(), strict=True)):
        own = paths.get(pair)
        if own is None:
            rows = range(int(base.pair_ptr[index]), int(base.pair_ptr[index + 1]))
            own = [(float(base.share[p]), base.path(p)) for p in rows]
        share += [part for part, _ in own]
        nodes += [path for _, path in own]
        pair_ptr.append(len(share))
    return PathTable(
        nodes_total=base.nodes_total,
        source=base.source,
        target=base.target,
        pair_ptr=np.array(pair_ptr, dtype=np.int64),
        share=np.array(share),
        path_ptr=np.concatenate(([0], np.cumsum([len(path) for path in nodes]))).astype(np.int64),
        node=np.array([v for path in nodes for v in path], dtype=np.int32),
    )


def mixed_rings(mix: RingMix, demand: Demand, paths: dict[tuple[int, int], Paths]) -> dict[tuple[int, ...], GroupRings]:
    """Rings of every group of the demand, by its members."""
    found = {}
    for group, orders in zip(demand.allreduce, mix.rings, strict=True):
        rings = [ring for order, share in orders for ring in _rings(order, share, paths)]
        rings = sorted(rings, key=lambda ring: (-ring.share, ring.order, ring.paths))[:MOST_RINGS]
        kept = [ring for ring in rings if ring.share >= LEAST_SHARE] or rings[:1]
        total = sum(ring.share for ring in kept)
        found[group.members] = GroupRings(
            group.members, tuple(Ring(ring.order, ring.share / total, ring.paths) for ring in kept)
        )
    return found


def _rings(order: tuple[int, ...], share: float, paths: dict[tuple[int, int], Paths]) -> list[Ring]:
    """Rings of one order: at every share of it, each step takes the path that its cumulative fractions name."""
    steps = [paths[step] for step in zip(order, (*order[1:], order[0]), strict=True)]
    ends = [np.cumsum([part for part, _ in step]) for step in steps]
    cuts = np.unique(np.round(np.concatenate([[0.0, 1.0], *(end[:-1] for end in ends)]), 9))
    rings = []
    for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        middle = (low + high) / 2
        places = [min(int(np.searchsorted(end, middle)), len(end) - 1) for end in ends]
        chosen = tuple(step[place][1] for step, place in zip(steps, places, strict=True))
        rings.append(Ring(order, share * (high - low), chosen))
    return rings


def _widest_walk(flow: Floats, into: list[list[int]], tail: list[int], source: int, target: int) -> list[int] | None:
    """Arcs from the source to the target, always back over the arc with most flow; None if the flow ends."""
    walk: list[int] = []
    at = target
    while at != source:
        arc = max(into[at], key=lambda a: (flow[a], -a), default=None)
        if arc is None or flow[arc] <= 0 or len(walk) > len(into):
            return None
        walk.append(arc)
        at = tail[arc]
    return walk[::-1]
