"""Multipliers of the two-layer bound by a compiled search, in pieces between which it can be stopped.

The program, over y (link), z (exactly two hops) and p_ikj (both links of i -> k -> j), i, k, j distinct:

    maximise sum D (2 y + z)
    (1) (2) row and column sums of y <= d      (3) y_ij + z_ij <= 1       (4) z_ij <= sum_k p_ikj
    (5) sum_j p_ikj <= d y_ik                  (6) sum_i p_ikj <= d y_kj  (7) p_ikj <= y_ik   (8) p_ikj <= y_kj

by the primal-dual hybrid gradient method (Chambolle and Pock, J. Math. Imaging Vis. 40, 2011), diagonally
preconditioned; each iteration is one pass over the n^3 arrays. Only the multipliers of (1), (2), (4), (5) and (7) are
used, and any values of them prove something by the formula, so nothing here needs to be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.simulate.jit import summing_kernel

_PIECE = 1 << 26
"""Entries gone through between two looks at the clock."""


def default_iterations(n: int) -> int:
    """Where more hardly helps ."""
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
    worth = (demand / mean).astype(np.float32)
    pair = np.zeros((8, n, n), dtype=np.float32)  # y, z, l3, l4, l5, l6, sums of l7 over j, of l8 over i
    ends = np.zeros((2, n), dtype=np.float32)  # l1, l2
    p, l7, l8 = (np.zeros((n, n, n), dtype=np.float32) for _ in range(3))
    done, piece = 0, max(1, _PIECE // n**3)
    while done < iterations and (stop is None or stop.reason() is None):
        count = min(piece, iterations - done)
        _iterate(d, worth, pair, ends, p, l7, l8, count)
        done += count
    weight = np.minimum(pair[3], worth) * (1.0 - np.eye(n, dtype=np.float32))
    l7 += pair[4][:, :, None]
    np.minimum(l7, weight[:, None, :], out=l7)
    l7 *= np.float32(mean)
    return TwoLayerDuals(weight.astype(np.float64) * mean, l7, ends.astype(np.float64) * mean, done)


# Sums may be taken in any order: the arrays are a search for multipliers, of which any are valid.
@summing_kernel
def _iterate(
    d: int,
    c: NDArray[np.float32],
    pair: NDArray[np.float32],
    ends: NDArray[np.float32],
    p: NDArray[np.float32],
    l7: NDArray[np.float32],
    l8: NDArray[np.float32],
    iterations: int,
) -> None:  # pragma: no cover - compiled
    n = len(c)
    others = max(n - 2, 1)
    step_y, step_z, step_p = np.float32(1.0 / (3 + 2 * d + 2 * others)), np.float32(0.5), np.float32(0.2)
    s1, s4, s5 = np.float32(1.0 / (n - 1)), np.float32(1.0 / (1 + others)), np.float32(1.0 / (others + d))
    half, one, two, zero, most = np.float32(0.5), np.float32(1.0), np.float32(2.0), np.float32(0.0), np.float32(d)
    y, z, l3, l4, l5, l6, sum7, sum8 = pair[0], pair[1], pair[2], pair[3], pair[4], pair[5], pair[6], pair[7]
    l1, l2 = ends[0], ends[1]
    ahead_y, ahead_z = np.zeros((n, n), dtype=np.float32), np.zeros((n, n), dtype=np.float32)
    by_ij, by_ik, by_kj = (
        np.zeros((n, n), dtype=np.float32),
        np.zeros((n, n), dtype=np.float32),
        np.zeros((n, n), dtype=np.float32),
    )
    ahead = np.zeros(n, dtype=np.float32)
    for _ in range(iterations):
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                slope = l1[i] + l2[j] + l3[i, j] - two * c[i, j] - most * (l5[i, j] + l6[i, j])
                slope -= sum7[i, j] + sum8[i, j]
                new = min(max(y[i, j] - step_y * slope, zero), one)
                ahead_y[i, j] = two * new - y[i, j]
                y[i, j] = new
                new = min(max(z[i, j] + step_z * (c[i, j] - l3[i, j] - l4[i, j]), zero), one)
                ahead_z[i, j] = two * new - z[i, j]
                z[i, j] = new
        by_ij[:] = zero
        by_kj[:] = zero
        sum8[:] = zero
        for i in range(n):
            for k in range(n):
                if i == k:
                    continue
                row, seven, eight = p[i, k], l7[i, k], l8[i, k]
                fixed, first = l5[i, k], half * ahead_y[i, k]
                for j in range(n):
                    old = row[j]
                    new = max(zero, old - step_p * (fixed + l6[k, j] + seven[j] + eight[j] - l4[i, j]))
                    row[j] = new
                    ahead[j] = two * new - old
                for j in (i, k):
                    row[j] = zero
                    ahead[j] = zero
                for j in range(n):
                    by_ij[i, j] += ahead[j]
                    by_kj[k, j] += ahead[j]
                    seven[j] = max(zero, seven[j] + half * ahead[j] - first)
                    eight[j] = max(zero, eight[j] + half * ahead[j] - half * ahead_y[k, j])
                for j in (i, k):
                    seven[j] = zero
                    eight[j] = zero
                total, total7 = zero, zero
                for j in range(n):
                    total += ahead[j]
                    total7 += seven[j]
                    sum8[k, j] += eight[j]
                by_ik[i, k] = total
                sum7[i, k] = total7
        for i in range(n):
            out, into = zero, zero
            for j in range(n):
                out += ahead_y[i, j]
                into += ahead_y[j, i]
            l1[i] = max(zero, l1[i] + s1 * (out - most))
            l2[i] = max(zero, l2[i] + s1 * (into - most))
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                l3[i, j] = max(zero, l3[i, j] + half * (ahead_y[i, j] + ahead_z[i, j] - one))
                l4[i, j] = max(zero, l4[i, j] + s4 * (ahead_z[i, j] - by_ij[i, j]))
                l5[i, j] = max(zero, l5[i, j] + s5 * (by_ik[i, j] - most * ahead_y[i, j]))
                l6[i, j] = max(zero, l6[i, j] + s5 * (by_kj[i, j] - most * ahead_y[i, j]))
