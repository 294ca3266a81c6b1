r"""Lower bounds of a whole design from sums of bytes alone, so that most designs of a long list need no program.

With the bytes of every group shared over its dimensions in proportion to u, W[j] = sum_g a_g u[g, j]^2 / sum_i u[g, i],
and C the compute of the path that is longest without communication (Cauchy-Schwarz in each line):

    sum B <= total:     T >= C + (sum_j sqrt W[j])^2 / total
    cost <= cap:        T >= C + (sum_j sqrt(W[j] k[j]))^2 / (cap - c0)
    T <= limit:         cost >= c0 + (sum_j sqrt(W[j] k[j]))^2 / (limit - C)
    always:             T cost >= C (c0 + least total x cheapest price) + (sum_j sqrt(W[j] k[j]))^2

The first is the optimum itself where all jobs' communicators lie on dimensions of their own. Dependency graphs count
with their compute only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from formulations.hierarchical_bandwidth import COST_CAP, BandwidthProgram

Array = NDArray[np.float64]


def formula_bound(plain: BandwidthProgram, *, ratio: bool) -> float:
    """The bound for a program without tau; `ratio`: of time x cost."""
    parts = []
    for timeline, weight in zip(plain.timelines, plain.weights, strict=True):
        path = timeline.longest(np.zeros(len(timeline.groups)))
        whole = timeline.volumes.sum(axis=1, keepdims=True)
        spread = path.sizes @ (timeline.volumes**2 / whole) if timeline.tasks is None else np.zeros(len(plain.names))
        parts.append((weight * path.compute_ns, weight * spread))
    if not plain.worst_case:
        parts = [(sum(one for one, _ in parts), sum((own for _, own in parts), start=np.zeros(len(plain.names))))]
    found = [_bound(plain, ratio, float(compute), spread) for compute, spread in parts]
    return float(max(found))


def _bound(plain: BandwidthProgram, ratio: bool, compute: float, spread: Array) -> float:
    even: float = float(np.sqrt(spread).sum()) ** 2
    priced: float = float(np.sqrt(spread * plain.price).sum()) ** 2
    total = (plain.rows == 1.0).all(axis=1)
    if plain.time_limit_ns is not None:
        left = plain.time_limit_ns - compute
        return plain.fixed_cost + priced / left if left > 0 else np.inf
    if ratio:
        least = max(plain.row_lower[total].max(initial=0.0), 0.0)
        return compute * (plain.fixed_cost + least * float(plain.price.min())) + priced
    bound = compute + even / float(plain.row_upper[total].min(initial=np.inf))
    if COST_CAP in plain.row_names:
        left = float(plain.row_upper[plain.row_names.index(COST_CAP)])
        bound = max(bound, compute + priced / left if left > 0 else np.inf)
    return bound
