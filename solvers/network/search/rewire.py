"""Annealing of a running network on its demand-weighted hop total, giving up no more of its links than allowed.

Few networks are within reach of a few changes, so that each is evaluated afresh; `anneal` is the search without such a
limit.
"""

from __future__ import annotations

import numpy as np

from solvers.network.search.links import LinkTable
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.native import search

PIECES = 20
"""Between two pieces the clock is read."""

HOT, COLD = 2e-3, 1e-5
"""Temperatures at start and end, against the hop total."""

_CONNECT = 1e-6  # extra demand of every pair, against its mean: pairs without demand should be joined, too


def default_proposals(n: int, d: int) -> int:
    """A few seconds of work."""
    return int(min(200_000, 1.5e9 / (n * n * d)))


def rewire(
    table: LinkTable,
    demand: Floats,
    allowed: Bools,
    kept: Ints,
    most_changed: int,
    *,
    proposals: int,
    parallel: bool = True,
    seed: int = 0,
    stop: Stop | None = None,
) -> Ints:
    """int64[n, d]: heads of the best topology met that gives up at most so many links of `kept`.

    Args:
        table: where to start; within the limit.
        allowed: bool[n, n], arcs that may be made.
        kept: int64[n, n], links of the network as it stands.
        most_changed: of these; a fibre pair counts once.
    """
    n = len(demand)
    out, into, best = table.out.copy(), table.into.copy(), table.out.copy()
    demand = np.ascontiguousarray(demand + _CONNECT * float(demand.mean()) * (1.0 - np.eye(n)))
    allowed, kept = np.ascontiguousarray(allowed), np.ascontiguousarray(kept)
    limit = most_changed * (2 if table.paired else 1)
    scale = search.hop_total(out, demand)
    seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, PIECES)
    least = scale
    for piece in range(PIECES):
        if stop is not None and stop.reason() is not None:
            break
        hot, cold = (scale * HOT * (COLD / HOT) ** ((piece + part) / PIECES) for part in (0, 1))
        least = search.rewire(
            out, into, best, demand, allowed, kept, limit, table.paired, parallel, hot, cold,
            max(1, proposals // PIECES), int(seeds[piece]), least,
        )  # fmt: skip
    return best
