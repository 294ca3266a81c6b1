"""Ideal switch: one non-blocking switch, each server on one link of d * B (upper baseline of the TopoOpt paper)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import bytes_per_ms
from topoopt.core.cluster import Cluster
from topoopt.simulate.fabrics.options import (
    US_PER_MS,
    FabricOptions,
    Group,
    ListedFabric,
    list_order_rings,
    routed_pairs,
    single_path_table,
)
from topoopt.simulate.network import Network, compile_network

RING_ROUND_HOPS = 4.9
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
        ring_round_latency_ms=RING_ROUND_HOPS * cluster.hop_latency_us / US_PER_MS,
        routes=routes,
        rings=list_order_rings(groups, routes),
        link_sharing=cluster.link_sharing,
    )


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    return f"one non-blocking switch, {_nic_gbps(cluster, options):g} Gbit/s per server"


IDEAL_SWITCH = ListedFabric(ideal_switch, _describe, ("nic_gbps",), _nic_gbps)
