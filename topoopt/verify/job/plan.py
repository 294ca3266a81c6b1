"""Checking a plan against its cluster and workload, and recomputing its figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
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
