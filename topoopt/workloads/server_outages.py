"""Servers that are down over days, drawn so that how many are has the statistics of a published trace.

The trace of InfiniteHBD (SIGCOMM 2025, arXiv:2502.03885): 400 servers of eight GPUs, 349 days; 2.31 % of the servers
are down in the mean, 7.75 % in the 99th percentile, 35 servers at most. Parts of servers that are down follow a gamma
distribution with these figures, cut off at the largest; they are rounded to whole servers so that the mean stays, where
servers are few too. Numbers of days that follow each other are correlated, and a server that is down stays so while
there are not fewer: both are assumptions, as is that all servers are alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from topoopt.core.arrays import Bools, Floats, Ints

MEMORY_DAYS = 7.0
"""After so many days the correlation of numbers is 1/e."""


@dataclass(frozen=True)
class OutageStatistics:
    """Parts of all servers that are down: mean over days, 99th percentile, largest."""

    mean: float
    p99: float
    largest: float


TRACE = OutageStatistics(0.0231, 0.0775, 35 / 400)
TRACE_SERVERS, TRACE_DAYS = 400, 349


def down_parts(days: int, statistics: OutageStatistics = TRACE) -> Floats:
    """float64[days], ascending: parts of the servers that are down."""
    rank = (np.arange(days) + 0.5) / days

    def parts(shape: float) -> Floats:
        quantiles = gammaincinv(shape, np.append(rank, 0.99))
        return np.asarray(np.minimum(statistics.p99 / quantiles[-1] * quantiles[:-1], statistics.largest))

    low, high = 0.05, 50.0  # the mean grows with the shape, as the 99th percentile is held
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if parts(middle).mean() > statistics.mean else (middle, high)
    return parts(high)


def whole_servers(parts: Floats) -> Ints:
    """int64[days]: servers, rounded down after a share of one is added, so that their sum stays to half a day.

    Rounded to the nearest, no server of five would ever be down, as 8.75 % of them is less than half a server.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if np.floor(parts + middle).sum() < parts.sum() else (low, middle)
    fewer, more = (np.floor(parts + share).astype(np.int64) for share in (low, high))
    return fewer if parts.sum() - fewer.sum() < more.sum() - parts.sum() else more


def server_outages(servers: int, days: int, rng: np.random.Generator, statistics: OutageStatistics = TRACE) -> Bools:
    """bool[days, servers]: which are down."""
    keep = np.exp(-1.0 / MEMORY_DAYS)
    shock = rng.standard_normal(days)
    state = np.empty(days)
    for day in range(days):
        state[day] = shock[0] if day == 0 else keep * state[day - 1] + (1.0 - keep**2) ** 0.5 * shock[day]
    counts = np.empty(days, dtype=np.int64)
    counts[np.argsort(state, kind="stable")] = whole_servers(servers * down_parts(days, statistics))
    down = np.zeros((days, servers), dtype=np.bool_)
    for day, count in enumerate(counts.tolist()):
        if day:
            down[day] = down[day - 1]
        change = count - int(down[day].sum())
        among = np.flatnonzero(down[day] == (change < 0))
        down[day, rng.choice(among, abs(change), replace=False)] = change > 0
    return down
