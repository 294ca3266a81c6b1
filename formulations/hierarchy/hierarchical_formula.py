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

from formulations.hierarchy.hierarchical_program import COST_CAP, BandwidthProgram
from topoopt.core.arrays import Floats


def formula_bound(plain: BandwidthProgram, *, ratio: bool) -> float:
    """The bound for a program without tau; `ratio`: of time x cost."""
    parts: list[tuple[float, Floats]] = []
    for timeline, weight in zip(plain.timelines, plain.weights, strict=True):
        path = timeline.longest(np.zeros(len(timeline.groups)))
        whole = timeline.volumes.sum(axis=1, keepdims=True)
        spread = path.sizes @ (timeline.volumes**2 / whole) if timeline.tasks is None else np.zeros(len(plain.names))
        parts.append((float(weight) * path.compute_ns, weight * spread))
    if not plain.worst_case:
        parts = [(sum(one for one, _ in parts), np.sum([own for _, own in parts], axis=0))]
    return max(_bound(plain, ratio, compute, spread) for compute, spread in parts)


def _bound(plain: BandwidthProgram, ratio: bool, compute: float, spread: Floats) -> float:
    even = float(np.square(np.sqrt(spread).sum()))
    priced = float(np.square(np.sqrt(spread * plain.price).sum()))
    total = (plain.rows == 1.0).all(axis=1)
    if plain.time_limit_ns is not None:
        left = plain.time_limit_ns - compute
        return plain.fixed_cost + priced / left if left > 0 else np.inf
    if ratio:
        least = float(plain.row_lower[total].max(initial=0.0))
        return compute * (plain.fixed_cost + least * float(plain.price.min())) + priced
    bound = compute + even / float(plain.row_upper[total].min(initial=np.inf))
    if COST_CAP in plain.row_names:
        left = float(plain.row_upper[plain.row_names.index(COST_CAP)])
        bound = max(bound, compute + priced / left if left > 0 else np.inf)
    return bound
