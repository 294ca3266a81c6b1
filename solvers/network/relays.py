"""Subgradient ascent finds multipliers of the two-layer bound and prices of the bound by relay blocks.

Multipliers of the two-layer bound, searched in pieces between which it can be stopped.

Any values of them prove something by the formula, so nothing here needs to be trusted.

Prices for the bound by relay blocks: subgradient ascent from the multipliers of the two-layer bound.

The bound (`topoopt.verify.network.bounds` has the proof): theta >= Theta where

    G = sum D (t - s) + f min c - sum_k U_k >= 0,    t = 3 min c,

U_k the most that the links around server k can be worth, by pairs of links or by branch and bound (`RelayDual`). Every
iteration makes one subgradient step of G in prices c of links, reliefs s of pairs and shifts m of worth between the
ends of a link, with momentum and steps that fall to nothing (Polyak, Introduction to Optimization, 1987), and moves
Theta to where G vanishes by its slope. The best links around a server are found in one iteration of ten or thirty; in
the others they are sought among those found before and by exchange of rows for columns, which follows the ascent as
well and takes a tenth of the time. Any prices prove something, so nothing here needs to be trusted.

Cases by the number of links between two servers, where prices of relay blocks prove more than for all topologies.

The case of least theta is split in two, fewer links i -> j or more, until there are as many cases as asked for. Pairs
of more demand than a link carries come first, by whether a second link joins them: the prices of all else depend on
that. Then those that the best links around servers hold half the time, heaviest first. Prices of a case are sought
anew: from those of the case above they prove less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from solvers.stop import BestFirst, Stop
from topoopt.core.arrays import Floats
from topoopt.core.network import MOST_RELAY_CASES, LinkCounts, RelayCases, RelayPrices
from topoopt.native import flows, search


def default_two_layer_iterations(n: int) -> int:
    """Iterations after which the bound hardly improves."""
    return 800 if n <= 32 else 2000 if n <= 64 else 4000


@dataclass(frozen=True, eq=False)
class TwoLayerDuals:
    """What the search found.

    Attributes:
        weight: float64[n, n], w.
        first_link: float32[n, n, n], u.
        ends: float64[2, n], multipliers of (1) and (2).
        iterations: that were made.
    """

    weight: Floats
    first_link: NDArray[np.float32]
    ends: Floats
    iterations: int


def two_layer_multipliers(d: int, demand: Floats, iterations: int, *, stop: Stop | None = None) -> TwoLayerDuals:
    """Multipliers after so many iterations.

    Args:
        d: degree.
        demand: float64[n, n], zero diagonal.
        iterations: most of them.
        stop: looked at between pieces; None: go to the end.
    """
    n = len(demand)
    mean = float(demand.sum()) / (n * (n - 1)) or 1.0
    search = flows.TwoLayerSearch(d, (demand / mean).astype(np.float32, order="C"))
    done, piece = 0, max(1, (1 << 26) // n**3)  # entries gone through between two looks at the clock
    while done < iterations and (stop is None or stop.reason() is None):
        count = min(piece, iterations - done)
        search.run(count)
        done += count
    weight, first_link, ends = search.multipliers()
    first_link *= np.float32(mean)
    return TwoLayerDuals(
        weight.astype(np.float64) * mean, first_link.reshape(n, n, n), ends.astype(np.float64) * mean, done
    )


_MOMENTUM = 0.9

_DIGITS = 6
_BELOW = 2e-6
"""What is taken off Theta for the digits of the prices, and off again where that was too little."""

_DIP = 0.9
"""Part of what is proven already that Theta may be in the ascent."""

_UP = 1e-9
"""What is added to the worth of a block, more than the rounding of its sum."""


def default_iterations(n: int, d: int) -> int:
    """Half a minute at most: one takes 0.25 ms at 16 servers of four links, 1.2 ms at 32, 13 ms at 64, 60 ms at 128.

    With more than four links the best around a server take longer; 0 where they take too long.
    """
    if n > 32:
        return 1500 if n <= 64 and d <= 4 else 800 if n <= 64 else 600 if d <= 4 else 0
    return 6000 if n <= 16 else 3000


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
        return dual.value(self.price, self.relief, self.shift, theta, 6, exact)


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
        exact = iteration % (10 if n <= 64 else 30) == 0 or iteration >= iterations - 6
        value, slope, _ = at.value(dual, current, exact=exact)
        current -= value / slope
        if exact and current > best_theta:
            best, best_theta = at.copy(), current
        price, relief, shift = dual.gradients()
        length = (0.1 if n <= 32 else 0.05) * mean * (1.0 - iteration / iterations)
        run.price = _blend(run.price, np.where(off, price, 0.0) / current)
        run.relief = _blend(run.relief, relief / reach)
        run.shift = _blend(run.shift, shift)
        at.price = np.maximum(1.0, at.price + length / current * run.price)
        at.relief = np.clip(at.relief + length * scale * run.relief, 0.0, 2.0)
        at.shift = at.shift + length * run.shift
    if used is not None:
        used[:] = dual.uses().reshape(d, n, n) / max(1, iterations - iterations // 2)
    for slack in (0.0, 3e-4, 1e-3, 3e-3):  # so that branch and bound has less to rule out
        prices = _proven(dual, best, counts, best_theta, theta, slack)
        if prices is None or shown(prices):
            return prices
    return None


def _blend(before: Floats, now: Floats) -> Floats:
    return _MOMENTUM * before + (1.0 - _MOMENTUM) * now


def _proven(
    dual: search.RelayDual, point: _Point, counts: LinkCounts, theta: float, least: float, slack: float
) -> RelayPrices | None:
    """The prices with few digits, and the largest Theta that they prove with that room; None below `least`."""
    short = _Point(*(_short(vector) for vector in (point.price, point.relief, point.shift)))
    theta *= 1.0 - _BELOW
    least_around = (counts.least.sum(axis=0) + counts.least.sum(axis=1)).astype(np.float64)
    for _ in range(8):
        if theta <= least:
            return None
        value, slope, shift_value = short.value(dual, theta, exact=True)
        up = _UP * (np.abs(shift_value) + search.RelayDual.PREMIUM * theta * least_around)
        most = shift_value + slack * np.abs(shift_value) + up
        value -= slack * float(np.abs(shift_value).sum()) + 2.0 * float(up.sum())
        if value >= 0.0:
            return RelayPrices(theta, short.price, short.relief, short.shift, most)
        theta = (theta - value / slope) * (1.0 - _BELOW)
    return None


def _short(values: Floats) -> Floats:
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values.ravel().tolist()]).reshape(values.shape)


CASES_SERVERS = 20
"""Up to here a case takes about half a second; of more servers it takes several, and few cases prove little."""

_PROPOSALS = 400_000


def cases_of(n: int, proposals: int | None) -> int:
    """Cases where a search proposes so many swaps: about as much time as it takes itself; one by default."""
    return 1 if proposals is None or n > CASES_SERVERS else max(1, min(proposals // _PROPOSALS, MOST_RELAY_CASES))


Shown = Callable[[RelayPrices, LinkCounts], bool]
"""Whether prices can be shown to prove their theta of topologies with these counts."""


@dataclass(eq=False)
class _Case:
    counts: LinkCounts
    prices: RelayPrices
    used: Floats
    split: tuple[int, int, int] = (0, 0, 0)
    parts: tuple[_Case, ...] = ()


def relay_cases(
    d: int,
    demand: Floats,
    duals: TwoLayerDuals,
    root: RelayPrices,
    used: Floats,
    further: float,
    cases: int,
    *,
    shown: Shown | None = None,
    stop: Stop | None = None,
    iterations: int = 1500,
) -> RelayCases | None:
    """So many cases at most with prices of each; None where that is one.

    Args:
        d, demand, duals, further, stop: as of `relay_prices`.
        root: what is proven of all topologies.
        used: float64[d, n, n], by the ascent that led to it.
        cases: at most.
        shown: whether prices can be shown again for topologies with these counts.
        iterations: of the ascent in a case.
    """
    tree = _Case(LinkCounts.any(len(demand), d), root, used)
    leaves, undivided = 1, BestFirst[_Case]()
    undivided.add(root.theta, tree)
    while leaves < cases and (stop is None or stop.reason() is None):
        worst = undivided.pop()
        split = _split(worst, demand)
        if split is None:
            break
        parts = []
        for counts in worst.counts.split(*split):
            seen = np.zeros_like(used)
            again = partial(_shown, shown, counts)
            prices = relay_prices(
                d, demand, duals, worst.prices.theta, further, iterations,
                shown=again, stop=stop, counts=counts, used=seen,
            )  # fmt: skip
            if prices is None and not again(worst.prices):
                break
            parts.append(_Case(counts, prices or worst.prices, seen))
        if len(parts) < 2:
            break
        worst.split, worst.parts = split, tuple(parts)
        leaves += len(parts) - 1
        for part in parts:
            undivided.add(part.prices.theta, part)
    if leaves == 1:
        return None
    nodes = list(_nodes(tree))
    return RelayCases(np.array([node.split for node in nodes]), tuple(node.prices for node in nodes if not node.parts))


def _shown(shown: Shown | None, counts: LinkCounts, prices: RelayPrices) -> bool:
    return shown is None or shown(prices, counts)


def _split(case: _Case, demand: Floats) -> tuple[int, int, int] | None:
    """The links that divide a case: i, j and their number; None where nothing is left to divide."""
    theta, (least, most) = case.prices.theta, case.counts
    second = np.where((least < 2) & (most >= 2) & (demand > theta), demand, 0.0)
    if len(case.used) > 1 and second.max() > 0.0:
        i, j = np.unravel_index(second.argmax(), second.shape)
        return int(i), int(j), 2
    beside = np.arange(len(case.used))[:, None, None]
    part = np.clip(case.used, 0.0, 1.0)
    weight = np.minimum(part, 1.0 - part) * np.clip(demand - beside * theta, 0.0, theta)
    weight[(least > beside) | (most <= beside)] = 0.0
    if weight.max() <= 0.0:
        return None
    count, i, j = np.unravel_index(weight.argmax(), weight.shape)
    return int(i), int(j), int(count) + 1


def _nodes(case: _Case) -> list[_Case]:
    return [case, *(node for part in case.parts for node in _nodes(part))]
