"""The least makespan of a small graph, without contention or with queues, by all assignments and orders: plain code."""

from __future__ import annotations

import itertools

import numpy as np

from tests.support.placement_cases import all_placements
from topoopt.core.placement import PlacementProblem, transfers_of


def topological_orders(problem: PlacementProblem) -> list[tuple[int, ...]]:
    """All orders in which no operator stands before one it needs."""
    needs = {(tensor.producer, user) for tensor in problem.tensors for user in tensor.consumers}
    found = []
    for order in itertools.permutations(range(len(problem.operators))):
        place = {operator: i for i, operator in enumerate(order)}
        if all(place[a] < place[b] for a, b in needs):
            found.append(order)
    return found


def alone_ms(problem: PlacementProblem, one: int, other: int, size_bytes: int) -> float:
    """A transfer that has the links for itself."""
    a, b = (problem.devices[d].server for d in (one, other))
    rates = [sum(link.gbps for link in problem.servers[s].links) for s in (a, b)]
    if a == b:
        rate, fixed = problem.servers[a].intra_gbps or rates[0], problem.intra_latency_ms
    else:
        rate, fixed = min(rates), problem.transfer_latency_ms
    return fixed + size_bytes / (rate * 125_000)


def least_makespan_alone(problem: PlacementProblem) -> float:
    """Every operator of an order starts when its device has done those before it, and its inputs are there."""
    best = np.inf
    orders = topological_orders(problem)
    for device in all_placements(problem):
        for order in orders:
            free = dict.fromkeys(device, 0.0)
            end: dict[int, float] = {}
            for i in order:
                time = problem.operators[i].times_ms[problem.devices[device[i]].class_index]
                start = free[device[i]] if time else 0.0
                for tensor in problem.tensors:
                    if i in tensor.consumers:
                        home = device[tensor.producer]
                        sent = 0.0 if home == device[i] else alone_ms(problem, home, device[i], tensor.size_bytes)
                        start = max(start, end[tensor.producer] + sent)
                end[i] = start + time
                if time:
                    free[device[i]] = end[i]
            best = min(best, max(end.values()))
    return float(best)


def least_makespan_queued(problem: PlacementProblem) -> float:
    """All orders of operators and of transfers between servers, which take the ports of both for their whole time."""
    best = np.inf
    for device in all_placements(problem):
        best = min(best, _least_of_orders(problem, device, best))
    return float(best)


def _least_of_orders(problem: PlacementProblem, device: tuple[int, ...], best: float) -> float:
    server = [problem.devices[d].server for d in device]
    transfers = [
        (e, target)
        for e, target in transfers_of(problem, np.array(device, dtype=np.int32))
        if problem.tensors[e].size_bytes and server[problem.tensors[e].producer] != problem.devices[target].server
    ]

    def arrival(e: int, target: int, times: dict[object, float]) -> float | None:
        producer = problem.tensors[e].producer
        if (e, target) in transfers:
            return times.get((e, target))
        if producer not in times or device[producer] == target:
            return times.get(producer)
        return times[producer] + alone_ms(problem, device[producer], target, problem.tensors[e].size_bytes)

    def go(times: dict[object, float], free: dict[object, float]) -> None:
        nonlocal best
        if max(times.values(), default=0.0) >= best:
            return
        if len(times) == len(problem.operators) + len(transfers):
            best = max(times.values())
            return
        for i, operator in enumerate(problem.operators):
            ready = [arrival(e, device[i], times) for e, row in enumerate(problem.tensors) if i in row.consumers]
            if i in times or None in ready:
                continue
            time = operator.times_ms[problem.devices[device[i]].class_index]
            end = max([free.get(device[i], 0.0) if time else 0.0, *(at for at in ready if at is not None)]) + time
            go({**times, i: end}, {**free, device[i]: end} if time else free)
        for e, target in transfers:
            producer = problem.tensors[e].producer
            if producer not in times or (e, target) in times:
                continue
            ports = ("out", server[producer]), ("in", problem.devices[target].server)
            start = max(times[producer], *(free.get(port, 0.0) for port in ports))
            end = start + alone_ms(problem, device[producer], target, problem.tensors[e].size_bytes)
            go({**times, (e, target): end}, {**free, **dict.fromkeys(ports, end)})

    go({}, {})
    return best
