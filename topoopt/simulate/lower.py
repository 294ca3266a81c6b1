"""Strategy -> task graph, straight from split and offset arrays, no object per task.

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
from topoopt.core.workload import Strategy, TaskGraph, Workload, strided_groups
from topoopt.native import jobs
from topoopt.simulate.network import Network
from topoopt.simulate.workload_arrays import workload_arrays

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
    """(split, offset) arrays of a strategy."""
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
