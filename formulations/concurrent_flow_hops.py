r"""Splittable routing of least link load over paths of at most H hops.

The arc formulation of `concurrent_flow` on the layered graph: layer k holds what has made k hops, and a unit may leave
at its target in any layer. Decided: what each source sends over each arc as its k-th hop.

Sets        SERVERS s, v; ARCS a = (tail, head); hops k = 1..H.
Variables   flow[s, k, a] >= 0, only where tail(a) is within k - 1 hops of s, and exactly k - 1 hops can end there;
            theta >= 0.

    minimise    theta
    (1) arrive    sum_k sum_{a into v} flow[s,k,a] - sum_{k>1} sum_{a out of v} flow[s,k,a] = D[s, v]  for all s, v != s
    (2) onward    sum_{a out of v} flow[s,k+1,a] - sum_{a into v} flow[s,k,a] <= 0     for all s, v != s, 1 <= k < H
    (3) fit       sum_s sum_k flow[s,k,a] - c[a] theta <= 0                            for every arc a

What (2) leaves over in layer k is what ends at v there; (1) makes the layers' sum equal to the demand. Columns: at most
n m H; infeasible exactly when some demand is more than H hops away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from formulations.arrays import LpArrays
from formulations.concurrent_flow import ConcurrentFlow


@dataclass(frozen=True, eq=False)
class HopColumns:
    """Which flow variable each column is: source, hop (1..H) and arc, int64[columns - 1]; theta comes last."""

    source: NDArray[np.int64]
    hop: NDArray[np.int64]
    arc: NDArray[np.int64]


def hop_columns(data: ConcurrentFlow, max_hops: int) -> HopColumns:
    """The flow variables that can be used, by source, hop and arc; traffic never comes back to its source."""
    n = len(data.demand)
    at = np.eye(n, dtype=bool)
    sources, hops, arcs = [], [], []
    for k in range(1, max_hops + 1):
        s, a = np.nonzero(at[:, data.tail] & (data.head != np.arange(n)[:, None]))
        sources.append(s)
        arcs.append(a)
        hops.append(np.full(len(s), k))
        at = np.zeros((n, n), dtype=bool)
        at[s, data.head[a]] = True
    source, hop, arc = (np.concatenate(part).astype(np.int64) for part in (sources, hops, arcs))
    order = np.lexsort((arc, hop, source))
    return HopColumns(source[order], hop[order], arc[order])


def build_arrays(data: ConcurrentFlow, max_hops: int) -> LpArrays:
    """The linear program; columns as `hop_columns`, then theta; rows are (1) by s, v; (2) by k, s, v; (3)."""
    n, m = len(data.demand), len(data.tail)
    columns = hop_columns(data, max_hops)
    count = len(columns.arc)
    every = np.arange(count)
    pairs = n * (n - 1)

    def pair(v: NDArray[np.int64]) -> NDArray[np.int64]:
        return columns.source * (n - 1) + v - (v > columns.source)

    head, tail = pair(data.head[columns.arc]), pair(data.tail[columns.arc])
    later = columns.hop > 1
    going_on = columns.hop < max_hops
    fit = pairs * max_hops
    parts = (
        (head, every, 1.0),
        (tail[later], every[later], -1.0),
        (pairs * (columns.hop - 1)[later] + tail[later], every[later], 1.0),
        (pairs * columns.hop[going_on] + head[going_on], every[going_on], -1.0),
        (fit + columns.arc, every, 1.0),
    )
    row = np.concatenate([part[0] for part in parts] + [fit + np.arange(m)])
    column = np.concatenate([part[1] for part in parts] + [np.full(m, count)])
    value = np.concatenate([np.full(len(part[0]), part[2]) for part in parts] + [-data.capacity])
    matrix = csc_array((value, (row, column)), shape=(fit + m, count + 1))
    wanted = data.demand[~np.eye(n, dtype=bool)]
    open_rows = np.full(fit - pairs + m, -np.inf)
    return LpArrays(
        cost=np.append(np.zeros(count), 1.0),
        lower=np.zeros(count + 1),
        upper=np.full(count + 1, np.inf),
        row_lower=np.concatenate((wanted, open_rows)),
        row_upper=np.concatenate((wanted, np.zeros(len(open_rows)))),
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=np.asarray(matrix.data, dtype=np.float64),
    )
