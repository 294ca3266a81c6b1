"""Exchanges of links, prices of links and relay blocks against plain Python."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import log
from typing import Any

import numpy as np
import pytest

from solvers.network.annealing import tails_of
from tests.native.calls_search import (
    CALLS,
    anneal_arguments,
    dual_arguments,
    price_arguments,
    prices_of,
    random_demand,
    rewire_arguments,
)
from topoopt.core.arrays import Floats, Ints
from topoopt.native import search

SEEDS = range(25)
MASK = 2**64 - 1


class SplitMix64:
    """Steele et al., OOPSLA'14."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def uniform(self) -> float:
        """In [0, 1)."""
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return ((z ^ (z >> 31)) >> 11) / 2**53

    def below(self, limit: int) -> int:
        """In 0, ..., limit - 1."""
        return min(int(self.uniform() * limit), limit - 1)


def hops(out: Ints, most: int) -> Ints:
    """int64[n, n]: hops between servers, at most so many."""
    n = len(out)
    near, total = np.eye(n, dtype=np.bool_), np.zeros((n, n), dtype=np.int64)
    for _ in range(most):
        total += ~near
        near = near | near[out].any(axis=1)
    return total


def exchanged(out: Ints, ends: tuple[int, int, int, int], paired: bool) -> Ints:
    """Heads after links i -> j and k -> l become i -> l and k -> j, and the opposite ones with them."""
    i, j, k, l = ends  # noqa: E741
    new = out.copy()
    changes = [(i, j, l), (k, l, j), *([(j, i, k), (l, k, i)] if paired else [])]
    for server, old, head in changes:
        new[server, np.flatnonzero(new[server] == old)[0]] = head
    return new


def walked(
    out: Ints,
    into: Ints,
    energy: Callable[[Ints], float],
    fits: Callable[[Ints, tuple[int, int, int, int]], bool],
    within: Callable[[Ints], bool],
    allowed: Any,
    paired: bool,
    hot: float,
    cold: float,
    proposals: int,
    seed: int,
) -> tuple[Ints, float]:
    """Simulated annealing that looks at every topology afresh: the best and its energy."""
    draw, (n, d) = SplitMix64(seed), out.shape
    best, least = out.copy(), energy(out)
    now, heat = least, hot
    for _ in range(proposals):
        heat *= (cold / hot) ** (1.0 / proposals)
        i, k = draw.below(n), draw.below(n)
        j, l = int(out[i, draw.below(d)]), int(out[k, draw.below(d)])  # noqa: E741
        if i == k or j == l or not (allowed[i, l] and allowed[k, j]):
            continue
        if paired and (i in (j, l) or k in (j, l) or not (allowed[l, i] and allowed[j, k])):
            continue
        if not fits(out, (i, j, k, l)):
            continue
        new = exchanged(out, (i, j, k, l), paired)
        if not within(new):
            continue
        grown = energy(new) - now
        if grown > 0.0 and grown > -heat * log(1.0 - draw.uniform()):
            out = exchanged(new, (i, l, k, j), paired)  # back, parallel links perhaps in another order
            continue
        out, now = new, now + grown
        if now < least:
            best, least = new, now
    return best, least


def joined(out: Ints, ends: tuple[int, int, int, int]) -> bool:
    """Whether i -> l or k -> j is there."""
    i, j, k, l = ends  # noqa: E741
    return bool((out[i] == l).any() or (out[k] == j).any())


@pytest.mark.parametrize("seed", SEEDS)
def test_hop_totals(seed: int) -> None:
    """Servers within so many hops, one hop after another."""
    out, demand, levels = CALLS["cut_hop_total"](np.random.default_rng(seed))
    assert search.hop_total(out, demand) == pytest.approx(float((demand * hops(out, len(out))).sum()))
    assert search.cut_hop_total(out, demand, levels) == pytest.approx(float((demand * hops(out, levels + 1)).sum()))


@pytest.mark.parametrize("seed", SEEDS)
def test_annealing(seed: int) -> None:
    """The same topologies as where each is looked at afresh; whole demand, so that all sums are exact."""
    out, into, demand, allowed, group, levels, paired, parallel, _, _, proposals, draws, _ = anneal_arguments(
        np.random.default_rng(seed)
    )
    demand = np.ceil(demand)

    def fits(out: Ints, ends: tuple[int, int, int, int]) -> bool:
        i, j, k, l = ends  # noqa: E741
        alike = {bool(group[a] == group[b]) for a, b in ((i, j), (k, l), (i, l), (k, j))}
        return len(alike) == 1 and (parallel or not joined(out, ends))

    best, _ = walked(
        out, into, lambda heads: float((demand * hops(heads, levels + 1)).sum()), fits, lambda _: True, allowed, paired,
        3.0, 0.1, proposals, draws,
    )  # fmt: skip
    alike = np.zeros((0, 3))
    found = search.anneal(
        out, into, demand, allowed, group, levels, paired, parallel, 3.0, 0.1, proposals, draws, alike
    )
    np.testing.assert_array_equal(np.sort(found), np.sort(best))
    np.testing.assert_array_equal(np.sort(into), np.sort(tails_of(out)))


