"""The checker of bandwidth allocations: capacities, limits, guarantees, bound and fairness, without a solver.

Bounds are evaluated in exact rational arithmetic. For prices l_r >= 0 of the resources, p_t the least price of a route
of transfer t, and y_t >= 0, every allocation x obeys

    sum_t y_t x_t  <=  sum_r l_r capacity_r + sum_t max(0, y_t - p_t) max_t        (weak duality)

whoever computed the prices. max_t is the largest rate that the routes of the transfer and its own limit allow.

References
----------
Bertsekas, Gallager: Data Networks, section 6.5.2 (bottlenecks and max-min fairness).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from topoopt.core.allocation import (
    GBIT_BYTES,
    AllocationPlan,
    AllocationProblem,
    Route,
    Transfer,
    price_certificate,
    problem_errors,
)
from topoopt.core.arrays import Floats, Ints
from topoopt.core.proofs import Argument, Tolerance
from topoopt.core.result import Certificate, Result
from topoopt.verify.checker import Checker, Derivation, as_float, float_array, int_array

ROUNDING = Tolerance.ROUNDING.relative
"""Part of a load or a capacity that rounding explains."""

GUARANTEE = Tolerance.LINEAR_PROGRAM.relative
"""Part of a guarantee that may be missing, and of a rate that a transfer may gain: accuracy of linear programs."""

AllocationResult = Result[AllocationProblem, AllocationPlan]


def usage_of(problem: AllocationProblem) -> tuple[Ints, Ints, Floats]:
    """Return the resources that the routes use, as one sparse matrix in coordinates.

    Returns:
        Resource and route, int64[e] each; and float64[e], part of the traffic of the route on the resource.
    """
    routes = [(transfer, route) for transfer in problem.transfers for route in transfer.routes]
    resources, fractions = zip(*(resources_of(problem, *row) for row in routes), strict=True)
    lengths = [len(row) for row in resources]
    return np.concatenate(resources), np.repeat(np.arange(len(routes)), lengths), np.concatenate(fractions)


def resources_of(problem: AllocationProblem, transfer: Transfer, route: Route) -> tuple[Ints, Floats]:
    """Return the resources that a route uses, and the part of its traffic on each."""
    m, n = len(problem.topology.arcs), problem.topology.servers
    ends = np.array([m + transfer.source, m + n + transfer.destination], dtype=np.int64)
    return np.concatenate((route.arcs, ends)), np.concatenate((route.fraction, np.ones(2)))


def base_and_gain(problem: AllocationProblem) -> tuple[Floats, Floats]:
    """Return float64[T] each: fairness compares the levels (rate - base) / gain."""
    gain = [transfer.weight for transfer in problem.transfers]
    if problem.goal == "completion-time":
        gain = [(transfer.size_bytes or 0.0) / GBIT_BYTES for transfer in problem.transfers]
    return np.array([transfer.min_gbps for transfer in problem.transfers]), np.array(gain)


# Constraints of a plan.


def rate_for_each_route(problem: AllocationProblem, plan: AllocationPlan) -> Iterator[str]:
    """One finite rate for each route, not negative; the routes of the problem are sound."""
    yield from problem_errors(problem)
    rates = float_array(plan.route_gbps, 1)
    if rates is None or len(rates) != len(problem.owner):
        yield f"not one rate for each of the {len(problem.owner)} routes"
    elif not (np.isfinite(rates) & (rates >= 0)).all():
        yield f"{int((~(np.isfinite(rates) & (rates >= 0))).sum())} rates are negative or not finite"


def within_capacities(problem: AllocationProblem, plan: AllocationPlan) -> Iterator[str]:
    """No resource carries more than its capacity."""
    capacity, (resource, route, fraction) = problem.shared_gbps(), usage_of(problem)
    load = np.bincount(resource, fraction * plan.route_gbps[route], len(capacity))
    for r in np.flatnonzero(~(load <= capacity * (1 + ROUNDING))).tolist():
        yield f"{problem.shared_name(r)} carries {load.item(r)!r} Gbit/s, at most {capacity.item(r)!r}"


def within_limits(problem: AllocationProblem, plan: AllocationPlan) -> Iterator[str]:
    """No transfer has more than its limit."""
    for transfer, rate in zip(problem.transfers, plan.rates_gbps(problem).tolist(), strict=True):
        if not rate <= transfer.max_gbps * (1 + ROUNDING):
            yield f"{transfer.name}: {rate!r} Gbit/s, at most {transfer.max_gbps!r}"


def guarantees_met(problem: AllocationProblem, plan: AllocationPlan) -> Iterator[str]:
    """Every transfer has its guaranteed rate."""
    for transfer, rate in zip(problem.transfers, plan.rates_gbps(problem).tolist(), strict=True):
        if not rate >= transfer.min_gbps * (1 - GUARANTEE):
            yield f"{transfer.name}: {rate!r} Gbit/s, {transfer.min_gbps!r} guaranteed"


# Objective.


def objective_name(problem: AllocationProblem) -> tuple[str, str]:
    """Return name and unit of the objective."""
    if problem.goal == "completion-time":
        return "completion_time", "s"
    if problem.wants_total:
        return "weighted_total_rate", "Gbit/s"
    names = {"max-min": "min_rate", "weighted": "min_weighted_rate"}
    return names.get(problem.goal, "min_surplus"), "Gbit/s"


def objective_value(problem: AllocationProblem, plan: AllocationPlan) -> float:
    """Return the last completion, the weighted sum, or the lowest level of the rates."""
    rates = plan.rates_gbps(problem)
    base, gain = base_and_gain(problem)
    if problem.goal == "completion-time":
        return float((gain / rates).max())
    if problem.wants_total:
        return float(gain @ rates)
    level = float(((rates - base) / gain).min())
    # A guarantee may be missed by rounding; the surplus is never negative.
    return max(level, 0.0) if problem.goal == "min-guarantee" else level


# Bounds.


def priced_bound(problem: AllocationProblem, certificate: Certificate) -> tuple[Mapping[int, Fraction], Fraction]:
    """Return (value, limit) that the prices of a certificate prove: sum of value_t * rate_t <= limit, for all rates.

    Raises:
        ValueError: prices or multipliers that are negative, not finite, or of something that does not exist or has no
            limit.
    """
    capacity, transfers = problem.shared_gbps(), problem.transfers
    price = _entries(certificate, "resources", "price", len(capacity))
    value = _entries(certificate, "valued", "multiplier", len(transfers))
    if any(not math.isfinite(capacity[r]) for r in price):
        raise ValueError("a price of something without a limit")
    limit = sum((Fraction(float(capacity[r])) * cost for r, cost in price.items()), Fraction(0))
    for t, weight in value.items():
        cheapest = _least_price(problem, transfers[t], price)
        if weight > cheapest:
            limit += (weight - cheapest) * max_gbps(problem, transfers[t])
    return value, limit


def _entries(certificate: Certificate, indices: str, numbers: str, count: int) -> dict[int, Fraction]:
    index, number = int_array(certificate[indices], 1), float_array(certificate[numbers], 1)
    if index is None or number is None or len(index) != len(number):
        raise ValueError(f"{indices} and {numbers} are not vectors of equal length")
    if not np.isfinite(number).all() or (number < 0).any():
        raise ValueError(f"{numbers} must be finite and not negative")
    if len(np.unique(index)) < len(index) or (len(index) and not 0 <= index.min() <= index.max() < count):
        raise ValueError(f"{indices}: an index that does not exist, or comes twice")
    return {int(i): Fraction(float(x)) for i, x in zip(index, number, strict=True) if x > 0}


def _least_price(problem: AllocationProblem, transfer: Transfer, price: Mapping[int, Fraction]) -> Fraction:
    def of(route: Route) -> Fraction:
        rows = zip(*(array.tolist() for array in resources_of(problem, transfer, route)), strict=True)
        return sum((price[r] * Fraction(part) for r, part in rows if r in price), Fraction(0))

    return min(map(of, transfer.routes))


def max_gbps(problem: AllocationProblem, transfer: Transfer) -> Fraction:
    """Return the largest rate that the limit of a transfer, and its routes without other traffic, allow."""
    capacity, total = problem.shared_gbps(), Fraction(0)
    for route in transfer.routes:
        rows = zip(*(array.tolist() for array in resources_of(problem, transfer, route)), strict=True)
        total += min(Fraction(capacity.item(r)) / Fraction(part) for r, part in rows if math.isfinite(capacity[r]))
    return min(total, Fraction(transfer.max_gbps)) if math.isfinite(transfer.max_gbps) else total


def level_bound(problem: AllocationProblem, certificate: Certificate) -> Fraction:
    """Return a level that no allocation exceeds for all transfers.

    Raises:
        ValueError: the certificate bounds no level.
    """
    value, limit = priced_bound(problem, certificate)
    base, gain = base_and_gain(problem)
    rising = sum((y * Fraction(float(gain[t])) for t, y in value.items()), Fraction(0))
    if rising <= 0:
        raise ValueError("the certificate bounds nothing")
    fixed = sum((y * Fraction(float(base[t])) for t, y in value.items()), Fraction(0))
    return max((limit - fixed) / rising, Fraction(0))


def total_bound(problem: AllocationProblem, certificates: Sequence[Certificate]) -> float:
    """Return a weighted sum of rates that no allocation above the guarantees exceeds."""
    prices = _first(certificates)
    every = np.arange(len(problem.transfers), dtype=np.int64)
    weights = np.array([transfer.weight for transfer in problem.transfers])
    _, limit = priced_bound(problem, price_certificate(every, prices["resources"], prices["price"], every, weights))
    price = _entries(prices, "resources", "price", len(problem.shared_gbps()))
    # Where the price exceeds the weight, every guaranteed unit costs the difference.
    costly = ((t, _least_price(problem, t, price)) for t in problem.transfers if t.min_gbps > 0)
    lost = (max(Fraction(0), cheapest - Fraction(t.weight)) * Fraction(t.min_gbps) for t, cheapest in costly)
    return _rounded_up(limit - sum(lost, Fraction(0)))


def tightest_link(problem: AllocationProblem) -> Certificate:
    """Return the best bound on the level that one resource, or one limit, gives; transfers have one route each."""
    capacity, (resource, route, fraction) = problem.shared_gbps(), usage_of(problem)
    base, gain = base_and_gain(problem)
    fixed = np.bincount(resource, fraction * base[route], len(capacity))
    rising = np.bincount(resource, fraction * gain[route], len(capacity))
    level = np.full(len(capacity), np.inf)
    used = np.isfinite(capacity) & (rising > 0)
    level[used] = (capacity[used] - fixed[used]) / rising[used]
    limits = (np.array([transfer.max_gbps for transfer in problem.transfers]) - base) / gain
    best = int(np.argmin(level))
    if limits.min() < level[best]:
        alone, none = np.array([int(np.argmin(limits))]), np.zeros(0, dtype=np.int64)
        return price_certificate(alone, none, np.zeros(0), alone, np.ones(1))
    users = resource == best
    transfers = route[users]
    return price_certificate(transfers, np.array([best]), np.ones(1), transfers, fraction[users])


def _link_prices(problem: AllocationProblem, certificates: Sequence[Certificate]) -> float:
    return _of_level(problem, level_bound(problem, _first(certificates)))


def _tightest_link(problem: AllocationProblem, certificates: Sequence[Certificate]) -> float:
    return _of_level(problem, level_bound(problem, tightest_link(problem)))


def _first(certificates: Sequence[Certificate]) -> Certificate:
    if not certificates:
        raise ValueError("there is no certificate")
    return certificates[0]


def _of_level(problem: AllocationProblem, level: Fraction) -> float:
    """Return the bound of the objective for a bound of the level, rounded to the safe side."""
    return _rounded_up(level) if problem.maximise else -_rounded_up(-1 / level)


def _rounded_up(exact: Fraction) -> float:
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def arguments(problem: AllocationProblem) -> Mapping[Argument, Derivation]:
    """Return the argument that counts for a problem: one route each needs no certificate."""
    if problem.wants_total:
        return {Argument.LINK_PRICES: total_bound}
    if problem.single_route:
        return {Argument.TIGHTEST_LINK: _tightest_link}
    return {Argument.LINK_PRICES: _link_prices}


# Fairness: rates of an optimal plan are max-min fair for capacities that are smaller by a part of `ROUNDING`.


def unfair(problem: AllocationProblem, result: AllocationResult) -> Iterator[str]:
    """Name the transfers that could have more, at no cost of one with as little."""
    if problem.wants_total:
        return
    rates = result.plan.rates_gbps(problem)
    base, gain = base_and_gain(problem)
    level = (rates - base) / gain
    slack = GUARANTEE * rates + ROUNDING * float(problem.capacity_gbps.max())
    fair = np.array([transfer.max_gbps for transfer in problem.transfers]) - rates <= slack
    if problem.single_route:
        fair |= _has_bottleneck(problem, rates, level, gain, slack)
    for certificate in () if problem.single_route else result.certificates:
        fair |= _proven(problem, certificate, rates, level, gain, slack)
    for t in np.flatnonzero(~fair).tolist():
        yield f"{problem.transfers[t].name} has {rates[t]:.9g} Gbit/s, and nothing proves that it cannot have more"


def _has_bottleneck(
    problem: AllocationProblem, rates: Floats, level: Floats, gain: Floats, slack: Floats
) -> np.ndarray:
    """bool[T]: whether a transfer uses a full resource where no other transfer has a higher level.

    Necessary and sufficient, also for routes that are split in given parts. Where a transfer sends a tiny part of its
    traffic over a full link, the rounding of the load counts for the link, not for the transfer.
    """
    capacity, (r, t, part) = problem.shared_gbps(), usage_of(problem)
    load = np.bincount(r, part * rates[t], len(capacity))
    highest = np.full(len(capacity), -np.inf)
    np.maximum.at(highest, r, level[t])
    full = (capacity - load)[r] <= np.maximum(slack[t] * part, ROUNDING * load[r])
    first = (highest[r] - level[t]) * gain[t] <= slack[t]
    return np.bincount(t, full & first, len(rates)) > 0


def _proven(
    problem: AllocationProblem, certificate: Certificate, rates: Floats, level: Floats, gain: Floats, slack: Floats
) -> np.ndarray:
    """bool[T]: the transfers that a certificate proves.

    A transfer t gains at most (gap + what transfers of a higher level have, times their y) / y_t while no transfer of a
    level as low as its own loses.
    """
    proven = np.zeros(len(rates), dtype=bool)
    value, limit = priced_bound(problem, certificate)
    valued = np.array(sorted(value), dtype=np.int64)
    share = np.array([float(value[int(t)]) for t in valued]) * rates[valued]
    gap = max(0.0, float(limit) * (1 - ROUNDING) - float(share.sum()))
    about = int_array(certificate["transfers"], 1)
    for t in [] if about is None else about.tolist():
        if t in value:
            higher = (level[valued] - level[t]) * gain[t] > slack[t]
            proven[t] = (gap + float(share[higher].sum())) / float(value[t]) <= slack[t]
    return proven


def scale(problem: AllocationProblem) -> float:
    """Return the largest capacity: its rounding is in every rate, and in no completion time."""
    return 0.0 if problem.goal == "completion-time" else as_float(problem.capacity_gbps.max())


CHECKER = Checker(
    objective=objective_name,
    constraints=(
        ("rates", rate_for_each_route),
        ("capacity", within_capacities),
        ("limit", within_limits),
        ("guarantee", guarantees_met),
    ),
    value=objective_value,
    arguments=arguments,
    scale=scale,
    further=unfair,
)
