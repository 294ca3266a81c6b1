"""Annealing on the demand-weighted hop total, in pieces between which it can be stopped.

Optimal splittable routing comes within a few per cent of sum D dist / (number of links) on such topologies for
balanced demand, so the hop total, thousands of times cheaper, stands in for theta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.network.search.links import LinkTable, tails_of
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.native import search

PIECES = 25
"""Between two pieces the clock is read and the hop total summed afresh."""

CUT_SHARE = 0.6
"""Part of the proposals judged by hop counts that are cut off early where that is faster."""

_CONNECT = 1e-6
"""Extra demand of every pair, against its mean: pairs without demand should be joined, too."""


@dataclass(frozen=True)
class AnnealPlan:
    """How hard to anneal.

    Attributes:
        proposals: swaps proposed.
        hot, cold: temperatures at start and end, against the hop total.
    """

    proposals: int
    hot: float = 5e-4
    cold: float = 1e-5


def moore_levels(n: int, d: int) -> int:
    """Least k with 1 + d + ... + d^k >= n."""
    within, at, k = 1, 1, 0
    while within < n:
        at *= d
        within += at
        k += 1
    return k


def hops_of(out: Ints, demand: Floats) -> float:
    """sum D dist of a topology; pairs that no path joins count n hops."""
    return search.hop_total(np.ascontiguousarray(out), np.ascontiguousarray(demand))


def anneal(
    table: LinkTable,
    demand: Floats,
    allowed: Bools,
    plan: AnnealPlan,
    *,
    group: Ints | None = None,
    parallel: bool = True,
    seed: int = 0,
    stop: Stop | None = None,
) -> Ints:
    """int64[n, d]: heads of the topology of least hop total found; degrees stay as they are.

    Args:
        allowed: bool[n, n], arcs that may be made, False on the diagonal.
        group: int64[n], of each server, which keeps as many links inside its group; None: all are of one.
        parallel: whether a swap may make a parallel link.
    """
    n, d = table.out.shape
    need = moore_levels(n, d) if d > 1 else n - 1
    full = min(n - 1, need + (1 if d > 2 else 2))
    cut = min(full, max(3, need - 1)) if d > 2 else full
    out, into = table.out.copy(), table.into.copy()
    best = out.copy()
    demand = np.ascontiguousarray(demand + _CONNECT * float(demand.mean()) * (1.0 - np.eye(n)))
    allowed = np.ascontiguousarray(allowed)
    best_total = hops_of(best, demand)
    scale = search.cut_hop_total(out, demand, full)
    seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, PIECES)
    ratio = plan.cold / plan.hot
    group = np.zeros(n, dtype=np.int64) if group is None else group
    count = max(1, plan.proposals // PIECES)
    for piece in range(PIECES):
        if stop is not None and stop.reason() is not None:
            break
        hot, cold = (scale * plan.hot * ratio ** ((piece + part) / PIECES) for part in (0, 1))
        levels = cut if piece < CUT_SHARE * PIECES else full
        heads = search.anneal(
            out, into, demand, allowed, group, levels, table.paired, parallel, hot, cold, count, int(seeds[piece])
        )
        total = hops_of(heads, demand)
        if total < best_total:
            best, best_total = heads, total
        elif piece >= CUT_SHARE * PIECES and search.cut_hop_total(out, demand, full) > 1.02 * best_total:
            out, into = best.copy(), tails_of(best)  # strayed far while it is already cool
    return best
