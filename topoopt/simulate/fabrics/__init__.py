"""Fabrics: what a cluster's servers may be joined by, each turned into a `Network` for the time models.

The fabrics of the table need a cluster and the AllReduce groups of the job only. The direct-connect network of a plan
is built by `plan_network`, or of its parts by `direct_connect_network`.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.core.process import PlugIns
from topoopt.costs.bills import cost_equivalent_fat_tree_gbps
from topoopt.simulate.fabrics.direct_connect import direct_connect_network, plan_network
from topoopt.simulate.fabrics.options import FabricBuilder, FabricOptions, ListedFabric

__all__ = [
    "FABRICS",
    "FabricBuilder",
    "FabricOptions",
    "ListedFabric",
    "cost_equivalent_fat_tree_gbps",
    "direct_connect_network",
    "plan_network",
]

FABRICS: Mapping[str, ListedFabric] = PlugIns(
    {
        "ideal-switch": "topoopt.simulate.fabrics.ideal_switch:IDEAL_SWITCH",
        "fat-tree": "topoopt.simulate.fabrics.fat_tree:FAT_TREE",
        "full-fat-tree": "topoopt.simulate.fabrics.fat_tree:FULL_FAT_TREE",
        "random-regular": "topoopt.simulate.fabrics.random_regular:RANDOM_REGULAR",
        "oversubscribed-fat-tree": "topoopt.simulate.fabrics.oversubscribed_fat_tree:OVERSUBSCRIBED_FAT_TREE",
        "torus-2d": "topoopt.simulate.fabrics.torus:TORUS_2D",
        "torus-3d": "topoopt.simulate.fabrics.torus:TORUS_3D",
        "twisted-torus-2d": "topoopt.simulate.fabrics.torus:TWISTED_TORUS_2D",
        "twisted-torus-3d": "topoopt.simulate.fabrics.torus:TWISTED_TORUS_3D",
        "hypercube": "topoopt.simulate.fabrics.hypercube:HYPERCUBE",
        "generalized-kautz": "topoopt.simulate.fabrics.kautz:GENERALIZED_KAUTZ",
        "expander": "topoopt.simulate.fabrics.expander:EXPANDER",
    }
)
"""Fabrics by name; a new one is one module and one line here, and its counting rule in `topoopt.costs`."""
