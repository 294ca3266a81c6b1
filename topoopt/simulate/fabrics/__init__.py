"""Fabrics: what a cluster's servers may be joined by, each turned into a `Network` for the time models.

The fabrics of the table need a cluster and the AllReduce groups of the job only. The direct-connect network of a plan
is built by `direct_connect_network`, which takes its topology, routes and rings.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.costs.equivalence import cost_equivalent_fat_tree_gbps
from topoopt.simulate.fabrics.direct_connect import direct_connect_network
from topoopt.simulate.fabrics.expander import EXPANDER
from topoopt.simulate.fabrics.fat_tree import FAT_TREE, FULL_FAT_TREE
from topoopt.simulate.fabrics.hypercube import HYPERCUBE
from topoopt.simulate.fabrics.ideal_switch import IDEAL_SWITCH
from topoopt.simulate.fabrics.kautz import GENERALIZED_KAUTZ
from topoopt.simulate.fabrics.options import FabricBuilder, FabricOptions, ListedFabric
from topoopt.simulate.fabrics.oversubscribed_fat_tree import OVERSUBSCRIBED_FAT_TREE
from topoopt.simulate.fabrics.random_regular import RANDOM_REGULAR
from topoopt.simulate.fabrics.torus import TORUS_2D, TORUS_3D, TWISTED_TORUS_2D, TWISTED_TORUS_3D

__all__ = [
    "FABRICS",
    "Fabric",
    "FabricBuilder",
    "FabricOptions",
    "cost_equivalent_fat_tree_gbps",
    "direct_connect_network",
]

FABRICS: Mapping[str, ListedFabric] = {
    "ideal-switch": IDEAL_SWITCH,
    "fat-tree": FAT_TREE,
    "full-fat-tree": FULL_FAT_TREE,
    "random-regular": RANDOM_REGULAR,
    "oversubscribed-fat-tree": OVERSUBSCRIBED_FAT_TREE,
    "torus-2d": TORUS_2D,
    "torus-3d": TORUS_3D,
    "twisted-torus-2d": TWISTED_TORUS_2D,
    "twisted-torus-3d": TWISTED_TORUS_3D,
    "hypercube": HYPERCUBE,
    "generalized-kautz": GENERALIZED_KAUTZ,
    "expander": EXPANDER,
}
"""Fabrics by name; a new one is one module and one line here, at the end: the place is part of the search's seed."""
