"""A topology becomes something that can be simulated: routes, rings and the network made of them.

A mix of ring orders has a flow, and the flow of every source is taken apart into paths. A pair's model-parallel bytes
split over its paths in proportion; a ring order becomes several rings of the same order, over paths matched by
cumulative share, so that together they put on the links what the flow does, but for rings too small to be worth their
rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.job.allreduce_mix import RingMix
from solvers.job.starts import ALL_PAIRS_SERVERS
from solvers.network.assembly import arc_graph
from solvers.network.rings import group_rings
from solvers.network.routes import balanced_routes, split_routes_lp
from topoopt.core.arrays import Bools, Floats, offsets, ranges
from topoopt.core.cluster import Cluster
from topoopt.core.collective import GroupSchedule
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand, GroupRings, PathTable, Ring
from topoopt.simulate.fabrics import direct_connect_network
from topoopt.simulate.network import Network

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
    paths: dict[tuple[int, int], Paths] = {}
    for s in range(n):
        flow = mix.flow.flow[s].copy()
        stays = np.bincount(arcs[:, 1], weights=flow, minlength=n) - np.bincount(arcs[:, 0], weights=flow, minlength=n)
        tolerance = 1e-9 * float(flow.sum())
        for v in range(n):
            if v == s or stays[v] <= tolerance:
                continue
            pieces: Paths = []
            left = float(stays[v])
            while left > tolerance:
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
                paths[s, v] = sorted(((a / total, path) for a, path in pieces), key=lambda piece: (-piece[0], piece[1]))
    return paths


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
    return replace(
        base,
        pair_ptr=np.array(pair_ptr, dtype=np.int64),
        share=np.array(share),
        path_ptr=offsets([len(path) for path in nodes]),
        node=np.array([v for path in nodes for v in path], dtype=np.int32),
    )


def mixed_rings(mix: RingMix, demand: Demand, paths: dict[tuple[int, int], Paths]) -> dict[tuple[int, ...], GroupRings]:
    """Rings of every group of the demand, by its members."""
    rings_of = {}
    for group, orders in zip(demand.allreduce, mix.rings, strict=True):
        rings = [ring for order, share in orders for ring in _rings(order, share, paths)]
        rings = sorted(rings, key=lambda ring: (-ring.share, ring.order, ring.paths))[:MOST_RINGS]
        kept = [ring for ring in rings if ring.share >= LEAST_SHARE] or rings[:1]
        total = sum(ring.share for ring in kept)
        rings_of[group.members] = GroupRings(
            group.members, tuple(Ring(ring.order, ring.share / total, ring.paths) for ring in kept)
        )
    return rings_of


def _rings(order: tuple[int, ...], share: float, paths: dict[tuple[int, int], Paths]) -> list[Ring]:
    """Rings of one order: at every share of it, each step takes the path that its cumulative fractions name."""
    steps = [paths[step] for step in zip(order, (*order[1:], order[0]), strict=True)]
    ends = [np.cumsum([part for part, _ in step]) for step in steps]
    cuts = np.unique(np.round(np.concatenate([[0.0, 1.0], *(end[:-1] for end in ends)]), 9))
    rings = []
    for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        middle = (low + high) / 2
        places = [min(int(np.searchsorted(end, middle)), len(end) - 1) for end in ends]
        chosen = tuple(step[index][1] for step, index in zip(steps, places, strict=True))
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


LP_SERVERS = 32
"""Up to so many servers the shares of k shortest paths are also found by a linear program."""

MOST_PATHS = 4
"""Paths that the traffic of a pair is split over."""

MOST_HOPS = 24_000_000
"""Hops of the paths that are balanced at once on larger clusters: each takes some 40 bytes, and links that fit a few
transfers can leave a hundred hops from server to server."""


@dataclass(frozen=True, eq=False)
class Realisation:
    """A topology with routes for all pairs and rings for some groups.

    Attributes:
        topology, routes, rings: as in a plan.
        network: made of them.
        tailored: rings or routes were made for one demand.
        schedules: for AllReduces that do not run on the rings, likewise.
        partial: the routes are of the pairs of one demand only.
    """

    topology: Topology
    routes: PathTable
    rings: tuple[GroupRings, ...]
    network: Network
    tailored: bool = False
    schedules: tuple[GroupSchedule, ...] = ()
    partial: bool = False


def with_schedules(cluster: Cluster, base: Realisation, schedules: tuple[GroupSchedule, ...]) -> Realisation:
    """The same with AllReduces on these schedules, where they cover them."""
    network = direct_connect_network(cluster, base.topology, base.routes, base.rings, schedules)
    return replace(base, network=network, schedules=schedules)


def realise(
    cluster: Cluster,
    topology: Topology,
    groups: Sequence[tuple[int, ...]],
    *,
    seed: int = 0,
    pairs: Bools | None = None,
) -> Realisation:
    """Routes of all pairs, balanced for uniform traffic, and rings for the groups given, on a connected topology.

    Args:
        cluster: rates and latencies.
        topology: connected.
        groups: two servers or more each.
        seed: of tie-breaks.
        pairs: bool[n, n], those that are routed; None: all.
    """
    rings = group_rings(topology, groups, max_rings=max(2, topology.degree))
    made = _assembled(cluster, topology, balanced_routes(topology, seed=seed, pairs=pairs), rings)
    return made if pairs is None else replace(made, partial=True)


def without_idle_routes(cluster: Cluster, base: Realisation, demand: Demand) -> Realisation:
    """The same, on large clusters with no other routes than those of the demand."""
    pairs = pairs_routed(demand)
    if pairs is None or base.tailored:
        return base
    routes = routes_of_pairs(base.routes, pairs)
    return replace(_assembled(cluster, base.topology, routes, base.rings), partial=True)


def pairs_routed(demand: Demand) -> Bools | None:
    """bool[n, n], the pairs that candidates have routes for: those with traffic on large clusters; None: all."""
    traffic = demand.model_parallel_bytes
    return None if demand.servers <= ALL_PAIRS_SERVERS else traffic > 0


def too_long(topology: Topology, pairs: Bools | None, paths_per_pair: int = 1) -> bool:
    """Whether the cluster is large and shortest paths of the pairs, None: of all, have more than `MOST_HOPS` hops."""
    if topology.servers <= ALL_PAIRS_SERVERS:
        return False
    hops = arc_graph(topology).hops_to
    return paths_per_pair * int((hops if pairs is None else hops.T[pairs]).sum()) > MOST_HOPS


def split_routed(cluster: Cluster, base: Realisation, weights: Floats, *, seed: int = 0) -> Realisation:
    """The same topology and rings with routes of all pairs, the traffic of each split over the most paths."""
    routes = balanced_routes(base.topology, weights, paths_per_pair=MOST_PATHS, seed=seed)
    return replace(_assembled(cluster, base.topology, routes, base.rings), tailored=True)


def demand_routed(cluster: Cluster, base: Realisation, weights: Floats, *, seed: int = 0) -> Iterator[Realisation]:
    """The same topology and rings with routes balanced for given traffic: by balancing whole or split paths, by LP.

    Args:
        cluster: rates and latencies.
        base: what to route anew.
        weights: float64[n, n], bytes between servers; nothing is yielded if all are zero.
        seed: of tie-breaks.
    """
    if not weights.any():
        return
    # Above, all pairs have routes in no plan, and would take gigabytes.
    large = base.topology.servers > ALL_PAIRS_SERVERS
    pairs = weights > 0 if large else None
    for paths_per_pair in (1, 2, MOST_PATHS):
        if paths_per_pair > 1 and too_long(base.topology, pairs, paths_per_pair):
            break
        routes = balanced_routes(base.topology, weights, paths_per_pair=paths_per_pair, seed=seed, pairs=pairs)
        yield replace(_assembled(cluster, base.topology, routes, base.rings), partial=large)
    if base.topology.servers <= LP_SERVERS:
        yield _assembled(cluster, base.topology, split_routes_lp(base.topology, weights, seed=seed), base.rings)


def mix_realised(cluster: Cluster, base: Realisation, demand: Demand, mix: RingMix) -> Iterator[Realisation]:
    """The same topology with what a ring mix says: rings and routes, rings alone, routes alone.

    Args:
        cluster: rates and latencies.
        base: on the topology of the mix, with rings of all groups of the demand.
        demand: that was mixed.
        mix: orders, shares and flow.
    """
    paths = paths_of_flow(mix)
    mixed = mixed_rings(mix, demand, paths)
    rings = tuple(mixed.get(group.members, group) for group in base.rings)
    served = demand.model_parallel_bytes > 0
    routes = mixed_routes(base.routes, {pair: path for pair, path in paths.items() if served[pair]})
    choices = [(routes, rings), (base.routes, rings)] if demand.allreduce else []
    choices += [(routes, base.rings)] if served.any() else []
    for chosen_routes, chosen_rings in choices:
        yield replace(_assembled(cluster, base.topology, chosen_routes, chosen_rings), tailored=True)


def with_rings_for(
    cluster: Cluster, base: Realisation, groups: Sequence[tuple[int, ...]], *, seed: int = 0
) -> Realisation:
    """The same topology, routes and rings, and rings for the other groups as well."""
    rings_of = {group.members: group for group in base.rings}
    missing = [group for group in groups if group not in rings_of]
    made = group_rings(base.topology, missing, max_rings=max(2, base.topology.degree), seed=seed)
    rings_of |= {group.members: group for group in made}
    return replace(
        _assembled(cluster, base.topology, base.routes, tuple(rings_of[group] for group in groups)), tailored=True
    )


def with_rings(cluster: Cluster, base: Realisation, rings: tuple[GroupRings, ...]) -> Realisation:
    """The same topology and routes with these rings."""
    return replace(_assembled(cluster, base.topology, base.routes, rings), tailored=True)


def _assembled(cluster: Cluster, topology: Topology, routes: PathTable, rings: tuple[GroupRings, ...]) -> Realisation:
    return Realisation(topology, routes, rings, direct_connect_network(cluster, topology, routes, rings))


def routes_of_pairs(routes: PathTable, wanted: Bools) -> PathTable:
    """The routes of the ordered pairs (i, j) with wanted[i, j] only."""
    pairs = np.flatnonzero(wanted[routes.source, routes.target])
    length = np.diff(routes.pair_ptr)[pairs]
    paths = ranges(routes.pair_ptr[pairs], length)
    hops = np.diff(routes.path_ptr)[paths]
    return PathTable(
        nodes_total=routes.nodes_total,
        source=routes.source[pairs],
        target=routes.target[pairs],
        pair_ptr=offsets(length),
        share=routes.share[paths],
        path_ptr=offsets(hops),
        node=routes.node[ranges(routes.path_ptr[paths], hops)],
    )


def extends(whole: Realisation, part: Realisation) -> bool:
    """Whether one realisation of a topology has all routes and rings of another, so that a job that needs no more than
    these takes as long on it."""
    wanted = np.zeros((part.topology.servers,) * 2, dtype=np.bool_)
    wanted[part.routes.source, part.routes.target] = True
    routes, rings_of = routes_of_pairs(whole.routes, wanted), {group.members: group for group in whole.rings}
    return all(rings_of.get(group.members) == group for group in part.rings) and all(
        np.array_equal(getattr(routes, name), getattr(part.routes, name))
        for name in ("source", "target", "pair_ptr", "share", "path_ptr", "node")
    )
