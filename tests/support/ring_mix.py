"""Check a mix of ring orders with its routing, and the proof of its bound, without a solver.

For any lengths l >= 0 of the arcs, whatever the rings and the routing,

    theta >= (sum_ij D_ij dist_l(i, j) + sum_g V_g ring_l(g)) / sum_a capacity_a l_a

with V_g the bytes each member of group g sends and ring_l(g) the length of the shortest ring through its members, each
step at its distance (weak duality of formulations/allreduce_mix.py: a mix of rings is no shorter than the shortest).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tests.support.least_ring import least_ring_bound
from topoopt.core.errors import InfeasibleError
from topoopt.core.network import SourceFlow
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand
from topoopt.verify.laws.routing import FlowCheck, all_pairs, check_flow, integer_lengths

_UNIT = 2.0**-53

Shares = Sequence[tuple[tuple[int, ...], float]]
"""(order, share) of every ring of a group."""


def certified_mix_bound(
    topology: Topology, demand: Demand, lengths: NDArray[np.float64], link_bytes_per_ms: float = 1.0
) -> float:
    """Bound on theta, ms: the time the busiest link carries traffic, whatever ring orders and routes are chosen.

    Lengths are rounded to integers, so distances and rings are exact; products and one correctly rounded sum in
    float64 err by less than the margin taken off.

    Args:
        lengths: float64[m], of the arcs of the topology.
        link_bytes_per_ms: rate of one link.

    Raises:
        InputError: lengths or demand that do not fit the topology.
        InfeasibleError: demand, or members of a group, that no path joins.
    """
    joined = demand.model_parallel_bytes.copy()
    for group in demand.allreduce:
        members = np.array(group.members)
        joined[np.ix_(members, members)] += group.wire_bytes_per_member
    np.fill_diagonal(joined, 0.0)
    scaled = integer_lengths(topology.servers, lengths)
    distance = all_pairs(topology, scaled)
    if (distance[joined > 0] >= 2**60).any():
        raise InfeasibleError("demand, or members of a group, that no path joins")
    moved = demand.model_parallel_bytes
    terms = (moved[moved > 0] * distance[moved > 0]).tolist()
    for group in demand.allreduce:
        members = np.array(group.members)
        terms.append(group.wire_bytes_per_member * least_ring_bound(distance[np.ix_(members, members)]))
    price = sum(int(c) * int(length) for c, length in zip(topology.multiplicity, scaled, strict=True))
    room = Fraction(price) * Fraction(link_bytes_per_ms)
    return float(math.fsum(terms) / float(room) * (1.0 - 8 * _UNIT))


def check_ring_mix(
    topology: Topology,
    demand: Demand,
    rings: Sequence[Shares],
    flow: SourceFlow,
    link_bytes_per_ms: float = 1.0,
    *,
    tolerance: float = 1e-9,
) -> FlowCheck:
    """Orders visit every member once, shares add up to 1, and the flow carries exactly demand and ring steps.

    Args:
        rings: for each group of the demand.
        flow: bytes of all traffic by source.

    Returns:
        theta in ms, and what is wrong.
    """
    issues = [] if len(rings) == len(demand.allreduce) else [f"{len(rings)} groups of rings, not one per group"]
    total = demand.model_parallel_bytes.copy()
    for number, (group, shares) in enumerate(zip(demand.allreduce, rings, strict=False)):
        amount = sum(share for _, share in shares)
        if not abs(amount - 1.0) <= tolerance or any(not share >= 0 for _, share in shares):
            issues.append(f"group {number}: shares add up to {amount!r}, or one is below 0")
        for order, share in shares:
            if sorted(order) != sorted(group.members):
                issues.append(f"group {number}: order {order} does not visit every member once")
                continue
            for here, there in zip(order, (*order[1:], order[0]), strict=True):
                total[here, there] += share * group.wire_bytes_per_member
    if issues:
        return FlowCheck(math.inf, tuple(issues))
    checked = check_flow(topology, total, flow, tolerance=tolerance)
    return FlowCheck(checked.theta / link_bytes_per_ms, checked.violations)
