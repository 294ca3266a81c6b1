"""A placement evaluated: arrays for the event simulator, schedules, rates of pairs of servers, loads of a pipeline.

Times are ms, sizes bytes, rates bytes/ms. In a pipeline a tensor that is cut costs the device of its producer once (the
slowest of its copies) and each other device with a consumer once; CPUs of the pool pay nothing.

References
----------
Tarnawski et al.: Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints, bytes_per_ms, offsets
from topoopt.core.data import Shown
from topoopt.core.errors import InfeasibleError
from topoopt.core.placement import (
    Latency,
    LinkShare,
    PlacementPlan,
    PlacementProblem,
    TensorTransfer,
    Throughput,
    queued_transfers,
    transfers_of,
)
from topoopt.native import placement

FAIR, FIFO, STATIC, ALONE = 0, 1, 2, 3
SHARING = {"fair": FAIR, "fifo": FIFO, "static": STATIC, "none": ALONE}
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


def topological_order(n: int, successors: list[list[int]]) -> Int32s:
    """Every producer before its consumers, depth first, so that a chain stays together.

    Raises:
        ValueError: The graph has a cycle (the reader refuses those).
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
        InfeasibleError: Devices of servers without links, where the network is needed.
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
        group_ptr=offsets([len(members) for members in groups]),
        group_member=np.array([index for members in groups for index in members], dtype=np.int32),
        tensor_ptr=offsets(counts.tolist()),
        tensor_size=np.array([tensor.size_bytes for tensor in problem.tensors], dtype=np.float64),
        user_ptr=offsets([len(tensor.consumers) for tensor in problem.tensors]),
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


# Static rates.


def uniform_rates(a: PlacementArrays) -> Floats:
    """float64[S, S]: every server the same part of its links for each other one that has devices."""
    used = np.zeros(len(a.network), dtype=np.bool_)
    used[a.server] = True
    others = max(1, int(used.sum()) - 1)
    pairs = used[:, None] & used[None, :] & ~np.eye(len(used), dtype=np.bool_)
    rates: Floats = np.where(pairs, np.minimum.outer(a.network, a.network) / others, 0.0)
    return rates


def within_links(a: PlacementArrays, rates: Floats) -> Floats:
    """The rates, scaled down where rounding put a server above its links."""
    links = np.maximum(a.network, 1e-300)
    scaled = rates / np.maximum(np.cumsum(rates, axis=1)[:, -1:] / links[:, None], 1.0)
    limited: Floats = scaled / np.maximum(np.cumsum(scaled, axis=0)[-1:] / links, 1.0)
    return limited


# Schedules.


StepTimes = tuple[float, Floats, Floats, Ints, Ints, Floats, Floats]
"""(makespan, start[n], end[n], tensor[], target[], start[], end[] of transfers)."""


@dataclass(frozen=True, eq=False)
class PlacedSchedule:
    """One step.

    Attributes:
        device: int64[n]; start_ms, end_ms: float64[n].
        transfers: ascending by start.
        rates: float64[S, S] bytes/ms, of sharing STATIC.
        makespan_ms: last end.
    """

    device: Ints
    start_ms: Floats
    end_ms: Floats
    transfers: tuple[TensorTransfer, ...]
    rates: Floats
    makespan_ms: float


def _scheduled(device: Ints, rates: Floats, times: StepTimes) -> PlacedSchedule:
    makespan, start, end, *transfers = times
    rows = sorted(
        zip(*(column.tolist() for column in transfers), strict=True), key=lambda row: (row[2], row[0], row[1])
    )
    return PlacedSchedule(device, start, end, tuple(TensorTransfer(*row) for row in rows), rates, makespan)


def simulated(a: PlacementArrays, device: Ints, rates: Floats, priority: Floats | None = None) -> PlacedSchedule:
    """The step by events; without priorities, longest tails first."""
    order = -placement.tails(a, device, rates) if priority is None else priority
    return _scheduled(device, rates, placement.simulate(a, device, rates, order))


def ordered(a: PlacementArrays, device: Ints, rates: Floats, start_ms: Floats) -> PlacedSchedule:
    """The step in the order of given starts, each device waiting for its next operator; only without contention.

    Raises:
        ValueError: Transfers contend.
    """
    if a.sharing != ALONE:
        raise ValueError("the order of operators says nothing about contending transfers")
    position = np.empty(len(device))
    position[a.topo] = np.arange(len(device))
    order = np.lexsort((position, start_ms)).astype(np.int64)
    return _scheduled(device, rates, placement.simulate_in_order(a, device, rates, order))


def pair_rates(problem: PlacementProblem, shares: Sequence[LinkShare]) -> Floats:
    """Return float64[S, S], Gbit/s of every pair of servers over all its links."""
    rates = np.zeros((len(problem.servers), len(problem.servers)))
    for share in shares:
        rates[share.source, share.target] += share.gbps
    return rates


