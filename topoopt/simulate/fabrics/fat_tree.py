"""Three-tier k-ary fat-tree, one NIC per server, ECMP (baseline of the TopoOpt paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from topoopt.core.cluster import Cluster
from topoopt.core.fat_tree import fat_tree_arity
from topoopt.core.units import bytes_per_ms
from topoopt.costs.equivalence import cost_equivalent_fat_tree_gbps
from topoopt.simulate.fabrics.options import (
    US_PER_MS,
    FabricOptions,
    Group,
    list_order_rings,
    routed_pairs,
    single_path_table,
)
from topoopt.simulate.network import Network, compile_network

RING_ROUND_HOPS = 16.0
"""Fixed cost of an AllReduce ring round, in hop latencies: 16.0 us measured in packet simulation at 1 us a hop."""


def _links(servers: int, k: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Upward links (lower node, upper node), and which of them leave a top-of-rack switch.

    Nodes: servers, then k/2 top-of-rack and k/2 aggregation switches for each of k pods, then (k/2)^2 core switches.
    Aggregation switch j of a pod reaches cores j k/2 .. j k/2 + k/2 - 1.
    """
    half = k // 2
    rack = servers
    aggregation = rack + k * half
    core = aggregation + k * half
    host = np.arange(servers)
    pod, i, j = (axis.ravel() for axis in np.meshgrid(np.arange(k), np.arange(half), np.arange(half), indexing="ij"))
    lower = np.concatenate((host, rack + pod * half + i, aggregation + pod * half + i))
    upper = np.concatenate((rack + host // half, aggregation + pod * half + j, core + i * half + j))
    leaves_rack = np.zeros(len(lower), dtype=bool)
    leaves_rack[servers : servers + len(pod)] = True
    return np.stack((lower, upper), axis=1).astype(np.int32), leaves_rack


def fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Servers fill the racks in order; each ordered pair takes one of its equal-cost paths, drawn with the seed.

    An oversubscription ratio r divides the rate of the links between top-of-rack and aggregation switches by r. One
    ring per group, in list order.
    """
    n = cluster.servers
    gbps = options.fat_tree_gbps
    if gbps is None:
        gbps = cost_equivalent_fat_tree_gbps(cluster.degree, cluster.link_gbps, options.oversubscription, options.book)
    k = fat_tree_arity(n)
    half = k // 2
    up, leaves_rack = _links(n, k)
    rate = np.where(leaves_rack, bytes_per_ms(gbps) / options.oversubscription, bytes_per_ms(gbps))

    source, target = routed_pairs(n, options)
    draw = np.random.default_rng(options.seed)
    pair = source.astype(np.int64) * (n - 1) + target - (target > source)  # a pair's path does not depend on the others
    j = draw.integers(half, size=n * (n - 1))[pair]
    i = draw.integers(half, size=n * (n - 1))[pair]
    rack, aggregation = n, n + k * half
    source_pod, target_pod = source // (half * half), target // (half * half)
    hops = np.full((len(source), 7), -1, dtype=np.int64)
    hops[:, 0], hops[:, 1] = source, rack + source // half
    same_rack = source // half == target // half
    same_pod = (source_pod == target_pod) & ~same_rack
    far = source_pod != target_pod
    hops[same_rack, 2] = target[same_rack]
    hops[~same_rack, 2] = (aggregation + source_pod * half + j)[~same_rack]
    hops[same_pod, 3] = (rack + target // half)[same_pod]
    hops[same_pod, 4] = target[same_pod]
    hops[far, 3] = (aggregation + k * half + j * half + i)[far]
    hops[far, 4] = (aggregation + target_pod * half + j)[far]
    hops[far, 5] = (rack + target // half)[far]
    hops[far, 6] = target[far]
    nodes_total = n + 2 * k * half + half * half
    routes = single_path_table(nodes_total, source, hops.astype(np.int32))
    return compile_network(
        servers=n,
        link_ends=np.concatenate((up, up[:, ::-1])),
        link_rate=np.concatenate((rate, rate)),
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=RING_ROUND_HOPS * cluster.hop_latency_us / US_PER_MS,
        routes=routes,
        rings=list_order_rings(groups, routes),
    )


def full_fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """The same without oversubscription, its one NIC as fast as all interfaces of a server together."""
    whole = replace(options, fat_tree_gbps=cluster.degree * cluster.link_gbps, oversubscription=1.0)
    return fat_tree(cluster, groups, whole)
