r"""Lower bounds on the programs of `hierarchical_bandwidth` from multipliers of any quality (weak duality).

Multipliers     lambda[p] >= 0 of (1),   mu[g, j] >= 0 of (2), bytes,   y[r] of (4) by rows, eta of (6).

With sum_p lambda[p] <= omega of the job and sum_j mu[g, j] <= sum_p lambda[p] a[p, g], every allowed X costs at least

    sum_p lambda[p] C[p] + sum_j min_{l <= X <= h} ( W[j] / X + r[j] X ) + sum_r max(y[r] b_low[r], y[r] b_high[r]),
    W[j] = sum_g mu[g, j] u[g, j],        r = -y A   (+ k for the objective cost),

whose minima are 2 sqrt(W r) inside the bounds. Tangents play no part, so this is at least as good as the linear program
the multipliers come from. For the objective cost, lambda sums to eta omega and c0 - eta limit is added; for time x cost
the constants lambda C are the W of tau. Fleet worst-case: the sums over lambda, each over its omega, are at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.hierarchy.hierarchical_bandwidth import Blocks, Scale
from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.hierarchy.hierarchical_timeline import Path
from topoopt.core.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Of one program: per job a float64[P] lambda beside its paths, float64[G, J] mu, float64[R] y."""

    path_weights: tuple[Floats, ...]
    paths: tuple[tuple[Path, ...], ...]
    shares: Floats
    prices: Floats


def multipliers_of(
    data: BandwidthProgram, blocks: Blocks, scale: Scale, paths: list[list[Path]], row_dual: Floats
) -> Multipliers:
    """Multipliers in their own units from the row duals of the scaled arrays, made to satisfy what they must."""
    unit = scale.objective / (scale.objective if data.ratio else scale.time)
    first, slowest, _, limits, worst, _ = blocks.rows
    tangents = blocks.rows[2]
    weights = np.maximum(row_dual[first:slowest], 0.0) * unit
    by_job = tuple(weights[blocks.path_job == job] for job in range(len(data.timelines)))
    bulk = blocks.bulk
    shares = np.zeros((len(bulk), len(data.names)))
    duals = np.maximum(row_dual[slowest:tangents], 0.0)
    shares[blocks.slowest_group, blocks.slowest_column] = duals * bulk[blocks.slowest_group] * unit
    prices = row_dual[limits:worst] * scale.objective / blocks.row_scale
    prices = np.where((prices > 0) & np.isinf(data.row_lower), 0.0, prices)
    prices = np.where((prices < 0) & np.isinf(data.row_upper), 0.0, prices)
    found = Multipliers(by_job, tuple(tuple(own) for own in paths), shares, prices)
    return _tight(data, blocks, found)


def _tight(data: BandwidthProgram, blocks: Blocks, found: Multipliers) -> Multipliers:
    """The same with path weights that add up to what they may, and shares to the bytes on the paths."""
    sums = np.array([weights.sum() for weights in found.path_weights])
    weights = found.path_weights
    if data.time_limit_ns is None:
        if data.worst_case:
            total = float((sums / data.weights).sum())
            factors = np.full(len(sums), 1.0 / total if total > 0 else 0.0)
        else:
            factors = np.divide(data.weights, sums, out=np.zeros_like(sums), where=sums > 0)
        weights = tuple(own * factor for own, factor in zip(weights, factors, strict=True))
    shares = found.shares.copy()
    for job, (own, paths) in enumerate(zip(weights, found.paths, strict=True)):
        due = sum((weight * path.sizes for weight, path in zip(own, paths, strict=True)), start=0.0)
        mine = slice(blocks.group_start[job], blocks.group_start[job + 1])
        given = shares[mine].sum(axis=1)
        ratio = np.divide(due, given, out=np.zeros_like(given), where=given > 0)
        shares[mine] *= ratio[:, None]
    return replace(found, path_weights=weights, shares=shares)


def lower_bound(data: BandwidthProgram, found: Multipliers, group_start: Ints, best: float) -> tuple[float, Floats]:
    """What the multipliers prove, and float64[J] the columns where the minima are (the next tangents).

    `best` is the objective of a point that is allowed (or infinite).
    """
    weights = np.zeros(len(data.names))
    constant, eta = 0.0, 0.0
    for job, (own, paths) in enumerate(zip(found.path_weights, found.paths, strict=True)):
        constant += float(sum(weight * path.compute_ns for weight, path in zip(own, paths, strict=True)))
        part = float(own.sum()) / float(data.weights[job])
        eta = eta + part if data.worst_case else max(eta, part)
        volumes = data.timelines[job].volumes
        shares = found.shares[group_start[job] : group_start[job + 1], data.shift :]
        weights[data.shift :] += (shares * volumes).sum(axis=0)
    reduced = -found.prices @ data.rows if len(found.prices) else np.zeros(len(data.names))
    if data.ratio:
        weights[0], constant = constant, 0.0
    if data.time_limit_ns is not None:
        reduced = reduced + data.price
        constant += data.fixed_cost - eta * data.time_limit_ns
    with np.errstate(invalid="ignore"):
        sides = np.where(found.prices > 0, found.prices * data.row_lower, found.prices * data.row_upper)
    total = constant + float(np.where(found.prices == 0, 0.0, sides).sum())
    minima = list(map(_least, weights, reduced, data.lower, implied_upper(data, best)))
    return total + sum(value for value, _ in minima), np.array([point for _, point in minima])


def _least(weight: float, slope: float, low: float, high: float) -> tuple[float, float]:
    """min of weight / X + slope X over low <= X <= high, and where it is."""
    if weight <= 0:
        point = low if slope >= 0 else high
        return (slope * point if slope else 0.0), point
    if slope <= 0:
        return weight / high + (slope * high if slope < 0 else 0.0), high
    point = min(max(float(np.sqrt(weight / slope)), low), high)
    return weight / point + slope * point, point


def implied_upper(data: BandwidthProgram, best: float = np.inf) -> Floats:
    """float64[J]: upper bounds that the linear rows (and, for the objective cost, a known solution) imply."""
    rows, high = [data.rows, -data.rows], [data.row_upper, -data.row_lower]
    if data.time_limit_ns is not None and np.isfinite(best):
        rows.append(data.price[None, :])
        high.append(np.array([best - data.fixed_cost]))
    matrix, most = np.concatenate(rows), np.concatenate(high)
    upper = data.upper.copy()
    for _ in range(len(upper) + 1):
        before = upper.copy()
        for row, side in zip(matrix[np.isfinite(most)], most[np.isfinite(most)], strict=True):
            with np.errstate(invalid="ignore"):
                least = np.where(row > 0, row * data.lower, np.where(row < 0, row * upper, 0.0))
            for j in np.flatnonzero(row > 0):
                others = least.sum() - least[j] if np.isfinite(least).all() else -np.inf
                upper[j] = min(upper[j], max((side - others) / row[j], data.lower[j]))
        if (upper == before).all():
            break
    return upper
