"""Max-min fair rates of jobs whose flows advance in step.

All flows of a job have one rate r_j, that of the slowest; a link of capacity C carries sum_j a_jl r_j <= C, and r_j is
at most its limit. The rates of all jobs rise together; a job stops at its limit or when one of its links is full, and
the others go on (progressive filling: Bertsekas and Gallager, Data Networks, section 6.5).
"""

from __future__ import annotations

import heapq

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel

LEAST_PART = 1e-12
"""Part of the limits below which what rises on a link is rounding."""


@kernel
def fair_rates(
    active: Ints, low: Ints, high: Ints, link: Ints, part: Floats, capacity: Floats, limit: Floats, rate: Floats
) -> None:
    """Set `rate[j]` of every active job j; its loads are (link, part)[low[j]:high[j]].

    Time O((loads + jobs + links) log) at most.
    """
    links = len(capacity)
    asked = np.zeros(links)
    for j in active:
        rate[j] = limit[j]
        for at in range(low[j], high[j]):
            asked[link[at]] += part[at] * limit[j]
    tight = np.flatnonzero(asked > capacity)  # the others never fill
    if len(tight) == 0:
        return
    number = np.full(links, -1, dtype=np.int64)
    number[tight] = np.arange(len(tight))
    count = np.zeros(len(tight) + 1, dtype=np.int64)
    rising = np.zeros(len(tight))
    for j in active:
        for at in range(low[j], high[j]):
            t = number[link[at]]
            if t >= 0:
                count[t + 1] += 1
                rising[t] += part[at]
    pointer = np.cumsum(count)
    fill = pointer[:-1].copy()
    job_of = np.empty(pointer[-1], dtype=np.int64)
    for j in active:
        for at in range(low[j], high[j]):
            t = number[link[at]]
            if t >= 0:
                job_of[fill[t]] = j
                fill[t] += 1
    free = capacity[tight]
    floor = rising * LEAST_PART
    stopped = np.zeros(len(rate), dtype=np.bool_)
    by_limit = active[np.argsort(limit[active])]
    # Levels at which links fill, some of them out of date; as jobs stop they only rise.
    fills = [(free[t] / rising[t], t) for t in range(len(tight))]
    heapq.heapify(fills)
    first = 0
    level = 0.0
    while len(fills) > 0 and first < len(by_limit):
        if stopped[by_limit[first]]:
            first += 1
            continue
        old, full = fills[0]
        if rising[full] <= floor[full]:
            heapq.heappop(fills)
            continue
        lowest = free[full] / rising[full]
        if lowest > old:
            heapq.heapreplace(fills, (lowest, full))
            continue
        limited = limit[by_limit[first]] <= lowest
        level = max(level, limit[by_limit[first]] if limited else lowest)  # rounding may bring it below the last one
        begin, end = (first, first + 1) if limited else (pointer[full], pointer[full + 1])
        for i in range(begin, end):
            j = by_limit[i] if limited else job_of[i]
            if not stopped[j]:
                stopped[j] = True
                rate[j] = level
                for at in range(low[j], high[j]):
                    t = number[link[at]]
                    if t >= 0:
                        free[t] -= part[at] * level
                        rising[t] -= part[at]
        if not limited:
            rising[full] = 0.0


@kernel
def advance(active: Ints, left: Floats, speed: Floats, seconds: float) -> None:
    """Iterations left of the active jobs after that time."""
    for j in active:
        left[j] = max(0.0, left[j] - speed[j] * seconds)


@kernel
def first_end(active: Ints, left: Floats, speed: Floats) -> tuple[float, int]:
    """Seconds until the first of the active jobs ends, and which; (infinity, -1) without any."""
    soonest = np.inf
    found = -1
    for j in active:
        seconds = left[j] / speed[j]
        if seconds < soonest:
            soonest = seconds
            found = j
    return soonest, found
