"""Least start and end times of the tasks of a given strategy, whatever the topology, the routes and the queues do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.workload import Workload
from topoopt.verify.job.parts import Parts
from topoopt.verify.job.traffic import PlanTransfers, Reduction, Traffic
from topoopt.verify.laws.windows import latest_by

Times = list[Floats]


@dataclass(frozen=True, eq=False)
class Rates:
    """Bytes per ms that a server can send and receive at most, float64[n] each; infinite: transfers take no time."""

    send: Floats
    receive: Floats


@dataclass(frozen=True, eq=False)
class EarliestStarts:
    """Per operator, float64[P] by part.

    Attributes:
        forward_start, backward_start: no earlier can the task start.
        forward_end, backward_end: no earlier can it end.
        forward_tail, backward_tail: no sooner after the start of the task can the iteration end.
    """

    forward_start: Times
    backward_start: Times
    forward_end: Times
    backward_end: Times
    forward_tail: Times
    backward_tail: Times

    @property
    def end_ms(self) -> float:
        """Lower bound on the iteration time: the longest chain through any task."""
        chains = [*zip(self.forward_start, self.forward_tail, strict=True)]
        chains += zip(self.backward_start, self.backward_tail, strict=True)
        return max((float((start + tail).max()) for start, tail in chains), default=0.0)


def _wire_ms(edge: PlanTransfers, rates: Rates, back: bool) -> tuple[Floats, Floats]:
    """Time of every transfer of an edge at its sender and at its receiver, forward or back."""
    sender, receiver = (edge.target, edge.source) if back else (edge.source, edge.target)
    return edge.bytes / rates.send[sender], edge.bytes / rates.receive[receiver]


def _merge(count: int, found: list[tuple[Ints, Floats, Floats, Floats]]) -> Floats:
    """Latest over everything an owner waits for; items are (owner, level, work on the owner's wire, least time)."""
    if not found:
        return np.zeros(count, dtype=np.float64)
    owner, level, work, alone = (np.concatenate(column) for column in zip(*found, strict=True))
    latest = latest_by(owner, count, level, work)
    np.maximum.at(latest, owner, level + alone)
    return latest


def least_reduction_ms(local: list[float], network: list[float]) -> float:
    """Least time to all-reduce tensors released together, from their times inside a server and on a member's wire.

    Proof: each tensor takes its local and then its network time; and the members' wires carry nothing before the
    shortest local time and everything after it.
    """
    if not local:
        return 0.0
    return max(*(a + b for a, b in zip(local, network, strict=True)), min(local) + sum(network))


def least_schedule(
    workload: Workload,
    parts: tuple[Parts, ...],
    traffic: Traffic,
    rates: Rates,
    *,
    reductions: bool = True,
    on_rings: bool = True,
) -> EarliestStarts:
    """Least times of all tasks; of AllReduces on any rings, or on any schedule.

    A part starts when everything it reads has come, all of it over its server's own interfaces (`latest_by`), and no
    transfer is faster than the interfaces of its two ends. Tails are the same argument read from the end. Waiting for
    other tasks on the server, for other traffic, hop counts and latencies are left out: they only add time.
    """
    count = len(parts)
    durations = [(p.split.forward_ms, p.split.backward_ms) for p in parts]
    sizes = [len(p.server) for p in parts]
    inputs: list[list[PlanTransfers]] = [[] for _ in range(count)]
    outputs: list[list[PlanTransfers]] = [[] for _ in range(count)]
    for edge in traffic.edges:
        inputs[edge.consumer].append(edge)
        outputs[edge.producer].append(edge)
    if reductions:
        reduced = _reduction_times(parts, traffic, rates, on_rings=on_rings)
    else:
        reduced = [np.zeros(size, dtype=np.float64) for size in sizes]

    forward_start: Times = [np.zeros(0)] * count
    backward_start: Times = [np.zeros(0)] * count
    forward_end: Times = [np.zeros(0)] * count
    backward_end: Times = [np.zeros(0)] * count
    forward_tail: Times = [np.zeros(0)] * count
    backward_tail: Times = [np.zeros(0)] * count
    for v in range(count):  # producers stand before their consumers
        waits, follows = [], []
        for edge in inputs[v]:
            sent, received = _wire_ms(edge, rates, back=False)
            level = forward_end[edge.producer][edge.source_part]
            waits.append((edge.target_part, level, received, np.maximum(sent, received)))
            sent, received = _wire_ms(edge, rates, back=True)
            level = backward_tail[edge.producer][edge.source_part]
            follows.append((edge.target_part, level, sent, np.maximum(sent, received)))
        forward_start[v] = _merge(sizes[v], waits)
        forward_end[v] = forward_start[v] + durations[v][0]
        backward_tail[v] = np.maximum(_merge(sizes[v], follows), reduced[v]) + durations[v][1]
    for u in reversed(range(count)):
        waits, follows = [], []
        for edge in outputs[u]:
            sent, received = _wire_ms(edge, rates, back=True)
            level = backward_end[edge.consumer][edge.target_part]
            waits.append((edge.source_part, level, received, np.maximum(sent, received)))
            sent, received = _wire_ms(edge, rates, back=False)
            level = forward_tail[edge.consumer][edge.target_part]
            follows.append((edge.source_part, level, sent, np.maximum(sent, received)))
        backward_start[u] = np.maximum(_merge(sizes[u], waits), forward_end[u])
        backward_end[u] = backward_start[u] + durations[u][1]
        forward_tail[u] = np.maximum(_merge(sizes[u], follows), backward_tail[u]) + durations[u][0]
    return EarliestStarts(forward_start, backward_start, forward_end, backward_end, forward_tail, backward_tail)


def _reduction_times(parts: tuple[Parts, ...], traffic: Traffic, rates: Rates, *, on_rings: bool) -> Times:
    """Per part the least time from its backward end to the end of its AllReduces."""
    shards: dict[tuple[int, tuple[int, ...]], list[Reduction]] = {}
    for reduction in traffic.reductions:
        shards.setdefault((reduction.operator, reduction.parts), []).append(reduction)
    least_wire_ms = slowest_wire_ms if on_rings else shared_wire_ms
    after = [np.zeros(len(p.server), dtype=np.float64) for p in parts]
    for (operator, held), together in shards.items():
        after[operator][list(held)] = least_reduction_ms(
            [reduction.local_ms for reduction in together],
            [least_wire_ms(reduction, rates) for reduction in together],
        )
    return after


def slowest_wire_ms(reduction: Reduction, rates: Rates) -> float:
    """Time the slowest member needs to send, or to receive, its bytes of a ring AllReduce."""
    members = list(reduction.members)
    slowest = min(float(rates.send[members].min()), float(rates.receive[members].min()))
    return reduction.wire_bytes / slowest if reduction.wire_bytes else 0.0


def shared_wire_ms(reduction: Reduction, rates: Rates) -> float:
    """Time in which all members together can send, and receive, 2 (k-1) payloads, and the slowest of them one.

    Linear in the payload, so that a sum over tensors of the same members is a least time, too.
    """
    if not reduction.wire_bytes:
        return 0.0
    members = list(reduction.members)
    own = (rates.send[members], rates.receive[members])
    together, slowest = (min(float(one.sum()) for one in own), min(float(one.min()) for one in own))
    return max(len(members) * reduction.wire_bytes / together, reduction.payload_bytes / slowest)
