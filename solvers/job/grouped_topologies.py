"""Topologies with most links inside groups of servers and few across, for strategies that have parts of the model on
groups of their own.

Each group is a random regular graph, whose links its AllReduces fill along Hamiltonian cycles; what goes from one part
to the next takes the links across. A circulant of degree 4 is not divided so: each of its two distances is inside or
across.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf, log

import numpy as np

from solvers.job.annealed_topologies import plan_for
from solvers.network.constructions import assign_switches
from solvers.network.constructions.degree_split import coset_size
from solvers.network.search.anneal import anneal
from solvers.network.search.grouped import fits, grouped_links
from solvers.network.search.links import table_of_arcs, topology_of
from solvers.stop import Stop
from topoopt.core.arrays import Bools
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.routing import Demand
from topoopt.core.topology import Topology

SMALLEST_GROUP = 4
"""Below, a group has no room for a cycle and for links beside it."""

TRIED = 2
"""Numbers of links across, those of least estimate."""


def grouped_topologies(
    cluster: Cluster, demand: Demand, *, count: int, seed: int, stop: Stop | None = None
) -> Iterator[Topology]:
    """At most `TRIED` connected topologies for each of `count` random graphs; none where links are unidirectional, no
    AllReduce runs in groups of equally spaced servers, or no links would be left across.

    Args:
        cluster: of n servers.
        demand: of n servers.
        count: of random graphs.
        seed: of the graphs and of their annealing on the hops of the model-parallel traffic.
        stop: looked at between pieces of an annealing.
    """
    degree, traffic = cluster.degree, demand.model_parallel_bytes
    size = busiest_size(demand)
    if cluster.links is not LinkDirection.BIDIRECTIONAL or size is None or not traffic.any():
        return
    for across in list(links_across(demand, size, degree))[:TRIED]:
        for stream in range(count):
            try:
                yield _annealed(cluster, demand, size, across, np.random.default_rng((seed, stream, across)), stop)
            except InfeasibleError:  # no such graph, or in pieces
                continue


def busiest_size(demand: Demand) -> int | None:
    """Servers of the equally spaced groups, of all sizes but all servers, that reduce most bytes; None if none do."""
    n = demand.servers
    reduced: dict[int, float] = {}
    for each in demand.allreduce:
        size = coset_size(n, each.members)
        if size is not None and SMALLEST_GROUP <= size < n:
            reduced[size] = reduced.get(size, 0.0) + size * each.wire_bytes_per_member
    return max(reduced, key=lambda size: (reduced[size], size), default=None)


def links_across(demand: Demand, size: int, degree: int) -> dict[int, float]:
    """Numbers of links of a server to other groups, those first with which the fullest links have least to carry, each
    with an estimate of that, bytes: inside groups AllReduces and transfers, over as many hops as a random graph has;
    across what goes from group to group.

    Two links or more stay inside, for a cycle both ways.
    """
    n, traffic, reduced = demand.servers, demand.model_parallel_bytes, np.zeros(demand.servers)
    for each in demand.allreduce:
        reduced[list(each.members)] += each.wire_bytes_per_member
    crossing, sent = float(traffic[~_same_group(n, size)].sum()) / n, float(traffic.sum()) / n
    loads = {}
    for across in range(1, degree - 1):
        inside = degree - across
        if fits(n, size, across, degree):
            hops = max(1.0, log(size) / log(max(2, inside - 1)))
            loads[across] = max((float(reduced.max()) + hops * sent) / inside, crossing / across)
    return dict(sorted(loads.items(), key=lambda entry: entry[1]))


def grouped_ms(cluster: Cluster, demand: Demand) -> float:
    """Estimate of the time that links are busy, ms, on the best of such topologies; infinite where there are none."""
    size = busiest_size(demand)
    if cluster.links is not LinkDirection.BIDIRECTIONAL or size is None:
        return inf
    return min(links_across(demand, size, cluster.degree).values(), default=inf) / cluster.link_bytes_per_ms


def _annealed(
    cluster: Cluster, demand: Demand, size: int, across: int, rng: np.random.Generator, stop: Stop | None
) -> Topology:
    """Random links, exchanged within groups and across; within groups not where that may break cycles."""
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    inside = degree - across
    origin = f"annealed random graphs of {size} servers, {across} of {degree} links across"
    first = grouped_links(demand.model_parallel_bytes, size, inside, across, rng)
    kept = inside == 2 or inside % 2 == 1
    same = _same_group(n, size)
    heads = anneal(
        table_of_arcs(n, degree, links, np.vstack((first.inside, first.across))),
        demand.model_parallel_bytes,
        ~same if kept else ~np.eye(n, dtype=np.bool_),
        plan_for(n),
        group=np.arange(n, dtype=np.int64) % (n // size),
        seed=int(rng.integers(2**31)),
        stop=stop,
    )
    made = topology_of(heads, links, origin)
    if not len(first.matched):
        return made
    crossing = ~same[made.arcs[:, 0], made.arcs[:, 1]]
    others = assign_switches(n, across, made.arcs[crossing], made.multiplicity[crossing], duplex=True)
    return replace(made, switches=np.vstack((first.matched, others)))


def _same_group(n: int, size: int) -> Bools:
    group = np.arange(n) % (n // size)
    return np.equal.outer(group, group)