def plan_transfers(problem: PlacementProblem, plan: PlacementPlan, end_ms: Floats) -> tuple[TensorTransfer, ...]:
    """Return every transfer of a schedule with its times, ascending by start, tensor and target.

    Transfers start when their producer ends, or as the plan states. Shared fairly, they end as the simulator says that
    runs the operators of each device in the order of their starts; else after the latency and the bytes at their rate.

    Args:
        problem, plan: of objective latency.
        end_ms: float64[n], of the operators.
    """
    a = placement_arrays(problem)
    rates = pair_rates(problem, plan.link_shares) * bytes_per_ms(1.0)
    if a.sharing == FAIR:
        return simulated(a, plan.device.astype(np.int64), rates, plan.start_ms).transfers
    queued = dict(zip(queued_transfers(problem, plan.device), plan.send_ms.tolist(), strict=True))
    rows = []
    for index, target in transfers_of(problem, plan.device):
        tensor = problem.tensors[index]
        s, t = a.server.item(int(plan.device[tensor.producer])), a.server.item(target)
        start = queued.get((index, target), end_ms.item(tensor.producer))
        if s == t:
            took = a.alpha_inside + (tensor.size_bytes / a.inside.item(s) if tensor.size_bytes else 0.0)
        elif not tensor.size_bytes:
            took = a.alpha
        else:
            rate = rates.item(s, t) if a.sharing == STATIC else min(a.network.item(s), a.network.item(t))
            took = a.alpha + (tensor.size_bytes / rate if rate > 0 else np.inf)
        rows.append(TensorTransfer(index, target, start, start + took))
    return tuple(sorted(rows, key=lambda row: (row.start_ms, row.tensor, row.target)))


# Loads of a pipeline.


@dataclass(frozen=True, repr=False)
class DeviceLoad(Shown):
    """What one device does per micro-batch (throughput) or in the step (latency).

    Attributes:
        forward_ms, backward_ms: compute of forward and backward operators.
        forward_communication_ms, backward_communication_ms: transfers of tensors that forward and backward operators
            make, in and out; 0 with objective latency, since they do not occupy the device.
        memory_bytes: resident.
    """

    forward_ms: float
    backward_ms: float
    forward_communication_ms: float
    backward_communication_ms: float
    memory_bytes: int

    @property
    def compute_ms(self) -> float:
        return self.forward_ms + self.backward_ms

    @property
    def communication_ms(self) -> float:
        return self.forward_communication_ms + self.backward_communication_ms


def device_loads(problem: PlacementProblem, device: Int32s) -> tuple[DeviceLoad, ...]:
    """Loads of all devices for a placement int32[operators]."""
    k = len(problem.devices)
    compute = np.zeros((k, 2))
    communication = np.zeros((k, 2))
    memory = [0] * k
    at = device.tolist()
    for index, operator in enumerate(problem.operators):
        where = at[index]
        compute[where, int(operator.backward)] += operator.times_ms[problem.devices[where].class_index]
        memory[where] += operator.memory_bytes
    for tensor in problem.tensors:
        source = at[tensor.producer]
        targets = {at[user] for user in tensor.consumers} - {source}
        if not targets:
            continue
        phase = int(problem.operators[tensor.producer].backward)
        costs = {target: problem.send_ms(tensor.size_bytes, source, target) for target in targets}
        communication[source, phase] += max(costs.values())
        for target, cost in costs.items():
            communication[target, phase] += cost
    for index, entry in enumerate(problem.devices):
        if entry.host:
            communication[index] = 0.0
    return tuple(
        DeviceLoad(
            float(compute[d, 0]),
            float(compute[d, 1]),
            float(communication[d, 0]),
            float(communication[d, 1]),
            memory[d],
        )
        for d in range(k)
    )


def max_load_ms(settings: Throughput, loads: Sequence[DeviceLoad]) -> float:
    """The objective: largest load, or largest forward plus largest backward load (GPipe)."""

    def joined(compute: float, communication: float) -> float:
        added = settings.communication == "added"
        return compute + communication if added else max(compute, communication)

    if settings.schedule == "gpipe":
        forward = max(joined(load.forward_ms, load.forward_communication_ms) for load in loads)
        return forward + max(joined(load.backward_ms, load.backward_communication_ms) for load in loads)
    return max(joined(load.compute_ms, load.communication_ms) for load in loads)


def compute_loads(problem: PlacementProblem, device: Int32s) -> tuple[DeviceLoad, ...]:
    """The same without communication, which does not occupy devices in objective latency."""
    return tuple(
        replace(load, forward_communication_ms=0.0, backward_communication_ms=0.0)
        for load in device_loads(replace(problem, tensors=()), device)
    )
