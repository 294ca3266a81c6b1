"""Fabrics of switches: an ideal one, and k-ary fat-trees in which each pair takes one or all of its equal-cost paths.

Hashed paths of a fat-tree are drawn from the seed (`core.draws`): first one of the links up from the rack for every
ordered pair of servers, then one of the links up from the aggregation switch. Spread ones go up by the target: its
place in its rack, then the place of its rack in its pod. Sprayed are all, in equal parts; rings of a group as many as
any two neighbours have paths, a pair with fewer taking each for as many rings in a row. Fixed costs of a ring round are
4.9 hop latencies on the ideal switch and 16 on a fat-tree (packet simulation). Rings are in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import ceil

from topoopt.core.arrays import Draws
from topoopt.core.cluster import Cluster
from topoopt.core.price_book import PriceBook
from topoopt.verify.job.events import US_PER_MS, PathOfPair, RingOfGroup, SimulatedNetwork
from topoopt.verify.job.fabrics.asked import HASHED, RACK, SPREAD, AskedFabric
from topoopt.verify.job.fabrics.parts_list import equal_cost_gbps
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS

Pair = tuple[int, int]
Group = tuple[int, ...]

IDEAL_ROUND_HOPS, TREE_ROUND_HOPS = 4.9, 16.0


def nic_gbps(asked: AskedFabric, cluster: Cluster, book: PriceBook | None) -> float | None:
    """Rate of the NIC of a server; None: it takes prices that are not at hand."""
    if asked.kind == "fat-tree" and asked.nic_gbps is None:
        return None if book is None else equal_cost_gbps(cluster, asked.ratio, book)
    fixed = asked.kind in ("full-fat-tree", "oversubscribed-fat-tree") or asked.nic_gbps is None
    return cluster.degree * cluster.link_gbps if fixed else asked.nic_gbps


def ideal_switch(cluster: Cluster, gbps: float, pairs: Iterable[Pair], groups: Iterable[Group]) -> SimulatedNetwork:
    """Link i goes up from server i, link n + i down to it."""
    n = cluster.servers

    def ways(source: int, target: int) -> list[tuple[int, ...]]:
        return [(source, n + target)]

    rate = [gbps * BYTES_PER_MS_OF_ONE_GBPS] * (2 * n)
    return _network(cluster, rate, IDEAL_ROUND_HOPS, ways, pairs, groups)


def fat_tree(
    asked: AskedFabric, cluster: Cluster, gbps: float, seed: int, pairs: Iterable[Pair], groups: Iterable[Group]
) -> SimulatedNetwork:
    """Servers fill the racks in order; rack switches have k/2 servers, pods k/2 racks.

    An oversubscribed layer has ceil(k / (2 r)) links up from each switch, slowed down to the ratio r; the plain one
    has all k/2, their rate divided by r.
    """
    n = cluster.servers
    k = 2
    while k**3 < 4 * n:
        k += 2
    half = k // 2
    up = {RACK: (half, 1.0), "aggregation": (half, 1.0)}
    if asked.kind == "fat-tree":
        up[RACK] = (half, 1.0 / asked.ratio)
    elif asked.kind == "oversubscribed-fat-tree":
        count = ceil(half / asked.ratio * (1 - 1e-12))
        up[asked.layer] = (count, half / (asked.ratio * count))
    (rack_links, rack_part), (core_links, core_part) = up[RACK], up["aggregation"]
    draws = Draws(seed)
    over, above = (draws.below(links, n * (n - 1)) for links in (rack_links, core_links))
    number: dict[tuple[object, object], int] = {}
    rate: list[float] = []

    def link(tail: tuple[object, ...], head: tuple[object, ...], part: float) -> int:
        if (tail, head) not in number:
            number[tail, head] = len(rate)
            rate.append(gbps * BYTES_PER_MS_OF_ONE_GBPS * part)
        return number[tail, head]

    def ways(source: int, target: int) -> list[tuple[int, ...]]:
        racks = [server // half for server in (source, target)]
        pods = [rack // half for rack in racks]
        if asked.ecmp == HASHED:
            place = source * (n - 1) + target - (target > source)
            return [over_switches(source, target, racks, pods, int(over[place]), int(above[place]))]
        if asked.ecmp == SPREAD:
            up_first, up_second = target % half % rack_links, racks[1] % half % core_links
            return [over_switches(source, target, racks, pods, up_first, up_second)]
        found = [over_switches(source, target, racks, pods, j, i) for j in range(rack_links) for i in range(core_links)]
        return list(dict.fromkeys(found))

    def over_switches(source: int, target: int, racks: list[int], pods: list[int], j: int, i: int) -> tuple[int, ...]:
        nodes: list[tuple[object, ...]] = [("server", source), ("rack", racks[0])]
        parts = [1.0]
        if racks[0] != racks[1]:
            nodes.append(("aggregation", pods[0], j))
            parts.append(rack_part)
            if pods[0] != pods[1]:
                nodes += [("core", j, i), ("aggregation", pods[1], j)]
                parts += [core_part, core_part]
            nodes.append(("rack", racks[1]))
            parts.append(rack_part)
        nodes.append(("server", target))
        parts.append(1.0)
        return tuple(link(a, b, part) for (a, b), part in zip(pairwise(nodes), parts, strict=True))

    return _network(cluster, rate, TREE_ROUND_HOPS, ways, pairs, groups)


def _network(
    cluster: Cluster,
    rate: list[float],
    round_hops: float,
    ways: Callable[[int, int], list[tuple[int, ...]]],
    pairs: Iterable[Pair],
    groups: Iterable[Group],
) -> SimulatedNetwork:
    def of_pair(pair: Pair) -> tuple[PathOfPair, ...]:
        found = ways(*pair)
        return tuple(PathOfPair(1.0 / len(found), links) for links in found)

    def of_group(group: Group) -> tuple[RingOfGroup, ...]:
        found = [ways(a, b) for a, b in pairwise((*group, group[0]))]
        most = max(map(len, found))
        return tuple(RingOfGroup(1.0 / most, tuple(each[r * len(each) // most] for each in found)) for r in range(most))

    paths = {pair: of_pair(pair) for pair in pairs}
    rings = {group: of_group(group) for group in groups}
    round_ms = round_hops * cluster.hop_latency_us / US_PER_MS
    hop_ms = cluster.hop_latency_us / US_PER_MS
    return SimulatedNetwork(rate, hop_ms, round_ms, paths, rings, sharing=cluster.link_sharing)
