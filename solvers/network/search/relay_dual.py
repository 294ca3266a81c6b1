"""The dual function of the bound by relay blocks with its subgradients, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.network.search.relay_kernels import best_block, good_block, recall
from topoopt.core.arrays import Floats, Ints
from topoopt.core.relay_cases import LinkCounts
from topoopt.simulate.jit import kernel

PREMIUM = 30.0
"""Worth in units of theta that is added to links that are there in any case, so that they are chosen."""

_NEW = 1e-9
"""Part of its worth by which a set of links must beat those known to be kept."""


class Gradients(NamedTuple):
    """float64[n, n] each: of the dual function by prices of links, reliefs of pairs, shifts."""

    price: Floats
    relief: Floats
    shift: Floats


class LinkCopies(NamedTuple):
    """What a place before or after a relay may be filled with: the first link of a server, or a further one of its.

    Attributes:
        server: int64[q], the first n those of first links.
        beside: int64[q], links of the same pair before it, 0 for first ones.
    """

    server: Ints
    beside: Ints


def copies_of(d: int, demand: Floats, theta: float, counts: LinkCounts) -> LinkCopies:
    """All links that flows can fill at a utilisation of `theta` or more, or that are there in any case."""
    most = np.maximum(demand.max(axis=0), demand.max(axis=1))
    least = np.maximum(counts.least.max(axis=0), counts.least.max(axis=1))
    found = [np.flatnonzero((most > beside * theta) | (beside < np.maximum(1, least))) for beside in range(d)]
    return LinkCopies(np.concatenate(found), np.repeat(np.arange(d), [len(each) for each in found]))


@kernel
def carried(demand: float, beside: int, theta: float) -> float:
    """What of a demand goes over a link, or two, that has so many beside it."""
    return min(max(demand - beside * theta, 0.0), theta)


@kernel
def _count(
    gradients: Gradients, gain: Floats, price: Floats, demand: Floats, theta: float, i: int, j: int, beside: int
) -> float:
    """Half a link i -> j that counts in a block; half of what it costs."""
    moved = 0.5 * carried(demand[i, j], beside, theta) if gain[i, j] > 0.0 else 0.0
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
    copies: LinkCopies,
    counts: LinkCounts,
    used: Floats,
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
        copies: q links.
        counts: how many links there are, at least and at most.
        used: float64[d, n, n], what is chosen of the links with so many beside them is added, half at either end.
        sets: int64[2, n, d], the best copies before and after each relay: a guess, replaced.
        known: int64[n, places, 2, d], sets found before, around each relay; a better one goes to the front.
        split: float64[n, q, q], of the pairs around each relay, improved in place.
        gradients: filled.
        steps: that improve each split.
        exact: whether the best sets are proven to be that.
    """
    n, d, q = len(demand), sets.shape[2], len(copies.server)
    server, beside = copies.server, copies.beside
    least = np.inf
    for i in range(n):
        for j in range(n):
            if i != j:
                least = min(least, price[i, j])
    far = 3.0 * least
    gain = np.maximum(far - price - relief, 0.0)
    value = far * demand.sum() - (relief * demand).sum() + further * least
    slope, premium = 0.0, PREMIUM * theta
    gradients.price[:] = 0.0
    gradients.relief[:] = -demand
    gradients.shift[:] = 0.0
    worth = np.empty(n)
    most = np.zeros((q, q))
    for y in range(q):
        for z in range(q):
            if beside[y] == beside[z]:
                most[y, z] = carried(demand[server[y], server[z]], beside[y], theta)
    w = np.zeros((q, q))
    a, b = np.empty(q), np.empty(q)
    for k in range(n):
        idle_in, idle_out = (k + 1) % n, (k + 1) % n
        for i in range(n):
            if i != k and price[i, k] > price[idle_in, k]:
                idle_in = i
            if i != k and price[k, i] > price[k, idle_out]:
                idle_out = i
        fill_in, fill_out = 0.5 * theta * price[idle_in, k], 0.5 * theta * price[k, idle_out]
        for y in range(q):
            i = server[y]
            a[y] = b[y] = -np.inf
            w[y] = 0.0
            if i == k:
                continue
            into, out = carried(demand[i, k], beside[y], theta), carried(demand[k, i], beside[y], theta)
            a[y] = 0.5 * (theta * price[i, k] + gain[i, k] * into) - fill_in
            b[y] = 0.5 * (theta * price[k, i] + gain[k, i] * out) - fill_out
            if beside[y] == 0 or into > 0.0:
                a[y] += shift[i, k]
            if beside[y] == 0 or out > 0.0:
                b[y] -= shift[k, i]
            if beside[y] < counts.least[i, k]:
                a[y] += premium
            if beside[y] < counts.least[k, i]:
                b[y] += premium
            if beside[y] >= counts.most[i, k]:
                a[y] = -np.inf
            if beside[y] >= counts.most[k, i]:
                b[y] = -np.inf
            for z in range(q):
                j = server[z]
                if most[y, z] > 0.0 and j != k:
                    w[y, z] = max(0.0, far - relief[i, j] - price[i, k] - price[k, j]) * most[y, z]
        before, after = sets[0, k], sets[1, k]
        remembered = recall(a, b, w, known[k], before, after)
        block = best_block(a, b, w, split[k], before, after, steps) if exact else good_block(a, b, w, before, after)
        due = premium * (counts.least[:, k].sum() + counts.least[k].sum())
        worth[k] = d * (fill_in + fill_out) + block - due
        if block > remembered + _NEW * abs(remembered):
            for place in range(known.shape[1] - 1, 0, -1):
                known[k, place] = known[k, place - 1]
            known[k, 0, 0], known[k, 0, 1] = before, after
        value -= worth[k]
        for y in before:
            if y < 0:
                slope -= _idle(gradients, price, theta, idle_in, k)
                continue
            i = server[y]
            slope -= _count(gradients, gain, price, demand, theta, i, k, beside[y])
            used[beside[y], i, k] += 0.5
            if beside[y] == 0 or demand[i, k] > beside[y] * theta:
                gradients.shift[i, k] -= 1.0
            for z in after:
                if z >= 0 and w[y, z] > 0.0:
                    j = server[z]
                    gradients.relief[i, j] += most[y, z]
                    gradients.price[i, k] += most[y, z]
                    gradients.price[k, j] += most[y, z]
        for z in after:
            if z < 0:
                slope -= _idle(gradients, price, theta, k, idle_out)
                continue
            j = server[z]
            slope -= _count(gradients, gain, price, demand, theta, k, j, beside[z])
            used[beside[z], k, j] += 0.5
            if beside[z] == 0 or demand[k, j] > beside[z] * theta:
                gradients.shift[k, j] += 1.0
    return value, slope, worth


@kernel
def _idle(gradients: Gradients, price: Floats, theta: float, i: int, j: int) -> float:
    """Half a link i -> j that carries nothing; half of what it costs."""
    gradients.price[i, j] -= 0.5 * theta
    return float(0.5 * price[i, j])