@pytest.mark.parametrize("seed", SEEDS)
def test_rewiring(seed: int) -> None:
    """The same, with links given up counted afresh."""
    out, into, best, demand, allowed, kept, limit, paired, parallel, _, _, proposals, draws, _ = rewire_arguments(
        np.random.default_rng(seed)
    )
    demand = np.ceil(demand)
    servers = np.arange(len(out))

    def fits(out: Ints, ends: tuple[int, int, int, int]) -> bool:
        i, j, k, l = ends  # noqa: E741
        free = {server for server in (i, k) if (tails_of(out)[server] == server).any()}
        dark = all(head != tail or tail in free for tail, head in ((i, j), (k, l)))
        doubled = (i != l and (out[i] == l).any()) or (k != j and (out[k] == j).any())
        return dark and (parallel or not doubled)

    def within(heads: Ints) -> bool:
        links = (heads[:, :, None] == servers).sum(axis=1)
        np.fill_diagonal(links, 0)
        return bool(np.maximum(kept - links, 0).sum() <= limit)

    expected, least = walked(
        out, into, lambda heads: float((demand * hops(heads, len(heads))).sum()), fits, within, allowed, paired,
        3.0, 0.1, proposals, draws,
    )  # fmt: skip
    start = search.hop_total(out, demand)
    found = search.rewire(
        out, into, best, demand, allowed, kept, limit, paired, parallel, 3.0, 0.1, proposals, draws, start
    )
    assert found == least
    np.testing.assert_array_equal(np.sort(best), np.sort(expected))


def lengths_between(out: Ints, length: Floats) -> Floats:
    """float64[n, n]: shortest paths, by one server after another in between."""
    n, d = out.shape
    arcs = np.full((n, n), np.inf)
    np.minimum.at(arcs, (np.repeat(np.arange(n), d), out.ravel()), length)
    np.fill_diagonal(arcs, 0.0)
    for between in range(n):
        arcs = np.minimum(arcs, arcs[:, between, None] + arcs[between])
    return arcs


@pytest.mark.parametrize("seed", SEEDS)
def test_distances_over_links(seed: int) -> None:
    """Infinite where there is no path."""
    out, length = CALLS["link_distances"](np.random.default_rng(seed))
    np.testing.assert_allclose(search.link_distances(out, length), lengths_between(out, length))


@pytest.mark.parametrize("seed", SEEDS)
def test_prices_prove_what_they_say(seed: int) -> None:
    """The bound is what its lengths prove; the work ends at the target, and goes on from where it ended."""
    out, demand, _, _, weight, *start = price_arguments(np.random.default_rng(seed))
    bound, _, used, lengths = search.price_links(out, demand, np.inf, 200, weight, *start)
    assert used == (200 if np.isfinite(bound) else 0)
    far = np.where(demand > 0.0, lengths_between(out, lengths), 0.0)
    assert bound == pytest.approx(float((demand * far).sum() / lengths.sum()))
    again, _, used, _ = search.price_links(out, demand, 0.9 * bound, 200, weight, *start)
    assert again >= 0.9 * bound
    assert used < 200


@pytest.mark.parametrize("seed", SEEDS)
def test_more_sweeps_prove_no_less(seed: int) -> None:
    """What is proven once is kept."""
    out, demand, _, _, weight, *start = price_arguments(np.random.default_rng(seed))
    fresh = ([part.copy() for part in start] for _ in range(6))
    bounds = [search.price_links(out, demand, np.inf, 50 * k, weight, *own)[0] for k, own in enumerate(fresh)]
    assert bounds == sorted(bounds)


