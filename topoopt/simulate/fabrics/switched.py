"""Switched fabrics are baselines of the TopoOpt paper: ideal switch, fat-tree, and oversubscribed fat-tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from topoopt.core.arrays import Draws, Int32s, Ints, bytes_per_ms
from topoopt.core.clos import fat_tree_arity
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.costs.bills import cost_equivalent_fat_tree_gbps
from topoopt.simulate.fabrics import (
    LAYERS,
    US_PER_MS,
    FabricOptions,
    Group,
    ListedFabric,
    even_path_table,
    list_order_rings,
    routed_pairs,
    single_path_table,
)
from topoopt.simulate.network import Network, compile_network

HOPS_OVER_SWITCH = 4.9
"""Fixed cost of an AllReduce ring round in hop latencies: 4.8 to 5.1 us in packet simulation at 1 us a hop."""


def _nic_gbps(cluster: Cluster, options: FabricOptions) -> float:
    return cluster.degree * cluster.link_gbps if options.nic_gbps is None else options.nic_gbps


def ideal_switch(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Node n is the switch. One ring per group, in list order."""
    n = cluster.servers
    gbps = _nic_gbps(cluster, options)
    hosts = np.arange(n, dtype=np.int32)
    switch = np.full(n, n, dtype=np.int32)
    source, target = routed_pairs(n, options)
    routes = single_path_table(n + 1, source, np.stack((source, np.full_like(source, n), target), axis=1))
    return compile_network(
        servers=n,
        link_ends=np.concatenate((np.stack((hosts, switch), axis=1), np.stack((switch, hosts), axis=1))),
        link_rate=np.full(2 * n, bytes_per_ms(gbps)),
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=HOPS_OVER_SWITCH * cluster.hop_latency_us / US_PER_MS,
        routes=routes,
        rings=list_order_rings(groups, routes),
        link_sharing=cluster.link_sharing,
        compute_order=cluster.compute_order,
    )


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    return f"one non-blocking switch, {_nic_gbps(cluster, options):g} Gbit/s per server"


IDEAL_SWITCH = ListedFabric(ideal_switch, _describe, ("nic_gbps",), _nic_gbps)


RING_ROUND_HOPS = 16.0
"""Fixed cost of an AllReduce ring round, in hop latencies: 16.0 us measured in packet simulation at 1 us a hop."""


Uplinks = tuple[int, float]
"""Links up from one switch: how many are there, and the part of a NIC's rate that each has."""


def arity_of(cluster: Cluster, options: FabricOptions) -> int:
    """Ports of a switch of a fat-tree of the cluster.

    Raises:
        InputError: three tiers of switches of the radix that is set do not hold the servers.
    """
    least = fat_tree_arity(cluster.servers)
    if options.radix is not None and options.radix < least:
        most = options.radix**3 // 4
        text = f"three tiers of switches of {options.radix} ports hold {most} of {cluster.servers} servers"
        raise InputError([Problem(text, path="radix", value=str(options.radix), allowed=f"{least} or more")])
    return least if options.radix is None else options.radix


