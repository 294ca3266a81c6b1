"""Prices at a node of the tree over links: subgradient ascent until they close it, compiled.

The dual function is what is owed, sum of demand times (far - relief), less the worth of the blocks; above 0 no network
of the node has utilisation `theta`. It only matters in proportion to sum of demand times far. Steps are as long as
would reach a value a little above 0 (Polyak), directions deflected from the one before (Camerini, Fratta and
Maffioli, 1975).
"""

from __future__ import annotations

import numpy as np

from solvers.network.exact.block_kernels import (
    NOTHING,
    blocks,
    choices,
    ends_of,
    far_lengths,
    longest_of,
    relayed,
    set_bar,
)
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel

ENOUGH = 2e-6
"""Part of demand times far by which a node has to be closed for the ascent to end."""

_AIM = 1e-4
_PATIENCE = 8
_LEAST_PRICE = 0.02
_MOST = 1e6
"""Of a relief or shift, where the mean price is 1: far beyond any that proves something."""


@kernel
def _link(
    i: int, j: int, second: bool, demand: Floats, theta: float, state: Floats, far: Floats, slope: Floats, left: Floats
) -> None:
    """Half a link i -> j that counts in a block."""
    slope[0, i, j] -= 0.5 * theta
    if far[i, j] - state[0, i, j] - state[1, i, j] > 0.0:
        carried = 0.5 * (min(max(demand[i, j] - theta, 0.0), theta) if second else min(demand[i, j], theta))
        slope[0, i, j] += carried
        slope[1, i, j] += carried
        left[i, j] -= carried


@kernel
def dual(
    demand: Floats, state: Floats, theta: float, ins: Ints, many_in: Ints, outs: Ints, many_out: Ints, slope: Floats
) -> tuple[float, float]:
    """The dual function and the sum of demand times far; slope float64[3, n, n] is filled.

    Args:
        state: float64[3, n, n], price, relief and shift; links that are never there are barred.
        ins, many_in, outs, many_out: `choices` of the node; an empty one makes the function infinite.
    """
    n = len(demand)
    price, relief, shift = state[0], state[1], state[2]
    far, last = np.empty((n, n)), np.zeros((n, n), dtype=np.int64)
    far_lengths(price, far, last)
    ends, gains = np.zeros((2, 2, n)), np.zeros((n, n))
    slope[:] = 0.0
    value = total = 0.0
    left = demand.copy()
    worth = np.empty((ins.shape[1], ins.shape[1]))
    for i in range(n):
        for j in range(n):
            total += demand[i, j] * far[i, j]
            value += demand[i, j] * (far[i, j] - relief[i, j])
            slope[1, i, j] -= demand[i, j]
    for k in range(n):
        ends_of(k, demand, price, relief, shift, far, theta, ends)
        relayed(k, price, relief, far, gains)
        best, best_in, best_out = NOTHING, 0, 0
        blocks(k, ins, many_in[k], outs, many_out[k], ends, gains, demand, theta, worth)
        for p in range(many_in[k]):
            for q in range(many_out[k]):
                if worth[p, q] > best:
                    best, best_in, best_out = worth[p, q], p, q
        if best == NOTHING:
            return np.inf, 1.0
        value -= best
        tails, heads = ins[k, best_in], outs[k, best_out]
        for q in range(2):
            twice = q == 1 and tails[0] == tails[1]
            _link(tails[q], k, twice, demand, theta, state, far, slope, left)
            if not twice:
                slope[2, tails[q], k] -= 1.0
            twice = q == 1 and heads[0] == heads[1]
            _link(k, heads[q], twice, demand, theta, state, far, slope, left)
            if not twice:
                slope[2, k, heads[q]] += 1.0
        single_in, single_out = tails[0] == tails[1], heads[0] == heads[1]
        for i in tails[: 1 if single_in else 2]:
            for j in heads[: 1 if single_out else 2]:
                if gains[i, j] > 0.0:
                    carried = min(demand[i, j], theta * (2.0 if single_in and single_out else 1.0))
                    slope[1, i, j] += carried
                    slope[0, i, k] += carried
                    slope[0, k, j] += carried
                    left[i, j] -= carried
    for i in range(n):
        for j in range(n):
            if i == j or left[i, j] == 0.0:
                continue
            at = j
            while last[i, at] >= 0:
                slope[0, last[i, at], at] += left[i, j]
                at = last[i, at]
            a, b = divmod(-1 - last[i, at], n)
            slope[0, i, a] += left[i, j]
            slope[0, a, b] += left[i, j]
            slope[0, b, at] += left[i, j]
    return value, total


@kernel
def ascend(demand: Floats, state: Floats, theta: float, rows: Ints, into: Ints, iterations: int) -> float:
    """Improve float64[3, n, n] price, relief and shift in place; the dual function they reach, in proportion."""
    n = len(demand)
    ins, many_in, outs, many_out, absent = choices(rows, into)
    slope, run = np.zeros((3, n, n)), np.zeros((3, n, n))
    best, best_state = -np.inf, state.copy()
    scale = np.empty((3, n, n))
    for i in range(n):
        for j in range(n):
            scale[0, i, j] = 1.0 / theta**2
            scale[1, i, j] = 1.0 / (max(demand[i, j], 1e-3) * max(demand[i, j], 1.0))
            scale[2, i, j] = 1.0
    pace, stalled = 1.0, 0
    for _ in range(iterations):
        set_bar(state[0], absent, n * longest_of(state[0], absent))
        value, total = dual(demand, state, theta, ins, many_in, outs, many_out, slope)
        ratio = value / total
        stalled = 0 if ratio > best + 1e-7 else stalled + 1
        if ratio > best:
            best = ratio
            best_state[:] = state
        if best > ENOUGH:
            break
        if stalled >= _PATIENCE:
            pace, stalled = pace * 0.6, 0
            if pace < 0.02:
                break
        along = length = 0.0
        for x in range(3):
            for i in range(n):
                for j in range(n):
                    if x != 1 and absent[i, j]:
                        slope[x, i, j] = 0.0
                    along += slope[x, i, j] * run[x, i, j]
                    length += run[x, i, j] ** 2 / scale[x, i, j]
        deflect = max(0.0, -1.5 * along / length) if length > 0.0 else 0.0
        length = 0.0
        for x in range(3):
            for i in range(n):
                for j in range(n):
                    run[x, i, j] = scale[x, i, j] * slope[x, i, j] + deflect * run[x, i, j]
                    length += run[x, i, j] ** 2 / scale[x, i, j]
        step = pace * ((_AIM + 2 * ENOUGH) * total - value) / max(length, 1e-12)
        prices = count = 0.0
        for i in range(n):
            for j in range(n):
                if not absent[i, j]:
                    state[0, i, j] = max(_LEAST_PRICE, state[0, i, j] + step * run[0, i, j])
                    state[2, i, j] = min(_MOST, max(-_MOST, state[2, i, j] + step * run[2, i, j]))
                    prices += state[0, i, j]
                    count += 1.0
                if i != j:
                    state[1, i, j] = min(_MOST, max(0.0, state[1, i, j] + step * run[1, i, j]))
        state *= count / prices
    state[:] = best_state
    return best
