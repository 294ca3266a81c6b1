"""From a topology to something that can be simulated: routes, rings and the network made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.job.mix_result import RingMix
from solvers.job.mixed_rings import mixed_rings, mixed_routes, paths_of_flow
from solvers.job.sizes import ALL_PAIRS_SERVERS
from solvers.network.constructions import balanced_routes, group_rings, split_routes_lp
from solvers.network.constructions.graph import arc_graph
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.collective import GroupSchedule
from topoopt.core.routing import Demand, GroupRings, PathTable
from topoopt.core.topology import Topology
from topoopt.simulate.fabrics.direct_connect import direct_connect_network
from topoopt.simulate.network import Network

LP_SERVERS = 32
"""Up to so many servers the shares of k shortest paths are also found by a linear program."""

MOST_HOPS = 24_000_000
"""Hops of the paths that are balanced at once on larger clusters: each takes some 40 bytes, and links that fit a few
transfers can leave a hundred hops from server to server."""


@dataclass(frozen=True, eq=False)
class Realisation:
    """A topology with routes for all pairs and rings for some groups.

    Attributes:
        topology, routes, rings: as in a plan.
        network: made of them.
        tailored: rings or routes were made for one demand.
        schedules: for AllReduces that do not run on the rings, likewise.
        partial: the routes are of the pairs of one demand only.
    """

    topology: Topology
    routes: PathTable
    rings: tuple[GroupRings, ...]
    network: Network
    tailored: bool = False
    schedules: tuple[GroupSchedule, ...] = ()
    partial: bool = False


def with_schedules(cluster: Cluster, base: Realisation, schedules: tuple[GroupSchedule, ...]) -> Realisation:
    """The same with AllReduces on these schedules, where they cover them."""
    network = direct_connect_network(cluster, base.topology, base.routes, base.rings, schedules)
    return replace(base, network=network, schedules=schedules)


def realise(
    cluster: Cluster,
    topology: Topology,
    groups: Sequence[tuple[int, ...]],
    *,
    seed: int = 0,
    pairs: Bools | None = None,
) -> Realisation:
    """Routes of all pairs, balanced for uniform traffic, and rings for the groups given, on a connected topology.

    Args:
        cluster: rates and latencies.
        topology: connected.
        groups: two servers or more each.
        seed: of tie-breaks.
        pairs: bool[n, n], those that are routed; None: all.
    """
    rings = group_rings(topology, groups, max_rings=max(2, topology.degree))
    made = _assembled(cluster, topology, balanced_routes(topology, seed=seed, pairs=pairs), rings)
    return made if pairs is None else replace(made, partial=True)


def without_idle_routes(cluster: Cluster, base: Realisation, demand: Demand) -> Realisation:
    """The same, on large clusters with no other routes than those of the demand."""
    pairs = pairs_routed(demand)
    if pairs is None or base.tailored:
        return base
    routes = routes_of_pairs(base.routes, pairs)
    return replace(_assembled(cluster, base.topology, routes, base.rings), partial=True)


def pairs_routed(demand: Demand) -> Bools | None:
    """bool[n, n], the pairs that candidates have routes for: those with traffic on large clusters; None: all."""
    traffic = demand.model_parallel_bytes
    return None if demand.servers <= ALL_PAIRS_SERVERS else traffic > 0


def too_long(topology: Topology, pairs: Bools | None, paths_per_pair: int = 1) -> bool:
    """Whether the cluster is large and shortest paths of the pairs, None: of all, have more than `MOST_HOPS` hops."""
    if topology.servers <= ALL_PAIRS_SERVERS:
        return False
    hops = arc_graph(topology).hops_to
    return paths_per_pair * int((hops if pairs is None else hops.T[pairs]).sum()) > MOST_HOPS


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
    # Above, all pairs have routes in no plan, and would take gigabytes.
    large = base.topology.servers > ALL_PAIRS_SERVERS
    pairs = weights > 0 if large else None
    for paths_per_pair in (1, 2, 4):
        if paths_per_pair > 1 and too_long(base.topology, pairs, paths_per_pair):
            break
        routes = balanced_routes(base.topology, weights, paths_per_pair=paths_per_pair, seed=seed, pairs=pairs)
        yield replace(_assembled(cluster, base.topology, routes, base.rings), partial=large)
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


def with_rings(cluster: Cluster, base: Realisation, rings: tuple[GroupRings, ...]) -> Realisation:
    """The same topology and routes with these rings."""
    return replace(_assembled(cluster, base.topology, base.routes, rings), tailored=True)


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


def extends(whole: Realisation, part: Realisation) -> bool:
    """Whether one realisation of a topology has all routes and rings of another, so that a job that needs no more than
    these takes as long on it."""
    wanted = np.zeros((part.topology.servers,) * 2, dtype=np.bool_)
    wanted[part.routes.source, part.routes.target] = True
    routes, known = routes_of_pairs(whole.routes, wanted), {group.members: group for group in whole.rings}
    return all(known.get(group.members) == group for group in part.rings) and all(
        np.array_equal(getattr(routes, name), getattr(part.routes, name))
        for name in ("source", "target", "pair_ptr", "share", "path_ptr", "node")
    )


def _starts(lengths: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _ranges(ptr: Ints, rows: Ints) -> Ints:
    """Concatenated ranges ptr[r]..ptr[r+1] of the rows."""
    lengths = np.diff(ptr)[rows]
    return np.repeat(ptr[rows] - _starts(lengths)[:-1], lengths) + np.arange(int(lengths.sum()))
