"""A network that an iteration is simulated on: links with rates, paths of pairs, rings of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from topoopt.core.cluster import Cluster
from topoopt.core.plan import Plan
from topoopt.core.routing import GroupRings, PathTable
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS

US_PER_MS = 1000.0


@dataclass(frozen=True)
class PathOfPair:
    """A path of an ordered pair: the part of its bytes that goes there, and the links it crosses."""

    share: float
    links: tuple[int, ...]


@dataclass(frozen=True)
class RingOfGroup:
    """A ring: the part of the payload that goes round it, and the links from each member to the next."""

    share: float
    ways: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SimulatedNetwork:
    """What the tasks of an iteration send over.

    Attributes:
        rate: bytes per ms of each directed link.
        hop_ms: latency of one hop.
        round_ms: fixed cost of a ring round.
        paths: of ordered pairs of servers.
        rings: of AllReduce groups, by their members in ascending order.
    """

    rate: Sequence[float]
    hop_ms: float
    round_ms: float
    paths: Mapping[tuple[int, int], tuple[PathOfPair, ...]]
    rings: Mapping[tuple[int, ...], tuple[RingOfGroup, ...]]


def paths_of(routes: PathTable, link: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], tuple[PathOfPair, ...]]:
    """Paths of all pairs of a table; `link` has the number of each link by its ends."""
    node, share = np.asarray(routes.node).tolist(), np.asarray(routes.share).tolist()
    starts, pair_ptr = np.asarray(routes.path_ptr).tolist(), np.asarray(routes.pair_ptr).tolist()
    ends = zip(np.asarray(routes.source).tolist(), np.asarray(routes.target).tolist(), strict=True)
    return {
        pair: tuple(
            PathOfPair(share[p], links_along(node[starts[p] : starts[p + 1]], link))
            for p in range(pair_ptr[k], pair_ptr[k + 1])
        )
        for k, pair in enumerate(ends)
    }


def rings_of(
    groups: Iterable[GroupRings], link: Mapping[tuple[int, int], int]
) -> dict[tuple[int, ...], tuple[RingOfGroup, ...]]:
    """Rings of all groups."""
    return {
        tuple(sorted(group.members)): tuple(
            RingOfGroup(ring.share, tuple(links_along(path, link) for path in ring.paths)) for ring in group.rings
        )
        for group in groups
    }


def links_along(nodes: Sequence[int], link: Mapping[tuple[int, int], int]) -> tuple[int, ...]:
    """Numbers of the links of a path."""
    return tuple(link[hop] for hop in pairwise(nodes))


def plan_network(cluster: Cluster, plan: Plan) -> SimulatedNetwork:
    """The direct-connect network of a lawful plan: an arc of k parallel links is as fast as k interfaces."""
    arcs = [(tail, head) for tail, head in np.asarray(plan.topology.arcs).tolist()]
    link = {ends: place for place, ends in enumerate(arcs)}
    unit = cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    return SimulatedNetwork(
        rate=[float(count) * unit for count in np.asarray(plan.topology.multiplicity).tolist()],
        hop_ms=cluster.hop_latency_us / US_PER_MS,
        round_ms=cluster.ring_round_latency_us / US_PER_MS,
        paths=paths_of(plan.routes, link),
        rings=rings_of(plan.rings, link),
    )
