"""What a search leaves out on clusters of many servers, so that it ends within minutes and 2 GB."""

from __future__ import annotations

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

ALL_PAIRS_SERVERS = 256
"""Up to so many servers every candidate has routes for all pairs; above, for those of its demand: the paths of all
pairs of 1024 servers take 180 MB, of 4096 some 4 GB."""

ANNEALED_SERVERS = 1024
"""Servers up to which strategies are annealed: that needs routes of all pairs, gigabytes of them beyond."""


def effort_for(servers: int) -> SizeEffort:
    """The row of a cluster."""
    return next((row for row in EFFORTS if servers <= row.servers), EFFORTS[-1])
