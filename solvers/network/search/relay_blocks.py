"""Prices for the bound by relay blocks: subgradient ascent from the multipliers of the two-layer bound.

The bound (`topoopt.verify.network.bounds` has the proof): theta >= Theta where

    G = sum D (t - s) + f min c - sum_k U_k >= 0,    t = 3 min c,

U_k the most that the links around server k can be worth, by branch and bound (`RelayDual`). Every iteration makes
one subgradient step of G in prices c of links, reliefs s of pairs and shifts m of worth between the ends of a link,
with momentum and steps that fall to nothing (Polyak, Introduction to Optimization, 1987), and moves Theta to where G
vanishes by its slope. Branch and bound finds the best links around a server in one iteration of ten; in the others they
are sought among those found before and by exchange of rows for columns, which follows the ascent as well and takes a
tenth of the time. Any prices prove something, so nothing here needs to be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.network.search.two_layer import TwoLayerDuals
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.network import LinkCounts, RelayPrices
from topoopt.native import search

_MOMENTUM = 0.9
_SPLIT_STEPS = 6
_EXACT = 10
"""Iterations of which one is exact."""

_LAST = 6
"""So many at the end are."""

_DIGITS = 6
_BELOW = 2e-6
"""What is taken off Theta for the digits of the prices, and off again where that was too little."""

_TRIES = 8
_ROOMS = (0.0, 3e-4, 1e-3, 3e-3)
"""Parts of the worth of a block that are added to it, so that branch and bound has less to rule out."""

_DIP = 0.9
"""Part of what is proven already that Theta may be in the ascent."""

_UP = 1e-9
"""What is added to the worth of a block, more than the rounding of its sum."""


def default_iterations(n: int) -> int:
    """A minute or two at most: one takes 0.2 ms at 16 servers, 3 ms at 32, 70 ms at 64 and half a second at 128."""
    return 6000 if n <= 16 else 3000 if n <= 32 else 800 if n <= 64 else 200


@dataclass(eq=False)
class _Point:
    """Prices of links, reliefs of pairs and shifts, float64[n, n] each."""

    price: Floats
    relief: Floats
    shift: Floats

    def copy(self) -> _Point:
        return _Point(self.price.copy(), self.relief.copy(), self.shift.copy())

    def value(self, dual: search.RelayDual, theta: float, *, exact: bool) -> tuple[float, float, Floats]:
        """G, its slope in Theta, and the worth of every block; no more than a guess at them where not `exact`."""
        return dual.value(self.price, self.relief, self.shift, theta, _SPLIT_STEPS, exact)


def _start(d: int, demand: Floats, duals: TwoLayerDuals) -> tuple[_Point, Floats]:
    """What proves the two-layer bound proves it by blocks: w = D (1 - s), and shifts that leave each end its price.

    Also the split of each pair around each relay, float64[n, n, n] at [k, i, j].
    """
    n = len(demand)
    weight = np.clip(duals.weight, 0.0, demand)
    relief = np.where(demand > 0.0, 1.0 - weight / np.where(demand > 0.0, demand, 1.0), 0.0)
    split = np.ascontiguousarray(
        np.clip(duals.first_link.astype(np.float64), 0.0, weight[:, None, :]).transpose(1, 0, 2)
    )
    shift = np.zeros((n, n))
    top = max(0, n - d)
    for k in range(n):
        second = weight - split[k]
        second[k, :] = second[:, k] = 0.0
        shift[:, k] -= np.partition(split[k], top, axis=1)[:, top:].sum(axis=1) / 2.0
        shift[k, :] += np.partition(second, top, axis=0)[top:].sum(axis=0) / 2.0
    # beta + (C - alpha - beta) / 2 is left of the worth of an arc to the block of its head
    shift += (duals.ends[1][None, :] - duals.ends[0][:, None]) / 2.0
    np.fill_diagonal(shift, 0.0)
    return _Point(np.ones((n, n)), relief, shift), split


def relay_prices(
    d: int,
    demand: Floats,
    duals: TwoLayerDuals,
    theta: float,
    further: float,
    iterations: int,
    *,
    shown: Callable[[RelayPrices], bool] = lambda _: True,
    stop: Stop | None = None,
    counts: LinkCounts | None = None,
    used: Floats | None = None,
) -> RelayPrices | None:
    """Prices that prove as large a Theta as they can; None where none are shown to prove more than `theta`.

    Args:
        d: degree.
        demand: float64[n, n], zero diagonal.
        duals: of the two-layer bound, to start from.
        theta: what is proven already, positive.
        further: least sum over pairs of demand times hops beyond the third.
        iterations: of the ascent.
        shown: whether a certificate can be shown again; if not, links are said to be worth more, which is easier to
            show and proves less.
        stop: looked at between iterations.
        counts: how many links there are; None: as many as the degree allows.
        used: float64[d, n, n], filled: how often in the second half of the ascent the best links around servers were
            those i -> j that have so many beside them.
    """
    n = len(demand)
    demand = np.ascontiguousarray(demand)
    counts = counts or LinkCounts.any(n, d)
    at, split = _start(d, demand, duals)
    dual = search.RelayDual(d, demand, further, _DIP * theta, counts.least, counts.most, split.reshape(n * n, n))
    mean = float(demand.sum()) / (n * (n - 1)) or 1.0
    reach = np.where(demand > 0.0, demand, 1.0)
    scale = np.minimum(1.0 / reach, 1.0 / mean)
    off = ~np.eye(n, dtype=np.bool_)
    run = _Point(*(np.zeros((n, n)) for _ in range(3)))
    best, best_theta, current = at.copy(), 0.0, theta
    for iteration in range(iterations):
        if stop is not None and stop.reason() is not None:
            break
        if iteration == iterations // 2:
            dual.forget_uses()
        exact = iteration % _EXACT == 0 or iteration >= iterations - _LAST
        value, slope, _ = at.value(dual, current, exact=exact)
        current -= value / slope
        if exact and current > best_theta:
            best, best_theta = at.copy(), current
        price, relief, shift = dual.gradients()
        length = _length(n) * mean * (1.0 - iteration / iterations)
        run.price = _blend(run.price, np.where(off, price, 0.0) / current)
        run.relief = _blend(run.relief, relief / reach)
        run.shift = _blend(run.shift, shift)
        at.price = np.maximum(1.0, at.price + length / current * run.price)
        at.relief = np.clip(at.relief + length * scale * run.relief, 0.0, 2.0)
        at.shift = at.shift + length * run.shift
    if used is not None:
        used[:] = dual.uses().reshape(d, n, n) / max(1, iterations - iterations // 2)
    for room in _ROOMS:
        prices = _proven(dual, best, counts, best_theta, theta, room)
        if prices is None or shown(prices):
            return prices
    return None


def _blend(before: Floats, now: Floats) -> Floats:
    return _MOMENTUM * before + (1.0 - _MOMENTUM) * now


def _length(n: int) -> float:
    """Step against the mean demand: the more iterations, the longer."""
    return 0.1 if n <= 32 else 0.05


def _proven(
    dual: search.RelayDual, point: _Point, counts: LinkCounts, theta: float, least: float, room: float
) -> RelayPrices | None:
    """The prices with few digits, and the largest Theta that they prove with that room; None below `least`."""
    short = _Point(*(_short(each) for each in (point.price, point.relief, point.shift)))
    theta *= 1.0 - _BELOW
    least_around = (counts.least.sum(axis=0) + counts.least.sum(axis=1)).astype(np.float64)
    for _ in range(_TRIES):
        if theta <= least:
            return None
        value, slope, worth = short.value(dual, theta, exact=True)
        up = _UP * (np.abs(worth) + search.RelayDual.PREMIUM * theta * least_around)
        most = worth + room * np.abs(worth) + up
        value -= room * float(np.abs(worth).sum()) + 2.0 * float(up.sum())
        if value >= 0.0:
            return RelayPrices(theta, short.price, short.relief, short.shift, most)
        theta = (theta - value / slope) * (1.0 - _BELOW)
    return None


def _short(values: Floats) -> Floats:
    """Of so few digits that a file of them stays small."""
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values.ravel().tolist()]).reshape(values.shape)
