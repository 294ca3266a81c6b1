"""Bounds on every topology, and the best circulants: values of the specification, random networks, full programs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from solvers.network import space as bounds
from solvers.network.exact import METHODS
from solvers.network.local import price_cut
from solvers.network.space import best_bound, layer_sizes, most_within, open_space, relaxed_theta, route
from tests.support.every_topology import plain_theta
from tests.support.exact_cases import LIMITS, ONE_WAY, PAIRS, check, problem, skewed
from topoopt.core.cluster import LinkDirection
from topoopt.verify.network.bounds import matching_dual, matching_prices


@given(st.integers(4, 7), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=25)
def test_bounds_hold_for_random_networks(n: int, d: int, seed: int) -> None:
    """Node cut, layered Moore bound and price cuts of one network never exceed what another one reaches."""
    rng = np.random.default_rng(seed)
    demand = skewed(n, seed, balanced=seed % 2 == 0)
    space = open_space(problem(n, d, demand))
    first, second = (_random_regular(rng, n, d) for _ in range(2))
    found = relaxed_theta(demand, first)
    routed = route(demand, second)
    assert found is not None
    assert routed is not None
    assert best_bound(space.problem, space.allowed)[0].value <= routed.theta * (1 + 1e-9)
    assert routed.bound == pytest.approx(routed.theta, rel=1e-7)
    assert routed.theta == pytest.approx(plain_theta(demand, second), rel=1e-7)
    cut = price_cut(demand, first, found[2])
    assert cut is not None
    assert (cut * second).sum() >= 1.0 / routed.theta * (1 - 1e-9)
    assert (cut * first).sum() == pytest.approx(1.0 / found[0], rel=1e-7), "tight where it was made"


def _random_regular(rng: np.random.Generator, n: int, d: int) -> NDArray[np.int64]:
    """A ring and d - 1 more permutations without fixed points."""
    ring = rng.permutation(n)
    counts = np.zeros((n, n), dtype=np.int64)
    counts[ring, np.roll(ring, -1)] += 1
    while counts.sum() < n * d:
        heads = rng.permutation(n)
        if (heads != np.arange(n)).all():
            counts[np.arange(n), heads] += 1
    return counts


def test_layers_and_matching_bound() -> None:
    """Layers 2, 6, ... (directed, d = 2) and 3, 9, ... (fibre pairs, d = 3); b-matching of two heavy pairs by hand."""
    assert layer_sizes(16, 2, ONE_WAY) == [2, 6, 14, 15]
    assert layer_sizes(12, 3, PAIRS) == [3, 9, 11]
    demand = np.array([[0.0, 3.0, 2.0], [2.0, 0.0, 1.0], [0.0, 5.0, 0.0]])
    assert most_within(demand, 1)[0] == pytest.approx(2.0 + 2.0 + 5.0), "0->2, 1->0, 2->1"


@pytest.mark.parametrize(("n", "theta"), [(16, 7.25), (32, 19.5)])
def test_best_circulants_of_the_specification(n: int, theta: float) -> None:
    """d = 4, uniform: 7.25 at n = 16 ({1,3,7,12}), 19.5 at n = 32; flagged as a restriction, not called optimal."""
    case = problem(n, 4)
    result = METHODS["circulant"](case, LIMITS)
    check(case, result)
    assert result.theta == pytest.approx(theta)
    assert result.restricted_bound == pytest.approx(theta)
    assert result.notes == ("searched circulants only",)
    assert not result.optimal
    assert result.bound.value < theta


@pytest.mark.heavy
def test_best_circulant_of_sixty_four() -> None:
    """n = 64, d = 4, uniform: 52.27 among all circulants."""
    result = METHODS["circulant"](problem(64, 4), LIMITS)
    assert result.restricted_bound == pytest.approx(result.theta)
    assert result.theta == pytest.approx(52.27, abs=0.005)


@pytest.mark.parametrize("links", [ONE_WAY, PAIRS])
def test_circulants_for_shift_invariant_and_other_demand(links: LinkDirection) -> None:
    """n = 7: the best of all circulants by the full program, for demand that goes by cutting planes and for other."""
    weights = np.array([0.0, 3.0, 1.0, 0.5, 2.0, 1.0, 4.0])
    shift = np.arange(7)
    invariant = weights[(shift[None] - shift[:, None]) % 7]
    for demand in (invariant, skewed(7, 3)):
        case = problem(7, 2, demand, links=links)
        result = METHODS["circulant"](case, LIMITS)
        check(case, result)
        thetas = []
        for pick in itertools.combinations(range(1, 7), 2):
            if links is PAIRS and sum(pick) != 7:
                continue
            counts = np.zeros((7, 7), dtype=np.int64)
            for c in pick:
                counts[shift, (shift + c) % 7] += 1
            thetas.append(plain_theta(demand, counts))
        assert result.theta == pytest.approx(min(thetas), rel=1e-7)


@given(st.integers(4, 9), st.integers(1, 3), st.integers(0, 10**6), st.booleans())
@settings(max_examples=25)
def test_heaviest_pairs_of_a_demand(n: int, reach: int, seed: int, turns: bool) -> None:
    """Where it depends on the displacement alone, rows alone give what the program does; else they give a bound.

    The checker's search must agree, by its own shortcut; the program here is written out pair by pair.
    """
    rng = np.random.default_rng(seed)
    row = rng.integers(0, 5, n).astype(np.float64)
    row[0] = 0.0
    demand = np.array([np.roll(row, i) for i in range(n)]) if turns else rng.integers(0, 5, (n, n)).astype(np.float64)
    np.fill_diagonal(demand, 0.0)
    ends = np.zeros((2 * n, n * n))
    for i, j in itertools.product(range(n), repeat=2):
        if i != j:
            ends[i, i * n + j] = ends[n + j, i * n + j] = 1.0
    exact = -linprog(-demand.ravel(), A_ub=ends, b_ub=np.full(2 * n, float(reach)), bounds=(0, 1)).fun
    found, prices = most_within(demand, reach)
    assert found == pytest.approx(exact, rel=1e-7)
    assert (prices >= 0).all()
    alpha, beta = matching_prices(demand, reach)
    assert matching_dual(demand, reach, alpha, beta) == pytest.approx(exact, rel=1e-4, abs=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "LARGEST_PROGRAM", 0)
        assert most_within(demand, reach)[0] >= exact * (1 - 1e-9)


def test_bounds_of_a_thousand_servers_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """With uniform demand no program is solved: 1, 4, 16, ... servers are 0, 1, 2, ... hops away."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program")

    monkeypatch.setattr("scipy.optimize.linprog", refuse)
    n, d = 1024, 4
    demand = np.ones((n, n)) - np.eye(n)
    bound = best_bound(problem(n, d, demand), np.ones((n, n), dtype=np.bool_))[0]
    hops = sum(k * 4**k for k in range(1, 5)) + 5 * (n - 1 - 4 - 16 - 64 - 256)
    assert bound.value == pytest.approx(hops / d)