def around(given: tuple[Any, ...], at: tuple[Floats, Floats, Floats], theta: float, k: int) -> float:
    """The most that the links around k can be worth, by looking at all sets of places before and after it."""
    d, demand, _, _, least, most, _ = given
    price, relief, shift = at
    n = len(demand)
    servers = np.arange(n)
    others = servers[servers != k]
    far, premium = 3.0 * price[~np.eye(n, dtype=np.bool_)].min(), search.RelayDual.PREMIUM * theta
    idle = theta * price[others, k].max() / 2, theta * price[k, others].max() / 2

    def taken(i: int, j: int, beside: int) -> float:
        return float(np.clip(demand[i, j] - beside * theta, 0.0, theta))

    def end(i: int, j: int, beside: int, sign: float) -> float:
        own = taken(i, j, beside)
        worth = (theta * price[i, j] + max(0.0, far - price[i, j] - relief[i, j]) * own) / 2
        moved = sign * shift[i, j] if beside == 0 or own > 0.0 else 0.0
        return float(worth + moved + (premium if beside < least[i, j] else 0.0))

    def total(before: tuple[tuple[int, int], ...], after: tuple[tuple[int, int], ...]) -> float:
        ends = sum(end(i, k, x, 1.0) - idle[0] for i, x in before) + sum(end(k, j, x, -1.0) - idle[1] for j, x in after)
        relayed = sum(
            max(0.0, far - relief[i, j] - price[i, k] - price[k, j]) * taken(i, j, x)
            for i, x in before
            for j, y in after
            if x == y and i != j
        )
        return float(ends + relayed)

    befores = [(v, x) for v in others.tolist() for x in range(min(d, most[v, k]))]
    afters = [(v, x) for v in others.tolist() for x in range(min(d, most[k, v]))]
    best = max(
        total(before, after)
        for p in range(d + 1)
        for q in range(d + 1)
        for before in combinations(befores, p)
        for after in combinations(afters, q)
    )
    return float(d * sum(idle) + best - premium * (least[:, k].sum() + least[k].sum()))


@pytest.mark.parametrize(("n", "d", "most"), [(6, 2, 2), (6, 3, 1), (7, 4, 1), (6, 5, 1)])
def test_relay_blocks_of_six_servers_and_more(n: int, d: int, most: int) -> None:
    """So many that no block is worth what the first sets that are tried are; by pairs of links, and by single ones."""
    draw = np.random.default_rng(0)
    demand = random_demand(draw, n)
    split = draw.random((n * n, n)) * np.tile(demand, (n, 1))
    theta = max(0.05, float(demand.sum()) / (n * d))
    given = (d, demand, 0.1, theta, np.zeros((n, n), dtype=np.int64), np.full((n, n), most), split)
    at = prices_of(draw, n)
    worth = search.RelayDual(*given).value(*at, theta, 6, True)[2]
    np.testing.assert_allclose(worth, [around(given, at, theta, k) for k in range(n)], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_relay_blocks(seed: int) -> None:
    """Blocks are worth what the best of all sets is, G is what is owed less these; good sets are worth no more."""
    draw = np.random.default_rng(seed)
    given = dual_arguments(draw)
    while given[0] > 2 or len(given[1]) > 4:
        given = dual_arguments(draw)
    _, demand, further, theta, *_ = given
    at = prices_of(draw, len(demand))
    dual = search.RelayDual(*given)
    good, _, some = dual.value(*at, theta, 6, False)
    value, _, worth = dual.value(*at, theta, 6, True)
    expected = [around(given, at, theta, k) for k in range(len(demand))]
    np.testing.assert_allclose(worth, expected, rtol=1e-7, atol=1e-9)
    assert (some <= worth + 1e-7 * np.abs(worth)).all()
    assert good >= value - 1e-7 * abs(value)
    least = at[0][~np.eye(len(demand), dtype=np.bool_)].min()
    owed = float((demand * (3.0 * least - at[1])).sum()) + further * least
    assert value == pytest.approx(owed - sum(expected), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_relay_blocks(seed: int) -> None:
    """By finite differences, of all numbers but the least price, which others are measured against."""
    draw = np.random.default_rng(seed)
    given = dual_arguments(draw)
    theta, n = given[3], len(given[1])
    dual = search.RelayDual(*given)
    at = prices_of(draw, n)
    dual.value(*at, theta, 6, True)
    gradients = dual.gradients()
    np.testing.assert_array_equal(dual.uses().sum(axis=1).reshape(-1, n) % 0.5, 0.0)
    dual.forget_uses()
    assert not dual.uses().any()
    step = 1e-6
    for table, gradient in zip(at, gradients, strict=True):
        for i, j in draw.integers(0, n, (6, 2)).tolist():
            if i == j or at[0][i, j] == at[0][~np.eye(n, dtype=np.bool_)].min():
                continue
            there = table[i, j]
            values = []
            for moved in (step, -step):
                table[i, j] = there + moved
                values.append(dual.value(*at, theta, 6, True)[0])
            table[i, j] = there
            assert (values[0] - values[1]) / (2 * step) == pytest.approx(gradient[i, j], rel=1e-4, abs=1e-4)


def test_wrong_arguments_are_refused() -> None:
    """Heads that do not exist, another shape, no port."""
    out, demand = CALLS["hop_total"](np.random.default_rng(0))
    for heads in (out + 1, out[:-1], out[:, :0]):
        with pytest.raises(ValueError, match=r"out|demand"):
            search.hop_total(np.ascontiguousarray(heads), demand)
    with pytest.raises(TypeError):
        search.hop_total(out.astype(np.int32), demand)
    with pytest.raises(ValueError, match="levels"):
        search.cut_hop_total(out, demand, -1)
    given = dual_arguments(np.random.default_rng(0))
    with pytest.raises(ValueError, match="d:"):
        search.RelayDual(0, *given[1:])
