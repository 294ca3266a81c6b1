"""Speed of ring selection, hop tables, TopologyFinder and routing, beside networkx doing the same."""

from __future__ import annotations

import time

import networkx as nx
import numpy as np

from solvers.network.assembly import arc_graph
from solvers.network.distances import hop_table, totient
from solvers.network.finder import find_topology
from solvers.network.routes import balanced_routes, circulant_routes, link_loads, plain_peak
from tests.benchmarks.figures import Figure, best_of
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.workload import AllReduceDemand, Demand


def topology_figures() -> list[Figure]:
    """Offsets and hop table at n = 10^5; topology with all routes at n = 1024."""
    n = 100_000
    figures = []

    def offsets_and_hops() -> object:
        result = totient(n, 4, LinkDirection.BIDIRECTIONAL, "paper")
        return hop_table(n, result.offsets)

    offsets = totient(n, 4, LinkDirection.BIDIRECTIONAL, "paper").offsets

    def plain_hops() -> object:
        graph = nx.circulant_graph(n, [p for p in offsets if p <= n // 2])
        return nx.single_source_shortest_path_length(graph, 0)

    plain = best_of(plain_hops, repeats=1) * 1e3
    figures.append(Figure("offsets and hop table, n = 10^5, d = 4", best_of(offsets_and_hops) * 1e3, "ms", 50.0, plain))

    n, degree = 1024, 8
    cluster = Cluster(n, 4, degree, 100.0)
    matrix = np.ones((n, n)) * 1e6
    np.fill_diagonal(matrix, 0.0)
    demand = Demand(matrix, (AllReduceDemand(tuple(range(n)), 1e10),))
    skewed = Demand(np.random.default_rng(0).lognormal(0, 1.5, (n, n)) * (1 - np.eye(n)) * 1e6, demand.allreduce)

    def finder_and_routes() -> object:
        topology = find_topology(cluster, demand)
        return circulant_routes(n, topology.offsets) if topology.offsets else balanced_routes(topology, None)

    figures.append(Figure("finder and all routes, n = 1024, d = 8", best_of(finder_and_routes, 3), "s", 2.0))

    def finder_and_weighted_routes() -> object:
        topology = find_topology(cluster, skewed)
        return balanced_routes(topology, skewed.model_parallel_bytes)

    name = "the same for skewed traffic, routes balanced for it: processor time"
    seconds = best_of(finder_and_weighted_routes, 3, clock=time.process_time)
    figures.append(Figure(name, seconds, "s", 1.0))
    topology, bytes_to = find_topology(cluster, skewed), skewed.model_parallel_bytes
    largest = float(link_loads(topology, balanced_routes(topology, bytes_to), bytes_to).max())
    plain_load = plain_peak(arc_graph(topology), bytes_to)
    # The goal is what searching the paths of each pair anew reached: being fast must not cost balance.
    figures.append(
        Figure("there: largest load, first shortest paths beside", largest / 1e9, "GB", 2.296, plain_load / 1e9)
    )
    return figures