def tree_network(
    cluster: Cluster,
    groups: Sequence[Group],
    *,
    gbps: float,
    rack: Uplinks,
    aggregation: Uplinks,
    options: FabricOptions,
) -> Network:
    """A fat-tree of NICs of `gbps`; each ordered pair takes its equal-cost paths as `options.ecmp` says.

    Rings of a group are in list order. Of the k/2 links up from a switch the first `count` are there.
    """
    n = cluster.servers
    k = arity_of(cluster, options)
    half = k // 2
    first_rack, first_aggregation, first_core = n, n + k * half, n + 2 * k * half

    host = np.arange(n)
    pods = np.arange(k if options.radix is None else ceil(n / half**2))
    pod, i, j = (axis.ravel() for axis in np.meshgrid(pods, np.arange(half), np.arange(half), indexing="ij"))
    wired, upper = j < rack[0], j < aggregation[0]
    ends = [
        (host, first_rack + host // half),
        ((first_rack + pod * half + i)[wired], (first_aggregation + pod * half + j)[wired]),
        ((first_aggregation + pod * half + i)[upper], (first_core + i * half + j)[upper]),
    ]
    up = np.concatenate([np.stack(pair, axis=1) for pair in ends]).astype(np.int32)
    rate = np.repeat(bytes_per_ms(gbps) * np.array([1.0, rack[1], aggregation[1]]), [len(pair[0]) for pair in ends])

    source, target = routed_pairs(n, options)
    count, j, i = _uplinks_taken(n, half, source, target, rack[0], aggregation[0], options)
    paths = _paths(n, half, np.repeat(source, count), np.repeat(target, count), j, i)
    routes = even_path_table(first_core + half * half, source, count, paths)
    return compile_network(
        servers=n,
        link_ends=np.concatenate((up, up[:, ::-1])),
        link_rate=np.concatenate((rate, rate)),
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=RING_ROUND_HOPS * cluster.hop_latency_us / US_PER_MS,
        routes=routes,
        rings=list_order_rings(groups, routes),
        link_sharing=cluster.link_sharing,
        compute_order=cluster.compute_order,
    )


def _uplinks_taken(
    n: int, half: int, source: Int32s, target: Int32s, racks: int, aggregations: int, options: FabricOptions
) -> tuple[Ints, Ints, Ints]:
    """int64[m] paths of each pair, and int64[sum] of each path the uplink of its rack and that above it."""
    unit = np.ones(len(source), dtype=np.int64)
    if options.ecmp == "hashed":
        draws = Draws(options.seed)
        pair = source.astype(np.int64) * (n - 1) + target - (target > source)  # its path does not depend on the others
        j, i = (draws.below(links, n * (n - 1))[pair] for links in (racks, aggregations))
        return unit, j, i
    if options.ecmp == "spread":
        return unit, (target % half % racks).astype(np.int64), (target // half % half % aggregations).astype(np.int64)
    apart, far = source // half != target // half, source // half**2 != target // half**2
    above = np.where(far, aggregations, 1)
    count = np.where(apart, racks, 1) * above
    rank = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    j, i = np.divmod(rank, np.repeat(above, count))
    return count, j, i


def _paths(n: int, half: int, source: Int32s, target: Int32s, j: Ints, i: Ints) -> Int32s:
    """int32[m, 7], the nodes of a path of each pair over aggregation switch j of its pods and their i-th core."""
    first_rack, first_aggregation, first_core = n, n + 2 * half * half, n + 4 * half * half
    source_pod, target_pod = source // (half * half), target // (half * half)
    hops = np.full((len(source), 7), -1, dtype=np.int64)
    hops[:, 0], hops[:, 1] = source, first_rack + source // half
    same_rack = source // half == target // half
    same_pod = (source_pod == target_pod) & ~same_rack
    far = source_pod != target_pod
    hops[same_rack, 2] = target[same_rack]
    hops[~same_rack, 2] = (first_aggregation + source_pod * half + j)[~same_rack]
    hops[same_pod, 3] = (first_rack + target // half)[same_pod]
    hops[same_pod, 4] = target[same_pod]
    hops[far, 3] = (first_core + j * half + i)[far]
    hops[far, 4] = (first_aggregation + target_pod * half + j)[far]
    hops[far, 5] = (first_rack + target // half)[far]
    hops[far, 6] = target[far]
    return hops.astype(np.int32)


def nic_gbps(cluster: Cluster, options: FabricOptions) -> float:
    """Rate of the NIC of the cost-equivalent fat-tree, Gbit/s, unless another one is given."""
    if options.fat_tree_gbps is not None:
        return options.fat_tree_gbps
    ratio = options.oversubscription or 1.0
    return cost_equivalent_fat_tree_gbps(cluster.degree, cluster.link_gbps, ratio, options.book)


def fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """All links are there; an oversubscription ratio r divides the rate of those between racks and aggregation by r."""
    half = arity_of(cluster, options) // 2
    return tree_network(
        cluster,
        groups,
        gbps=nic_gbps(cluster, options),
        rack=(half, 1.0 / (options.oversubscription or 1.0)),
        aggregation=(half, 1.0),
        options=options,
    )


def full_fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """The same without oversubscription, its one NIC as fast as all interfaces of a server together."""
    return fat_tree(
        cluster, groups, replace(options, fat_tree_gbps=cluster.degree * cluster.link_gbps, oversubscription=1.0)
    )


def _describe_fat_tree(cluster: Cluster, options: FabricOptions) -> str:
    gbps, ratio = nic_gbps(cluster, options), options.oversubscription or 1.0
    price = "same price as" if gbps < cluster.degree * cluster.link_gbps else "full rate for less than"
    why = "" if options.fat_tree_gbps is not None else f", {price} the direct-connect network"
    return f"k-ary fat-tree with ECMP ({options.ecmp}), one NIC of {gbps:.4g} Gbit/s, {ratio:g}:1{why}"


def _describe_full(cluster: Cluster, options: FabricOptions) -> str:
    total = cluster.degree * cluster.link_gbps
    return f"k-ary fat-tree with ECMP ({options.ecmp}), one NIC of {total:g} Gbit/s, full bisection"


FAT_TREE = ListedFabric(fat_tree, _describe_fat_tree, ("fat_tree_gbps", "oversubscription", "ecmp", "radix"), nic_gbps)
FULL_FAT_TREE = ListedFabric(full_fat_tree, _describe_full, ("ecmp", "radix"))


RATIO = 2.0
"""Downlink over uplink bandwidth unless another ratio is given."""


def _ratio(options: FabricOptions) -> float:
    return RATIO if options.oversubscription is None else options.oversubscription


def oversubscribed_fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Only `options.layer` is oversubscribed, the other layer has all its links."""
    half, ratio = arity_of(cluster, options) // 2, _ratio(options)
    count = ceil(half / ratio * (1 - 1e-12))
    few, all_of_them = (count, half / (ratio * count)), (half, 1.0)
    at_rack = options.layer == LAYERS[0]
    return tree_network(
        cluster,
        groups,
        gbps=cluster.degree * cluster.link_gbps,
        rack=few if at_rack else all_of_them,
        aggregation=all_of_them if at_rack else few,
        options=options,
    )


def _describe_oversubscribed_fat_tree(cluster: Cluster, options: FabricOptions) -> str:
    total, above = cluster.degree * cluster.link_gbps, {"rack": "racks", "aggregation": "aggregation switches"}
    where = above[options.layer]
    choice, ratio = options.ecmp, _ratio(options)
    return f"k-ary fat-tree with ECMP ({choice}), one NIC of {total:g} Gbit/s, {ratio:g}:1 above the {where}"


OVERSUBSCRIBED_FAT_TREE = ListedFabric(
    oversubscribed_fat_tree, _describe_oversubscribed_fat_tree, ("oversubscription", "layer", "ecmp", "radix")
)
