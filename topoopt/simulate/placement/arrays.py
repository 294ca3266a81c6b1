"""A placement problem of objective latency in arrays, as simulators take it. Times ms, sizes bytes, rates bytes/ms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.placement import Latency, PlacementProblem, Sharing
from topoopt.core.units import bytes_per_ms

FAIR, FIFO, STATIC, ALONE = 0, 1, 2, 3
SHARING = {Sharing.FAIR: FAIR, Sharing.FIFO: FIFO, Sharing.STATIC: STATIC, Sharing.NONE: ALONE}
UNLIMITED = np.iinfo(np.int64).max


class PlacementArrays(NamedTuple):
    """n operators, k devices, m tensors, S servers, G groups of co-located operators.

    Attributes:
        time: float64[n, k], inf where an operator cannot run.
        memory: int64[n]; room: int64[k].
        group: int32[n]; group_ptr: int64[G+1], group_member: int32[n]: members of each group.
        tensor_ptr: int64[n+1], tensors by producer; tensor_size: float64[m].
        user_ptr: int64[m+1], user: int32: consumers of each tensor.
        needs: int64[n], tensors each operator waits for (with repeats).
        topo: int32[n], every producer before its consumers.
        server: int64[k]; network: float64[S], links together; inside: float64[S], between devices of a server.
        alpha, alpha_inside: fixed time of a transfer between servers, and within one.
        sharing: FAIR, FIFO, STATIC or ALONE (no contention).
    """

    time: Floats
    memory: Ints
    room: Ints
    group: Int32s
    group_ptr: Ints
    group_member: Int32s
    tensor_ptr: Ints
    tensor_size: Floats
    user_ptr: Ints
    user: Int32s
    needs: Ints
    topo: Int32s
    server: Ints
    network: Floats
    inside: Floats
    alpha: float
    alpha_inside: float
    sharing: int


def _pointers(lengths: list[int]) -> Ints:
    pointers = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=pointers[1:])
    return pointers


def topological_order(n: int, successors: list[list[int]]) -> Int32s:
    """Every producer before its consumers, depth first, so that a chain stays together.

    Raises:
        ValueError: the graph has a cycle (the reader refuses those).
    """
    waiting = [0] * n
    for users in successors:
        for user in users:
            waiting[user] += 1
    stack = [index for index in range(n - 1, -1, -1) if not waiting[index]]
    order = []
    while stack:
        index = stack.pop()
        order.append(index)
        for user in reversed(successors[index]):
            waiting[user] -= 1
            if not waiting[user]:
                stack.append(user)
    if len(order) < n:
        raise ValueError("the graph has a cycle")
    return np.array(order, dtype=np.int32)


def placement_arrays(problem: PlacementProblem) -> PlacementArrays:
    """The arrays of a problem; tensors keep their numbers.

    Raises:
        InfeasibleError: devices of servers without links, where the network is needed.
    """
    n, objective = len(problem.operators), problem.objective
    sharing = SHARING[objective.sharing] if isinstance(objective, Latency) else FAIR
    by_class = np.array([operator.times_ms for operator in problem.operators], dtype=np.float64)
    groups = problem.colocated()
    group = np.zeros(n, dtype=np.int32)
    for index, members in enumerate(groups):
        group[list(members)] = index
    counts = np.zeros(n, dtype=np.int64)
    needs = np.zeros(n, dtype=np.int64)
    successors: list[list[int]] = [[] for _ in range(n)]
    for tensor in problem.tensors:
        counts[tensor.producer] += 1
        for user in tensor.consumers:
            needs[user] += 1
            successors[tensor.producer].append(user)
    users = [user for tensor in problem.tensors for user in tensor.consumers]
    used = sorted({device.server for device in problem.devices})
    network = np.array([bytes_per_ms(server.network_gbps) for server in problem.servers], dtype=np.float64)
    if len(used) > 1 and (network[used] <= 0).any():
        bare = problem.servers[next(index for index in used if network[index] <= 0)].name
        raise InfeasibleError(f"server {bare} has no link to the others")
    return PlacementArrays(
        time=np.ascontiguousarray(by_class[:, [device.class_index for device in problem.devices]]),
        memory=np.array([operator.memory_bytes for operator in problem.operators], dtype=np.int64),
        room=np.array(
            [UNLIMITED if device.memory_bytes is None else device.memory_bytes for device in problem.devices],
            dtype=np.int64,
        ),
        group=group,
        group_ptr=_pointers([len(members) for members in groups]),
        group_member=np.array([index for members in groups for index in members], dtype=np.int32),
        tensor_ptr=_pointers(counts.tolist()),
        tensor_size=np.array([tensor.size_bytes for tensor in problem.tensors], dtype=np.float64),
        user_ptr=_pointers([len(tensor.consumers) for tensor in problem.tensors]),
        user=np.array(users, dtype=np.int32),
        needs=needs,
        topo=topological_order(n, successors),
        server=np.array([device.server for device in problem.devices], dtype=np.int64),
        network=network,
        inside=np.array([bytes_per_ms(server.inside_gbps) for server in problem.servers], dtype=np.float64),
        alpha=float(problem.transfer_latency_ms),
        alpha_inside=float(problem.intra_latency_ms),
        sharing=sharing,
    )
