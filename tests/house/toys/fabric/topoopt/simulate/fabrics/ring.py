"""One ring both ways, its links of all interfaces in parallel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.cluster import Cluster
from topoopt.simulate.fabrics import FabricOptions, Group, ListedFabric
from topoopt.simulate.fabrics.direct_graphs import graph_network
from topoopt.simulate.network import Network


def ring(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Half of the interfaces to either neighbour."""
    n, here = cluster.servers, np.arange(cluster.servers)
    links = np.zeros((n, n), dtype=np.int32)
    links[here, (here + 1) % n] = links[(here + 1) % n, here] = cluster.degree // 2
    around = tuple(range(n))
    return graph_network(cluster, groups, options, links, {around: [around, around[::-1]]}, mirrored=True)


RING = ListedFabric(ring, lambda cluster, _: f"ring of {cluster.servers} servers", kind="direct")
