"""Checking a plan against its cluster and workload, and recomputing its figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.plan import Plan
from topoopt.core.workload import Workload
from topoopt.verify.job.parts import Parts, check_strategy
from topoopt.verify.job.rings import RingHops, check_rings
from topoopt.verify.job.routes import Hops, check_routes
from topoopt.verify.job.traffic import Traffic, recompute_traffic
from topoopt.verify.laws.findings import Violation, ViolationLog
from topoopt.verify.laws.schedules import ScheduleLoads, check_schedules
from topoopt.verify.laws.topology import check_topology


@dataclass(frozen=True, eq=False)
class PlanFigures:
    """Figures of a plan, recomputed from its parts alone.

    Attributes:
        model_parallel_bytes: float64[n, n], bytes i -> j.
        allreduce_bytes: sorted members -> payload.
        link_bytes: float64[n, n], bytes carried by the links i -> j.
        link_messages: int64[n, n], how many transfers and AllReduces make them up (each may be rounded to bytes).
    """

    model_parallel_bytes: Floats
    allreduce_bytes: dict[tuple[int, ...], int]
    link_bytes: Floats
    link_messages: Ints


@dataclass
class Inspection:
    """What a check found out on its way; None where the plan was too broken to tell."""

    parts: tuple[Parts, ...] | None = None
    traffic: Traffic | None = None
    links: Ints | None = None
    hops: Hops | None = None
    ring_hops: tuple[RingHops, ...] = ()
    schedules: tuple[ScheduleLoads, ...] = ()

    def schedule_of(self, members: tuple[int, ...], payload: int) -> ScheduleLoads | None:
        """The schedule of an AllReduce, whose members are in ascending order; None: it runs on rings."""
        return next((one for one in self.schedules if one.covers(members, payload)), None)

    def ring_payload(self) -> dict[tuple[int, ...], int] | None:
        """Sorted members -> payload of their AllReduces on rings; None where the traffic is not known."""
        if self.traffic is None:
            return None
        payload: dict[tuple[int, ...], int] = {}
        for reduction in self.traffic.reductions:
            members = tuple(sorted(reduction.members))
            on_wire = len(members) > 1 and reduction.payload_bytes > 0
            if on_wire and self.schedule_of(members, reduction.payload_bytes) is None:
                payload[members] = payload.get(members, 0) + reduction.payload_bytes
        return payload


def inspect_plan(findings: ViolationLog, cluster: Cluster, workload: Workload, plan: Plan) -> Inspection:
    """Report everything wrong with the plan."""
    seen = Inspection()

    def strategy() -> None:
        seen.parts = check_strategy(findings, cluster, workload, plan.strategy)
        if seen.parts is not None:
            seen.traffic = recompute_traffic(cluster, workload, seen.parts)

    def topology() -> None:
        seen.links = check_topology(findings, cluster, plan.topology)

    findings.guard("strategy-shape", "the strategy", strategy)
    findings.guard("topology-cluster", "the topology", topology)
    links = np.zeros((cluster.servers, cluster.servers), dtype=np.int64) if seen.links is None else seen.links
    matrix = None if seen.traffic is None else seen.traffic.matrix

    def routes() -> None:
        seen.hops = check_routes(findings, plan.routes, links, matrix)

    def schedules() -> None:
        seen.schedules = check_schedules(findings, plan.schedules, links)

    def rings() -> None:
        seen.ring_hops = check_rings(findings, plan.rings, links, seen.ring_payload())

    findings.guard("route-shape", "the route table", routes)
    findings.guard("schedule-shape", "the schedules", schedules)
    findings.guard("ring-shape", "the rings", rings)
    return seen


def check_plan(cluster: Cluster, workload: Workload, plan: Plan) -> tuple[Violation, ...]:
    """All laws the plan breaks; empty for a plan that can be patched, routed and run.

    Never raises, whatever stands in the plan. Cluster and workload are taken as valid.
    """
    findings = ViolationLog()
    inspect_plan(findings, cluster, workload, plan)
    return findings.violations()


def figures_of(cluster: Cluster, seen: Inspection) -> PlanFigures | None:
    """Figures of an inspected plan; None if part of it could not be read."""
    if seen.traffic is None or seen.links is None or seen.hops is None:
        return None
    n = cluster.servers
    traffic, hops = seen.traffic, seen.hops
    carried = np.zeros(n * n, dtype=np.float64)
    messages = np.zeros(n * n, dtype=np.int64)
    hops.add_to(carried, traffic.matrix.ravel(), shared=True)
    hops.add_to(messages, traffic.transfers.ravel(), shared=False)
    _add_allreduces(seen, carried, messages)
    return PlanFigures(
        model_parallel_bytes=traffic.matrix,
        allreduce_bytes=dict(traffic.payload_bytes),
        link_bytes=carried.reshape(n, n),
        link_messages=messages.reshape(n, n),
    )


def _add_allreduces(seen: Inspection, carried: Floats, messages: Ints) -> None:
    """Add what AllReduces put on the links, float64[n n] bytes and int64[n n] messages, on rings and on schedules."""
    if seen.traffic is None or seen.links is None:
        return
    n, tensors = len(seen.links), dict[tuple[int, ...], int]()
    for reduction in seen.traffic.reductions:
        members = tuple(sorted(reduction.members))
        one = seen.schedule_of(members, reduction.payload_bytes)
        if one is None:
            tensors[members] = tensors.get(members, 0) + 1
            continue
        slot = one.arcs[:, 0] * n + one.arcs[:, 1]
        carried[slot] += one.units.sum(axis=(0, 1)) / one.total * reduction.payload_bytes
        messages[slot] += 1
    on_rings = seen.ring_payload() or {}
    for ring in seen.ring_hops:
        k, payload = len(ring.members), on_rings.get(ring.members, 0)
        if payload:
            slots = np.array(ring.tail, dtype=np.int64) * n + np.array(ring.head, dtype=np.int64)
            slot, crossings = np.unique(slots, return_counts=True)
            carried[slot] += crossings * (ring.share * 2.0 * (k - 1) / k * payload)
            messages[slot] += crossings * tensors[ring.members]


def plan_figures(cluster: Cluster, workload: Workload, plan: Plan) -> PlanFigures | None:
    """Demand and link loads of a plan; None if the plan is too broken to compute them."""
    return figures_of(cluster, inspect_plan(ViolationLog(), cluster, workload, plan))
