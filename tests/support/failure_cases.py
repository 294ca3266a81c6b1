"""Plans of circulants and other networks, made by hand for the tests of failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from solvers.failures.job import JobEvaluator
from solvers.failures.repairs import PlanTraffic, Repaired
from solvers.failures.worst import Surviving
from solvers.network.assembly import assemble, link_arcs, ring_arcs
from solvers.network.routes import balanced_routes
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.topology import Topology
from topoopt.core.workload import AllReduceDemand, Demand, GroupRings, Ring, TaskGraph

BIDIRECTIONAL, UNIDIRECTIONAL = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL
MEGABYTE = 1e6


def cluster(n: int, degree: int, links: LinkDirection = BIDIRECTIONAL) -> Cluster:
    """One-GPU servers with links of 8 Gbit/s: 1e6 bytes take 1 ms."""
    return Cluster(n, 1, degree, 8.0, links, hop_latency_us=0.0, ring_round_latency_us=0.0)


def circulant(n: int, distances: Sequence[int], links: LinkDirection = BIDIRECTIONAL, spare: int = 0) -> Topology:
    """Rings of these distances; `spare` more interfaces stay dark."""
    degree = len(distances) * (2 if links is BIDIRECTIONAL else 1) + spare
    return assemble(n, degree, links, [ring_arcs(n, p, links) for p in distances], "test")


def of_links(n: int, degree: int, pairs: Sequence[tuple[int, int]], links: LinkDirection = BIDIRECTIONAL) -> Topology:
    """A topology of listed links."""
    parts = [link_arcs(pairs) if links is BIDIRECTIONAL else np.array(pairs, dtype=np.int64)]
    return assemble(n, degree, links, parts, "test")


def ring(n: int, step: int, share: float) -> Ring:
    """The ring 0, step, 2 step, ... over direct links."""
    order = tuple(i * step % n for i in range(n))
    return Ring(order, share, tuple((v, (v + step) % n) for v in order))


def circulant_rings(n: int, distances: Sequence[int]) -> tuple[GroupRings, ...]:
    """All servers, a ring each way round for every distance, shares alike."""
    steps = [s for p in distances for s in (p, n - p)]
    return (GroupRings(tuple(range(n)), tuple(ring(n, s, 1 / len(steps)) for s in steps)),)


def demand(n: int, payload: float = 0.0, transfers: float = 0.0) -> Demand:
    """An AllReduce of all servers, and the same bytes between all pairs."""
    matrix = np.full((n, n), transfers)
    np.fill_diagonal(matrix, 0.0)
    groups = (AllReduceDemand(tuple(range(n)), payload),) if payload else ()
    return Demand(matrix, groups)


class BusiestLink(JobEvaluator):
    """A job without a task graph: its value is the time that the busiest link carries traffic, added up by hand."""

    def __init__(self, cluster: Cluster, traffic: PlanTraffic, nominal: float | None = None) -> None:
        super().__init__(cluster, traffic, cast(TaskGraph, None), nominal)

    def on(self, traffic: PlanTraffic) -> BusiestLink:
        return BusiestLink(self.cluster, traffic, self.nominal)

    def time_ms(self, surviving: Surviving, plan: Repaired) -> float:
        traffic = PlanTraffic(self.topology, plan.routes, plan.rings, self.traffic.demand)
        used = traffic.loads > 0
        rate = surviving.left[used] * self.cluster.link_bytes_per_ms
        return float((traffic.loads[used] / rate).max(initial=0.0))


def circulant_job(n: int, distances: Sequence[int], payload: float = MEGABYTE, transfers: float = 0.0) -> JobEvaluator:
    """A data-parallel job on a circulant, without a task graph: values are the time of the busiest link."""
    topology = circulant(n, distances)
    asked = demand(n, payload, transfers)
    routes = balanced_routes(topology, asked.model_parallel_bytes if transfers else None)
    traffic = PlanTraffic(topology, routes, circulant_rings(n, distances), asked)
    return BusiestLink(cluster(n, topology.degree), traffic)
