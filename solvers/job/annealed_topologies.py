"""Topologies of few hops for model-parallel traffic that are no circulants: random regular graphs, annealed.

A circulant of degree d has paths of some n^(2/d) hops, a random regular graph of log n (TopoOpt, NSDI'23, section 5.3,
compares with them as expanders), and still an AllReduce of all servers may use all of its links: of even degree almost
all of them are made of link-disjoint Hamiltonian cycles (Kim and Wormald 2001).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from solvers.network.constructions import find_topology
from solvers.network.search.anneal import AnnealPlan, anneal
from solvers.network.search.links import table_of, topology_of
from solvers.network.search.seeds import random_seed
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.routing import Demand
from topoopt.core.topology import Topology

FEWEST_SERVERS = 6
"""Below, circulants and matchings are nearly all there is."""

PROPOSALS, LEAST_PROPOSALS = 16, 2_000
"""Exchanges of links proposed for each server, and at least: ten times as many gain 1 % of the hops at 128 servers."""


def plan_for(n: int) -> AnnealPlan:
    """How hard graphs of n servers are annealed."""
    return AnnealPlan(max(LEAST_PROPOSALS, PROPOSALS * n))


def annealed_topologies(
    cluster: Cluster, demand: Demand, *, count: int, seed: int, stop: Stop | None = None
) -> Iterator[Topology]:
    """At most `count` connected topologies of the cluster's degree; none where there is no traffic.

    Args:
        cluster: of n servers.
        demand: of n servers; AllReduces count for nothing here.
        count: annealed apart, from graphs of their own.
        seed: of the graphs and the proposals.
        stop: looked at between pieces of an annealing.
    """
    traffic = demand.model_parallel_bytes
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    if n < FEWEST_SERVERS or degree < 2 or not traffic.any():
        return
    # Random matchings of an odd number of servers leave one out each; TopologyFinder's links are all there can be.
    uneven = n % 2 == 1 and links is LinkDirection.BIDIRECTIONAL
    allowed = ~np.eye(n, dtype=np.bool_)
    for stream in range(count):
        rng = np.random.default_rng((seed, stream))
        try:
            first = find_topology(cluster, demand) if uneven else random_seed(n, degree, links, traffic, rng)
            heads = anneal(table_of(first), traffic, allowed, plan_for(n), seed=int(rng.integers(2**31)), stop=stop)
            yield topology_of(heads, links, "annealed random graph")
        except InfeasibleError:  # no such graph, or in pieces that no traffic joins
            continue
