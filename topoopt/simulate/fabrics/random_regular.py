"""Random regular graph: direct links without a plan (Jellyfish; the Expander baseline of the TopoOpt paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from topoopt.core.arrays import Int32s
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.simulate.fabrics.direct_graph import graph_network
from topoopt.simulate.fabrics.options import FabricOptions, Group, ListedFabric
from topoopt.simulate.network import Network

ATTEMPTS = 100


def random_regular_links(servers: int, degree: int, seed: int) -> Int32s:
    """int32[n, n], symmetric: parallel links between servers of a connected random d-regular multigraph.

    Parallel links only where d >= n: every pair gets d // (n - 1), the rest is a random graph without. With n * d odd,
    one server has one interface dark.

    Raises:
        InputError: no connected graph exists (degree 1, three servers or more), or the degree is not positive.
    """
    if degree < 1 or (degree == 1 and servers > 2):
        raise InputError(
            [Problem("no connected graph of this degree", path="degree", value=str(degree), allowed=">= 2")]
        )
    if servers == 1:
        return np.zeros((1, 1), dtype=np.int32)
    everywhere, rest = divmod(degree, servers - 1)
    draw = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        links = _random_simple_graph(servers, rest, draw) + everywhere
        np.fill_diagonal(links, 0)
        dark = degree * servers - int(links.sum())
        if _connected(links) and dark == servers * degree % 2:  # the last matching may find too few pairs to join
            return links
    raise InputError([Problem(f"no connected random graph in {ATTEMPTS} attempts", path="degree", value=str(degree))])


def _random_simple_graph(servers: int, degree: int, draw: np.random.Generator) -> Int32s:
    """Adjacency of a random simple graph, regular but for one server if servers * degree is odd; degree < n - 1."""
    import networkx as nx

    odd = servers * degree % 2
    graph = nx.random_regular_graph(degree - odd, servers, seed=int(draw.integers(2**31)))
    links = np.zeros((servers, servers), dtype=np.int32)
    for u, v in graph.edges():
        links[u, v] = links[v, u] = 1
    if odd:
        # One more interface for all but one server: a largest matching among pairs not yet joined, ties at random.
        free: Any = nx.Graph()
        free.add_nodes_from(range(servers))
        for u, v in np.argwhere(np.triu(links == 0, 1)).tolist():
            free.add_edge(u, v, weight=int(draw.integers(1, 1000)))
        for u, v in nx.max_weight_matching(free, maxcardinality=True):
            links[u, v] = links[v, u] = 1
    return links


def _connected(links: Int32s) -> bool:
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(links, directed=False, return_labels=False)) == 1


def random_regular(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Bidirectional links of a random graph, one shortest path per pair, one ring per group along a short tour."""
    links = random_regular_links(cluster.servers, cluster.degree, options.seed)
    return graph_network(cluster, groups, options, links)


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    return f"random {cluster.degree}-regular graph of {cluster.link_gbps:g} Gbit/s links, one short ring per AllReduce"


RANDOM_REGULAR = ListedFabric(random_regular, _describe, kind="direct")
