"""A network that an iteration is simulated on: links with rates, paths of pairs, rings of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.plan import Plan
from topoopt.core.routing import GroupRings, PathTable
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS
from topoopt.verify.laws.schedules import ScheduleLoads

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
class ScheduleOfGroup:
    """A schedule: payloads it is for, and by step and hop the links that carry something and their parts of it."""

    from_bytes: int
    below_bytes: int | None
    steps: tuple[tuple[tuple[tuple[int, float], ...], ...], ...]

    def covers(self, payload: int) -> bool:
        """Whether an AllReduce of so many bytes runs on it."""
        return self.from_bytes <= payload and (self.below_bytes is None or payload < self.below_bytes)


@dataclass(frozen=True)
class SimulatedNetwork:
    """What the tasks of an iteration send over.

    Attributes:
        rate: bytes per ms of each directed link.
        hop_ms: latency of one hop.
        round_ms: fixed cost of a ring round.
        paths: of ordered pairs of servers.
        rings: of AllReduce groups, by their members in ascending order.
        schedules: of those that do not run on rings, likewise.
        sharing: how links are shared.
    """

    rate: Sequence[float]
    hop_ms: float
    round_ms: float
    paths: Mapping[tuple[int, int], tuple[PathOfPair, ...]]
    rings: Mapping[tuple[int, ...], tuple[RingOfGroup, ...]]
    schedules: Mapping[tuple[int, ...], tuple[ScheduleOfGroup, ...]] = field(default_factory=dict)
    sharing: LinkSharing = LinkSharing.FAIR


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


def schedules_of(
    loads: Iterable[ScheduleLoads], link: Mapping[tuple[int, int], int]
) -> dict[tuple[int, ...], tuple[ScheduleOfGroup, ...]]:
    """Schedules of all groups; hops at which a step carries nothing are left out."""
    found: dict[tuple[int, ...], tuple[ScheduleOfGroup, ...]] = {}
    for one in loads:
        numbers = [link[tail, head] for tail, head in one.arcs.tolist()]
        steps = tuple(
            tuple(
                tuple((numbers[place], units[place] / one.total) for place in np.flatnonzero(units).tolist())
                for units in step
                if units.any()
            )
            for step in one.units
        )
        known = found.get(one.members, ())
        found[one.members] = (*known, ScheduleOfGroup(one.from_bytes, one.below_bytes, steps))
    return found


def plan_network(cluster: Cluster, plan: Plan, schedules: Iterable[ScheduleLoads] = ()) -> SimulatedNetwork:
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
        schedules=schedules_of(schedules, link),
        sharing=cluster.link_sharing,
    )
