"""The bound by relay blocks in cases by the number of links between two servers."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solvers.network.relays import cases_of, relay_cases, relay_prices, two_layer_multipliers
from tests.verify.test_topology_bounds import PUBLISHED, _random_demand, _theta
from topoopt.core.errors import InputError
from topoopt.core.network import RELAY_TABLES, LinkCounts, RelayCases, RelayPrices
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.verify.network.bounds import evaluate_cases, evaluate_relay, hops_beyond
from topoopt.workloads.demands import demand_matrix

Array = NDArray[np.float64]


def _topologies(n: int, degree: int) -> list[NDArray[np.int64]]:
    """Numbers of links of all topologies where every server has all its links out."""
    rows = []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        rows.append([np.bincount(c, minlength=n) for c in combinations_with_replacement(others, degree)])
    return [links for each in product(*rows) if ((links := np.array(each)).sum(axis=0) <= degree).all()]


def _found(demand: Array, d: int, cases: int, iterations: int = 300) -> tuple[RelayPrices, RelayCases | None]:
    """Prices for all topologies, and in cases."""
    n = len(demand)
    duals, used, further = two_layer_multipliers(d, demand, 800), np.zeros((d, n, n)), hops_beyond(n, d, demand)
    root = relay_prices(d, demand, duals, 1e-3, further, iterations, used=used)
    assert root is not None
    return root, relay_cases(d, demand, duals, root, used, further, cases, iterations=iterations)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=8)
def test_prices_of_a_case_are_below_its_enumerated_optimum(seed: int) -> None:
    """Four servers of degree 2, at random one to three links at least or at most: no more than the best there is."""
    demand, rng = _random_demand(seed, 4), np.random.default_rng(seed)
    counts = LinkCounts.any(4, 2)
    for _ in range(int(rng.integers(1, 4))):
        i, j = rng.permutation(4)[:2]
        counts = counts.split(int(i), int(j), int(rng.integers(1, 3)))[int(rng.integers(2))]
    fitting = [each for each in _topologies(4, 2) if (each >= counts.least).all() and (each <= counts.most).all()]
    best = min((_theta(each, demand) for each in fitting), default=np.inf)
    duals = two_layer_multipliers(2, demand, 800)
    prices = relay_prices(2, demand, duals, 1e-3, hops_beyond(4, 2, demand), 200, counts=counts)
    if prices is None:
        return
    assert 0.0 < evaluate_relay(4, 2, demand, prices, counts) == prices.theta <= best * (1 + 1e-7)


def test_a_second_link_that_must_be_there_or_may_not() -> None:
    """One pair has 6 to send, all others 1: with a second link between the two, or without, more is proven than of all
    topologies, and the more of both is proven of none but its own."""
    demand = np.ones((4, 4)) - np.eye(4)
    demand[0, 1] = 6.0
    duals, further = two_layer_multipliers(2, demand, 800), hops_beyond(4, 2, demand)
    single, double = LinkCounts.any(4, 2).split(0, 1, 2)
    proven = []
    for counts in (LinkCounts.any(4, 2), single, double):
        prices = relay_prices(2, demand, duals, 1e-3, further, 400, counts=counts)
        assert prices is not None
        assert evaluate_relay(4, 2, demand, prices, counts) == prices.theta
        proven.append(prices)
    either, without, twice = (each.theta for each in proven)
    assert either < 0.99 * max(without, twice)
    assert either <= min(without, twice) * (1 + 1e-3)
    more = proven[1 if without > twice else 2]
    assert evaluate_relay(4, 2, demand, more) == 0.0
    assert evaluate_relay(4, 2, demand, more, double if without > twice else single) == 0.0


@pytest.mark.parametrize(("n", "d", "seed", "layered", "two_layer", "optimum"), PUBLISHED)
def test_cases_prove_more_than_no_cases_and_no_more_than_the_optimum(
    n: int, d: int, seed: int, layered: float, two_layer: float, optimum: float
) -> None:
    """Of published instances; without a case, with too little worth or another count nothing is proven any more."""
    demand = demand_matrix("balanced-skew", n, seed=seed)
    root, cases = _found(demand, d, 6)
    assert cases is not None
    assert len(cases.prices) == 6
    proven = evaluate_cases(n, d, demand, cases)
    assert root.theta * 1.001 < proven == min(each.theta for each in cases.prices) <= optimum + 5e-4
    less = replace(cases.prices[2], most=cases.prices[2].most * (1 - 1e-4))
    assert evaluate_cases(n, d, demand, replace(cases, prices=(*cases.prices[:2], less, *cases.prices[3:]))) == 0.0
    with pytest.raises(InputError):
        evaluate_cases(n, d, demand, replace(cases, prices=cases.prices[1:]))
    with pytest.raises(InputError):
        evaluate_cases(n, d, demand, replace(cases, splits=cases.splits[1:]))


def test_one_case_is_none() -> None:
    """And so many of a search as its swaps are worth."""
    assert _found(demand_matrix("balanced-skew", 6, seed=1), 2, 1)[1] is None
    assert [cases_of(16, proposals) for proposals in (None, 400, 20_000_000)] == [1, 1, 50]
    assert cases_of(64, 20_000_000) == 1


def test_trees_that_are_none_are_refused() -> None:
    """Too many nodes, an unknown server, too many links, or a node that belongs to no other."""
    demand = demand_matrix("balanced-skew", 6, seed=1)
    root, _ = _found(demand, 2, 1, 60)
    leaf, pair = [0, 0, 0], [1, 2, 1]
    assert evaluate_cases(6, 2, demand, RelayCases(np.array([leaf]), (root,))) == root.theta
    assert evaluate_cases(6, 2, demand, RelayCases(np.array([pair, leaf, leaf]), (root, root))) == root.theta
    for bad in ([leaf, leaf, pair], [leaf, pair, leaf], [pair, leaf], [[1, 6, 1], leaf, leaf], [[1, 2, 3], leaf, leaf]):
        leaves = sum(each == leaf for each in bad)
        with pytest.raises(InputError):
            evaluate_cases(6, 2, demand, RelayCases(np.array(bad), (root,) * leaves))


def test_cases_are_read_from_a_certificate() -> None:
    """Three numbers a node, and prices of each node that is not split; other shapes are refused."""
    table = np.zeros((1, 3, 3))
    arrays = {"splits": np.zeros((1, 3), dtype=np.int64), "theta": np.ones(1), "most": np.zeros((1, 3))}
    arrays |= dict.fromkeys(RELAY_TABLES, table)
    found = RelayCases.of(Certificate(Argument.RELAY_CASES, arrays), 3)
    assert (found.splits.tolist(), len(found.prices)) == ([[0, 0, 0]], 1)
    with pytest.raises(ValueError, match="cannot reshape"):
        RelayCases.of(Certificate(Argument.RELAY_CASES, {**arrays, "splits": np.zeros((1, 2), dtype=np.int64)}), 3)
