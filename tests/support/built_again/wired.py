"""Fabrics of links between the servers: the paths that are drawn on their links, and the rings a solution states.

A pair takes one shortest path. Drawn from the seed (`core.draws`), the links of each server are put in random order,
server by server, then all ordered pairs; pair by pair, a path goes to the neighbour nearer the target over the link
that the fewest paths took so far (per parallel link), the first in the server's order among equals. The fixed cost of a
ring round is that of direct links times the mean hops between ring neighbours, over the rings of all groups.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Draws, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.job import FabricGraph
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.plan import BYTES_PER_MS_OF_ONE_GBPS
from topoopt.verify.job.simulation import US_PER_MS, SimulatedNetwork, links_along
from topoopt.verify.laws.networks import hop_counts

Pair = tuple[int, int]


def drawn_paths(links: Ints, seed: int) -> dict[Pair, tuple[int, ...]]:
    """Nodes of the path of every ordered pair; `links` int64[n, n] of a strongly connected graph."""
    n = len(links)
    hops = hop_counts(links > 0).tolist()
    draws = Draws(seed)
    joined = [np.flatnonzero(row) for row in links]
    near = [servers[draws.permutation(len(servers))].tolist() for servers in joined]
    count = links.tolist()
    used = [[0.0] * n for _ in range(n)]
    paths: dict[Pair, tuple[int, ...]] = {}
    for place in draws.permutation(n * (n - 1)).tolist():
        source, target = divmod(place, n - 1)
        target += target >= source
        nodes = [source]
        while nodes[-1] != target:
            at = nodes[-1]
            nearer = [to for to in near[at] if hops[to][target] == hops[at][target] - 1]
            to = min(nearer, key=lambda to: used[at][to] / count[at][to])
            used[at][to] += 1.0
            nodes.append(to)
        paths[source, target] = tuple(nodes)
    return paths


def check_rings(findings: ViolationLog, where: str, graph: FabricGraph, servers: int) -> bool:
    """Every ring is of a group of evenly spaced servers, each of these groups has one; whether that is so."""
    due = {
        tuple(range(offset, servers, servers // size))
        for size in range(2, servers + 1)
        if servers % size == 0
        for offset in range(servers // size)
    }
    found = {tuple(sorted(ring)) for ring in graph.rings}
    for group in sorted(due - found):
        findings.add("baseline", f"{where}: no ring of the servers {list(group)}")
    for group in sorted(found - due):
        findings.add("baseline", f"{where}: a ring of {list(group)}, which is no group of evenly spaced servers")
    return due == found


def wired_network(cluster: Cluster, links: Ints, graph: FabricGraph, seed: int) -> SimulatedNetwork:
    """The network of lawful links and rings."""
    arcs = [(tail, head) for tail, head in np.argwhere(links > 0).tolist()]
    number = {ends: place for place, ends in enumerate(arcs)}
    nodes = drawn_paths(links, seed)
    ways = {pair: links_along(path, number) for pair, path in nodes.items()}
    rings: dict[tuple[int, ...], list[tuple[tuple[int, ...], ...]]] = defaultdict(list)
    for ring in graph.rings:
        rings[tuple(sorted(ring))].append(tuple(ways[pair] for pair in pairwise((*ring, ring[0]))))
    hops = [len(way) for of_group in rings.values() for ring in of_group for way in ring]
    mean_hops = sum(hops) / len(hops) if hops else 1.0
    unit = cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    return SimulatedNetwork(
        rate=[float(links[tail, head]) * unit for tail, head in arcs],
        hop_ms=cluster.hop_latency_us / US_PER_MS,
        round_ms=mean_hops * cluster.ring_round_latency_us / US_PER_MS,
        paths={pair: ((1.0, way),) for pair, way in ways.items()},
        rings={group: tuple((1.0 / len(of_group), ring) for ring in of_group) for group, of_group in rings.items()},
        sharing=cluster.link_sharing,
    )
