"""What a search leaves out on clusters of many servers, so that it ends within minutes and 2 GB."""

from __future__ import annotations

import os
from typing import NamedTuple


class SizeEffort(NamedTuple):
    """How much is tried on clusters of up to so many servers.

    Attributes:
        servers: of the largest of them.
        topologies: for each strategy of the loop.
        annealed: annealed random graphs beside them, where there is model-parallel traffic.
        starts: that are simulated: data parallelism, and those of least estimate.
        by_rounds: topologies of a strategy, the best by `hop`, that are simulated by `rounds`.
        on_fabrics: strategies, the best by `hop`, that are simulated by `rounds` on every other fabric, which takes up
            to ten seconds each.
    """

    servers: int
    topologies: int
    annealed: int
    starts: int
    by_rounds: int
    on_fabrics: int


ALL = 1000
"""More than there are."""

EFFORTS = (
    SizeEffort(20, 48, 4, ALL, 5, ALL),
    SizeEffort(40, 24, 4, ALL, 5, ALL),
    SizeEffort(160, 8, 2, 12, 5, ALL),
    SizeEffort(256, 4, 1, 12, 5, ALL),
    SizeEffort(512, 4, 1, 12, 2, 2),
    SizeEffort(1024, 4, 1, 6, 2, 2),
    SizeEffort(4096, 2, 0, 3, 1, 2),
)

LARGE_SERVERS = 160
"""Above, a task takes longer, as rings have more rounds and paths more hops: the default budget is a quarter, and
strategies of too many tasks are passed over."""

MOST_TASKS, ANY_TASKS = 2_000_000, 2**63 - 1
"""Tasks of the strategies that are looked at above `LARGE_SERVERS` and up to there: a graph takes some 300 bytes a task
where it is simulated, and n servers that all send to each other make n (n - 1) tasks of every edge of the workload."""

THREADED_SERVERS = 40
"""One thread scores proposals up to here, and above `LARGE_SERVERS`, where each thread would keep a large graph."""

ALL_PAIRS_SERVERS = 256
"""Up to so many servers every candidate has routes for all pairs; above, for those of its demand: the paths of all
pairs of 1024 servers take 180 MB, of 4096 some 4 GB."""

ANNEALED_SERVERS = 1024
"""Servers up to which strategies are annealed: that needs routes of all pairs, gigabytes of them beyond."""


def most_tasks(servers: int) -> int:
    """Tasks of the strategies that are looked at on so many servers."""
    return MOST_TASKS if servers > LARGE_SERVERS else ANY_TASKS


def annealing_threads(servers: int) -> int:
    """Threads that score proposals: two where there are cores, a simulation takes milliseconds and a graph is small."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 2) if THREADED_SERVERS < servers <= LARGE_SERVERS else 1


def effort_for(servers: int) -> SizeEffort:
    """The row of a cluster."""
    return next((row for row in EFFORTS if servers <= row.servers), EFFORTS[-1])
