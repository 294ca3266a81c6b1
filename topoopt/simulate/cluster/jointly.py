"""Starting waiting jobs together: servers of several jobs are chosen at once, so that none is in another's way.

What may start is the queue's to say. First come, first served: the longest beginning of the queue that can be placed
together. Backfilling: of the jobs looked at, those that use the most servers; of alike jobs the earlier ones. With a
reservation: the longest beginning; then of the others that end before the first one's turn those that use the most
servers, then those that leave the servers alone that are set aside for it.

At most `JointPlacer.window` jobs are placed at once, the first ones of the queue; once all of these have started, it is
the turn of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster import QueueOrder
from topoopt.simulate.cluster.backfill import reserved
from topoopt.simulate.cluster.placers import Free, Placer
from topoopt.simulate.cluster.state import ClusterState

Servers = Ints


@runtime_checkable
class JointPlacer(Placer, Protocol):
    """A placer that chooses servers for several jobs at once.

    Attributes:
        window: most jobs of a question.
        proven, unproven: questions whose answer is proven to be the best, and those whose answer is not.
    """

    window: int
    proven: int
    unproven: int

    def together(self, free: Free, classes: Sequence[int], worth: Sequence[int]) -> tuple[Servers | None, ...]:
        """int64 servers of each job, ascending, None for one that waits; the jobs placed are worth most together."""


def start_jointly(cluster: ClusterState, placer: JointPlacer) -> None:
    """Start every waiting job that may."""
    queue = cluster.scheduling.queue
    if queue is QueueOrder.BACKFILL:
        while cluster.queue:
            looked_at = cluster.queue[: min(placer.window, cluster.scheduling.depth + 1)]
            if _start_most(cluster, placer, looked_at, cluster.free) < len(looked_at):
                return
    _start_beginning(cluster, placer)
    if queue is not QueueOrder.RESERVE or len(cluster.queue) < 2 or not cluster.free.any():
        return
    start, aside = reserved(cluster)
    others = cluster.queue[1 : min(placer.window, cluster.scheduling.depth + 1)]
    switching = cluster.switching.seconds
    short = [job for job in others if cluster.now + switching + cluster.work.expected_seconds(job) <= start]
    _start_most(cluster, placer, short, cluster.free)
    left = [job for job in others if job not in cluster.record.open_stay]
    _start_most(cluster, placer, left, cluster.free & ~aside)


def _start_beginning(cluster: ClusterState, placer: JointPlacer) -> None:
    """Start the most jobs at the head of the queue that can be placed together."""
    while cluster.queue:
        window = cluster.queue[: placer.window]
        sizes = np.cumsum([cluster.size[job] for job in window])
        high = int(np.searchsorted(sizes, np.count_nonzero(cluster.free), side="right"))
        low, found = 0, ()  # type: int, tuple[Servers | None, ...]
        count = high
        while low < high:  # all that may fit are asked for first, then halves
            kinds = [cluster.kind[job] for job in window[:count]]
            placed = placer.together(cluster.free, kinds, [cluster.size[job] for job in window[:count]])
            if all(servers is not None for servers in placed):
                low, found = count, placed
            else:
                high = count - 1
            count = (low + high + 1) // 2
        for job, servers in zip(window, found, strict=False):
            assert servers is not None
            cluster.start(job, servers)
        del cluster.queue[:low]
        if low < len(window):
            return


def _start_most(cluster: ClusterState, placer: JointPlacer, jobs: Sequence[int], free: Free) -> int:
    """Start those of the jobs that use the most servers; how many."""
    room = int(np.count_nonzero(free))
    fit = [job for job in jobs if cluster.size[job] <= room]
    if not fit:
        return 0
    worth = [cluster.size[job] for job in fit]
    placed = placer.together(free.copy(), [cluster.kind[job] for job in fit], worth)
    started = [(job, servers) for job, servers in zip(fit, placed, strict=True) if servers is not None]
    for job, servers in started:
        cluster.start(job, servers)
        cluster.queue.remove(job)
    return len(started)
