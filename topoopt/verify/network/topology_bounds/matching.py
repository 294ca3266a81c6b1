"""Largest total weight of pairs with at most c in a row and c in a column (b-matching), bounded from above by its dual.

    BM(W, c) = max sum W y, row and column sums of y <= c, 0 <= y <= 1
            <= c sum(alpha + beta) + sum (W_ij - alpha_i - beta_j)^+       for any alpha, beta >= 0,

with equality at the best alpha, beta (the polytope is integral, so the bound is the b-matching itself).
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.leaving import end_if_left


def matching_dual(weight: Floats, count: int, alpha: Floats, beta: Floats) -> float:
    """Upper bound on the b-matching over pairs i != j; alpha, beta are float64[n], not negative."""
    end_if_left()
    rest = np.maximum(weight - alpha[:, None] - beta[None, :], 0.0)
    np.fill_diagonal(rest, 0.0)
    return float(count * (alpha.sum() + beta.sum()) + rest.sum())


def matching_prices(weight: Floats, count: int, *, sweeps: int = 600) -> tuple[Floats, Floats]:
    """Good alpha, beta: primal-dual hybrid gradient on the b-matching, polished by exact row and column steps.

    Args:
        weight: float64[n, n]; the diagonal does not count.
        count: c, at least 1.
        sweeps: gradient iterations; more tightens the value, any number is valid.
    """
    n = len(weight)
    if count >= n - 1:
        return np.zeros(n), np.zeros(n)
    if _turns(weight):  # the largest of every row are as many of every column, so rows alone settle it
        row = np.partition(weight[0, 1:], n - 1 - count)
        return np.full(n, max(0.0, float(row[n - 1 - count]))), np.zeros(n)
    free = ~np.eye(n, dtype=np.bool_)
    scale = float(np.abs(weight[free]).mean()) or 1.0
    gain = np.where(free, weight / scale, -1.0)
    best: tuple[float, Floats, Floats] = (np.inf, np.zeros(n), np.zeros(n))
    y = np.zeros((n, n))
    alpha, beta = _row_step(gain, count, np.zeros(n)), np.zeros(n)
    mean_alpha, mean_beta, weights = np.zeros(n), np.zeros(n), 0
    step = 1.0 / (n - 1)
    for sweep in range(1, sweeps + 1):
        end_if_left()
        new = np.clip(y + 0.5 * (gain - alpha[:, None] - beta[None, :]), 0.0, 1.0)
        new[~free] = 0.0
        ahead = 2.0 * new - y
        y = new
        alpha = np.maximum(0.0, alpha + step * (ahead.sum(axis=1) - count))
        beta = np.maximum(0.0, beta + step * (ahead.sum(axis=0) - count))
        mean_alpha, mean_beta, weights = mean_alpha + alpha, mean_beta + beta, weights + 1
        if sweep % 50 == 0 or sweep == sweeps:
            for tried in ((alpha, beta), (mean_alpha / weights, mean_beta / weights)):
                polished = _polish(gain, count, tried[1])
                if polished[0] < best[0]:
                    best = polished
            mean_alpha, mean_beta, weights = np.zeros(n), np.zeros(n), 0
    return best[1] * scale, best[2] * scale


def _turns(weight: Floats) -> bool:
    """Whether weights of pairs i != j depend, to the last bit, on (j - i) mod n alone."""
    n = len(weight)
    first = weight[0]
    return all(
        np.array_equal(weight[i, i + 1 :], first[1 : n - i]) and np.array_equal(weight[i, :i], first[n - i :])
        for i in range(1, n)
    )


def _row_step(gain: Floats, count: int, beta: Floats) -> Floats:
    """alpha that minimises the dual for fixed beta: the c-th largest of each row, if positive."""
    left = gain - beta[None, :]
    np.fill_diagonal(left, -np.inf)
    place = len(gain) - count
    return np.maximum(np.partition(left, place, axis=1)[:, place], 0.0)


def _polish(gain: Floats, count: int, beta: Floats) -> tuple[float, Floats, Floats]:
    value = np.inf
    alpha = np.zeros(len(gain))
    for _ in range(5):
        alpha = _row_step(gain, count, beta)
        beta = _row_step(gain.T, count, alpha)
        now = matching_dual(gain, count, alpha, beta)
        if now > value * (1.0 - 1e-7):
            break
        value = now
    return min(now, value), alpha, beta
