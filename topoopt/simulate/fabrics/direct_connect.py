"""Direct connect: servers patched to each other by optical switches, servers forward for each other (the plan's)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.cluster import Cluster
from topoopt.core.collective import GroupSchedule
from topoopt.core.plan import Plan
from topoopt.core.routing import GroupRings, PathTable
from topoopt.core.topology import Topology
from topoopt.simulate.fabrics.options import US_PER_MS
from topoopt.simulate.network import Network, compile_network


def direct_connect_network(
    cluster: Cluster,
    topology: Topology,
    routes: PathTable,
    rings: Sequence[GroupRings],
    schedules: Sequence[GroupSchedule] = (),
) -> Network:
    """The network of the parts of a plan: an arc of k parallel links has k times the rate of an interface.

    Raises:
        ValueError: a path crosses two servers that are not joined.
    """
    return compile_network(
        servers=cluster.servers,
        link_ends=topology.arcs.astype(np.int32),
        link_rate=topology.multiplicity.astype(np.float64) * cluster.link_bytes_per_ms,
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=cluster.ring_round_latency_us / US_PER_MS,
        routes=routes,
        rings=tuple(rings),
        schedules=schedules,
        link_sharing=cluster.link_sharing,
    )


def plan_network(cluster: Cluster, plan: Plan) -> Network:
    """The network of a plan."""
    return direct_connect_network(cluster, plan.topology, plan.routes, plan.rings, plan.schedules)
