"""Demand and link loads of a plan by the code of the checker: a second opinion on the simulator's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.job import Plan
from topoopt.core.workload import Workload
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.plan import Inspection, inspect_plan


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
    for members, share, ring_hops in seen.ring_hops:
        k, payload = len(members), on_rings.get(members, 0)
        if payload:
            slots = np.array([tail * n + head for tail, head in ring_hops], dtype=np.int64)
            slot, crossings = np.unique(slots, return_counts=True)
            carried[slot] += crossings * (share * 2.0 * (k - 1) / k * payload)
            messages[slot] += crossings * tensors[members]


def plan_figures(cluster: Cluster, workload: Workload, plan: Plan) -> PlanFigures | None:
    """Demand and link loads of a plan; None if the plan is too broken to compute them."""
    return figures_of(cluster, inspect_plan(ViolationLog(), cluster, workload, plan))
