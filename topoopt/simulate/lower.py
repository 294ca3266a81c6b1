"""A strategy is lowered to a task graph, and a task graph to its network demand, in flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Int32s, Ints, offsets
from topoopt.core.cluster import Cluster
from topoopt.core.workload import (
    GRADIENT_BYTES,
    AllReduceDemand,
    Demand,
    Strategy,
    TaskGraph,
    TaskKind,
    Workload,
    strided_groups,
)
from topoopt.native import jobs
from topoopt.simulate.network import Network


class WorkloadArrays(NamedTuple):
    """A workload on n servers in flat arrays; operators o, splits by `split_ptr`, input edges e by `edge_ptr`."""

    servers: int
    samples: int
    split_ptr: Ints
    sample_ways: Ints
    channel_ways: Ints
    reduce_ways: Ints
    forward_ms: Floats
    backward_ms: Floats
    memory: Floats
    edge_ptr: Ints
    producer: Ints
    fraction: Floats
    channels: Ints
    element_bytes: Ints
    mixes: Bools
    weight_ptr: Ints
    weight_bytes: Ints
    local_ms: Floats
    group_base: Ints
    pinned: Ints


def workload_arrays(cluster: Cluster, workload: Workload) -> WorkloadArrays:
    """Flatten a workload.

    `pinned` holds the offset of operators that may not move, -1 for the others. `local_ms` is laid out per operator as
    splits x weights: entry (split, w) is the time of the AllReduce inside a server of the part's shard of weight w.
    """
    n = cluster.servers
    group_base = np.full(n + 1, -1, dtype=np.int64)
    for index, members in enumerate(strided_groups(n)):
        if members[0] == 0:
            group_base[len(members)] = index
    operators = workload.operators
    splits = [split for operator in operators for split in operator.splits]
    local = [
        cluster.local_allreduce_ms(GRADIENT_BYTES * elements // (split.channel_ways * split.reduce_ways))
        if operator.locally_reduced
        else 0.0
        for operator in operators
        for split in operator.splits
        for elements in operator.weight_elements
    ]

    return WorkloadArrays(
        servers=n,
        samples=workload.samples,
        split_ptr=offsets([len(operator.splits) for operator in operators]),
        sample_ways=np.array([split.sample_ways for split in splits], dtype=np.int64),
        channel_ways=np.array([split.channel_ways for split in splits], dtype=np.int64),
        reduce_ways=np.array([split.reduce_ways for split in splits], dtype=np.int64),
        forward_ms=np.array([split.forward_ms for split in splits], dtype=np.float64),
        backward_ms=np.array([split.backward_ms for split in splits], dtype=np.float64),
        memory=np.array([split.server_memory_bytes for split in splits], dtype=np.float64),
        edge_ptr=offsets([len(operator.inputs) for operator in operators]),
        producer=np.array([edge.producer for operator in operators for edge in operator.inputs], dtype=np.int64),
        fraction=np.array([edge.fraction for operator in operators for edge in operator.inputs], dtype=np.float64),
        channels=np.array([operator.output_elements for operator in operators], dtype=np.int64),
        element_bytes=np.array([operator.element_bytes for operator in operators], dtype=np.int64),
        mixes=np.array([operator.mixes_channels for operator in operators], dtype=np.bool_),
        weight_ptr=offsets([len(operator.weight_elements) for operator in operators]),
        weight_bytes=np.array(
            [GRADIENT_BYTES * elements for operator in operators for elements in operator.weight_elements],
            dtype=np.int64,
        ),
        local_ms=np.array(local, dtype=np.float64),
        group_base=group_base,
        pinned=np.array([-1 if op.pinned_offset is None else op.pinned_offset for op in operators], dtype=np.int64),
    )


FORWARD, BACKWARD, TRANSFER, ALLREDUCE = 0, 1, 2, 3


class GraphArrays(NamedTuple):
    """A task graph as simulations see it; fields as in `topoopt.core.workload.TaskGraph`."""

    kind: NDArray[np.int8]
    source: Int32s
    target: Int32s
    group: Int32s
    duration: Floats
    size: Ints
    operator: Int32s
    successor_ptr: Ints
    successor: Int32s


def strategy_arrays(strategy: Strategy) -> tuple[Ints, Ints]:
    return (
        np.array([placement.split for placement in strategy.placements], dtype=np.int64),
        np.array([placement.offset for placement in strategy.placements], dtype=np.int64),
    )


def build_task_graph(cluster: Cluster, workload: Workload, strategy: Strategy) -> TaskGraph:
    """Task graph of one iteration; AllReduce groups are all cosets, in the order of `strided_groups(n)`."""
    arrays = GraphArrays(*jobs.lower(workload_arrays(cluster, workload), *strategy_arrays(strategy)))
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


def demand_of(graph: TaskGraph) -> Demand:
    """Demand of one iteration (forward and backward transfers added up)."""
    n = graph.servers
    sent = graph.kind == TaskKind.TRANSFER
    slot = graph.source[sent].astype(np.int64) * n + graph.target[sent]
    matrix = np.zeros((n, n), dtype=np.float64)
    np.add.at(matrix.reshape(-1), slot, graph.bytes[sent].astype(np.float64))
    reduced = (graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0)
    payload = np.bincount(
        graph.group[reduced], weights=graph.bytes[reduced].astype(np.float64), minlength=len(graph.groups)
    )
    return Demand(
        model_parallel_bytes=matrix,
        allreduce=tuple(
            AllReduceDemand(members, float(payload[index]))
            for index, members in enumerate(graph.groups)
            if payload[index] > 0
        ),
    )
