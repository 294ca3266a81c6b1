"""The dual function of the bound by relay blocks with its subgradients, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.network.search.relay_kernels import best_block, good_block, largest, recall
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel

_NEW = 1e-9
"""Part of its worth by which a set of links must beat those known to be kept."""


class Gradients(NamedTuple):
    """float64[n, n] each: of the dual function by prices of links, reliefs of pairs, shifts."""

    price: Floats
    relief: Floats
    shift: Floats


@kernel
def _count(gradients: Gradients, gain: Floats, price: Floats, carried: Floats, theta: float, i: int, j: int) -> float:
    """Half a link i -> j that counts in a block; half of what it costs."""
    moved = 0.5 * carried[i, j] if gain[i, j] > 0.0 else 0.0
    gradients.price[i, j] -= 0.5 * theta - moved
    gradients.relief[i, j] += moved
    return float(0.5 * price[i, j])


@kernel
def dual(
    demand: Floats,
    price: Floats,
    relief: Floats,
    shift: Floats,
    theta: float,
    further: float,
    sets: Ints,
    known: Ints,
    split: Floats,
    gradients: Gradients,
    steps: int,
    exact: bool,
) -> tuple[float, float, Floats]:
    """G, its slope in Theta with what links carry held fixed, and float64[n], the worth of every block.

    Where not `exact`, the sets are good ones and G is no less than it is.

    Args:
        demand, price, relief, shift: float64[n, n], D, c, s and m of the bound; c >= 1.
        theta: Theta.
        further: demand times hops beyond the third, at least.
        sets: int64[2, n, d], the best servers before and after each relay: a guess, replaced.
        known: int64[n, places, 2, d], sets found before, around each relay; a better one goes to the front.
        split: float64[n, n, n], of the pairs around each relay, improved in place.
        gradients: filled.
        steps: that improve each split.
        exact: whether the best sets are proven to be that.
    """
    n, d = len(demand), sets.shape[2]
    least = np.inf
    for i in range(n):
        for j in range(n):
            if i != j:
                least = min(least, price[i, j])
    far = 3.0 * least
    once = np.minimum(demand, theta)
    again = np.minimum(np.maximum(demand - theta, 0.0), theta)
    gain = np.maximum(far - price - relief, 0.0)
    first = 0.5 * (theta * price + gain * once)
    more = 0.5 * (theta * price + gain * again)
    value = far * demand.sum() - (relief * demand).sum() + further * least
    slope = 0.0
    gradients.price[:] = 0.0
    gradients.relief[:] = -demand
    gradients.shift[:] = 0.0
    worth = np.empty(n)
    w = np.empty((n, n))
    over = np.array([again[i].max() > 0.0 for i in range(n)])
    relayed, top = np.zeros(n), np.empty(d, dtype=np.int64)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                w[i, j] = max(0.0, far - relief[i, j] - price[i, k] - price[k, j])
            w[i, i] = w[i, k] = w[k, i] = 0.0
        # What a second link in may relay of pairs that fill one: rarely of account, so no gradient goes by it.
        for i in range(n):
            relayed[i] = largest(w[i] * again[i], top) if over[i] else 0.0
            w[i] *= once[i]
        double_in, double_out = (k + 1) % n, (k + 1) % n
        for i in range(n):
            if i != k and more[i, k] + relayed[i] > more[double_in, k] + relayed[double_in]:
                double_in = i
            if i != k and more[k, i] > more[k, double_out]:
                double_out = i
        fill_in, fill_out = more[double_in, k] + relayed[double_in], more[k, double_out]
        a = first[:, k] + shift[:, k] - fill_in
        b = first[k, :] - shift[k, :] - fill_out
        a[k] = b[k] = -np.inf
        before, after = sets[0, k], sets[1, k]
        remembered = recall(a, b, w, known[k], before, after)
        block = best_block(a, b, w, split[k], before, after, steps) if exact else good_block(a, b, w, before, after)
        worth[k] = d * (fill_in + fill_out) + block
        if block > remembered + _NEW * abs(remembered):
            for place in range(known.shape[1] - 1, 0, -1):
                known[k, place] = known[k, place - 1]
            known[k, 0, 0], known[k, 0, 1] = before, after
        value -= worth[k]
        for i in before:
            if i >= 0:
                gradients.shift[i, k] -= 1.0
                slope -= _count(gradients, gain, price, once, theta, i, k)
            else:
                slope -= _count(gradients, gain, price, again, theta, double_in, k)
        for j in after:
            if j >= 0:
                gradients.shift[k, j] += 1.0
                slope -= _count(gradients, gain, price, once, theta, k, j)
            else:
                slope -= _count(gradients, gain, price, again, theta, k, double_out)
        for i in before:
            for j in after:
                if i >= 0 and j >= 0 and w[i, j] > 0.0:
                    gradients.relief[i, j] += once[i, j]
                    gradients.price[i, k] += once[i, j]
                    gradients.price[k, j] += once[i, j]
    return value, slope, worth
