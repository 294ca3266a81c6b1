"""Seconds of a step over circuits and electrical interfaces, server by server; code of its own."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.core.arrays import Floats
from topoopt.core.regional_circuits import RegionalCircuitsProblem


def step_seconds(problem: RegionalCircuitsProblem, demand: Floats, counts: Sequence[int]) -> float:
    """Of a demand, with so many circuits of each pair."""
    circuits = dict(zip(problem.pairs, counts, strict=True))
    longest = 0.0
    for server in range(problem.servers):
        for there in (True, False):
            sent = [
                (float(demand[server, peer] if there else demand[peer, server]), circuits.get(_pair(server, peer), 0))
                for peer in range(problem.servers)
                if peer != server
            ]
            longest = max(longest, _one_side(problem, sent))
    return longest


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def _one_side(problem: RegionalCircuitsProblem, sent: Sequence[tuple[float, int]]) -> float:
    """What one server sends, or what reaches it: (bytes, circuits) by peer."""
    rate, electrical = problem.circuit_rate, problem.electrical_rate
    if not problem.split:
        wired = sum(amount for amount, count in sent if not count) / electrical
        return max([wired, *(amount / (rate * count) for amount, count in sent if count)])
    # Pairs that are done over circuits alone, the quickest first, leave the electrical interfaces one after another.
    left = sorted(sent, key=lambda one: one[0] / (rate * one[1]) if one[1] else float("inf"))
    amount, count = sum(one[0] for one in left), sum(one[1] for one in left)
    for own, circuits in left:
        time = amount / (electrical + rate * count)
        if not circuits or own > rate * circuits * time:
            return time
        amount, count = amount - own, count - circuits
    return 0.0


def switch_seconds(problem: RegionalCircuitsProblem, demand: Floats) -> float:
    """If all interfaces led into one electrical switch that nothing fills."""
    return max(
        max(float(demand[server].sum()), float(demand[:, server].sum()))
        / (problem.electrical_rate + problem.ports[server] * problem.circuit_rate)
        for server in range(problem.servers)
    )
