"""From a topology to something that can be simulated: routes, rings and the network made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.heuristics.topology import balanced_routes, group_rings
from topoopt.core.cluster import Cluster
from topoopt.core.routing import GroupRings, PathTable
from topoopt.core.topology import Topology
from topoopt.simulate.fabrics.direct_connect import direct_connect_network
from topoopt.simulate.network import Network


@dataclass(frozen=True, eq=False)
class Realisation:
    """A topology with routes for all pairs and rings for some groups."""

    topology: Topology
    routes: PathTable
    rings: tuple[GroupRings, ...]
    network: Network


def realise(
    cluster: Cluster,
    topology: Topology,
    groups: Sequence[tuple[int, ...]],
    *,
    weights: NDArray[np.float64] | None = None,
    paths_per_pair: int = 1,
    rings: tuple[GroupRings, ...] | None = None,
    seed: int = 0,
) -> Realisation:
    """Routes and rings of a topology.

    Args:
        cluster: rates and latencies.
        topology: connected.
        groups: AllReduce groups that need rings.
        weights: float64[n, n], bytes between servers to balance the routes for; None: all pairs alike.
        paths_per_pair: most paths the traffic of a pair is split over.
        rings: use these instead of choosing rings for `groups`.
        seed: of tie-breaks.
    """
    routes = balanced_routes(topology, weights, paths_per_pair=paths_per_pair, seed=seed)
    if rings is None:
        rings = group_rings(topology, groups, max_rings=max(2, topology.degree))
    return Realisation(topology, routes, rings, direct_connect_network(cluster, topology, routes, rings))
