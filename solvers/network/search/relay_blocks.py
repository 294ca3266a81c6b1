"""Prices for the bound by relay blocks: subgradient ascent from the multipliers of the two-layer bound.

The bound (`topoopt.verify.network.topology_bounds.relay_blocks` has the proof): theta >= Theta where

    G = sum D (t - s) + f min c - sum_k U_k >= 0,    t = 3 min c,

U_k the most that the links around server k can be worth, by branch and bound (`relay_kernels`). Every iteration makes
one subgradient step of G in prices c of links, reliefs s of pairs and shifts m of worth between the ends of a link,
with momentum and steps that fall to nothing (Polyak, Introduction to Optimization, 1987), and moves Theta to where G
vanishes by its slope. Any prices prove something, so nothing here needs to be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.network.search.relay_dual import Gradients, dual
from solvers.network.search.two_layer import TwoLayerDuals
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.network import RelayPrices

_MOMENTUM = 0.9
_SPLIT_STEPS = 6
_DIGITS = 6
_BELOW = 2e-6
"""What is taken off Theta for the digits of the prices, and off again where that was too little."""

_TRIES = 8
_UP = 1e-9
"""What is added to the worth of a block, more than the rounding of its sum."""


def default_iterations(n: int) -> int:
    """A minute or two at most: one takes a millisecond at 16 servers, 10 ms at 32 and 0.3 s at 64."""
    return 3000 if n <= 16 else 1000 if n <= 32 else 300


@dataclass(eq=False)
class _Point:
    """Prices of links, reliefs of pairs and shifts, float64[n, n] each."""

    price: Floats
    relief: Floats
    shift: Floats

    def copy(self) -> _Point:
        return _Point(self.price.copy(), self.relief.copy(), self.shift.copy())


class _Ascent:
    """The dual function of a demand, with what one evaluation hands on to the next: sets and splits of every block."""

    def __init__(self, d: int, demand: Floats, further: float, split: Floats) -> None:
        n = len(demand)
        self.demand, self.further, self.split = demand, further, split
        self.sets = np.full((2, n, d), -1)
        self.gradients = Gradients(*(np.zeros((n, n)) for _ in range(3)))

    def value(self, point: _Point, theta: float, steps: int = _SPLIT_STEPS) -> tuple[float, float, Floats]:
        """G, its slope in Theta, and the worth of every block."""
        return dual(
            self.demand, point.price, point.relief, point.shift, theta, self.further, self.sets, self.split,
            self.gradients, steps,
        )  # fmt: skip


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
    stop: Stop | None = None,
) -> RelayPrices | None:
    """Prices that prove as large a Theta as they can; None where they do not prove more than `theta`.

    Args:
        d: degree.
        demand: float64[n, n], zero diagonal.
        duals: of the two-layer bound, to start from.
        theta: what is proven already, positive.
        further: least sum over pairs of demand times hops beyond the third.
        iterations: of the ascent.
        stop: looked at between iterations.
    """
    n = len(demand)
    at, split = _start(d, demand, duals)
    ascent = _Ascent(d, demand, further, split)
    mean = float(demand.sum()) / (n * (n - 1)) or 1.0
    reach = np.where(demand > 0.0, demand, 1.0)
    scale = np.minimum(1.0 / reach, 1.0 / mean)
    off = ~np.eye(n, dtype=np.bool_)
    run = _Point(*(np.zeros((n, n)) for _ in range(3)))
    best, best_theta, current = at.copy(), 0.0, theta
    for iteration in range(iterations):
        if stop is not None and stop.reason() is not None:
            break
        value, slope, _ = ascent.value(at, current)
        current -= value / slope
        if current > best_theta:
            best, best_theta = at.copy(), current
        gradients = ascent.gradients
        length = _length(n) * mean * (1.0 - iteration / iterations)
        run.price = _blend(run.price, np.where(off, gradients.price, 0.0) / current)
        run.relief = _blend(run.relief, gradients.relief / reach)
        run.shift = _blend(run.shift, gradients.shift)
        at.price = np.maximum(1.0, at.price + length / current * run.price)
        at.relief = np.clip(at.relief + length * scale * run.relief, 0.0, 2.0)
        at.shift = at.shift + length * run.shift
    return _proven(ascent, best, best_theta, theta)


def _blend(before: Floats, now: Floats) -> Floats:
    return _MOMENTUM * before + (1.0 - _MOMENTUM) * now


def _length(n: int) -> float:
    """Step against the mean demand: the more iterations, the longer."""
    return 0.1 if n <= 32 else 0.05


def _proven(ascent: _Ascent, point: _Point, theta: float, least: float) -> RelayPrices | None:
    """The prices with few digits, and the largest Theta that they prove; None below `least`."""
    short = _Point(*(_short(each) for each in (point.price, point.relief, point.shift)))
    theta *= 1.0 - _BELOW
    for _ in range(_TRIES):
        if theta <= least:
            return None
        value, slope, worth = ascent.value(short, theta)
        most = worth + _UP * np.abs(worth)
        if value >= 2.0 * _UP * float(np.abs(worth).sum()):
            return RelayPrices(theta, short.price, short.relief, short.shift, most)
        theta = (theta - value / slope) * (1.0 - _BELOW)
    return None


def _short(values: Floats) -> Floats:
    """Of so few digits that a file of them stays small."""
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values.ravel().tolist()]).reshape(values.shape)
