"""Starting jobs behind the first waiting one.

With a reservation (EASY backfilling: Lifka, JSSPP'95) the first waiting job has servers set aside from the moment
enough running jobs are expected to have ended; others start only if they end before it or on other servers. On shared
fabrics the ends are estimates, so that the first job may still be delayed.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools
from topoopt.core.shared_cluster import QueueOrder
from topoopt.simulate.cluster.state import ClusterState


def expected_start(cluster: ClusterState, waiting: int) -> tuple[float, Bools]:
    """When servers are expected to be free for a waiting job, and which are free then; bool[n]."""
    servers, kind = cluster.size[waiting], cluster.kind[waiting]
    record = cluster.record
    ends = [(cluster.work.expected_end(job), record.servers[stay]) for job, stay in record.open_stay.items()]
    ends += [(at, own) for at, _, own in cluster.releases]
    ends.sort(key=lambda pair: pair[0])

    def free_after(count: int) -> Bools:
        free = cluster.free.copy()
        for _, own in ends[:count]:
            free[own] = True
        return free

    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if cluster.placer.fits(free_after(middle), servers, kind):
            high = middle
        else:
            low = middle + 1
    return (max(cluster.now, ends[low - 1][0]) if low else cluster.now), free_after(low)


def reserved(cluster: ClusterState) -> tuple[float, Bools]:
    """Expected start of the first waiting job, and the servers set aside for it; kept until they are out of date."""
    job = cluster.queue[0]
    known = cluster.reservation
    if known is not None and known[0] == job and cluster.now < known[1]:
        return known[1], known[2]
    start, free = expected_start(cluster, job)
    servers = cluster.placer.place(free, cluster.size[job], cluster.kind[job])
    assert servers is not None
    aside = np.zeros(len(free), dtype=bool)
    aside[servers] = True
    cluster.reservation = (job, start, aside)
    return start, aside


def start_others(cluster: ClusterState) -> None:
    """Start jobs behind the first, in order of arrival."""
    reserve = cluster.scheduling.queue is QueueOrder.RESERVE
    start, aside = reserved(cluster) if reserve else (np.inf, np.zeros(0, dtype=bool))
    failed = {cluster.kind[cluster.queue[0]]}
    too_many = cluster.size[cluster.queue[0]]  # what does not fit is not tried again, nor is anything larger
    rest = int(np.count_nonzero(cluster.free))
    others = int(np.count_nonzero(cluster.free & ~aside)) if reserve else rest  # free and not set aside
    place = 1
    while place < min(len(cluster.queue), cluster.scheduling.depth + 1) and rest:
        job = cluster.queue[place]
        size, kind = cluster.size[job], cluster.kind[job]
        if (size >= too_many and cluster.placer.by_size) or kind in failed or size > rest:
            place += 1
            continue
        short = not reserve or cluster.now + cluster.switching.seconds + cluster.work.expected_seconds(job) <= start
        if not short and size > others:
            place += 1
            continue
        servers = cluster.placer.place(cluster.free if short else cluster.free & ~aside, size, kind)
        if servers is None:
            if short:
                too_many = size
                failed.add(kind)
            place += 1
            continue
        cluster.start(job, servers)
        del cluster.queue[place]
        rest -= size
        others = int(np.count_nonzero(cluster.free & ~aside)) if reserve else rest
