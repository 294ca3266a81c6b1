"""Links of a fat-tree and the traffic of a job on them, written apart from the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster import FAT_TREE, Fabric

MASK = (1 << 64) - 1

Link = tuple[str, int, int, int]
"""Layer, rack or pod, uplink, core; -1 where paths are even."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A k-ary fat-tree: k/2, rate of a server, thinning of racks and pods, and whether a flow takes one path."""

    half: int
    server_gbps: float
    rack_ratio: float
    pod_ratio: float
    hashed: bool
    seed: int


def tree_of(servers: int, fabric: Fabric, seed: int) -> Tree | None:
    """The tree of a fabric with its rate; None of a fabric without links that jobs share."""
    if fabric.kind != FAT_TREE or fabric.server_gbps is None:
        return None
    half = 1
    while half * half * half * 2 < servers:  # k^3 / 4 servers, k = 2 half
        half += 1
    hashed = fabric.paths == "hashed"
    return Tree(half, fabric.server_gbps, fabric.rack_ratio, fabric.pod_ratio, hashed, seed)


def _hash(seed: int, source: int, target: int) -> int:
    z = (seed + (source * 65536 + target + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def link_parts(tree: Tree, servers: list[int], ring: float, pairs: float) -> dict[Link, float]:
    """Traffic over what a server sends on links (layer, rack or pod, uplink, core)."""
    k = len(servers)
    flows = [(servers[i], servers[(i + 1) % k], ring) for i in range(k)] if ring else []
    if pairs:
        flows += [(a, b, pairs / (k - 1)) for a in servers for b in servers if a != b]
    parts: dict[Link, float] = {}
    h, square = tree.half, tree.half**2

    def add(link: Link, part: float) -> None:
        parts[link] = parts.get(link, 0.0) + part

    for a, b, part in flows:
        if a // h == b // h:
            continue
        draw = _hash(tree.seed, a, b) if tree.hashed else 0
        up, core = (draw % h, draw // h % h) if tree.hashed else (-1, -1)
        add(("rack up", a // h, up, -1), part)
        add(("rack down", b // h, up, -1), part)
        if a // square != b // square:
            add(("pod up", a // square, up, core), part)
            add(("pod down", b // square, up, core), part)
    return parts


def even_parts(tree: Tree, servers: Ints, ring: float, pairs: float) -> dict[Link, float]:
    """The same for even paths, counted per rack and pod."""
    parts: dict[Link, float] = {}
    k = len(servers)
    ordered = np.sort(servers)
    for layer, size in (("rack", tree.half), ("pod", tree.half**2)):
        place = ordered // size
        leaves = place != np.roll(place, -1)
        for one in np.unique(place).tolist():
            inside = int((place == one).sum())
            out = ring * int(leaves[place == one].sum()) + pairs * inside * (k - inside) / max(1, k - 1)
            if out > 0:
                parts[f"{layer} up", one, -1, -1] = out
    return parts


def capacity_gbps(tree: Tree, link: Link) -> float:
    """Capacity of a link, or of the bundle that even paths make of all uplinks of a rack or pod."""
    bundle = tree.half if link[0].startswith("rack") else tree.half**2
    ratio = tree.rack_ratio if link[0].startswith("rack") else tree.pod_ratio
    return tree.server_gbps / ratio * (1 if tree.hashed else bundle)
