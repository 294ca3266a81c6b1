"""Generalized Kautz graph (Imase and Itoh 1981): the least known diameters for any number of servers, one-way links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.graphs import kautz_arcs
from topoopt.simulate.fabrics.direct_graph import graph_network, shortest_paths, spread_tours
from topoopt.simulate.fabrics.options import FabricOptions, Group, ListedFabric, server_pairs, single_path_table
from topoopt.simulate.network import Network


def generalized_kautz(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """One shortest path per pair; rings along short tours, several for a group of all servers, one for others.

    With at least n - 1 interfaces, every pair gets d // (n - 1) links each way and the rest makes the graph.

    Raises:
        InputError: interfaces are patched in pairs, or one each and there are more than two servers.
    """
    n = cluster.servers
    if cluster.links is not LinkDirection.UNIDIRECTIONAL:
        text = "a Kautz graph needs the two fibres of an interface patched apart"
        allowed = LinkDirection.UNIDIRECTIONAL.value
        raise InputError([Problem(text, path="links", value=cluster.links.value, allowed=allowed)])
    everywhere, rest = divmod(cluster.degree, max(n - 1, 1))
    if cluster.degree == 1 and n > 2:
        # With one link the rule is i -> -(i + 1): pairs, not a ring.
        raise InputError([Problem("no connected graph of this degree", path="degree", value="1", allowed=">= 2")])
    links = np.full((n, n), everywhere, dtype=np.int32)
    np.fill_diagonal(links, 0)
    if rest:
        arcs = kautz_arcs(n, rest)
        np.add.at(links, (arcs[:, 0], arcs[:, 1]), 1)
    source, _ = server_pairs(n)
    routes = single_path_table(n, source, shortest_paths(links, options.seed))
    everyone = tuple(range(n))
    orders = {everyone: spread_tours(everyone, routes, links)} if n > 2 else {}
    return graph_network(cluster, groups, options, links, orders)


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    text = "short rings, several where all servers take part"
    return f"generalized Kautz graph of degree {cluster.degree}, {cluster.link_gbps:g} Gbit/s one-way links, {text}"


GENERALIZED_KAUTZ = ListedFabric(generalized_kautz, _describe, kind="direct")
