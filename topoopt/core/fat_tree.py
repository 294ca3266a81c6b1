"""Counts of switches and cables of three-tier k-ary fat-trees (Al-Fares et al., SIGCOMM 2008)."""

from __future__ import annotations

import math
from dataclasses import dataclass


def fat_tree_arity(servers: int) -> int:
    """Smallest even k with k^3 / 4 >= servers."""
    k = 2
    while k**3 < 4 * servers:
        k += 2
    return k


@dataclass(frozen=True)
class FatTreeCount:
    """A k-ary fat-tree of which only the racks and pods in use are built.

    Attributes:
        arity: k, ports of a switch.
        racks, aggregations, cores: switches of each tier.
        host_cables, rack_cables, core_cables: server to rack, rack to aggregation, aggregation to core.
        rack_uplinks, aggregation_uplinks: of one switch.
    """

    arity: int
    racks: int
    aggregations: int
    cores: int
    host_cables: int
    rack_cables: int
    core_cables: int
    rack_uplinks: int
    aggregation_uplinks: int

    @property
    def switches(self) -> int:
        """Of all tiers."""
        return self.racks + self.aggregations + self.cores


def fat_tree_count(servers: int, rack_ratio: float = 1.0, aggregation_ratio: float = 1.0) -> FatTreeCount:
    """Servers fill racks of k/2 and pods of k/2 racks, in order.

    A rack switch has ceil(k/2 / rack_ratio) uplinks, one to each aggregation switch of its pod; an aggregation switch
    has ceil(k/2 / aggregation_ratio), each to a core of its own; core switch (a, i) joins aggregation switch a of all
    pods. A single rack needs nothing above it, a single pod no core.

    Args:
        servers: n.
        rack_ratio, aggregation_ratio: downlinks over uplinks, at least 1; rounded down to what whole links allow.
    """
    k = fat_tree_arity(servers)
    half = k // 2
    racks = -(-servers // half)
    pods = -(-racks // half)
    rack_uplinks = math.ceil(half / rack_ratio - 1e-9) if racks > 1 else 0
    aggregations = pods * rack_uplinks
    aggregation_uplinks = math.ceil(half / aggregation_ratio - 1e-9) if pods > 1 else 0
    return FatTreeCount(
        arity=k,
        racks=racks,
        aggregations=aggregations,
        cores=rack_uplinks * aggregation_uplinks,
        host_cables=servers,
        rack_cables=racks * rack_uplinks,
        core_cables=aggregations * aggregation_uplinks,
        rack_uplinks=rack_uplinks,
        aggregation_uplinks=aggregation_uplinks,
    )
