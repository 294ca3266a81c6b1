"""Regional circuits: some interfaces of a server on the optical switch of its region, the others on a network above.

A region is the servers that exchange tokens. Only these tokens use circuits; all else, and tokens of pairs without
one, go over the switch of the others (Liao et al., MixNet, SIGCOMM 2025, arXiv:2501.03905). Circuits are those that
carry a uniform exchange first; two networks: pairs use circuits alone, or the other interfaces as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from solvers.regional_circuits.matching import matched
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import Problem
from topoopt.core.llm_training import GpuCluster
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.routing import PathTable
from topoopt.simulate.llm_training.network.graphs import star
from topoopt.simulate.llm_training.network.groups import FamilyGroups
from topoopt.simulate.llm_training.network.links import LinkGraph, Rails, exchange_flows
from topoopt.simulate.llm_training.network.routing import path_table
from topoopt.simulate.regional.transfer_time import RegionTraffic

MOST_REGION = 128
"""Servers of a region; larger ones get no circuits."""

Circuits = dict[tuple[int, int], tuple[int, float]]
"""Circuits of a pair of servers, the smaller number first, and the part of what they send that goes over them."""


def regional_problems(cluster: GpuCluster) -> list[Problem]:
    """Interfaces on both networks."""
    if 0 < cluster.optical_interfaces < cluster.degree:
        return []
    allowed = f"cluster.optical_interfaces of 1 to {cluster.degree - 1}" if cluster.degree > 1 else "degree above 1"
    return [Problem("no interfaces on an optical switch", value=str(cluster.optical_interfaces), allowed=allowed)]


def regional_networks(cluster: GpuCluster, groups: FamilyGroups) -> Iterator[tuple[LinkGraph, PathTable]]:
    """Links with circuits, and routes of tokens."""
    classes = groups.collectives.get(F.EXPERT, ())
    n = cluster.servers
    flows = exchange_flows(classes, np.arange(n)) if classes else None
    demand = np.zeros((n, n))
    if flows is not None:
        np.add.at(demand, (flows.source, flows.target), flows.amount)
    for split in (False, True) if classes else (False,):
        circuits = _circuits(cluster, demand, split=split)
        yield _graph(cluster, circuits), _routes(n, demand, circuits)


def _circuits(cluster: GpuCluster, demand: Floats, *, split: bool) -> Circuits:
    """Of all regions, each by itself."""
    found: Circuits = {}
    count, region = connected_components(csr_array(demand), directed=False)
    for one in range(count):
        servers = np.flatnonzero(region == one)
        if not 1 < len(servers) <= MOST_REGION:
            continue
        own = demand[np.ix_(servers, servers)] / demand.max()
        ends, circuits, parts = _matched(own.tobytes(), len(servers), cluster.optical_interfaces, cluster.degree, split)
        for (i, j), number, part in zip(ends, circuits, parts, strict=True):
            if number:
                found[int(servers[i]), int(servers[j])] = number, part
    return found


@cache
def _matched(
    demand: bytes, servers: int, optical: int, degree: int, split: bool
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...], tuple[float, ...]]:
    """Pairs, circuits, and parts of traffic over them; regions of a strategy are alike."""
    matrix = np.frombuffer(demand).reshape(servers, servers)
    ports = (optical,) * servers
    problem = RegionalCircuitsProblem("region", servers, ports, 1.0, float(degree - optical), matrix[None], split)
    traffic = RegionTraffic.of(problem, matrix)
    best, _ = matched(traffic, Stop(), programs=False)
    over = 1.0 if not split else np.minimum(1.0, best.circuits * best.seconds / traffic.larger)
    return problem.pairs, tuple(best.circuits.tolist()), tuple(np.broadcast_to(over, best.circuits.shape).tolist())


def _graph(cluster: GpuCluster, circuits: Circuits) -> LinkGraph:
    """The other interfaces on node n, and circuits both ways."""
    hub = star(cluster, Rails.NONE)
    pairs = np.array([(i, j, count) for (i, j), (count, _) in sorted(circuits.items())], dtype=np.int64).reshape(-1, 3)
    electrical = np.full(len(hub.tail), cluster.degree - cluster.optical_interfaces)
    return LinkGraph(
        servers=hub.servers,
        nodes=hub.nodes,
        tail=np.concatenate([hub.tail, pairs[:, 0], pairs[:, 1]]),
        head=np.concatenate([hub.head, pairs[:, 1], pairs[:, 0]]),
        parallel=np.concatenate([electrical, pairs[:, 2], pairs[:, 2]]),
        link_gbps=cluster.link_gbps,
    )


def _routes(servers: int, demand: Floats, circuits: Circuits) -> PathTable:
    """Of tokens: over circuits, over node n, or both."""
    source, target = (side.astype(np.int64) for side in np.nonzero(demand))
    ends = zip(source.tolist(), target.tolist(), strict=True)
    part = np.array([circuits.get((min(one), max(one)), (0, 0.0))[1] for one in ends])
    straight, above = np.flatnonzero(part > 0), np.flatnonzero(part < 1)
    hub: Ints = np.full(len(above), servers)
    return path_table(
        servers + 1,
        source,
        target,
        [
            (straight, np.stack([source[straight], target[straight]], axis=1), part[straight]),
            (above, np.stack([source[above], hub, target[above]], axis=1), 1.0 - part[above]),
        ],
    )
