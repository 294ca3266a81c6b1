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
    arcs, n = problem.topology.arcs.astype(np.int64), problem.topology.servers
    routes = [route for transfer in problem.transfers for route in transfer.routes]
    ends = [transfer.destination for transfer in problem.transfers for _ in transfer.routes]
    long = [len(route.arcs) for route in routes]
    used = np.concatenate([route.arcs for route in routes])
    rate = np.concatenate([route.fraction for route in routes]) * np.repeat(route_gbps, long)
    there = (arcs[used, 0] * n + np.repeat(np.array(ends, dtype=np.int64), long)) * n + arcs[used, 1]
    each, place = np.unique(there, return_inverse=True)
    gbps = np.bincount(place, weights=rate)
    kept = gbps > DUST * float(problem.capacity_gbps.max()) / 10
    (pair, head), gbps = np.divmod(each[kept], n), gbps[kept]
    hops = list(zip(head.tolist(), gbps.tolist(), strict=True))
    pairs, first = np.unique(pair, return_index=True)
    server, destination = np.divmod(pairs, n)
    after = [*first[1:].tolist(), len(hops)]
    return tuple(
        DestinationRate(own, to, tuple(hops[low:high]))
        for own, to, low, high in zip(server.tolist(), destination.tolist(), first.tolist(), after, strict=True)
    )


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
