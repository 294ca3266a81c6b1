"""The circulant method as a routing method: classes in, flows of all sources out."""

from __future__ import annotations

import numpy as np

from solvers.network.routing.circulant import base_flow, classes_of, route_circulant, shift_invariant
from solvers.network.routing.network import RoutingNetwork
from solvers.network.routing.proof import RoutingProof
from topoopt.core.arrays import Floats
from topoopt.core.leaving import end_if_left


def rotates(network: RoutingNetwork) -> bool:
    """Whether topology and demand look the same from every server."""
    return classes_of(network.servers, network.tail, network.head, network.capacity) is not None and shift_invariant(
        network.demand
    )


def by_rotation(proof: RoutingProof) -> int:
    """Column generation over class loads, then the flow of source 0 turned to every source; returns the columns."""
    net = proof.network
    classes = classes_of(net.servers, net.tail, net.head, net.capacity)
    assert classes is not None
    offsets, width = classes
    accuracy = min(proof.accuracy, 1e-8)
    weight = net.demand[0]
    result = route_circulant(
        offsets.tolist(), weight, capacity=width.tolist(), accuracy=accuracy, time_limit_s=proof.time_left_s
    )
    kind = np.searchsorted(offsets, (net.head - net.tail) % net.servers)
    proof.offer_lengths(result.lengths[kind])
    n = net.servers

    def turned(row: Floats) -> Floats:
        by_class = np.empty((len(offsets), n))
        by_class[kind, net.tail] = row
        twice = np.hstack((by_class, by_class)).ravel()
        seen = 2 * n * kind + n + net.tail  # from source 0; from source s, the tail stands s places before
        flow = np.empty((n, len(row)))
        for source in range(n):
            end_if_left()
            np.take(twice, seen - source, out=flow[source])
        return flow

    proof.offer_turned(base_flow(offsets.tolist(), weight, result)[kind, net.tail], turned)
    return result.routings
