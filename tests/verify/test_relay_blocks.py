"""The bound by relay blocks: prices that are found, random ones, and what the links around a server are worth."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solvers.network.relays import relay_prices, two_layer_multipliers
from tests.verify.test_topology_bounds import PUBLISHED, _optimum, _random_demand
from topoopt.core.errors import InputError
from topoopt.core.network import LinkCounts, RelayPrices
from topoopt.verify.network.bounds import at_most, enough, evaluate_relay, hops_beyond
from topoopt.workloads.demands import demand_matrix

Array = NDArray[np.float64]


def _best(row: Array, column: Array, pair: Array, d: int) -> float:
    """The most that sets of d rows and d columns are worth, by looking at all."""
    q = len(row)
    sets = [list(each) for size in range(d + 1) for each in combinations(range(q), size)]
    return max(float(row[i].sum() + column[j].sum() + pair[np.ix_(i, j)].sum()) for i in sets for j in sets)


def _block(k: int, demand: Array, prices: RelayPrices, d: int) -> float:
    """U_k by the formula of the proof, pair by pair, all d links of every pair in full."""
    n, theta, c, s, m = len(demand), prices.theta, prices.price, prices.relief, prices.shift
    t = 3.0 * min(c[i, j] for i in range(n) for j in range(n) if i != j)
    links = [(v, x) for v in range(n) if v != k for x in range(d)]

    def taken(i: int, j: int, beside: int) -> float:
        return float(min(max(demand[i, j] - beside * theta, 0.0), theta))

    def end(i: int, j: int, beside: int, moved: float) -> float:
        worth = theta * c[i, j] + max(0.0, t - c[i, j] - s[i, j]) * taken(i, j, beside)
        return float(worth / 2 + (moved if beside == 0 or taken(i, j, beside) > 0.0 else 0.0))

    def relayed(i: int, j: int, x: int, y: int) -> float:
        saved = max(0.0, t - s[i, j] - c[i, k] - c[k, j])
        return saved * taken(i, j, x) if x == y and i != j else 0.0

    row = np.array([end(i, k, x, m[i, k]) for i, x in links])
    column = np.array([end(k, j, y, -m[k, j]) for j, y in links])
    pair = np.array([[relayed(i, j, x, y) for j, y in links] for i, x in links])
    # idle links all count as much as the one of most worth
    idle = [theta * max(each) / 2 for each in ([c[i, k] for i, _ in links], [c[k, j] for j, _ in links])]
    return d * sum(idle) + _best(row - idle[0], column - idle[1], pair, d)


def _priced(demand: Array, d: int, prices: RelayPrices) -> RelayPrices:
    """The prices with the largest theta that they prove, to a part of 1e-6, and what the links are worth there."""
    n = len(demand)
    least = min(prices.price[i, j] for i in range(n) for j in range(n) if i != j)
    owed = float((demand * (3.0 * least - prices.relief)).sum()) + least * hops_beyond(n, d, demand)
    low, high = 0.0, float(demand.sum())
    found = prices
    while high - low > 1e-6 * high:
        tried = replace(prices, theta=(low + high) / 2)
        most = np.array([_block(k, demand, tried, d) for k in range(n)]) * (1 + 1e-8)
        if owed >= most.sum() * (1 + 1e-8):
            low, found = tried.theta, replace(tried, most=most)
        else:
            high = tried.theta
    return found


def test_two_links_in_may_relay_more_than_one_link_carries() -> None:
    """Double links 0 -> 1 -> 2 that carry 3 each relay 6 of one pair; with prices of 1 these four links are worth
    4 * 3 / 2, the pair 6 * (3 - 2), together 12 and no less."""
    demand, ones, none = np.zeros((4, 4)), np.ones((4, 4)), np.zeros((4, 4))
    demand[0, 2] = 6.0
    for most, due in ((11.9, False), (12.0 + 1e-6, True)):
        prices = RelayPrices(3.0, ones, none, none, np.array([0.0, most, 0.0, 0.0]))
        assert enough(1, 2, demand, prices, 3.0, LinkCounts.any(4, 2)) is due


@given(seed=st.integers(0, 10_000))
@settings(max_examples=6)
def test_no_prices_exceed_the_optimum(seed: int) -> None:
    """On four servers of degree 2: what random prices prove is confirmed, and below the enumerated optimum."""
    demand = _random_demand(seed, 4)
    optimum = _optimum(demand, 2)
    rng = np.random.default_rng(seed)
    for spread in (0.0, 0.05, 0.5):
        given_prices = RelayPrices(
            1.0,
            1.0 + spread * rng.random((4, 4)),
            np.clip(1.0 - spread * rng.random((4, 4)), 0.0, None),
            spread * demand.mean() * rng.normal(size=(4, 4)),
            np.zeros(4),
        )
        prices = _priced(demand, 2, given_prices)
        assert 0.0 < evaluate_relay(4, 2, demand, prices) == prices.theta <= optimum * (1 + 1e-7)
        for k in range(4):
            less = prices.most.copy()
            less[k] *= 1 - 1e-4
            assert evaluate_relay(4, 2, demand, replace(prices, most=less)) == 0.0
        assert evaluate_relay(4, 2, demand, replace(prices, theta=1.001 * prices.theta)) == 0.0


@pytest.mark.parametrize(("n", "d", "seed", "layered", "two_layer", "optimum"), PUBLISHED)
def test_found_prices_lie_between_two_layers_and_the_optimum(
    n: int, d: int, seed: int, layered: float, two_layer: float, optimum: float
) -> None:
    """More than the published two-layer bound, no more than the published optimum; confirmed by the checker."""
    demand = demand_matrix("balanced-skew", n, seed=seed)
    prices = relay_prices(d, demand, two_layer_multipliers(d, demand, 800), layered, hops_beyond(n, d, demand), 300)
    assert prices is not None
    assert two_layer * 1.003 < evaluate_relay(n, d, demand, prices) == prices.theta <= optimum + 5e-4


def test_more_than_a_published_program_proves() -> None:
    """At 16 servers of degree 4, seed 1, a hop program proves 5.186 (published); theta 5.442 is known."""
    demand = demand_matrix("balanced-skew", 16, seed=1)
    prices = relay_prices(4, demand, two_layer_multipliers(4, demand, 800), 4.955, 0.0, 1000)
    assert prices is not None
    assert 5.186 < evaluate_relay(16, 4, demand, prices) < 5.442


@given(seed=st.integers(0, 10_000), d=st.integers(1, 5))
@settings(max_examples=40)
def test_the_best_block_is_the_best_of_all(seed: int, d: int) -> None:
    """The checker's search against looking at all sets; worths may be negative."""
    rng = np.random.default_rng(seed)
    n = 6
    row, column = rng.normal(size=n), rng.normal(size=n)
    pair = rng.lognormal(0.0, 1.5, (n, n)) * (rng.random((n, n)) < 0.7)
    best = _best(row, column, pair, d)
    assert at_most(row, column, pair, d, best + 1e-9)
    assert not at_most(row, column, pair, d, best - 1e-6)


