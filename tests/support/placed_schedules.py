"""The least makespan of a small graph without contention, by all assignments and all orders: plain code."""

from __future__ import annotations

import itertools

import numpy as np

from tests.support.placement_cases import all_placements
from topoopt.core.placement import PlacementProblem


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
