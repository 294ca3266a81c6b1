"""Oversubscribed fat-tree: one NIC of d B a server, links taken away above the racks or above the aggregation switches.

At 2:1 half of the links up from each switch of the layer are removed (TopoOpt, NSDI'23, section 5.1). Any ratio r is
met: of the k/2 links up from a switch ceil(k / (2 r)) stay, and where that is more than k / (2 r) they are slowed down
to the ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from topoopt.core.cluster import Cluster
from topoopt.core.graphs import fat_tree_arity
from topoopt.simulate.fabrics.fat_tree import Uplinks, tree_network
from topoopt.simulate.fabrics.options import LAYERS, FabricOptions, Group, ListedFabric
from topoopt.simulate.network import Network

RATIO = 2.0
"""Downlink over uplink bandwidth unless another ratio is given."""


def _ratio(options: FabricOptions) -> float:
    return RATIO if options.oversubscription is None else options.oversubscription


def oversubscribed_fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Only `options.layer` is oversubscribed, the other layer has all its links."""
    half, ratio = fat_tree_arity(cluster.servers) // 2, _ratio(options)
    count = ceil(half / ratio * (1 - 1e-12))
    few, all_of_them = Uplinks(count, half / (ratio * count)), Uplinks(half)
    at_rack = options.layer == LAYERS[0]
    return tree_network(
        cluster,
        groups,
        gbps=cluster.degree * cluster.link_gbps,
        rack=few if at_rack else all_of_them,
        aggregation=all_of_them if at_rack else few,
        options=options,
    )


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    total, above = cluster.degree * cluster.link_gbps, {"rack": "racks", "aggregation": "aggregation switches"}
    where = above[options.layer]
    way, ratio = options.ecmp, _ratio(options)
    return f"k-ary fat-tree with ECMP ({way}), one NIC of {total:g} Gbit/s, {ratio:g}:1 above the {where}"


OVERSUBSCRIBED_FAT_TREE = ListedFabric(oversubscribed_fat_tree, _describe, ("oversubscription", "layer", "ecmp"))
