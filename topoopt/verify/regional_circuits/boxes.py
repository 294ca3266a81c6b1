"""Boxes of circuits in which nothing is done by a time, shown by multipliers, and what that proves of all steps.

In a box a pair has between `least` and `most` circuits. By time T it needs ceil(D / (b T)) of them to carry all it
sends; what circuits do not carry goes over the electrical interfaces, and with fewer circuits than it needs, but some,
a pair that may not use these is late. Ports, and the bytes that leave and reach each server, have multipliers. If for
every pair the cheapest of its choices is taken and they cost more together than all ports and all that the interfaces
carry in T, then no circuits in the box are done by T (weak duality).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.regional_circuits_solution import StepsProof

ROUNDING = 1e-12
"""Part of a circuit, and of the sum of prices, that is rounding."""

Counts = list[int]


def check_proof(problem: RegionalCircuitsProblem, proof: StepsProof) -> None:
    """Walk the tree of a proof.

    Raises:
        ValueError: it is no tree, or one of its boxes is not closed.
    """
    if proof.bound_s <= 0.0:
        return
    demand = problem.demands[proof.first : proof.last + 1].sum(axis=0)
    sent = [(float(demand[one, other]), float(demand[other, one])) for one, other in problem.pairs]
    most = [min(problem.ports[one], problem.ports[other]) for one, other in problem.pairs]
    waiting: list[tuple[Counts, Counts]] = [([0] * len(most), most)]
    prices: Iterator[tuple[float, ...]] = iter(proof.multipliers)
    for pair, count in proof.tree:
        if not waiting:
            raise ValueError("more splits than boxes")
        low, high = waiting.pop()
        if pair < 0:
            own = next(prices, None)
            if (
                own is None
                or len(own) != 3 * problem.servers
                or not _closed(problem, sent, proof.bound_s, low, high, own)
            ):
                raise ValueError(f"a box from {low} to {high} is open")
            continue
        if pair >= len(most) or not low[pair] <= count < high[pair]:
            raise ValueError(f"pair {pair} cannot be split at {count}")
        below, above = list(high), list(low)
        below[pair], above[pair] = count, count + 1
        waiting += [(above, high), (low, below)]
    if waiting or next(prices, None) is not None:
        raise ValueError(f"{len(waiting)} boxes are not looked at, or multipliers are left")


def _closed(
    problem: RegionalCircuitsProblem,
    sent: list[tuple[float, float]],
    time: float,
    low: Counts,
    high: Counts,
    prices: tuple[float, ...],
) -> bool:
    """Whether no circuits of a box are done by the time."""
    if not all(math.isfinite(price) and price >= 0.0 for price in prices):
        return False
    n, wired = problem.servers, problem.electrical_rate * time
    port = [price / max(own, 1) for price, own in zip(prices[:n], problem.ports, strict=True)]
    leaving = [price / wired for price in prices[n : 2 * n]]
    reaching = [price / wired for price in prices[2 * n :]]
    cheapest = []
    for (one, other), (there, back), least, most in zip(problem.pairs, sent, low, high, strict=True):
        choices = [
            count * (port[one] + port[other])
            + out * (leaving[one] + reaching[other])
            + home * (leaving[other] + reaching[one])
            for count, out, home in _choices(problem, there, back, time, least, most)
        ]
        if not choices:
            return True
        cheapest.append(min(choices))
    return math.fsum(cheapest) > math.fsum(prices) * (1.0 + ROUNDING * 10) > 0.0


def _choices(
    problem: RegionalCircuitsProblem, there: float, back: float, time: float, least: int, most: int
) -> Iterator[tuple[int, float, float]]:
    """(circuits, bytes left to the electrical network each way) that a pair may have; more would only cost ports."""
    unit = problem.circuit_rate * time
    need = math.ceil(max(there, back) / unit * (1.0 - ROUNDING))
    if problem.split:
        for count in range(least, min(most, max(least, need)) + 1):
            yield count, max(0.0, there - unit * count), max(0.0, back - unit * count)
        return
    if least == 0:
        yield 0, there, back
    if max(least, need) <= most:
        yield max(least, need), 0.0, 0.0


def least_seconds(problem: RegionalCircuitsProblem, proofs: tuple[StepsProof, ...]) -> float:
    """What transfers and stalls of all steps take at least, if the proofs hold.

    Circuits stay over runs of steps. A run takes no less than any of its parts by themselves together; each run but the
    first costs its stall.
    """
    steps = len(problem.demands)
    run = np.zeros((steps, steps))
    for proof in proofs:
        run[proof.first, proof.last] = max(run[proof.first, proof.last], proof.bound_s)
    for length in range(2, steps + 1):
        for first in range(steps - length + 1):
            last = first + length - 1
            parts = run[first, first:last] + run[first + 1 : last + 1, last]
            run[first, last] = max(run[first, last], float(parts.max()))
    least: list[float] = []
    for last in range(steps):
        begins = [
            (least[first - 1] + problem.stalls_s[first] if first else 0.0) + float(run[first, last])
            for first in range(last + 1)
        ]
        least.append(min(begins))
    return least[-1]
