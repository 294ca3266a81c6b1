"""Bounds on what any allocation of bandwidth can reach, evaluated in exact rational arithmetic.

For prices l_r >= 0 of what is shared, p_t the least price of a route of transfer t, and y_t >= 0, every allocation
obeys sum_t y_t x_t <= sum_r l_r capacity_r + sum_t max(0, y_t - p_t) max_t (weak duality), whoever found the prices.
max_t is the largest rate the transfer's own routes and its limit allow, so that prices a little too low do little harm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topoopt.core.allocation import GBIT_BYTES, AllocationGoal, AllocationProblem, Route, Surplus, Transfer
from topoopt.core.allocation_solution import PriceCertificate
from topoopt.core.arrays import Floats, Ints
from topoopt.core.proofs import Argument, Bound


def parts_of(problem: AllocationProblem, transfer: Transfer, route: Route) -> tuple[Ints, Floats]:
    """What a route uses (numbering of the problem), and which part of its traffic does."""
    m, n = len(problem.topology.arcs), problem.topology.servers
    ends = np.array([m + transfer.source, m + n + transfer.destination], dtype=np.int64)
    return np.concatenate((route.arcs, ends)), np.concatenate((route.fraction, np.ones(2)))


def base_and_gain(problem: AllocationProblem) -> tuple[Floats, Floats]:
    """float64[T] each: rates compared are (rate - base) / gain."""
    gain = [transfer.weight for transfer in problem.transfers]
    if problem.goal is AllocationGoal.COMPLETION_TIME:
        gain = [(transfer.size_bytes or 0.0) / GBIT_BYTES for transfer in problem.transfers]
    return np.array([transfer.min_gbps for transfer in problem.transfers]), np.array(gain)


def most_gbps(problem: AllocationProblem, transfer: Transfer) -> Fraction:
    """Largest rate the limit of a transfer, and its routes if it had them alone, allow."""
    shared = problem.shared_gbps()
    total = Fraction(0)
    for route in transfer.routes:
        numbers, parts = parts_of(problem, transfer, route)
        total += min(
            Fraction(float(shared[r])) / Fraction(float(part))
            for r, part in zip(numbers, parts, strict=True)
            if math.isfinite(shared[r])
        )
    return min(total, Fraction(transfer.max_gbps)) if math.isfinite(transfer.max_gbps) else total


@dataclass(frozen=True)
class PricedBound:
    """sum of value_t * rate_t over the transfers <= most, for every allocation."""

    value: dict[int, Fraction]
    most: Fraction


def priced_bound(problem: AllocationProblem, certificate: PriceCertificate) -> PricedBound:
    """What the prices prove.

    Raises:
        ValueError: prices or multipliers negative or not finite, or of something that does not exist or has no limit.
    """
    shared, transfers = problem.shared_gbps(), problem.transfers
    price, value = _read(certificate, len(shared), len(transfers))
    if any(not math.isfinite(shared[r]) for r in price):
        raise ValueError("a price of something without a limit")
    most = sum((Fraction(float(shared[r])) * cost for r, cost in price.items()), Fraction(0))
    for t, worth in value.items():
        cheapest = min(_route_price(problem, transfers[t], route, price) for route in transfers[t].routes)
        if worth > cheapest:
            most += (worth - cheapest) * most_gbps(problem, transfers[t])
    return PricedBound(value, most)


def _read(
    certificate: PriceCertificate, shared: int, transfers: int
) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    read = []
    for index, number, count in (
        (certificate.shared, certificate.price, shared),
        (certificate.valued, certificate.multiplier, transfers),
    ):
        if len(index) != len(number) or not np.isfinite(number).all() or (number < 0).any():
            raise ValueError("prices must be finite and not negative, one for each index")
        if len(np.unique(index)) < len(index) or (len(index) and not 0 <= index.min() <= index.max() < count):
            raise ValueError("an index that does not exist, or comes twice")
        read.append({int(i): Fraction(float(x)) for i, x in zip(index, number, strict=True) if x > 0})
    return read[0], read[1]


def _route_price(problem: AllocationProblem, transfer: Transfer, route: Route, price: dict[int, Fraction]) -> Fraction:
    numbers, parts = parts_of(problem, transfer, route)
    known = zip(numbers.tolist(), parts.tolist(), strict=True)
    return sum((price[r] * Fraction(part) for r, part in known if r in price), Fraction(0))


def level_bound(problem: AllocationProblem, certificate: PriceCertificate) -> Fraction | None:
    """No allocation lifts all transfers above base + gain * this; None if the certificate says nothing about it."""
    found = priced_bound(problem, certificate)
    base, gain = base_and_gain(problem)
    rising = sum((y * Fraction(float(gain[t])) for t, y in found.value.items()), Fraction(0))
    if rising <= 0:
        return None
    return (found.most - sum((y * Fraction(float(base[t])) for t, y in found.value.items()), Fraction(0))) / rising


def total_bound(problem: AllocationProblem, certificate: PriceCertificate) -> Fraction:
    """No allocation above the guarantees has a larger weighted sum of rates."""
    every = np.arange(len(problem.transfers), dtype=np.int64)
    weights = np.array([transfer.weight for transfer in problem.transfers])
    found = priced_bound(problem, PriceCertificate(every, certificate.shared, certificate.price, every, weights))
    price = {int(r): Fraction(float(x)) for r, x in zip(certificate.shared, certificate.price, strict=True)}
    # Where the price exceeds the weight, every guaranteed unit costs the difference.
    lost = Fraction(0)
    for transfer in problem.transfers:
        if transfer.min_gbps > 0:
            cheapest = min(_route_price(problem, transfer, route, price) for route in transfer.routes)
            lost += max(Fraction(0), cheapest - Fraction(transfer.weight)) * Fraction(transfer.min_gbps)
    return found.most - lost


def tightest_link(problem: AllocationProblem) -> PriceCertificate:
    """The best bound on the level that one shared thing, or one limit, gives; transfers with one route each."""
    shared = problem.shared_gbps()
    base, gain = base_and_gain(problem)
    uses = [parts_of(problem, transfer, transfer.routes[0]) for transfer in problem.transfers]
    numbers, parts = np.concatenate([one for one, _ in uses]), np.concatenate([part for _, part in uses])
    who = np.repeat(np.arange(len(uses), dtype=np.int64), [len(one) for one, _ in uses])
    kept = np.bincount(numbers, parts * base[who], len(shared))
    rising = np.bincount(numbers, parts * gain[who], len(shared))
    level = np.full(len(shared), np.inf)
    used = np.isfinite(shared) & (rising > 0)
    level[used] = (shared[used] - kept[used]) / rising[used]
    own = (np.array([transfer.max_gbps for transfer in problem.transfers]) - base) / gain
    best = int(np.argmin(level))
    if own.min() < level[best]:
        alone = np.array([int(np.argmin(own))])
        return PriceCertificate(alone, np.zeros(0, dtype=np.int64), np.zeros(0), alone, np.ones(1))
    here = numbers == best
    return PriceCertificate(who[here], np.array([best]), np.ones(1), who[here], parts[here])


def allocation_bound(problem: AllocationProblem, certificates: tuple[PriceCertificate, ...]) -> Bound:
    """Bound on the objective of any allocation: from above for rates, from below for a completion time.

    Without certificates every transfer must have one route; then the tightest link proves as much as any.

    Raises:
        ValueError: certificates that are none, or that say nothing about the objective.
    """
    if problem.goal is AllocationGoal.MIN_GUARANTEE and problem.surplus is Surplus.SUM:
        return Bound(_up(total_bound(problem, certificates[0])), Argument.LINK_PRICES)
    single = problem.single_route
    proofs = (tightest_link(problem),) if single else certificates[:1]
    levels = [level for proof in proofs if (level := level_bound(problem, proof)) is not None]
    if not levels:
        raise ValueError("the certificates bound nothing")
    why = Argument.TIGHTEST_LINK if single else Argument.LINK_PRICES
    least = max(min(levels), Fraction(0))
    if problem.goal is AllocationGoal.COMPLETION_TIME:
        return Bound(_down(1 / least), why)
    return Bound(_up(least), why)


def _up(exact: Fraction) -> float:
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def _down(exact: Fraction) -> float:
    value = float(exact)
    return value if Fraction(value) <= exact else math.nextafter(value, -math.inf)
