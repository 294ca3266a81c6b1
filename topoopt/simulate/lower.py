"""Strategy -> task graph, compiled: straight from split and offset arrays, no object per task.

Builds the graph of the reference search (TopoOpt artifact): a forward and a backward task per part, a
transfer in each direction for every pair of overlapping parts on different servers, an AllReduce per weight tensor and
shard, released by the backward tasks of the parts that share it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.strategy import Strategy, strided_groups
from topoopt.core.taskgraph import TaskGraph
from topoopt.core.workload import Workload
from topoopt.simulate.jit import kernel
from topoopt.simulate.network import Network
from topoopt.simulate.workload_arrays import WorkloadArrays, workload_arrays

FORWARD, BACKWARD, TRANSFER, ALLREDUCE = 0, 1, 2, 3


class GraphArrays(NamedTuple):
    """A task graph as kernels see it; fields as in `topoopt.core.taskgraph.TaskGraph`."""

    kind: NDArray[np.int8]
    source: Int32s
    target: Int32s
    group: Int32s
    duration: Floats
    size: Ints
    operator: Int32s
    successor_ptr: Ints
    successor: Int32s


@kernel
def _columns(w: WorkloadArrays, u: int, su: int, ku: int, v: int, sv: int, kv: int) -> int:
    """Channels of a sample that block kv of consumer v (split sv) reads from block ku of producer u (split su)."""
    channels = w.channels[u]
    ways = w.channel_ways[su]
    slice_ = ku // w.reduce_ways[su]
    low, high = slice_ * channels // ways, (slice_ + 1) * channels // ways
    ways = w.reduce_ways[sv]
    if w.mixes[v]:
        slice_ = kv % ways
    else:
        slice_, ways = kv // ways, w.channel_ways[sv]
    return int(min(high, (slice_ + 1) * channels // ways) - max(low, slice_ * channels // ways))


@kernel
def _emit(
    w: WorkloadArrays,
    split: Ints,
    offset: Ints,
    fill: bool,
    kind: NDArray[np.int8],
    source: Int32s,
    target: Int32s,
    group: Int32s,
    duration: Floats,
    size: Ints,
    operator: Int32s,
    tail: Int32s,
    head: Int32s,
) -> tuple[int, int]:
    """Count (fill False) or write all tasks and dependencies; returns (tasks, dependencies)."""
    n = w.servers
    operators = len(w.split_ptr) - 1
    forward = np.empty(operators, dtype=np.int64)
    tasks = 0
    edges = 0
    for o in range(operators):
        s = w.split_ptr[o] + split[o]
        parts = w.sample_ways[s] * w.channel_ways[s] * w.reduce_ways[s]
        forward[o] = tasks
        if fill:
            stride = n // parts
            for j in range(parts):
                f, b = tasks + j, tasks + parts + j
                kind[f], kind[b] = FORWARD, BACKWARD
                source[f] = source[b] = offset[o] + stride * j
                target[f] = target[b] = group[f] = group[b] = -1
                duration[f], duration[b] = w.forward_ms[s], w.backward_ms[s]
                size[f] = size[b] = 0
                operator[f] = operator[b] = o
                tail[edges + j], head[edges + j] = f, b
        tasks += 2 * parts
        edges += parts
    for v in range(operators):
        sv = w.split_ptr[v] + split[v]
        block_v = w.channel_ways[sv] * w.reduce_ways[sv]
        parts_v = w.sample_ways[sv] * block_v
        stride_v = n // parts_v
        for e in range(w.edge_ptr[v], w.edge_ptr[v + 1]):
            u = w.producer[e]
            su = w.split_ptr[u] + split[u]
            block_u = w.channel_ways[su] * w.reduce_ways[su]
            ways_u, ways_v = w.sample_ways[su], w.sample_ways[sv]
            parts_u = ways_u * block_u
            stride_u = n // parts_u
            size_u, size_v = w.samples // ways_u, w.samples // ways_v
            whole = block_u == 1 and block_v == 1
            for a in range(ways_v):
                first, last = a, a + 1
                if ways_u != ways_v:
                    first = a * ways_u // ways_v
                    last = ((a + 1) * ways_u + ways_v - 1) // ways_v
                for kv in range(block_v):
                    q = a * block_v + kv
                    here = offset[v] + stride_v * q
                    fv, bv = forward[v] + q, forward[v] + parts_v + q
                    for p in range(first * block_u, last * block_u):
                        b = p if block_u == 1 else p // block_u
                        rows = min((b + 1) * size_u, (a + 1) * size_v) - max(b * size_u, a * size_v)
                        columns = w.channels[u] if whole else _columns(w, u, su, p - b * block_u, v, sv, kv)
                        if rows <= 0 or columns <= 0:
                            continue
                        there = offset[u] + stride_u * p
                        fu, bu = forward[u] + p, forward[u] + parts_u + p
                        amount = 0
                        if there != here:
                            amount = int(np.floor(float(rows * columns * w.element_bytes[u]) * w.fraction[e]))
                        if amount == 0:
                            if fill:
                                tail[edges], head[edges] = fu, fv
                                tail[edges + 1], head[edges + 1] = bv, bu
                            edges += 2
                            continue
                        if fill:
                            for t in range(tasks, tasks + 2):
                                kind[t], group[t], duration[t] = TRANSFER, -1, 0.0
                                size[t], operator[t] = amount, v
                            source[tasks], target[tasks] = there, here
                            source[tasks + 1], target[tasks + 1] = here, there
                            tail[edges], head[edges] = fu, tasks
                            tail[edges + 1], head[edges + 1] = tasks, fv
                            tail[edges + 2], head[edges + 2] = bv, tasks + 1
                            tail[edges + 3], head[edges + 3] = tasks + 1, bu
                        tasks += 2
                        edges += 4
    local = 0
    for o in range(operators):
        weights = w.weight_ptr[o + 1] - w.weight_ptr[o]
        s = w.split_ptr[o] + split[o]
        ways = w.sample_ways[s]
        block = w.channel_ways[s] * w.reduce_ways[s]
        backward = forward[o] + ways * block
        stride = n // (ways * block)
        for x in range(weights):
            for shard in range(block):
                if fill:
                    kind[tasks], source[tasks], target[tasks] = ALLREDUCE, -1, -1
                    group[tasks] = -1 if ways == 1 else w.group_base[ways] + offset[o] + stride * shard
                    duration[tasks] = w.local_ms[local + split[o] * weights + x]
                    size[tasks] = w.weight_bytes[w.weight_ptr[o] + x] // block
                    operator[tasks] = o
                    for a in range(ways):
                        tail[edges + a], head[edges + a] = backward + a * block + shard, tasks
                tasks += 1
                edges += ways
        local += weights * (w.split_ptr[o + 1] - w.split_ptr[o])
    return tasks, edges


@kernel
def task_count(w: WorkloadArrays, split: Ints, offset: Ints) -> int:
    """Tasks of the graph of a strategy, without building it."""
    i8, i32 = np.empty(0, dtype=np.int8), np.empty(0, dtype=np.int32)
    f64, i64 = np.empty(0, dtype=np.float64), np.empty(0, dtype=np.int64)
    return int(_emit(w, split, offset, False, i8, i32, i32, i32, f64, i64, i32, i32, i32)[0])


@kernel
def lower_arrays(w: WorkloadArrays, split: Ints, offset: Ints) -> GraphArrays:
    """Task graph of a strategy given as int64[operators] `split` and `offset`; see `GraphArrays`."""
    i8, i32 = np.empty(0, dtype=np.int8), np.empty(0, dtype=np.int32)
    f64, i64 = np.empty(0, dtype=np.float64), np.empty(0, dtype=np.int64)
    tasks, edges = _emit(w, split, offset, False, i8, i32, i32, i32, f64, i64, i32, i32, i32)
    kind = np.empty(tasks, dtype=np.int8)
    source, target = np.empty(tasks, dtype=np.int32), np.empty(tasks, dtype=np.int32)
    group, operator = np.empty(tasks, dtype=np.int32), np.empty(tasks, dtype=np.int32)
    duration, size = np.empty(tasks, dtype=np.float64), np.empty(tasks, dtype=np.int64)
    tail, head = np.empty(edges, dtype=np.int32), np.empty(edges, dtype=np.int32)
    _emit(w, split, offset, True, kind, source, target, group, duration, size, operator, tail, head)
    ptr = np.zeros(tasks + 1, dtype=np.int64)
    for e in range(edges):
        ptr[tail[e] + 1] += 1
    for t in range(tasks):
        ptr[t + 1] += ptr[t]
    successor = np.empty(edges, dtype=np.int32)
    cursor = ptr[:-1].copy()
    for e in range(edges):
        successor[cursor[tail[e]]] = head[e]
        cursor[tail[e]] += 1
    return GraphArrays(kind, source, target, group, duration, size, operator, ptr, successor)


def strategy_arrays(strategy: Strategy) -> tuple[Ints, Ints]:
    """(split, offset) arrays of a strategy."""
    return (
        np.array([placement.split for placement in strategy.placements], dtype=np.int64),
        np.array([placement.offset for placement in strategy.placements], dtype=np.int64),
    )


def build_task_graph(cluster: Cluster, workload: Workload, strategy: Strategy) -> TaskGraph:
    """Task graph of one iteration; AllReduce groups are all cosets, in the order of `strided_groups(n)`."""
    split, offset = strategy_arrays(strategy)
    arrays = lower_arrays(workload_arrays(cluster, workload), split, offset)
    return TaskGraph(
        servers=cluster.servers,
        kind=arrays.kind,
        source=arrays.source,
        target=arrays.target,
        group=arrays.group,
        duration_ms=arrays.duration,
        bytes=arrays.size,
        operator=arrays.operator,
        successor_ptr=arrays.successor_ptr,
        successor=arrays.successor,
        groups=strided_groups(cluster.servers),
        operator_names=tuple(operator.name for operator in workload.operators),
    )


def _require_covered(graph: TaskGraph, network: Network, group: Int32s) -> None:
    """Refuse AllReduces with neither rings nor a schedule for their payload.

    Raises:
        ValueError: there are some.
    """
    bare = np.append(np.diff(network.group_ptr) == 0, False)
    left = np.flatnonzero(bare[group] & (group >= 0))
    own = network.schedules
    for s, g in enumerate(np.repeat(np.arange(len(network.groups)), np.diff(own.group_ptr))):
        size = graph.bytes[left]
        left = left[(group[left] != g) | (size < own.from_bytes[s]) | (size >= own.below_bytes[s])]
    if len(left):
        raise ValueError("an AllReduce has neither rings nor a schedule for its payload")


def graph_arrays(graph: TaskGraph, network: Network) -> GraphArrays:
    """The arrays of a task graph, its groups renumbered to those of the network.

    Raises:
        ValueError: an AllReduce group has no rings in the network.
    """
    if graph.groups == network.groups:
        group = graph.group
    else:
        index = {members: position for position, members in enumerate(network.groups)}
        table = np.array([index.get(members, -2) for members in graph.groups] + [-1], dtype=np.int32)
        group = table[graph.group]
        if (group == -2).any():
            raise ValueError("the network has no rings for some AllReduce group")
    if len(network.schedules.from_bytes):
        _require_covered(graph, network, group)
    return GraphArrays(
        graph.kind,
        graph.source,
        graph.target,
        group,
        graph.duration_ms,
        graph.bytes,
        graph.operator,
        graph.successor_ptr,
        graph.successor,
    )
