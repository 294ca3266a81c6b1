"""One iteration as tasks that wait for each other, made from the parts and the traffic of a strategy.

Numbers of tasks matter: what happens at the same time goes by them (`simulation.rounds`). They are, in this order:

* for each operator the forward tasks of its parts, then their backward tasks;
* for each operator, each of its inputs, each of its parts and each part of the producer it reads from another server,
  a transfer forward and one back;
* for each operator, each of its weight tensors and each shard of it, an AllReduce.

A backward task waits for the forward task of its part; a consumer's forward task for the transfers it reads (or the
producer's part itself, where nothing is sent), and the other way round on the way back; an AllReduce for the backward
tasks of all parts that hold its shard.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from topoopt.core.workload import Workload
from topoopt.verify.job.parts import Parts
from topoopt.verify.job.traffic import PlanTransfers, Traffic

FORWARD, BACKWARD, TRANSFER, ALLREDUCE = range(4)
KINDS = ("forward", "backward", "transfer", "allreduce")
"""Names of the kinds of tasks."""


@dataclass(frozen=True)
class IterationTasks:
    """T tasks, an entry each.

    Attributes:
        kind: FORWARD, BACKWARD, TRANSFER or ALLREDUCE.
        lane: server of a compute task, sender of a transfer, -1 of an AllReduce.
        target: receiver of a transfer, -1 of others.
        members: servers of an AllReduce of two or more, in ascending order; empty for others.
        duration_ms: of a compute task; time inside the servers before an AllReduce is on the network.
        bytes: of a transfer; payload of an AllReduce.
        operator: to which a task belongs, of a transfer the consumer.
        followers: tasks that wait for it.
    """

    kind: list[int] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    members: list[tuple[int, ...]] = field(default_factory=list)
    duration_ms: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    operator: list[int] = field(default_factory=list)
    followers: list[list[int]] = field(default_factory=list)

    def add(
        self,
        kind: int,
        operator: int,
        *,
        lane: int = -1,
        target: int = -1,
        members: tuple[int, ...] = (),
        duration_ms: float = 0.0,
        size: int = 0,
    ) -> int:
        """A task more; its number."""
        self.kind.append(kind)
        self.lane.append(lane)
        self.target.append(target)
        self.members.append(members)
        self.duration_ms.append(duration_ms)
        self.bytes.append(size)
        self.operator.append(operator)
        self.followers.append([])
        return len(self.kind) - 1

    def __len__(self) -> int:
        return len(self.kind)


def task_count(parts: tuple[Parts, ...], traffic: Traffic) -> int:
    """How many tasks `tasks_of` makes."""
    computing = sum(len(own.server) for own in parts)
    sending = sum(int(np.count_nonzero(edge.bytes)) for edge in traffic.edges)
    return 2 * (computing + sending) + len(traffic.reductions)


def tasks_of(workload: Workload, parts: tuple[Parts, ...], traffic: Traffic) -> IterationTasks:
    """The tasks of an iteration, those that follow a task in the order of what they belong to."""
    tasks = IterationTasks()
    forward: list[list[int]] = []
    backward: list[list[int]] = []
    for o, own in enumerate(parts):
        servers, split = own.server.tolist(), own.split
        forward.append([tasks.add(FORWARD, o, lane=s, duration_ms=split.forward_ms) for s in servers])
        backward.append([tasks.add(BACKWARD, o, lane=s, duration_ms=split.backward_ms) for s in servers])
        for first, then in zip(forward[o], backward[o], strict=True):
            tasks.followers[first].append(then)
    for edge in traffic.edges:
        _add_transfers(tasks, edge, forward, backward)
    for reduction in traffic.reductions:
        alone = len(reduction.members) == 1
        task = tasks.add(
            ALLREDUCE,
            reduction.operator,
            members=() if alone else tuple(sorted(reduction.members)),
            duration_ms=reduction.local_ms,
            size=reduction.payload_bytes,
        )
        for part in reduction.parts:
            tasks.followers[backward[reduction.operator][part]].append(task)
    return tasks


def _add_transfers(
    tasks: IterationTasks, edge: PlanTransfers, forward: list[list[int]], backward: list[list[int]]
) -> None:
    """What flows over one input of an operator, by part of the consumer, then by part of the producer."""
    u, v = edge.producer, edge.consumer
    order = np.lexsort((edge.source_part, edge.target_part))
    columns = (edge.source_part, edge.target_part, edge.bytes, edge.source, edge.target)
    for p, q, size, source, target in zip(*(column[order].tolist() for column in columns), strict=True):
        if not size:
            tasks.followers[forward[u][p]].append(forward[v][q])
            tasks.followers[backward[v][q]].append(backward[u][p])
            continue
        there = tasks.add(TRANSFER, v, lane=source, target=target, size=size)
        back = tasks.add(TRANSFER, v, lane=target, target=source, size=size)
        tasks.followers[forward[u][p]].append(there)
        tasks.followers[there].append(forward[v][q])
        tasks.followers[backward[v][q]].append(back)
        tasks.followers[back].append(backward[u][p])
