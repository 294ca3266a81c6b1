"""Rings and routes after an exchange of links: what lost a link finds another way, what came nearer takes it.

* Two links of one ring exchanged, a-b and c-d for a-c and b-d, leave a ring: the members from b to c in reverse (2-opt,
  Croes 1958); so do three of one way, whose two sequences change places (3-opt without reversal, Or 1976). Any other
  hop that lost its link takes the cheapest shortest path at the loads of the rest.
* Servers that take each other's place do so in the rings that both or neither is a member of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from solvers.job.exchanges.wiring import Arc, LinkMove, Path, Paths, Wiring, add_path
from solvers.network.constructions.route_kernels import route_kernel
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.routing import GroupRings, Ring

RingPlace = tuple[int, int]
"""Places of a group and of one of its rings."""


@dataclass
class Missing:
    """Paths to be found: ends, bytes, and what takes the path."""

    ends: list[Arc] = field(default_factory=list)
    amounts: list[float] = field(default_factory=list)
    takers: list[Callable[[Path], None]] = field(default_factory=list)

    def add(self, ends: Arc, amount: float, taker: Callable[[Path], None]) -> None:
        self.ends.append(ends)
        self.amounts.append(amount)
        self.takers.append(taker)


def rewired(before: Wiring, exchange: LinkMove) -> Wiring | None:
    """The wiring after an exchange; None where some server would no longer reach another."""
    bare = replace(before, counts=exchange.counts(before.counts))
    if not bare.connected:
        return None
    if exchange.swapped is not None:
        return _swapped(before, bare, exchange.swapped)
    lost = [arc for arc in set(exchange.removed) if bare.counts[arc] == 0]
    rings = {place for arc in lost for place in before.rings_over.get(arc, frozenset())}
    gain = bare.graph.hops_to.T < before.graph.hops_to.T
    rings |= _rings_nearer(before, gain)
    pairs = dict.fromkeys(pair for arc in sorted(lost) for pair in before.pairs_over.get(arc, ()))
    pairs.update(dict.fromkeys(pair for pair in before.routes if gain[pair]))
    load, missing = before.load.copy(), Missing()
    new_rings = _rings_again(before, bare, exchange, sorted(rings), load, missing)
    new_routes = _routes_again(before, bare, pairs, load, missing)
    find_missing(bare, load, missing)
    return replace(bare, routes={**before.routes, **new_routes()}, rings=new_rings())


def _rings_nearer(before: Wiring, gain: Bools) -> set[RingPlace]:
    """Rings that went over several links from a member to the next, of which some are fewer hops apart now."""
    return {
        (g, r)
        for g, group in enumerate(before.rings)
        for r, ring in enumerate(group.rings)
        if any(len(path) > 2 and gain[path[0], path[-1]] for path in ring.paths)
    }


def _exists(counts: Ints, path: Path) -> bool:
    return all(counts[arc] > 0 for arc in pairwise(path))


def _routes_again(
    before: Wiring, after: Wiring, pairs: Iterable[Arc], load: Floats,
    missing: Missing,
) -> Callable[[], dict[Arc, Paths]]:  # fmt: skip
    """Take paths that are lost, or longer than they need be, from the load and note them as missing."""
    made: dict[Arc, list[tuple[float, Path]]] = {}
    for pair in pairs:
        hops = int(after.graph.hops_to[pair[1], pair[0]])
        made[pair] = own = []
        for share, path in before.routes[pair]:
            if len(path) - 1 <= max(hops, 1) and _exists(after.counts, path):
                own.append((share, path))
                continue
            amount = share * float(before.traffic.model_parallel_bytes[pair])
            add_path(load, path, -amount)

            def take(found: Path, share: float = share, own: list[tuple[float, Path]] = own) -> None:
                own.append((share, found))

            missing.add(pair, amount, take)

    def merged() -> dict[Arc, Paths]:
        routes = {}
        for pair, own in made.items():
            shares: dict[Path, float] = {}
            for share, path in own:
                shares[path] = shares.get(path, 0.0) + share
            routes[pair] = tuple((share, path) for path, share in shares.items())
        return routes

    return merged


def _rings_again(
    before: Wiring, after: Wiring, exchange: LinkMove, places: Sequence[RingPlace],
    load: Floats, missing: Missing,
) -> Callable[[], tuple[GroupRings, ...]]:  # fmt: skip
    """The same with the rings at these places, in an order that the exchange leaves whole where there is one."""
    made: dict[RingPlace, tuple[Ring, list[Path]]] = {}
    for g, r in places:
        group = before.rings[g]
        ring, amount = group.rings[r], group.rings[r].share * before.wire_bytes[group.members]
        for path in ring.paths:
            add_path(load, path, -amount)
        order = _reordered(ring, exchange)
        made[g, r] = (replace(ring, order=order), paths_again(ring, order, after, amount, load, missing))
    return lambda: with_rings(before, made)


def with_rings(before: Wiring, made: dict[RingPlace, tuple[Ring, list[Path]]]) -> tuple[GroupRings, ...]:
    groups = list(before.rings)
    for (g, r), (ring, paths) in made.items():
        rings = list(groups[g].rings)
        rings[r] = replace(ring, paths=tuple(paths))
        groups[g] = replace(groups[g], rings=tuple(rings))
    return tuple(groups)


def _reordered(ring: Ring, exchange: LinkMove) -> tuple[int, ...]:
    """The order of a ring after links of it were exchanged for others that close it again; else its own."""
    order, gone, new = ring.order, set(exchange.removed), set(exchange.added)
    cut = [place for place, path in enumerate(ring.paths) if len(path) == 2 and (path[0], path[1]) in gone]
    if len(cut) == 2:
        low, high = (place + 1 for place in cut)
        tried = (*order[:low], *reversed(order[low:high]), *order[high:])
    elif len(cut) == 3:
        low, middle, high = (place + 1 for place in cut)
        tried = (*order[:low], *order[middle:high], *order[low:middle], *order[high:])
    else:
        return order
    before = {(path[0], path[-1]) for path in ring.paths}
    steps = zip(tried, (*tried[1:], tried[0]), strict=True)
    closed = all(step in new or step in before or step[::-1] in before for step in steps)
    return tried if closed else order


def paths_again(
    ring: Ring, order: tuple[int, ...], after: Wiring, amount: float,
    load: Floats, missing: Missing,
) -> list[Path]:  # fmt: skip
    """Paths of a ring in an order: its own where they are left, either way round; direct links; others missing."""
    known = {(path[0], path[-1]): path for path in ring.paths}
    known = {(path[-1], path[0]): path[::-1] for path in ring.paths} | known
    paths: list[Path] = []
    for place, ends in enumerate(zip(order, (*order[1:], order[0]), strict=True)):
        path = ends if after.counts[ends] > 0 else known.get(ends)
        hops = int(after.graph.hops_to[ends[1], ends[0]])
        if path is None or len(path) - 1 > hops or not _exists(after.counts, path):
            path = ends

            def take(found: Path, place: int = place) -> None:
                paths[place] = found

            missing.add(ends, amount, take)
        else:
            add_path(load, path, amount)
        paths.append(path)
    return paths


def find_missing(after: Wiring, load: Floats, missing: Missing) -> None:
    """The cheapest shortest path of everything that misses one, the most bytes first."""
    if not missing.ends:
        return
    graph = after.graph
    source, target = np.array(missing.ends, dtype=np.int64).T
    source, target = np.ascontiguousarray(source), np.ascontiguousarray(target)
    amount = np.array(missing.amounts)
    ptr = np.concatenate(([0], np.cumsum(graph.hops_to[target, source], dtype=np.int64)))
    arcs = np.empty(int(ptr[-1]), dtype=np.int64)
    over = np.maximum(load[graph.tail, graph.head], 0.0)
    unit = max(float(over.max(initial=0.0)), float(amount.max()), 1e-300)
    route_kernel(
        np.argsort(-amount, kind="stable"), source, target, np.maximum(amount / unit, 1e-9), graph.ptr, graph.head,
        graph.tail, graph.hops_to, graph.inverse_capacity, over / unit, ptr, arcs, False,
    )  # fmt: skip
    heads, tails = graph.head[arcs].tolist(), source.tolist()
    for k, take in enumerate(missing.takers):
        take((tails[k], *heads[ptr[k] : ptr[k + 1]]))


def _swapped(before: Wiring, after: Wiring, servers: Arc) -> Wiring:
    """Two servers in each other's place: paths that neither begins or ends follow, as do rings of both."""
    place = {servers[0]: servers[1], servers[1]: servers[0]}

    def follow(path: Path) -> Path:
        return tuple(place.get(node, node) for node in path)

    load, missing = np.zeros(before.counts.shape), Missing()
    routes: dict[Arc, list[tuple[float, Path]]] = {}
    for pair, paths in before.routes.items():
        own: list[tuple[float, Path]] = []
        routes[pair] = own
        for share, path in paths:
            amount = share * float(before.traffic.model_parallel_bytes[pair])
            if pair[0] in place or pair[1] in place:

                def take(found: Path, share: float = share, own: list[tuple[float, Path]] = own) -> None:
                    own.append((share, found))

                missing.add(pair, amount, take)
            else:
                own.append((share, follow(path)))
                add_path(load, own[-1][1], amount)
    made: dict[RingPlace, tuple[Ring, list[Path]]] = {}
    for g, group in enumerate(before.rings):
        both = len(place.keys() & set(group.members)) != 1
        for r, ring in enumerate(group.rings):
            amount = ring.share * before.wire_bytes[group.members]
            order = follow(ring.order) if both else ring.order
            moved = replace(ring, order=order, paths=tuple(follow(path) for path in ring.paths))
            made[g, r] = (moved, paths_again(moved, order, after, amount, load, missing))
    find_missing(after, load, missing)
    merged: dict[Arc, Paths] = {}
    for pair, found in routes.items():
        shares: dict[Path, float] = {}
        for share, path in found:
            shares[path] = shares.get(path, 0.0) + share
        merged[pair] = tuple((share, path) for path, share in shares.items())
    return replace(after, routes=merged, rings=with_rings(before, made))
