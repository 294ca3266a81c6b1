"""Fabrics: what a cluster's servers may be joined by, each turned into a `Network` for the time models.

The fabrics of the table need a cluster and the AllReduce groups of the job only. The direct-connect network of a plan
is built by `direct_connect_network`, which takes its topology, routes and rings.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.costs.equivalence import cost_equivalent_fat_tree_gbps
from topoopt.simulate.fabrics.direct_connect import direct_connect_network
from topoopt.simulate.fabrics.fat_tree import fat_tree, full_fat_tree
from topoopt.simulate.fabrics.ideal_switch import ideal_switch
from topoopt.simulate.fabrics.options import FabricBuilder, FabricOptions
from topoopt.simulate.fabrics.random_regular import random_regular

__all__ = ["FABRICS", "FabricBuilder", "FabricOptions", "cost_equivalent_fat_tree_gbps", "direct_connect_network"]

FABRICS: Mapping[str, FabricBuilder] = {
    "ideal-switch": ideal_switch,
    "fat-tree": fat_tree,
    "full-fat-tree": full_fat_tree,
    "random-regular": random_regular,
}
"""Builders by name; a new fabric is one module and one line here."""
