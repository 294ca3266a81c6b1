"""A fabric as the simulators see it: directed links with rates, paths of pairs, rings of groups, in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import LinkSharing
from topoopt.core.collective import GroupSchedule
from topoopt.core.errors import InputError
from topoopt.core.routing import GroupRings, PathTable
from topoopt.simulate.schedule_rounds import ScheduleArrays, schedule_arrays

HOP_BITS = 10
"""Hops of a path are counted in so many bits."""

STEP_BITS = 16
"""Segments of a transfer, rounds of a ring and steps of a schedule are counted in so many bits."""


@dataclass(frozen=True, eq=False)
class Network:
    """Links, routes and rings, compiled from a `Fabric` by `compile_network`.

    Attributes:
        servers: n.
        link_ends: int32[L, 2], tail and head node of each directed link (servers are nodes 0..n-1, switches follow).
        link_rate: float64[L], bytes per ms (parallel links merged).
        hop_latency_ms: latency of one hop.
        ring_round_latency_ms: fixed cost of one ring round on the fabric.
        pair_ptr: int64[n*n+1]; paths of ordered pair (i, j) are pair_ptr[i*n+j]..pair_ptr[i*n+j+1].
        path_share: float64[P]; path_ptr: int64[P+1]; path_link: int32[...], link ids along each path.
        groups: member tuples, in the order of `group_ptr`.
        group_size: int32[G].
        group_ptr: int64[G+1]; rings of group g are group_ptr[g]..group_ptr[g+1].
        ring_share: float64[R]; ring_size: int32[R]; ring_ptr: int64[R+1]; the member paths of ring r are
            ring_ptr[r]..ring_ptr[r+1] in member_ptr.
        member_ptr: int64[...+1]; member_link: int32[...], link ids of the path of one ring member to the next.
        schedules: of AllReduces that are not on rings.
        link_sharing: how flows share a link.
    """

    servers: int
    link_ends: Int32s
    link_rate: Floats
    hop_latency_ms: float
    ring_round_latency_ms: float
    pair_ptr: Ints
    path_share: Floats
    path_ptr: Ints
    path_link: Int32s
    groups: tuple[tuple[int, ...], ...]
    group_size: Int32s
    group_ptr: Ints
    ring_share: Floats
    ring_ptr: Ints
    member_ptr: Ints
    member_link: Int32s
    schedules: ScheduleArrays
    link_sharing: LinkSharing = LinkSharing.FIFO

    @property
    def links(self) -> int:
        """L."""
        return len(self.link_rate)

    def require_rings(self, model: str) -> None:
        """Refuse schedules other than rings, for a time model that knows none.

        Raises:
            InputError: there are some.
        """
        if len(self.schedules.from_bytes):
            raise InputError(f"time model {model} knows AllReduces on rings only; take rounds or hop")


class NetworkArrays(NamedTuple):
    """A network as simulations see it; fields as in `Network`; `cut`: segments of transfers go between
    the pieces of what AllReduces send at once; `turns`: after a turn of each of these."""

    servers: int
    hop_latency: float
    round_latency: float
    link_rate: Floats
    pair_ptr: Ints
    path_share: Floats
    path_ptr: Ints
    path_link: Int32s
    group_size: Int32s
    group_ptr: Ints
    ring_share: Floats
    ring_ptr: Ints
    member_ptr: Ints
    member_link: Int32s
    schedules: ScheduleArrays
    cut: bool
    turns: bool


def network_arrays(network: Network) -> NetworkArrays:
    """The arrays of a network, checked for the ranges that simulations rely on."""
    longest = int(np.diff(network.path_ptr).max(initial=0))
    longest = max(longest, int(np.diff(network.member_ptr).max(initial=0)))
    longest = max(longest, int(np.diff(network.schedules.hop_ptr).max(initial=0)))
    if longest >= (1 << HOP_BITS) - 1:  # the last number has a meaning of its own
        raise ValueError(f"a path has {longest} hops, more than the simulator's {(1 << HOP_BITS) - 2}")
    steps = int(np.diff(network.schedules.step_ptr).max(initial=0))
    if steps >= 1 << STEP_BITS:
        raise ValueError(f"a schedule has {steps} steps, more than the simulator's {(1 << STEP_BITS) - 1}")
    return NetworkArrays(
        network.servers,
        float(network.hop_latency_ms),
        float(network.ring_round_latency_ms),
        network.link_rate,
        network.pair_ptr,
        network.path_share,
        network.path_ptr,
        network.path_link,
        network.group_size,
        network.group_ptr,
        network.ring_share,
        network.ring_ptr,
        network.member_ptr,
        network.member_link,
        network.schedules,
        network.link_sharing is not LinkSharing.FIFO,
        network.link_sharing is LinkSharing.FAIR,
    )


def _ids_of(nodes: Int32s, table: Int32s, starts: Ints) -> Int32s:
    """Link ids of consecutive nodes of concatenated paths; `starts` are the path starts after the first."""
    if len(nodes) < 2:
        return np.zeros(0, dtype=np.int32)
    keep = np.ones(len(nodes) - 1, dtype=bool)
    inner = starts[(starts > 0) & (starts < len(nodes))]
    keep[inner - 1] = False
    ids = table[nodes[:-1], nodes[1:]][keep]
    if (ids < 0).any():
        raise ValueError("a path uses a link that does not exist")
    return ids


def compile_network(
    *,
    servers: int,
    link_ends: Int32s,
    link_rate: Floats,
    hop_latency_ms: float,
    ring_round_latency_ms: float,
    routes: PathTable,
    rings: tuple[GroupRings, ...],
    schedules: Sequence[GroupSchedule] = (),
    link_sharing: LinkSharing = LinkSharing.FIFO,
) -> Network:
    """Flatten routes, rings and schedules to link ids.

    Raises:
        ValueError: a path uses a link that does not exist.
    """
    nodes_total = max(routes.nodes_total, servers, int(link_ends.max(initial=-1)) + 1)
    table = np.full((nodes_total, nodes_total), -1, dtype=np.int32)
    table[link_ends[:, 0], link_ends[:, 1]] = np.arange(len(link_ends), dtype=np.int32)

    pair_ptr = np.zeros(servers * servers + 1, dtype=np.int64)
    pair_ptr[1 + routes.source.astype(np.int64) * servers + routes.target] = np.diff(routes.pair_ptr)
    np.cumsum(pair_ptr, out=pair_ptr)
    hops = np.maximum(np.diff(routes.path_ptr) - 1, 0)
    path_ptr = np.concatenate(([0], np.cumsum(hops))).astype(np.int64)

    member_paths = [path for group in rings for ring in group.rings for path in ring.paths]
    member_hops = np.array([max(len(path) - 1, 0) for path in member_paths], dtype=np.int64)
    member_nodes = np.array([v for path in member_paths for v in path], dtype=np.int32)
    member_starts = np.concatenate(([0], np.cumsum([len(path) for path in member_paths]))).astype(np.int64)
    known = {tuple(sorted(group.members)) for group in rings}
    others = dict.fromkeys(one.members for one in schedules if one.members not in known)
    groups = (*(group.members for group in rings), *others)
    ring_sizes = [len(ring.paths) for group in rings for ring in group.rings]
    return Network(
        servers=servers,
        link_ends=link_ends,
        link_rate=link_rate,
        hop_latency_ms=hop_latency_ms,
        ring_round_latency_ms=ring_round_latency_ms,
        pair_ptr=pair_ptr,
        path_share=routes.share,
        path_ptr=path_ptr,
        path_link=_ids_of(routes.node, table, routes.path_ptr),
        groups=groups,
        group_size=np.array([len(members) for members in groups], dtype=np.int32),
        group_ptr=np.concatenate(
            ([0], np.cumsum([*(len(group.rings) for group in rings), *(0 for _ in others)]))
        ).astype(np.int64),
        ring_share=np.array([ring.share for group in rings for ring in group.rings], dtype=np.float64),
        ring_ptr=np.concatenate(([0], np.cumsum(ring_sizes))).astype(np.int64),
        member_ptr=np.concatenate(([0], np.cumsum(member_hops))).astype(np.int64),
        member_link=_ids_of(member_nodes, table, member_starts),
        schedules=schedule_arrays(groups, schedules, table),
        link_sharing=link_sharing,
    )
