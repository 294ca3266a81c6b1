"""Traffic that demand, routes and rings put on the links, by counting: no clock, no simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.routing import Demand, GroupRings, PathTable, TrafficFigures, ring_pair_bytes
from topoopt.core.topology import Topology


def model_parallel_arc_bytes(demand: Demand, topology: Topology, routes: PathTable) -> Floats:
    """float64[m]: bytes each arc carries for others and for itself.

    Raises:
        ValueError: a pair with demand has no route.
    """
    matrix = demand.model_parallel_bytes
    routed = np.zeros(matrix.shape, dtype=bool)
    routed[routes.source, routes.target] = np.diff(routes.pair_ptr) > 0
    if (matrix[~routed] > 0).any():
        raise ValueError("a pair of servers with demand has no route")
    carried = _path_bytes(demand, routes)
    hops = np.diff(routes.path_ptr) - 1
    inner = np.ones(max(len(routes.node) - 1, 0), dtype=bool)
    inner[routes.path_ptr[1:-1] - 1] = False
    arcs = topology.arc_ids()[routes.node[:-1], routes.node[1:]][inner]
    return np.bincount(arcs, weights=np.repeat(carried, hops), minlength=len(topology.arcs)).astype(np.float64)


def _path_bytes(demand: Demand, routes: PathTable) -> Floats:
    pair = np.repeat(np.arange(len(routes.source)), np.diff(routes.pair_ptr))
    sent: Floats = demand.model_parallel_bytes[routes.source, routes.target][pair] * routes.share
    return sent


def allreduce_arc_bytes(demand: Demand, topology: Topology, rings: Sequence[GroupRings]) -> Floats:
    """float64[m]: every member of a group of k sends 2 (k-1)/k of the payload, split over its rings.

    Raises:
        KeyError: a group has no rings.
    """
    arcs = topology.arc_ids()
    total = np.zeros(len(topology.arcs))
    known = {group.members: group.rings for group in rings}
    for wanted in demand.allreduce:
        if wanted.wire_bytes_per_member == 0:
            continue
        for ring in known[wanted.members]:
            tail = np.concatenate([path[:-1] for path in ring.paths])
            head = np.concatenate([path[1:] for path in ring.paths])
            np.add.at(total, arcs[tail, head], wanted.wire_bytes_per_member * ring.share)
    return total


def traffic_figures(
    name: str, plan: str, demand: Demand, topology: Topology, routes: PathTable, rings: Sequence[GroupRings]
) -> TrafficFigures:
    """Bandwidth tax, path lengths and link loads of a demand on a network."""
    hops = np.diff(routes.path_ptr) - 1
    sent = np.bincount(hops, weights=_path_bytes(demand, routes))
    pairs = np.bincount(hops, weights=routes.share)
    parallel = topology.multiplicity

    def each(arc_bytes: Floats) -> Floats:
        return np.repeat(arc_bytes / parallel, parallel)

    return TrafficFigures(
        name=name,
        plan=plan,
        servers=topology.servers,
        degree=topology.degree,
        allreduce_bytes=demand.allreduce_wire_bytes,
        model_parallel_bytes=float(demand.model_parallel_bytes.sum()),
        allreduce_link_bytes=each(allreduce_arc_bytes(demand, topology, rings)),
        model_parallel_link_bytes=each(model_parallel_arc_bytes(demand, topology, routes)),
        byte_hops=sent / sent.sum() if sent.sum() > 0 else np.zeros(0),
        pair_hops=pairs / pairs.sum() if pairs.sum() > 0 else np.zeros(0),
        pair_bytes=ring_pair_bytes(demand, rings, topology.servers) + demand.model_parallel_bytes,
    )
