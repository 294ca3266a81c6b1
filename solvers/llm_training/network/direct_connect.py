"""Direct-connect networks made for a strategy: interfaces of a server given to its families of traffic.

Groups that pass bytes round get rings by the distances of TotientPerms (TopoOpt, NSDI'23, section 4.3), within the
group; groups whose servers all send to each other all links between them, or distances that keep ways short; stages
links to the next one. Families without links of their own go over those of others, servers forward for each other;
gradients then go round the groups that exchange tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from solvers.llm_training.network.borrowed_rings import borrowed_rings
from solvers.llm_training.network.direct_routes import direct_routes
from solvers.llm_training.network.rings import both_ways, rank_rings
from solvers.network.constructions.selection import Selection, select_distances
from solvers.network.constructions.totient_perms import totient
from topoopt.core.arrays import Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.llm_training import GpuCluster
from topoopt.core.llm_training_plan import RING_FAMILIES
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.simulate.llm_training.network.groups import BlockGroups, FamilyGroups
from topoopt.simulate.llm_training.network.links import LinkGraph, PlacedNetwork, Rails

Split = Mapping[F, int]
"""Interfaces of a server by family."""


@dataclass(frozen=True, eq=False)
class _Made:
    """Links of one family: rows (tail, head), the rings of its groups by class, and the steps of an exchange."""

    arcs: list[Ints]
    orders: tuple[Ints, ...]
    steps: tuple[int, ...] = ()


def least_interfaces(groups: FamilyGroups, links: LinkDirection) -> dict[F, int]:
    """Interfaces of a server that links of a family take at least; families that do not leave a server are not there.

    Where groups of a family share servers each group takes so many. Families with the same groups of servers use the
    same links: the first of them stands for all.
    """
    two = 2 if links is LinkDirection.BIDIRECTIONAL else 1
    found = {}
    for family in dict.fromkeys(ring_leaders(groups).values()):
        classes = groups.collectives[family]
        each = max(1 if one.blocks.shape[1] == 2 else two for one in classes)
        found[family] = each * _shared(classes)
    if len(groups.hops.source):
        found[F.PIPELINE] = _most_neighbours(groups, links)
    return found


def ring_leaders(groups: FamilyGroups) -> dict[F, F]:
    """For each family between servers the first one with the same groups, if both pass bytes round; else itself."""
    found: dict[F, F] = {}
    for family, classes in groups.collectives.items():
        same = [
            other
            for other in found
            if {family, other} <= set(RING_FAMILIES) and _same_blocks(classes, groups.collectives[other])
        ]
        found[family] = found[same[0]] if same else family
    return found


def _same_blocks(one: tuple[BlockGroups, ...], other: tuple[BlockGroups, ...]) -> bool:
    return len(one) == len(other) and all(np.array_equal(a.blocks, b.blocks) for a, b in zip(one, other, strict=True))


def _shared(classes: tuple[BlockGroups, ...]) -> int:
    """Groups of a family that one server is in, at most."""
    return int(np.bincount(np.concatenate([one.blocks.ravel() for one in classes])).max())


def _stage_edges(groups: FamilyGroups, links: LinkDirection) -> Ints:
    """int64[m, 2]: links between stages; both ways as arcs of their own where links lead one way."""
    pairs = np.column_stack([groups.hops.source, groups.hops.target])
    if links is LinkDirection.BIDIRECTIONAL:
        return np.unique(np.sort(pairs, axis=1), axis=0)
    return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)


def _most_neighbours(groups: FamilyGroups, links: LinkDirection) -> int:
    edges = _stage_edges(groups, links)
    ends = edges.ravel() if links is LinkDirection.BIDIRECTIONAL else edges[:, 0]
    return int(np.bincount(ends).max())


def direct_network(
    cluster: GpuCluster, groups: FamilyGroups, split: Split, volume: Mapping[F, float], *, seed: int
) -> PlacedNetwork:
    """Links, rings and routes of a split; ranks stand in order, as links follow them.

    Args:
        volume: bytes that a GPU sends in each family, which routes over links of others are spread by.

    Raises:
        InfeasibleError: a pair that sends has no path.
    """
    n, links = cluster.servers, cluster.links
    places, arcs = np.arange(n), []
    orders: dict[F, tuple[Ints, ...]] = {}
    laid: list[F] = []
    steps: tuple[int, ...] = ()
    leaders = ring_leaders(groups)
    for family, classes in groups.collectives.items():
        if leaders[family] is not family:
            orders[family] = orders[leaders[family]]
            continue
        own = split.get(family, 0) // _shared(classes)
        ring = family in RING_FAMILIES
        made = [_ring_links(one, own, links) if ring else _mesh_links(one, own, links, seed) for one in classes]
        arcs += [part for one in made for part in one.arcs]
        if ring:
            orders[family] = tuple(one.orders[0] for one in made)
            laid += [family] if any(one.arcs for one in made) else []
        elif len(made) == 1:
            steps = made[0].steps
    for family in _borrowing(groups, laid) if steps else ():
        exchange, replicas = groups.collectives[F.EXPERT][0], [part for own in laid for part in orders[own]]
        both = links is LinkDirection.BIDIRECTIONAL
        found = [borrowed_rings(one, exchange, steps, replicas, n, both=both) for one in groups.collectives[family]]
        if all(one is not None for one in found):
            orders[family] = tuple(both_ways(one) if both else one for one in found if one is not None)
    if split.get(F.PIPELINE, 0) and len(groups.hops.source):
        edges = _stage_edges(groups, links)
        arcs.append(_lit(np.repeat(edges, split[F.PIPELINE] // _most_neighbours(groups, links), axis=0), links))
    graph = _graph(cluster, arcs)
    return PlacedNetwork(graph, places, orders, direct_routes(graph, groups, orders, volume, seed=seed))


def _borrowing(groups: FamilyGroups, laid: list[F]) -> list[F]:
    """Families that reduce gradients and have no links of their own."""
    leaders = ring_leaders(groups)
    wanting = (F.DATA, F.EXPERT_DATA)
    return [family for family in wanting if family in groups.collectives and leaders[family] not in laid]


def _lit(edges: Ints, links: LinkDirection) -> Ints:
    """A bidirectional link is two arcs."""
    return np.concatenate([edges, edges[:, ::-1]]) if links is LinkDirection.BIDIRECTIONAL else edges


def _ring_links(groups: BlockGroups, interfaces: int, links: LinkDirection) -> _Made:
    servers, k = groups.blocks, groups.blocks.shape[1]
    two = 2 if links is LinkDirection.BIDIRECTIONAL and k > 2 else 1
    count = interfaces // two
    if not count:
        return _Made([], (rank_rings(servers),))
    if k == 2:
        edges = np.repeat(servers, count, axis=0)
        edges = edges if links is LinkDirection.BIDIRECTIONAL else np.concatenate([edges, edges[:, ::-1]])
        return _Made([_lit(edges, links)], (rank_rings(servers),))
    distances = select_distances(k, k, count, links, Selection.PAPER)
    orders = np.stack([servers[:, np.arange(k) * step % k] for step in distances], axis=1)
    edges = np.stack([orders, np.roll(orders, -1, axis=2)], axis=3).reshape(-1, 2)
    return _Made([_lit(edges, links)], (both_ways(orders) if two == 2 else orders,))


def _mesh_links(groups: BlockGroups, interfaces: int, links: LinkDirection, seed: int) -> _Made:
    """All pairs of a group joined, as often as interfaces allow, and short ways by what is left."""
    servers, k = groups.blocks, groups.blocks.shape[1]
    copies, left = divmod(interfaces, k - 1)
    steps = list(range(1, k)) * copies
    if left and not copies:
        if left == 1 and k > 2 and links is LinkDirection.BIDIRECTIONAL:
            return _Made([], ())
        found = totient(k, left, links, Selection.BEST, seed=seed).distances
        both = links is LinkDirection.BIDIRECTIONAL
        steps = [step for one in found for step in ({one, k - one} if both and 2 * one != k else {one})]
    tail = np.tile(np.arange(k), len(steps))
    head = (tail + np.repeat(steps, k)) % k if steps else tail
    arcs = [np.column_stack([servers[:, tail].ravel(), servers[:, head].ravel()])] if steps else []
    return _Made(arcs, (), tuple(steps))


def _graph(cluster: GpuCluster, arcs: list[Ints]) -> LinkGraph:
    n = cluster.servers
    rows = np.concatenate(arcs) if arcs else np.zeros((0, 2), dtype=np.int64)
    keys, parallel = np.unique(rows[:, 0] * n + rows[:, 1], return_counts=True)
    rails = Rails.OWNED if cluster.per_gpu and cluster.gpus_per_server > 1 else Rails.NONE
    return LinkGraph(n, n, keys // n, keys % n, parallel, cluster.link_gbps, rails)
