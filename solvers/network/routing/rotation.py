"""The circulant method as a routing method: classes in, the flow of source 0 out, which stands for all."""

from __future__ import annotations

import numpy as np

from solvers.network.routing.circulant import base_flow, classes_of, route_circulant, shift_invariant
from solvers.network.routing.network import RoutingNetwork
from solvers.network.routing.proof import RoutingProof


def rotates(network: RoutingNetwork) -> bool:
    """Whether topology and demand look the same from every server."""
    return classes_of(network.servers, network.tail, network.head, network.capacity) is not None and shift_invariant(
        network.demand
    )


def by_rotation(proof: RoutingProof) -> int:
    """Column generation over class loads, then the flow of source 0, for an `alike` proof; returns the columns."""
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
    row = base_flow(offsets.tolist(), weight, result)[kind, net.tail]
    proof.offer_rough_flow(row[None], proof.lengths)
    return result.routings
