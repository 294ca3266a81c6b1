"""The plan of a job: where a strategy puts parts of operators, what they send, and whether the cluster allows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.job import Plan
from topoopt.core.process import end_if_left
from topoopt.core.workload import Operator, Placement, Split, Strategy, Workload
from topoopt.verify.checker import Violation, ViolationLog, as_int
from topoopt.verify.laws.networks import check_topology
from topoopt.verify.laws.routing import Hops, RingHops, check_rings, check_routes
from topoopt.verify.laws.schedules import ScheduleLoads, check_schedules


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of one operator: part (a * c + b) * r + e stands on `server[...]`.

    Attributes:
        operator: its index in the workload.
        split: the chosen split.
        server: int64[P], all different.
    """

    operator: int
    split: Split
    server: Ints

    @property
    def blocks(self) -> int:
        """Parts that share one slice of the samples."""
        return self.split.channel_ways * self.split.reduce_ways


def place(index: int, operator: Operator, placement: Placement, servers: int) -> Parts:
    """Parts of a legal placement: part i of P on server offset + i n/P."""
    split = operator.splits[placement.split]
    count = split.parts
    return Parts(index, split, placement.offset + np.arange(count, dtype=np.int64) * (servers // count))


def split_problems(cluster: Cluster, workload: Workload, operator: Operator, split: Split) -> list[tuple[str, str]]:
    """Why no placement of this split is legal: pairs of violation code and reason."""
    problems = []
    count = split.parts
    if min(split.sample_ways, split.channel_ways, split.reduce_ways) < 1:
        problems.append(("strategy-parts", "a split needs at least one way of each kind"))
    elif cluster.servers % count:
        problems.append(("strategy-parts", f"{count} parts do not divide {cluster.servers} servers"))
    elif workload.samples % split.sample_ways:
        problems.append(
            ("strategy-samples", f"{split.sample_ways} sample ways do not divide {workload.samples} samples")
        )
    elif operator.pinned_offset is not None and not 0 <= operator.pinned_offset < cluster.servers // count:
        problems.append(("strategy-pinned", f"{count} parts cannot stand at offset {operator.pinned_offset}"))
    return problems


def check_strategy(
    findings: ViolationLog, cluster: Cluster, workload: Workload, strategy: Strategy
) -> tuple[Parts, ...] | None:
    """Report illegal placements and servers without enough memory; the parts, if all placements are legal."""
    placements = strategy.placements
    if len(placements) != len(workload.operators):
        findings.add(
            "strategy-length", f"{len(placements)} placements for the {len(workload.operators)} operators of the job"
        )
        return None
    parts = []
    for index, (operator, placement) in enumerate(zip(workload.operators, placements, strict=True)):
        chosen, offset = as_int(placement.split), as_int(placement.offset)
        if chosen is None or not 0 <= chosen < len(operator.splits):
            findings.add(
                "strategy-split",
                f"operator {operator.name!r}: split {placement.split!r} is not one of its {len(operator.splits)}",
            )
            continue
        split = operator.splits[chosen]
        problems = split_problems(cluster, workload, operator, split)
        for code, reason in problems:
            findings.add(code, f"operator {operator.name!r}: {reason}")
        if problems:
            continue
        stride = cluster.servers // split.parts
        if offset is None or not 0 <= offset < stride:
            findings.add(
                "strategy-offset", f"operator {operator.name!r}: offset {placement.offset!r} is outside 0..{stride - 1}"
            )
            continue
        if operator.pinned_offset is not None and offset != operator.pinned_offset:
            findings.add(
                "strategy-pinned",
                f"operator {operator.name!r}: offset {offset}, but it is pinned to {operator.pinned_offset}",
            )
            continue
        parts.append(place(index, operator, Placement(chosen, offset), cluster.servers))
    if len(parts) < len(placements):
        return None
    _check_memory(findings, cluster, tuple(parts))
    return tuple(parts)


def _check_memory(findings: ViolationLog, cluster: Cluster, parts: tuple[Parts, ...]) -> None:
    if cluster.gpu_memory_bytes is None:
        return
    capacity = cluster.gpu_memory_bytes * cluster.gpus_per_server
    used = [0] * cluster.servers
    for part in parts:
        for server in part.server.tolist():
            used[server] += part.split.server_memory_bytes
    findings.add_each(
        "strategy-memory",
        [server for server, total in enumerate(used) if total > capacity],
        lambda server: f"server {server} needs {used[server]} bytes of memory and has {capacity}",
    )


GRADIENT_BYTES = 4
"""Gradients are all-reduced in fp32."""
BYTES_PER_MS_OF_ONE_GBPS = 10**9 / 8 / 1000


@dataclass(frozen=True, eq=False)
class PlanTransfers:
    """What flows over one input edge of an operator: one entry per pair of overlapping parts.

    Attributes:
        producer, consumer: operator indices.
        source_part, target_part: int64[t], part of the producer, part of the consumer.
        bytes: int64[t], sent forward, and again backward; 0 where both parts share a server.
        source, target: int64[t], their servers.
    """

    producer: int
    consumer: int
    source_part: Ints
    target_part: Ints
    bytes: Ints
    source: Ints
    target: Ints


@dataclass(frozen=True)
class Reduction:
    """AllReduce of one shard of one weight tensor: its operator, the parts and servers that hold it, what it costs.

    `wire_bytes` is what every member sends (0 for a single member), `local_ms` the time inside each server before.
    """

    operator: int
    parts: tuple[int, ...]
    members: tuple[int, ...]
    payload_bytes: int
    wire_bytes: float
    local_ms: float


@dataclass(frozen=True, eq=False)
class Traffic:
    """All traffic of one iteration.

    Attributes:
        edges: one entry per input edge of the workload.
        reductions: one per operator, weight tensor and shard; also those within one server.
        matrix: float64[n, n], bytes i -> j of all transfers, both directions.
        transfers: int32[n, n], how many transfers make up each entry.
        inexact: int32[n, n], how many of those have a size rounded down from a fraction.
        payload_bytes: members -> payload, groups of two or more with a payload.
    """

    edges: tuple[PlanTransfers, ...]
    reductions: tuple[Reduction, ...]
    matrix: Floats
    transfers: Int32s
    inexact: Int32s
    payload_bytes: dict[tuple[int, ...], int]

    @property
    def wire_bytes(self) -> float:
        """Bytes sent by all members of all ring AllReduces."""
        return sum(2.0 * (len(members) - 1) * payload for members, payload in self.payload_bytes.items())


def slices(total: int, count: int) -> Ints:
    """int64[ways + 1]: boundaries of `total` cut in `count`, floor(i total / ways)."""
    return np.array([i * total // count for i in range(count + 1)], dtype=np.int64)


def overlap(first: Ints, second: Ints) -> Ints:
    """int64[a, b]: length common to interval i of the first cut and interval j of the second."""
    low = np.maximum(first[:-1, None], second[None, :-1])
    high = np.minimum(first[1:, None], second[None, 1:])
    common: Ints = np.maximum(high - low, 0)
    return common


def meetings(first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
    """(i, j, length), int64[m] each, of all that is not 0 in `overlap` of two cuts of one whole, both ascending: at
    most a + b, where a table of thousands by thousands takes a hundred megabytes."""
    bounds = np.union1d(first, second)
    i = np.searchsorted(first, bounds[:-1], side="right") - 1
    j = np.searchsorted(second, bounds[:-1], side="right") - 1
    return i.astype(np.int64), j.astype(np.int64), np.diff(bounds)


def channels_read(channels: int, mixes: bool, consumer: tuple[int, int], producer: tuple[int, int]) -> Ints:
    """int64[c r of the consumer, c r of the producer]: channels a consumer block reads of a producer block.

    `consumer` and `producer` are (channel ways, reduce ways). Every partial sum of a producer is sent, and a consumer
    that mixes channels reads its reduce slice of them, one that does not reads its own channel slice.
    """
    (own, reduced), (made, partial) = consumer, producer
    have = slices(channels, made)
    if mixes:
        wanted = np.tile(overlap(slices(channels, reduced), have), (own, 1))
    else:
        wanted = np.repeat(overlap(slices(channels, own), have), reduced, axis=0)
    return np.repeat(wanted, partial, axis=1)


def transfer_bytes(elements: Ints, element_bytes: int, fraction: float) -> Ints:
    """Whole bytes of transfers of so many elements, of which a fraction is read."""
    whole: Ints = elements * element_bytes
    return whole if fraction == 1.0 else np.floor(whole * fraction).astype(np.int64)


def local_allreduce_ms(cluster: Cluster, payload_bytes: int) -> float:
    """AllReduce among the GPUs of one server: 2 (g-1)/g S / rate, or floor(2 S / g) / rate as the reference has it."""
    gpus = cluster.gpus_per_server
    if gpus <= 1:
        return 0.0
    rate = cluster.intra_server_gbps * BYTES_PER_MS_OF_ONE_GBPS
    if cluster.local_allreduce == "flexnet":
        return (2 * payload_bytes // gpus) / rate
    return 2.0 * (gpus - 1) / gpus * payload_bytes / rate


def edge_transfers(workload: Workload, producer: Parts, consumer: Parts, fraction: float) -> PlanTransfers:
    operator = workload.operators[producer.operator]
    into, out_of, samples = meetings(
        slices(workload.samples, consumer.split.sample_ways), slices(workload.samples, producer.split.sample_ways)
    )
    columns = channels_read(
        operator.output_elements,
        workload.operators[consumer.operator].mixes_channels,
        (consumer.split.channel_ways, consumer.split.reduce_ways),
        (producer.split.channel_ways, producer.split.reduce_ways),
    )
    into_block, out_block = np.nonzero(columns)
    target_part = (into[:, None] * consumer.blocks + into_block[None, :]).ravel()
    source_part = (out_of[:, None] * producer.blocks + out_block[None, :]).ravel()
    elements = (samples[:, None] * columns[into_block, out_block][None, :]).ravel()
    source, target = producer.server[source_part], consumer.server[target_part]
    size = transfer_bytes(elements, operator.element_bytes, fraction)
    return PlanTransfers(
        producer=producer.operator,
        consumer=consumer.operator,
        source_part=source_part,
        target_part=target_part,
        bytes=np.where(source == target, 0, size),
        source=source,
        target=target,
    )


def shard_bytes(weight_elements: int, blocks: int) -> int:
    """Gradient bytes of one part's shard of a weight tensor cut in `blocks`, rounded down."""
    return GRADIENT_BYTES * weight_elements // blocks


def reductions_of(cluster: Cluster, workload: Workload, parts: Parts) -> list[Reduction]:
    operator = workload.operators[parts.operator]
    reductions = []
    for weight in operator.weight_elements:
        payload = shard_bytes(weight, parts.blocks)
        local = local_allreduce_ms(cluster, payload) if operator.locally_reduced else 0.0
        for shard in range(parts.blocks):
            held = tuple(range(shard, len(parts.server), parts.blocks))
            members = tuple(int(server) for server in parts.server[shard :: parts.blocks])
            wire = 2.0 * (len(members) - 1) / len(members) * payload
            reductions.append(Reduction(parts.operator, held, members, payload, wire, local))
    return reductions


def recompute_traffic(cluster: Cluster, workload: Workload, parts: tuple[Parts, ...]) -> Traffic:
    """Transfers and AllReduces of a legal strategy, and what they add up to."""
    n = cluster.servers
    edges, reductions = [], []
    matrix = np.zeros(n * n, dtype=np.float64)
    transfers = np.zeros(n * n, dtype=np.int32)
    inexact = np.zeros(n * n, dtype=np.int32)
    for index, operator in enumerate(workload.operators):
        end_if_left()
        for read in operator.inputs:
            edge = edge_transfers(workload, parts[read.producer], parts[index], read.fraction)
            edges.append(edge)
            sent = edge.source != edge.target
            for start, end in ((edge.source, edge.target), (edge.target, edge.source)):
                slot = start[sent] * n + end[sent]
                np.add.at(matrix, slot, edge.bytes[sent])
                np.add.at(transfers, slot, 1)
                if read.fraction != 1.0:
                    np.add.at(inexact, slot, 1)
        reductions.extend(reductions_of(cluster, workload, parts[index]))
    payload: dict[tuple[int, ...], int] = {}
    for reduction in reductions:
        if len(reduction.members) > 1 and reduction.payload_bytes > 0:
            members = tuple(sorted(reduction.members))
            payload[members] = payload.get(members, 0) + reduction.payload_bytes
    return Traffic(
        edges=tuple(edges),
        reductions=tuple(reductions),
        matrix=matrix.reshape(n, n),
        transfers=transfers.reshape(n, n),
        inexact=inexact.reshape(n, n),
        payload_bytes=payload,
    )


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
        return next((schedule for schedule in self.schedules if schedule.covers(members, payload)), None)

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
