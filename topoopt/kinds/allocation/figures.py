"""Figures that follow from the rates of the routes: loads, what limits a transfer, what every server sends where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.allocation import network_of, shares_of
from topoopt.core.allocation import AllocationGoal, AllocationProblem
from topoopt.core.allocation_solution import DUST, DestinationRate, TransferRate
from topoopt.core.arrays import Floats
from topoopt.core.solution import Objective
from topoopt.kinds.allocation.methods import wants_total

FULL = 1e-6
"""Part of a capacity that may be free on what is called full."""


def link_loads(problem: AllocationProblem, route_gbps: Floats) -> Floats:
    """float64[m+2n], rate on everything that is shared (numbering of the problem)."""
    load = np.zeros(len(problem.shared_gbps()))
    at = 0
    m, n = len(problem.topology.arcs), problem.topology.servers
    for transfer in problem.transfers:
        for route in transfer.routes:
            load[route.arcs] += route.fraction * route_gbps[at]
            load[[m + transfer.source, m + n + transfer.destination]] += route_gbps[at]
            at += 1
    return load


def limits_of(problem: AllocationProblem, route_gbps: Floats) -> tuple[tuple[str, ...], ...]:
    """For every transfer what is full on all its ways: full links of its routes, full servers, or its own limit.

    With several routes, a full thing on any of them is named; each of them has one, or the transfer is at its limit.
    """
    network = network_of(problem)
    load = link_loads(problem, route_gbps)[network.numbers]
    full = load >= network.capacity * (1 - FULL)
    found: list[set[int]] = [set() for _ in problem.transfers]
    for shared, route in zip(network.shared.tolist(), network.route.tolist(), strict=True):
        if full[shared]:
            found[int(network.owner[route])].add(shared)
    rates = np.bincount(network.owner, weights=route_gbps)
    return tuple(
        (
            *(network.names[shared] for shared in sorted(numbers)),
            *(["its own limit"] if rate >= transfer.max_gbps * (1 - FULL) else []),
        )
        for numbers, rate, transfer in zip(found, rates, problem.transfers, strict=True)
    )


def destination_rates(problem: AllocationProblem, route_gbps: Floats) -> tuple[DestinationRate, ...]:
    """What every server sends towards each destination, its own traffic and that of others, by next hop."""
    arcs = problem.topology.arcs
    out: dict[tuple[int, int], dict[int, float]] = {}
    at = 0
    for transfer in problem.transfers:
        for route in transfer.routes:
            rate = float(route_gbps[at])
            at += 1
            for arc, part in zip(route.arcs.tolist(), route.fraction.tolist(), strict=True):
                hops = out.setdefault((int(arcs[arc, 0]), transfer.destination), {})
                head = int(arcs[arc, 1])
                hops[head] = hops.get(head, 0.0) + part * rate
    smallest = DUST * float(problem.capacity_gbps.max()) / 10
    rows = []
    for (server, destination), hops in sorted(out.items()):
        used = tuple((head, rate) for head, rate in sorted(hops.items()) if rate > smallest)
        if used:
            rows.append(DestinationRate(server, destination, used))
    return tuple(rows)


def reached(problem: AllocationProblem, rates: Sequence[TransferRate]) -> Objective:
    """The objective under the goal of the problem: the last completion, the total, or the lowest level."""
    if problem.goal is AllocationGoal.COMPLETION_TIME:
        times = [row.completion_time_s for row in rates if row.completion_time_s is not None]
        return Objective("completion_time", max(times), "s")
    shares, gbps = shares_of(problem), np.array([row.rate_gbps for row in rates])
    if wants_total(problem):
        return Objective("weighted_total_rate", float(shares.gain @ gbps), "Gbit/s")
    lowest = float(((gbps - shares.base) / shares.gain).min())
    if problem.goal is AllocationGoal.MIN_GUARANTEE:  # met up to rounding, and what is above is never negative
        return Objective("min_surplus", max(lowest, 0.0), "Gbit/s")
    return Objective("min_weighted_rate" if problem.goal is AllocationGoal.WEIGHTED else "min_rate", lowest, "Gbit/s")
