"""Multipliers for the two-layer bound in plain numpy, whole arrays at a time: what the compiled search should find.

The program and the method are those of `solvers.network.relays`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.network import TwoLayerMultipliers
from topoopt.verify.network.bounds import TwoLayerCertificate, two_layer_from

Single = NDArray[np.float32]


def two_layer_multipliers(
    d: int, demand: NDArray[np.float64], iterations: int
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """w: float64[n, n] and u: float32[n, n, n] after so many iterations, in float32, arrays of n^3.

    Args:
        d: degree.
        demand: float64[n, n], zero diagonal.
    """
    n = len(demand)
    others = max(n - 2, 1)
    mean = float(demand.sum()) / (n * (n - 1)) or 1.0
    c = (demand / mean).astype(np.float32)
    step_y, step_z, step_p = (np.float32(v) for v in (1.0 / (3 + 2 * d + 2 * others), 0.5, 0.2))
    s1, s4, s5 = (np.float32(v) for v in (1.0 / (n - 1), 1.0 / (1 + others), 1.0 / (others + d)))
    half = np.float32(0.5)
    free = (~np.eye(n, dtype=np.bool_)).astype(np.float32)
    distinct = free[:, :, None] * free[None, :, :] * free[:, None, :]
    y, z, l3, l4, l5, l6 = (np.zeros((n, n), dtype=np.float32) for _ in range(6))
    l1, l2 = np.zeros(n, dtype=np.float32), np.zeros(n, dtype=np.float32)
    p, ahead, l7, l8, work = (np.zeros((n, n, n), dtype=np.float32) for _ in range(5))
    for _ in range(iterations):
        slope = l1[:, None] + l2[None, :] + l3 - 2.0 * c - d * (l5 + l6) - l7.sum(axis=2) - l8.sum(axis=0)
        new_y = np.clip(y - step_y * slope, 0.0, 1.0) * free
        new_z = np.clip(z + step_z * (c - l3 - l4), 0.0, 1.0) * free
        np.add(l7, l8, out=work)
        work += l5[:, :, None]
        work += l6[None, :, :]
        work -= l4[:, None, :]
        work *= -step_p
        work += p
        np.maximum(work, 0.0, out=work)
        work *= distinct
        np.multiply(work, 2.0, out=ahead)
        ahead -= p
        p, work = work, p
        ahead_y, ahead_z = 2.0 * new_y - y, 2.0 * new_z - z
        y, z = new_y, new_z
        l1 = np.maximum(0.0, l1 + s1 * (ahead_y.sum(axis=1) - d))
        l2 = np.maximum(0.0, l2 + s1 * (ahead_y.sum(axis=0) - d))
        l3 = np.maximum(0.0, l3 + half * (ahead_y + ahead_z - 1.0))
        l4 = np.maximum(0.0, l4 + s4 * (ahead_z - ahead.sum(axis=1)))
        l5 = np.maximum(0.0, l5 + s5 * (ahead.sum(axis=2) - d * ahead_y))
        l6 = np.maximum(0.0, l6 + s5 * (ahead.sum(axis=0) - d * ahead_y))
        ahead *= half
        l7 += ahead
        l7 -= (half * ahead_y)[:, :, None]
        np.maximum(l7, 0.0, out=l7)
        l7 *= distinct
        l8 += ahead
        l8 -= (half * ahead_y)[None, :, :]
        np.maximum(l8, 0.0, out=l8)
        l8 *= distinct
    weight = np.minimum(l4, c) * free
    l7 += l5[:, :, None]
    np.minimum(l7, weight[:, None, :], out=l7)
    l7 *= distinct
    l7 *= np.float32(mean)
    return weight.astype(np.float64) * mean, l7


def two_layer_bound(
    n: int, d: int, demand: NDArray[np.float64], *, iterations: int | None = None
) -> tuple[float, TwoLayerCertificate]:
    """The two-layer bound with these multipliers; `iterations` None: 800, enough up to n = 32."""
    matrix = np.array(demand, dtype=np.float64)
    np.fill_diagonal(matrix, 0.0)
    found = TwoLayerMultipliers(*two_layer_multipliers(d, matrix, 800 if iterations is None else iterations))
    return two_layer_from(n, d, matrix, found)
