"""How many interfaces go to AllReduce rings, how many to model-parallel matchings, and rings to each group size.

Algorithm 1 of the TopoOpt paper: d_A = max(1, ceil(d * AllReduce / all)) interfaces, the rest to matchings; the rings
shared among the group sizes in proportion to their traffic. One ring over all servers always stands, so that everybody
is reachable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from topoopt.core.cluster import LinkDirection
from topoopt.core.routing import Demand


@dataclass(frozen=True)
class DegreeSplit:
    """Interfaces of each server for rings and for matchings; they sum to the degree."""

    rings: int
    matchings: int


def split_degree(
    servers: int, degree: int, links: LinkDirection, demand: Demand, model_parallel_degree: int | None = None
) -> DegreeSplit:
    """Interfaces for AllReduce and for model-parallel traffic.

    A bidirectional ring takes two interfaces, so d_A is rounded up to an even number. `model_parallel_degree` forces
    d_MP, as far as one ring over all servers still fits.
    """
    least = 2 if links is LinkDirection.BIDIRECTIONAL and servers > 2 else 1
    unit = least
    if model_parallel_degree is None:
        ring_bytes = demand.allreduce_wire_bytes
        transfer_bytes = float(demand.model_parallel_bytes.sum())
        total = ring_bytes + transfer_bytes
        wanted = max(1, ceil(degree * ring_bytes / total - 1e-9)) if total > 0 else degree
        rings = -(-wanted // unit) * unit
        if transfer_bytes <= 0:
            rings = degree
        elif rings > degree:  # odd degree: the last interface cannot make a ring
            rings = degree - 1
    else:
        rings = degree - model_parallel_degree
    rings = min(max(rings, least), degree)
    return DegreeSplit(rings=rings, matchings=degree - rings)


def coset_size(n: int, members: tuple[int, ...]) -> int | None:
    """Size of the group when it is a coset of a subgroup of Z_n (equally spaced servers), else None."""
    size = len(members)
    if size < 2 or n % size:
        return None
    ordered = sorted(members)
    step = n // size
    return size if all(ordered[i] == ordered[0] + i * step for i in range(size)) else None


def traffic_by_size(n: int, demand: Demand) -> dict[int, float]:
    """AllReduce wire bytes per ring size; groups that are not equally spaced count for the ring over all servers."""
    traffic: dict[int, float] = {}
    for group in demand.allreduce:
        size = coset_size(n, group.members) or n
        traffic[size] = traffic.get(size, 0.0) + len(group.members) * group.wire_bytes_per_member
    return traffic


def share_rings(n: int, interfaces: int, links: LinkDirection, traffic: Mapping[int, float]) -> dict[int, int]:
    """Rings (distances) per group size, in proportion to traffic, within `interfaces` per server.

    One ring over all n servers comes first. Each further one goes to the size whose traffic per interface it has is
    largest (highest averages, so no share is rounded away). The distance n/2 of pairs takes one interface.
    """

    def price(size: int) -> int:
        return 1 if links is LinkDirection.UNIDIRECTIONAL or size == 2 else 2

    rings = {n: 1}
    left = interfaces - price(n)
    sizes = sorted({n, *(size for size, amount in traffic.items() if amount > 0)}, reverse=True)
    while True:
        fitting = [size for size in sizes if price(size) <= left]
        if not fitting:
            return rings
        wanted = max(fitting, key=lambda size: traffic.get(size, 0.0) / (price(size) * (rings.get(size, 0) + 1)))
        rings[wanted] = rings.get(wanted, 0) + 1
        left -= price(wanted)
