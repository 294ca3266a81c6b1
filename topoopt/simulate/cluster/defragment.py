"""Moving running jobs so that the first waiting one fits.

Enough servers are free, but no group has enough. For each group the fewest servers' worth of jobs is moved to other
groups. A moved job stops, saves its state for `checkpoint_s` on its old servers and goes on when the circuits of the
new ones are set; the waiting job gets the servers after `checkpoint_s`. The move is made when the waiting job starts
earlier by more than the pauses of all moved jobs together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.simulate.cluster.backfill import expected_start
from topoopt.simulate.cluster.placers import GroupPlacer
from topoopt.simulate.cluster.state import ClusterState


@dataclass(frozen=True, eq=False)
class Moves:
    """Jobs and their new servers, and those of the job that waits."""

    jobs: tuple[tuple[int, Ints], ...]
    waiting: Ints


def plan_moves(cluster: ClusterState, placer: GroupPlacer, servers: int) -> Moves | None:
    """The fewest jobs (then servers) to move so that a group has that many free servers; None when there is no way."""
    sizes = np.bincount(placer.group, minlength=placer.groups)
    counts = placer.counts(cluster.free)
    pause = cluster.scheduling.checkpoint_s + cluster.switching.seconds
    running: dict[int, list[tuple[int, int]]] = {}
    for job, stay in cluster.record.open_stay.items():
        settled = cluster.record.work_from[stay] <= cluster.now
        if settled and cluster.work.expected_end(job) > cluster.now + pause:
            own = cluster.record.servers[stay]
            running.setdefault(int(placer.group[own[0]]), []).append((len(own), job))
    best: tuple[int, int, int, list[int]] | None = None
    for group in np.flatnonzero(sizes >= servers).tolist():
        chosen = _fewest(running.get(group, []), servers - int(counts[group]), np.delete(counts, group))
        if chosen is not None:
            moved = sum(size for size, _ in chosen)
            found = (len(chosen), moved, group, [job for _, job in chosen])
            best = found if best is None else min(best, found)
    return None if best is None else _moves(cluster, placer, best[2], best[3], servers)


def _fewest(jobs: list[tuple[int, int]], need: int, room: Ints) -> list[tuple[int, int]] | None:
    """Jobs of at least `need` servers that fit into the other groups, best fit; largest first, last one smallest."""
    left = room.copy()
    chosen: list[tuple[int, int]] = []
    pending = sorted(jobs)
    while need > 0:
        movable = [one for one in pending if len(left) and one[0] <= int(left.max())]
        if not movable:
            return None
        enough = [one for one in movable if one[0] >= need]
        pick = enough[0] if enough else movable[-1]
        fitting = np.flatnonzero(left >= pick[0])
        left[fitting[np.argmin(left[fitting])]] -= pick[0]
        pending.remove(pick)
        chosen.append(pick)
        need -= pick[0]
    return chosen


def _moves(cluster: ClusterState, placer: GroupPlacer, group: int, jobs: list[int], servers: int) -> Moves | None:
    """New servers of the chosen jobs."""
    free = cluster.free & (placer.group != group)
    best = GroupPlacer(placer.group, best=True)
    left = cluster.free & (placer.group == group)
    moves = []
    for job in jobs:
        old = cluster.record.servers[cluster.record.open_stay[job]]
        new = best.place(free, len(old))
        if new is None:
            return None
        free[new] = False
        left[old] = True
        moves.append((job, new))
    return Moves(tuple(moves), np.flatnonzero(left)[:servers])


def make_room(cluster: ClusterState) -> bool:
    """Move jobs and start the first waiting one, if that pays; it is still in the queue then."""
    job = cluster.queue[0]
    servers = cluster.size[job]
    placer = cluster.placer
    if not isinstance(placer, GroupPlacer) or int(np.count_nonzero(cluster.free)) < servers:
        return False
    moves = plan_moves(cluster, placer, servers)
    if moves is None:
        return False
    checkpoint = cluster.scheduling.checkpoint_s
    ready = cluster.now + checkpoint
    pause = checkpoint + cluster.switching.seconds
    expected, _ = expected_start(cluster, job)
    if expected - ready <= pause * len(moves.jobs):
        return False
    for moved, new in moves.jobs:
        work_from = ready + cluster.dark_s(new, cluster.now, ready)
        old = cluster.record.finish(moved, cluster.now, ready)
        cluster.record.begin(moved, new, ready, work_from)
        cluster.work.pause(moved, cluster.now, work_from)
        cluster.free[new] = False
        cluster.taken_at[new] = ready
        spared = np.setdiff1d(old, moves.waiting)
        if len(spared):
            cluster.release_later(spared, ready)
    cluster.start(job, moves.waiting, ready)
    return True