@pytest.mark.parametrize(("n", "d", "seed"), [(4, 1, 3), (4, 2, 5), (5, 1, 2), (5, 1, 7)])
def test_found_prices_are_below_the_enumerated_optimum(n: int, d: int, seed: int) -> None:
    """Demands with gaps, some above theta; nothing proven before."""
    demand = _random_demand(seed, n)
    prices = relay_prices(d, demand, two_layer_multipliers(d, demand, 800), 1e-3, hops_beyond(n, d, demand), 200)
    assert prices is not None
    assert 0.0 < evaluate_relay(n, d, demand, prices) == prices.theta <= _optimum(demand, d) * (1 + 1e-7)


def test_links_are_worth_more_where_that_is_not_shown() -> None:
    """Each time less is proven, all of it confirmed; below what is proven already, nothing is left."""
    demand = demand_matrix("balanced-skew", 8, seed=1)
    duals = two_layer_multipliers(2, demand, 800)
    tried: list[RelayPrices] = []

    def shown(prices: RelayPrices) -> bool:
        tried.append(prices)
        return len(tried) == 3

    prices = relay_prices(2, demand, duals, 4.979, 0.0, 100, shown=shown)
    assert prices is tried[2]
    assert 4.979 < tried[2].theta < tried[1].theta < tried[0].theta < tried[2].theta * 1.003
    assert all(evaluate_relay(8, 2, demand, each) == each.theta for each in tried)
    assert relay_prices(2, demand, duals, 4.979, 0.0, 100, shown=lambda _: False) is None


def test_bad_prices_are_refused() -> None:
    """Wrong shapes, negative prices and what is not finite."""
    demand = demand_matrix("balanced-skew", 6, seed=1)
    prices = RelayPrices(1.0, np.ones((6, 6)), np.ones((6, 6)), np.zeros((6, 6)), np.full(6, 100.0))
    for bad in (
        replace(prices, price=np.ones((5, 5))),
        replace(prices, most=np.full(6, np.nan)),
        replace(prices, relief=-prices.relief),
        replace(prices, theta=np.inf),
    ):
        with pytest.raises(InputError):
            evaluate_relay(6, 2, demand, bad)
