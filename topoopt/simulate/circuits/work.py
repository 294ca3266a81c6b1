"""One iteration's traffic as chunks in queues: a queue is a route, or an ordered pair where routes come and go."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.workload import TaskGraph, TaskKind


class Work(NamedTuple):
    """A task graph with its traffic; arrays of the graph as in `topoopt.core.workload.TaskGraph`.

    Attributes:
        servers: n.
        kind, source, duration, successor_ptr, successor: of the graph.
        chunk_ptr: int64[T+1]; chunks of task t are chunk_ptr[t]..chunk_ptr[t+1].
        chunk_queue: int32[C]; chunk_bytes: float64[C], above 0.
        hop_ms: float64[T], latency of each hop, added when a chunk of the task has been sent.
        stage: int32[T], stage of a schedule in which the traffic of the task may flow.
        stage_delay: float64[S], dark time before each stage, ms.
    """

    servers: int
    kind: NDArray[np.int8]
    source: Int32s
    duration: Floats
    successor_ptr: Ints
    successor: Int32s
    chunk_ptr: Ints
    chunk_queue: Int32s
    chunk_bytes: Floats
    hop_ms: Floats
    stage: Int32s
    stage_delay: Floats


Chunks = tuple[Ints, Ints, Floats]
"""Task, queue and bytes of chunks in any order."""


def make_work(
    graph: TaskGraph,
    chunks: Chunks,
    *,
    hop_latency_ms: float,
    round_latency_ms: float,
    stage: Int32s | None = None,
    stage_delay: Floats | None = None,
) -> Work:
    """Work of a graph; chunks without bytes are left out.

    A transfer pays `hop_latency_ms` a hop, an AllReduce of k servers 2 (k-1) rounds of `round_latency_ms` a hop.
    """
    task, queue, amount = (part[chunks[2] > 0] for part in chunks)
    order = np.argsort(task, kind="stable")
    counts = np.bincount(task, minlength=graph.tasks)
    size = np.array([len(members) for members in graph.groups] + [0], dtype=np.float64)
    rounds = np.where(graph.kind == TaskKind.ALLREDUCE, 2.0 * np.maximum(size[graph.group] - 1, 0.0), 0.0)
    return Work(
        servers=graph.servers,
        kind=graph.kind,
        source=graph.source,
        duration=graph.duration_ms,
        successor_ptr=graph.successor_ptr,
        successor=graph.successor,
        chunk_ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        chunk_queue=queue[order].astype(np.int32),
        chunk_bytes=amount[order].astype(np.float64),
        hop_ms=np.where(graph.kind == TaskKind.TRANSFER, hop_latency_ms, rounds * round_latency_ms),
        stage=np.zeros(graph.tasks, dtype=np.int32) if stage is None else stage,
        stage_delay=np.zeros(1) if stage_delay is None else stage_delay,
    )


def pair_chunks(graph: TaskGraph, *, both_ways: bool) -> tuple[Chunks, Ints]:
    """Chunks with a queue for every ordered pair of servers in use, and int64[Q], source * n + target of each.

    An AllReduce of S bytes over k servers is a ring in the order the group is listed, every member sending
    2 (k-1)/k S to the next; `both_ways`: half of it to the next and half to the one before.
    """
    n = graph.servers
    moved = np.flatnonzero((graph.kind == TaskKind.TRANSFER) & (graph.source != graph.target))
    tasks, pairs = [moved], [graph.source[moved].astype(np.int64) * n + graph.target[moved]]
    amounts = [graph.bytes[moved].astype(np.float64)]
    reduced = np.flatnonzero((graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0))
    for index in np.unique(graph.group[reduced]):
        members = np.array(graph.groups[index], dtype=np.int64)
        k = len(members)
        following = np.roll(members, -1)
        ring = members * n + following
        if both_ways and k > 2:
            ring = np.concatenate((ring, following * n + members))
        own = reduced[graph.group[reduced] == index]
        each = 2.0 * (k - 1) / k * graph.bytes[own] * k / len(ring)
        tasks.append(np.repeat(own, len(ring)))
        pairs.append(np.tile(ring, len(own)))
        amounts.append(np.repeat(each, len(ring)))
    task, pair, amount = np.concatenate(tasks), np.concatenate(pairs), np.concatenate(amounts)
    used, queue = np.unique(pair, return_inverse=True)
    return (task, queue.astype(np.int64), amount), used.astype(np.int64)
