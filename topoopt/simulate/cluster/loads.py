"""Links of a k-ary fat-tree, and how much of a job's traffic each of them carries.

Servers fill racks of k/2 and pods of (k/2)^2 in order. With `even` paths all uplinks of a rack, and of a pod, count as
one link; up and down carry the same, as what a job sends from a set of servers equals what it sends into it. With
`hashed` paths the flow from server s to t takes uplink h mod k/2 of its rack and core (h div k/2) mod k/2 above it,
with h the SplitMix64 output of seed + (65536 s + t + 1) 0x9E3779B97F4A7C15 mod 2^64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Ints
from topoopt.core.fat_tree import fat_tree_arity
from topoopt.core.shared_cluster import FAT_TREE, Fabric
from topoopt.core.shared_cluster_jobs import JobClass


@dataclass(frozen=True, eq=False)
class SharedLinks:
    """Links that jobs share; none for a non-blocking switch.

    Attributes:
        half: k/2 of the fat-tree, 0 without links.
        racks, pods: in use.
        hashed: flows take single paths.
        seed: of the hash.
        capacity_gbps: float64[L].
    """

    half: int
    racks: int
    pods: int
    hashed: bool
    seed: int
    capacity_gbps: Floats


def shared_links(servers: int, fabric: Fabric, server_gbps: float, seed: int) -> SharedLinks:
    """The links of a shared fabric with servers of that rate."""
    if fabric.kind != FAT_TREE:
        return SharedLinks(0, 0, 0, False, 0, np.zeros(0))
    half = fat_tree_arity(servers) // 2
    racks, pods = -(-servers // half), -(-servers // half**2)
    rack_gbps, pod_gbps = server_gbps / fabric.rack_ratio, server_gbps / fabric.pod_ratio
    if fabric.paths == "hashed":
        capacity = np.concatenate((np.full(2 * racks * half, rack_gbps), np.full(2 * pods * half**2, pod_gbps)))
        return SharedLinks(half, racks, pods, True, seed, capacity)
    capacity = np.concatenate((np.full(racks, rack_gbps * half), np.full(pods, pod_gbps * half**2)))
    return SharedLinks(half, racks, pods, False, 0, capacity)


def job_loads(links: SharedLinks, job_class: JobClass, servers: Ints) -> tuple[Ints, Floats]:
    """Links a job uses, and traffic on each over what one of its servers sends; ring in ascending order of servers."""
    sent = job_class.sent_bytes
    if not links.half or sent <= 0 or len(servers) < 2:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    ring, pair = job_class.allreduce_bytes / sent, job_class.all_to_all_bytes / sent / (len(servers) - 1)
    load = np.zeros(len(links.capacity_gbps))
    if links.hashed:
        _hashed_loads(servers, ring, pair, links.half, links.racks, links.pods, np.uint64(links.seed), load)
    else:
        _even_loads(servers, ring, pair, links.half, links.racks, load)
    used = np.flatnonzero(load)
    return used, load[used]


def _even_loads(servers: Ints, ring: float, pair: float, half: int, racks: int, load: Floats) -> None:
    """Add the traffic that leaves each rack and pod."""
    k = len(servers)
    for size, base in ((half, 0), (half * half, racks)):
        place, inside = np.unique(servers // size, return_counts=True)
        if len(place) > 1:
            load[base + place] += ring + pair * inside * (k - inside)


def _path(seed: np.uint64, source: int, target: Ints) -> NDArray[np.uint64]:
    """SplitMix64 (Steele et al., OOPSLA'14) of the pairs."""
    z = seed + (np.uint64(source * 65536 + 1) + target.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _hashed_loads(
    servers: Ints, ring: float, pair: float, half: int, racks: int, pods: int, seed: np.uint64, load: Floats
) -> None:
    """Add flow by flow, source by source, that of the ring first: sums of doubles depend on the order."""
    square = half * half
    core_up, core_down = 2 * racks * half, 2 * racks * half + pods * square
    for i, source in enumerate(servers.tolist()):
        target, part = servers[[(i + 1) % len(servers)]], np.array([ring])
        if pair > 0.0:
            target = np.append(target, np.delete(servers, i))
            part = np.append(part, np.full(len(servers) - 1, pair))
        own = (target // half != source // half) & (part > 0.0)
        target, part = target[own], part[own]
        h = _path(seed, source, target)
        up = (h % np.uint64(half)).astype(np.int64)
        core = ((h // np.uint64(half)) % np.uint64(half)).astype(np.int64)
        np.add.at(load, (source // half) * half + up, part)
        np.add.at(load, racks * half + (target // half) * half + up, part)
        far = target // square != source // square
        lane, part = (up * half + core)[far], part[far]
        np.add.at(load, core_up + (source // square) * square + lane, part)
        np.add.at(load, core_down + (target[far] // square) * square + lane, part)
