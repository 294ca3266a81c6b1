"""Lower bounds on the makespan of any placement, from arguments a reader can follow; no solver.

* critical path: fastest times, and a transfer wherever two co-located groups fit no device together;
* work: all operators at their fastest, over all devices;
* group: the members of one group run one after another on one device, between the first head and the last tail;
* memory: with at least r devices needed, r parts of the graph have to be joined by transfers: only on a chain;
* egress, ingress: what one group must send or receive over its server's links, see `placement_ports`.
"""

from __future__ import annotations

from itertools import pairwise

from topoopt.core.placement import PlacementProblem
from topoopt.core.proofs import Argument, Bound
from topoopt.verify.placement.ports import port_bounds


def _fastest(problem: PlacementProblem) -> list[float]:
    used = sorted({device.class_index for device in problem.devices})
    return [min(operator.times_ms[index] for index in used) for operator in problem.operators]


def _least_transfer(problem: PlacementProblem, size_bytes: int) -> float:
    """Of a tensor between any two devices, alone."""
    per_ms = 1e9 / 8 / 1e3
    servers: dict[int, int] = {}
    for device in problem.devices:
        servers[device.server] = servers.get(device.server, 0) + 1
    times = []
    rates = sorted((sum(link.gbps for link in problem.servers[s].links) for s in servers), reverse=True)
    if len(rates) > 1 and rates[1] > 0:
        times.append(problem.transfer_latency_ms + size_bytes / (rates[1] * per_ms))
    for s, count in servers.items():
        if count > 1:
            server = problem.servers[s]
            links = sum(link.gbps for link in server.links)
            gbps = links if server.intra_gbps is None else server.intra_gbps
            times.append(problem.intra_latency_ms + (size_bytes / (gbps * per_ms) if size_bytes else 0.0))
    return min(times, default=0.0)


def _order(problem: PlacementProblem, users: list[list[tuple[int, float]]]) -> list[int]:
    waiting = [0] * len(users)
    for row in users:
        for user, _ in row:
            waiting[user] += 1
    ready = [i for i, count in enumerate(waiting) if not count]
    for i in ready:  # grows while it is read
        for user, _ in users[i]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return ready


def latency_bounds(problem: PlacementProblem) -> dict[Argument, float]:
    """Each bound by its argument, ms."""
    fast = _fastest(problem)
    groups = problem.colocated()
    group_of = {i: number for number, members in enumerate(groups) for i in members}
    memory = [sum(problem.operators[i].memory_bytes for i in members) for members in groups]
    rooms = [device.memory_bytes for device in problem.devices]
    largest = None if any(room is None for room in rooms) else max(room for room in rooms if room is not None)
    users: list[list[tuple[int, float]]] = [[] for _ in fast]
    for tensor in problem.tensors:
        least: float | None = None
        for user in tensor.consumers:
            one, other = group_of[tensor.producer], group_of[user]
            cost = 0.0
            if one != other and largest is not None and memory[one] + memory[other] > largest:
                least = _least_transfer(problem, tensor.size_bytes) if least is None else least
                cost = least
            users[tensor.producer].append((user, cost))
    order = _order(problem, users)
    head, tail = [0.0] * len(fast), [0.0] * len(fast)
    for i in order:
        for user, cost in users[i]:
            head[user] = max(head[user], head[i] + fast[i] + cost)
    for i in reversed(order):
        tail[i] = fast[i] + max((cost + tail[user] for user, cost in users[i]), default=0.0)
    bounds = {Argument.OPERATOR_CHAIN: max(tail), Argument.DEVICE_WORK: sum(fast) / len(problem.devices)}
    for members in groups:
        if len(members) > 1:
            work = sum(fast[i] for i in members)
            value = min(head[i] for i in members) + work + min(tail[i] - fast[i] for i in members)
            bounds[Argument.COLOCATED_GROUP] = max(value, bounds.get(Argument.COLOCATED_GROUP, 0.0))
    bounds |= port_bounds(problem, groups, memory, [at + time for at, time in zip(head, fast, strict=True)], tail)
    chain = _chain_cuts(problem, order, users, memory, rooms)
    if chain > 0:
        bounds[Argument.MEMORY_CUTS] = sum(fast) + chain
    return bounds


def _chain_cuts(
    problem: PlacementProblem,
    order: list[int],
    users: list[list[tuple[int, float]]],
    memory: list[int],
    rooms: list[int | None],
) -> float:
    """Transfers that memory forces on a graph where every operator waits for the one before; 0 for other graphs."""
    follows = all(any(user == after for user, _ in users[before]) for before, after in pairwise(order))
    if not follows or len(memory) < len(order) or any(room is None for room in rooms):
        return 0.0
    known = sorted((room for room in rooms if room is not None), reverse=True)
    total, needed = sum(memory), 0
    while needed < len(known) and sum(known[:needed]) < total:
        needed += 1
    costs = []
    position = {i: at for at, i in enumerate(order)}
    for tensor in problem.tensors:
        # a tensor to the next operator is what a cut at that place delays at least
        if any(position[user] == position[tensor.producer] + 1 for user in tensor.consumers):
            costs.append((position[tensor.producer], _least_transfer(problem, tensor.size_bytes)))
    by_place: dict[int, float] = {}
    for place, cost in costs:
        by_place[place] = max(cost, by_place.get(place, 0.0))
    return sum(sorted(by_place.values())[: max(0, needed - 1)])


def latency_floor(problem: PlacementProblem) -> Bound:
    """The largest of them."""
    bounds = latency_bounds(problem)
    argument = max(bounds, key=lambda key: bounds[key])
    return Bound(bounds[argument], argument)
