"""TopologyFinder: rings for AllReduce and matchings for model-parallel traffic (Algorithm 1, TopoOpt, NSDI'23)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.network.constructions.assemble import ArcList, assemble, link_arcs, ring_arcs
from solvers.network.constructions.circulant import distances_text
from solvers.network.constructions.degree_split import share_rings, split_degree, traffic_by_size
from solvers.network.constructions.fill import fill_free, match_demand
from solvers.network.constructions.matching import best_permutation
from solvers.network.constructions.selection import Selection, interfaces_of, select_distances
from solvers.network.constructions.totient_perms import check_connectable
from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.process import end_if_left
from topoopt.core.routing import Demand
from topoopt.core.topology import Topology


@dataclass(frozen=True)
class FinderSettings:
    """Choices of the finder.

    Attributes:
        selection: how ring distances are picked.
        model_parallel_degree: interfaces for matchings; None: from the traffic.
        subgroup_rings: rings of their own for AllReduce groups smaller than the cluster.
        seed: of the distance search (`best`).
    """

    selection: Selection = Selection.FLEXNET
    model_parallel_degree: int | None = None
    subgroup_rings: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.model_parallel_degree is not None and self.model_parallel_degree < 0:
            value = str(self.model_parallel_degree)
            raise InputError([Problem("negative", path="model_parallel_degree", value=value, allowed=">= 0 or none")])


def find_topology(cluster: Cluster, demand: Demand, settings: FinderSettings | None = None) -> Topology:
    """A connected topology of the cluster's degree for this demand.

    Every interface is used, except one of the whole cluster when servers x degree is odd and links are bidirectional
    (and one per server when there is a single server).

    Raises:
        InputError: demand of another number of servers, or servers or degree below 1.
        InfeasibleError: one bidirectional interface cannot connect more than two servers.
    """
    settings = settings or FinderSettings()
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    check_connectable(n, degree, links)
    if demand.servers != n:
        raise InputError([Problem("demand is for another cluster", value=f"{demand.servers} servers", allowed=str(n))])
    if n == 1:
        return assemble(1, degree, links, [], "one server")
    split = split_degree(n, degree, links, demand, settings.model_parallel_degree)
    distances = ring_distances(n, split.rings, links, demand, settings)
    return build_topology(cluster, demand, distances, f"totient {settings.selection} {distances_text(distances)}")


def build_topology(cluster: Cluster, demand: Demand, distances: Sequence[int], origin: str) -> Topology:
    """Rings of these distances, and matchings for the model-parallel demand on all interfaces they leave.

    Raises:
        InputError: the rings take more interfaces than there are.
        InfeasibleError: not connected.
    """
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    parts: list[ArcList] = [ring_arcs(n, p, links) for p in distances]
    left = degree - sum(interfaces_of(n, p, links) for p in distances)
    if left > 0:
        weights = demand.model_parallel_bytes
        origin += f" + {left} matching{'s' if left > 1 else ''}"
        parts += _permutations(weights, left) if links is LinkDirection.UNIDIRECTIONAL else [_matchings(weights, left)]
    return assemble(n, degree, links, parts, origin)


def ring_distances(
    n: int, interfaces: int, links: LinkDirection, demand: Demand, settings: FinderSettings
) -> tuple[int, ...]:
    """Distances of the rings on `interfaces` interfaces per server, largest groups first."""
    traffic = traffic_by_size(n, demand) if settings.subgroup_rings else {}
    chosen: list[int] = []
    for size, count in sorted(share_rings(n, interfaces, links, traffic).items(), reverse=True):
        chosen += select_distances(n, size, count, links, settings.selection, fixed=chosen, seed=settings.seed)
    if links is LinkDirection.BIDIRECTIONAL and n % 2 == 0 and float(demand.model_parallel_bytes.sum()) <= 0:
        # Nothing to match for: an odd interface makes the antipodal links, which keep the graph a circulant.
        spare = interfaces - sum(interfaces_of(n, p, links) for p in chosen)
        chosen += [n // 2] * spare
    return tuple(chosen)


def _matchings(weights: Floats, rounds: int) -> ArcList:
    free = np.full(len(weights), rounds, dtype=np.int64)
    chosen = match_demand(weights, free, rounds)
    return link_arcs(fill_free(weights, free, chosen))


def _permutations(demand: Floats, rounds: int) -> list[ArcList]:
    weights = np.array(demand, dtype=np.float64)
    n = len(weights)
    links = np.zeros((n, n), dtype=np.int64)
    tails = np.arange(n, dtype=np.int64)
    parts = []
    for _ in range(rounds):
        end_if_left()
        heads = best_permutation(weights)
        links[tails, heads] += 1
        weights[tails, heads] *= links[tails, heads] / (links[tails, heads] + 1.0)
        parts.append(np.column_stack((tails, heads)))
    return parts
