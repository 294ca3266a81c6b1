"""From a topology to something that can be simulated: routes, rings and the network made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.job.mix_result import RingMix
from solvers.job.mixed_rings import mixed_rings, mixed_routes, paths_of_flow
from solvers.network.constructions import balanced_routes, group_rings, split_routes_lp
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.demand import Demand
from topoopt.core.group_schedule import GroupSchedule
from topoopt.core.routing import GroupRings, PathTable
from topoopt.core.topology import Topology
from topoopt.simulate.fabrics.direct_connect import direct_connect_network
from topoopt.simulate.network import Network

LP_SERVERS = 32
"""Up to so many servers the shares of k shortest paths are also found by a linear program."""


@dataclass(frozen=True, eq=False)
class Realisation:
    """A topology with routes for all pairs and rings for some groups.

    Attributes:
        topology, routes, rings: as in a plan.
        network: made of them.
        tailored: rings or routes were made for one demand.
        schedules: for AllReduces that do not run on the rings, likewise.
    """

    topology: Topology
    routes: PathTable
    rings: tuple[GroupRings, ...]
    network: Network
    tailored: bool = False
    schedules: tuple[GroupSchedule, ...] = ()


def with_schedules(cluster: Cluster, base: Realisation, schedules: tuple[GroupSchedule, ...]) -> Realisation:
    """The same with AllReduces on these schedules, where they cover them."""
    network = direct_connect_network(cluster, base.topology, base.routes, base.rings, schedules)
    return replace(base, network=network, schedules=schedules)


def realise(cluster: Cluster, topology: Topology, groups: Sequence[tuple[int, ...]], *, seed: int = 0) -> Realisation:
    """Routes of all pairs, balanced for uniform traffic, and rings for the groups given, on a connected topology."""
    rings = group_rings(topology, groups, max_rings=max(2, topology.degree))
    return _assembled(cluster, topology, balanced_routes(topology, seed=seed), rings)


def demand_routed(cluster: Cluster, base: Realisation, weights: Floats, *, seed: int = 0) -> Iterator[Realisation]:
    """The same topology and rings with routes balanced for given traffic: by balancing whole or split paths, by LP.

    Args:
        cluster: rates and latencies.
        base: what to route anew.
        weights: float64[n, n], bytes between servers; nothing is yielded if all are zero.
        seed: of tie-breaks.
    """
    if not weights.any():
        return
    for paths_per_pair in (1, 2, 4):
        routes = balanced_routes(base.topology, weights, paths_per_pair=paths_per_pair, seed=seed)
        yield _assembled(cluster, base.topology, routes, base.rings)
    if base.topology.servers <= LP_SERVERS:
        yield _assembled(cluster, base.topology, split_routes_lp(base.topology, weights, seed=seed), base.rings)


def mix_realised(cluster: Cluster, base: Realisation, demand: Demand, mix: RingMix) -> Iterator[Realisation]:
    """The same topology with what a ring mix says: rings and routes, rings alone, routes alone.

    Args:
        cluster: rates and latencies.
        base: on the topology of the mix, with rings of all groups of the demand.
        demand: that was mixed.
        mix: orders, shares and flow.
    """
    paths = paths_of_flow(mix)
    known = mixed_rings(mix, demand, paths)
    rings = tuple(known.get(group.members, group) for group in base.rings)
    served = demand.model_parallel_bytes > 0
    routes = mixed_routes(base.routes, {pair: path for pair, path in paths.items() if served[pair]})
    choices = [(routes, rings), (base.routes, rings)] if demand.allreduce else []
    choices += [(routes, base.rings)] if served.any() else []
    for chosen_routes, chosen_rings in choices:
        yield replace(_assembled(cluster, base.topology, chosen_routes, chosen_rings), tailored=True)


def with_rings_for(
    cluster: Cluster, base: Realisation, groups: Sequence[tuple[int, ...]], *, seed: int = 0
) -> Realisation:
    """The same topology, routes and rings, and rings for the other groups as well."""
    known = {group.members: group for group in base.rings}
    missing = [group for group in groups if group not in known]
    made = group_rings(base.topology, missing, max_rings=max(2, base.topology.degree), seed=seed)
    known |= {group.members: group for group in made}
    return replace(
        _assembled(cluster, base.topology, base.routes, tuple(known[group] for group in groups)), tailored=True
    )


def _assembled(cluster: Cluster, topology: Topology, routes: PathTable, rings: tuple[GroupRings, ...]) -> Realisation:
    return Realisation(topology, routes, rings, direct_connect_network(cluster, topology, routes, rings))


def routes_of_pairs(routes: PathTable, wanted: Bools) -> PathTable:
    """The routes of the ordered pairs (i, j) with wanted[i, j] only."""
    pairs = np.flatnonzero(wanted[routes.source, routes.target])
    paths = _ranges(routes.pair_ptr, pairs)
    return PathTable(
        nodes_total=routes.nodes_total,
        source=routes.source[pairs],
        target=routes.target[pairs],
        pair_ptr=_starts(np.diff(routes.pair_ptr)[pairs]),
        share=routes.share[paths],
        path_ptr=_starts(np.diff(routes.path_ptr)[paths]),
        node=routes.node[_ranges(routes.path_ptr, paths)],
    )


def _starts(lengths: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _ranges(ptr: Ints, rows: Ints) -> Ints:
    """Concatenated ranges ptr[r]..ptr[r+1] of the rows."""
    lengths = np.diff(ptr)[rows]
    return np.repeat(ptr[rows] - _starts(lengths)[:-1], lengths) + np.arange(int(lengths.sum()))
