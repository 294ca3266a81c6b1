"""Expander of random Hamiltonian cycles: like a random regular graph, with rings an AllReduce can use all links of.

The union of d/2 random Hamiltonian cycles is contiguous to a random d-regular graph (Kim and Wormald 2001), so what
holds for one almost surely holds for the other; here the cycles are known. An odd interface joins the servers in random
pairs (one server stays without where their number is odd). An AllReduce over all servers goes round every cycle in both
directions, one over fewer servers along one short tour both ways.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import Draws
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.simulate.fabrics.direct_graph import graph_network
from topoopt.simulate.fabrics.options import FabricOptions, Group, ListedFabric
from topoopt.simulate.network import Network

ATTEMPTS = 50
"""Cycles drawn in place of one that repeats a link; after so many it is taken, as a parallel link."""


def expander(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Bidirectional links.

    Raises:
        InputError: one interface per server and more than two servers.
    """
    n, d = cluster.servers, cluster.degree
    if d == 1 and n > 2:
        raise InputError([Problem("no connected graph of this degree", path="degree", value=str(d), allowed=">= 2")])
    draws = Draws(options.seed)
    links = np.zeros((n, n), dtype=np.int32)
    cycles: list[Group] = []
    for _ in range(d // 2):
        for _ in range(ATTEMPTS):
            order = draws.permutation(n)
            if not links[order, np.roll(order, -1)].any():
                break
        np.add.at(links, (order, np.roll(order, -1)), 1)
        np.add.at(links, (np.roll(order, -1), order), 1)
        cycles.append(tuple(order.tolist()))
    if d % 2:
        order = draws.permutation(n)[: n - n % 2].reshape(-1, 2)
        np.add.at(links, (order[:, 0], order[:, 1]), 1)
        np.add.at(links, (order[:, 1], order[:, 0]), 1)
    orders = {tuple(range(n)): cycles} if cycles else {}
    return graph_network(cluster, groups, options, links, orders, both_ways=True)


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    cycles, rate = cluster.degree // 2, f"{cluster.link_gbps:g} Gbit/s"
    pairs = " and random pairs" if cluster.degree % 2 else ""
    return f"{cycles} random Hamiltonian cycles{pairs} of {rate} links, rings along the cycles both ways"


EXPANDER = ListedFabric(expander, _describe, kind="direct")
