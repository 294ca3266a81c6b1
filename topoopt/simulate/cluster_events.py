"""A cluster that many jobs share is simulated event by event: arrivals, starts, moves, ends."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from topoopt.core.arrays import Bools, Ints, offsets
from topoopt.core.proofs import StopReason
from topoopt.core.shared_cluster import JobClass, JobTable, Scheduling, Stays
from topoopt.simulate.cluster_rates import RunningWork

# Placers.

Free = Bools


class Placer(Protocol):
    """A way to choose servers for a job of a class (by index); `free` is bool[n].

    Attributes:
        by_size: where a job finds no place, none of any class that is larger does.
    """

    by_size: bool

    def fits(self, free: Free, servers: int, job_class: int) -> bool:
        """Whether `place` would find that many."""

    def place(self, free: Free, servers: int, job_class: int) -> Ints | None:
        """int64[servers], ascending; None when there are none."""


class GroupPlacer:
    """Servers of one group, lowest numbers first; `best` takes the group with the fewest that are enough."""

    by_size = True

    def __init__(self, group: Ints, best: bool) -> None:
        self.group = group
        self.best = best
        self.groups = int(group.max()) + 1

    def counts(self, free: Free) -> Ints:
        """int64[groups], free servers of each."""
        return np.bincount(self.group[free], minlength=self.groups)

    def fits(self, free: Free, servers: int, job_class: int = 0) -> bool:
        return int(self.counts(free).max()) >= servers

    def place(self, free: Free, servers: int, job_class: int = 0) -> Ints | None:
        counts = self.counts(free)
        enough = np.flatnonzero(counts >= servers)
        if not len(enough):
            return None
        chosen = enough[np.argmin(counts[enough])] if self.best else enough[0]
        return np.flatnonzero(free & (self.group == chosen))[:servers]


class AnyPlacer:
    """Any servers: random ones, or the lowest numbers when `rng` is None."""

    by_size = True

    def __init__(self, rng: np.random.Generator | None) -> None:
        self.rng = rng

    def fits(self, free: Free, servers: int, job_class: int = 0) -> bool:
        return int(np.count_nonzero(free)) >= servers

    def place(self, free: Free, servers: int, job_class: int = 0) -> Ints | None:
        numbers = np.flatnonzero(free)
        if len(numbers) < servers:
            return None
        if self.rng is None:
            return numbers[:servers]
        return np.sort(self.rng.choice(numbers, servers, replace=False, shuffle=False))


PLACERS: Mapping[str, Callable[[Ints, int], Placer]] = {
    "best-fit": lambda group, _: GroupPlacer(group, best=True),
    "first-fit": lambda group, _: GroupPlacer(group, best=False),
    "random": lambda _, seed: AnyPlacer(np.random.default_rng(seed)),
    "packed": lambda _, seed: AnyPlacer(None),
}
"""(groups of the servers, seed) -> placer; the first two are for partitions, the others for shared fabrics.

`spread` and `exact`, which search shards over several groups, are in `topoopt.kinds.shared_cluster.methods`.
"""


# State.


class Record:
    """Stays in the making; `open_stay[job]` is the last one of a running job."""

    def __init__(self) -> None:
        self.job: list[int] = []
        self.held_from: list[float] = []
        self.work_from: list[float] = []
        self.work_to: list[float] = []
        self.held_to: list[float] = []
        self.servers: list[Ints] = []
        self.open_stay: dict[int, int] = {}

    def begin(self, job: int, servers: Ints, held_from: float, work_from: float) -> None:
        self.open_stay[job] = len(self.job)
        self.job.append(job)
        self.held_from.append(held_from)
        self.work_from.append(work_from)
        self.work_to.append(np.inf)
        self.held_to.append(np.inf)
        self.servers.append(servers)

    def finish(self, job: int, work_to: float, held_to: float) -> Ints:
        """The last stay of a job ends; its servers."""
        stay = self.open_stay.pop(job)
        self.work_to[stay], self.held_to[stay] = work_to, held_to
        return self.servers[stay]

    def stays(self, horizon: float) -> Stays:
        """All of them; what lies beyond the horizon is cut off."""
        begun = np.array(self.held_from)
        order = np.array(sorted(range(len(begun)), key=lambda s: (begun[s], self.job[s])), dtype=np.int64)
        order = order[begun[order] <= horizon] if len(order) else order
        counts = [len(self.servers[s]) for s in order]
        cut = [np.minimum(np.array(times, dtype=np.float64)[order], horizon) for times in self._times()]
        work_to = np.maximum(cut[2], cut[1])  # cut off before the work began
        return Stays(
            job=np.array(self.job, dtype=np.int64)[order],
            held_from_s=cut[0],
            work_from_s=cut[1],
            work_to_s=work_to,
            held_to_s=cut[3],
            low=offsets(counts),
            servers=np.concatenate([self.servers[s] for s in order]) if len(order) else np.zeros(0, dtype=np.int64),
        )

    def _times(self) -> tuple[list[float], ...]:
        return self.held_from, self.work_from, self.work_to, self.held_to


class ClusterState:
    """State of the servers and the queue at one moment.

    `switching_s` is the time to set the circuits of a job, 0 on shared fabrics. With `look_ahead` they are set on the
    second plane as soon as the job waits and the plane is free, that is, since the last job on each of the servers took
    over the other plane.
    """

    def __init__(
        self,
        jobs: JobTable,
        classes: tuple[JobClass, ...],
        free: Bools,
        placer: Placer,
        work: RunningWork,
        scheduling: Scheduling,
        *,
        switching_s: float = 0.0,
        look_ahead: bool = False,
    ) -> None:
        self.jobs, self.placer, self.work = jobs, placer, work
        self.scheduling, self.switching_s, self.look_ahead = scheduling, switching_s, look_ahead
        self.size = np.array([row.servers for row in classes], dtype=np.int64)[jobs.class_index].tolist()
        self.kind = jobs.class_index.tolist()
        self.arrival = jobs.arrival_s.tolist()
        self.now = 0.0
        self.free = free
        self.queue: list[int] = []
        self.record = Record()
        self.taken_at = np.full(len(free), -np.inf)  # when the last job of each server took it
        self.releases: list[tuple[float, int, Ints]] = []
        self.reservation: tuple[int, float, Bools] | None = None

    def dark_s(self, servers: Ints, ready: float, held_from: float) -> float:
        """Time after `held_from` in which circuits are still being set, for a job known since `ready`."""
        if not self.look_ahead:
            return self.switching_s
        prepared = max(ready, float(self.taken_at[servers].max()))
        return max(0.0, self.switching_s - max(0.0, held_from - prepared))

    def start(self, job: int, servers: Ints, held_from: float | None = None) -> None:
        """Give a job its servers, now or from a later moment on."""
        begin = self.now if held_from is None else held_from
        work_from = begin + self.dark_s(servers, self.arrival[job], begin)
        self.free[servers] = False
        self.taken_at[servers] = begin
        self.record.begin(job, servers, begin, work_from)
        self.work.start(job, servers, work_from)

    def end(self, job: int) -> None:
        self.free[self.record.finish(job, self.now, self.now)] = True
        self.work.end(job)

    def release_later(self, servers: Ints, at: float) -> None:
        heapq.heappush(self.releases, (at, len(self.record.job) + len(self.releases), servers))


# Starting jobs behind the first waiting one.


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
    reservation = cluster.reservation
    if reservation is not None and reservation[0] == job and cluster.now < reservation[1]:
        return reservation[1], reservation[2]
    start, free = expected_start(cluster, job)
    servers = cluster.placer.place(free, cluster.size[job], cluster.kind[job])
    assert servers is not None
    aside = np.zeros(len(free), dtype=bool)
    aside[servers] = True
    cluster.reservation = (job, start, aside)
    return start, aside


def start_others(cluster: ClusterState) -> None:
    """Start jobs behind the first, in order of arrival."""
    reserve = cluster.scheduling.queue == "reserve"
    start, aside = reserved(cluster) if reserve else (np.inf, np.zeros(0, dtype=bool))
    failed = {cluster.kind[cluster.queue[0]]}
    too_many = cluster.size[cluster.queue[0]]  # what does not fit is not tried again, nor is anything larger
    rest = int(np.count_nonzero(cluster.free))
    others = int(np.count_nonzero(cluster.free & ~aside)) if reserve else rest  # free and not set aside
    index = 1
    while index < min(len(cluster.queue), cluster.scheduling.depth + 1) and rest:
        job = cluster.queue[index]
        size, kind = cluster.size[job], cluster.kind[job]
        if (size >= too_many and cluster.placer.by_size) or kind in failed or size > rest:
            index += 1
            continue
        short = not reserve or cluster.now + cluster.switching_s + cluster.work.expected_seconds(job) <= start
        if not short and size > others:
            index += 1
            continue
        servers = cluster.placer.place(cluster.free if short else cluster.free & ~aside, size, kind)
        if servers is None:
            if short:
                too_many = size
                failed.add(kind)
            index += 1
            continue
        cluster.start(job, servers)
        del cluster.queue[index]
        rest -= size
        others = int(np.count_nonzero(cluster.free & ~aside)) if reserve else rest


# Moving running jobs so that the first waiting one fits.


Moves = tuple[tuple[tuple[int, Ints], ...], Ints]
"""Jobs and their new servers, and the servers of the job that waits."""


def plan_moves(cluster: ClusterState, placer: GroupPlacer, servers: int) -> Moves | None:
    """The fewest jobs (then servers) to move so that a group has that many free servers; None when there is no way."""
    sizes = np.bincount(placer.group, minlength=placer.groups)
    counts = placer.counts(cluster.free)
    pause = cluster.scheduling.checkpoint_s + cluster.switching_s
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
            moves = (len(chosen), sum(size for size, _ in chosen), group, [job for _, job in chosen])
            best = moves if best is None else min(best, moves)
    return None if best is None else _moves(cluster, placer, best[2], best[3], servers)


def _fewest(jobs: list[tuple[int, int]], need: int, free: Ints) -> list[tuple[int, int]] | None:
    """Jobs of at least `need` servers that fit into the other groups, best fit; largest first, last one smallest."""
    left = free.copy()
    chosen: list[tuple[int, int]] = []
    pending = sorted(jobs)
    while need > 0:
        movable = [row for row in pending if len(left) and row[0] <= int(left.max())]
        if not movable:
            return None
        enough = [row for row in movable if row[0] >= need]
        pick = enough[0] if enough else movable[-1]
        fitting = np.flatnonzero(left >= pick[0])
        left[fitting[np.argmin(left[fitting])]] -= pick[0]
        pending.remove(pick)
        chosen.append(pick)
        need -= pick[0]
    return chosen


def _moves(cluster: ClusterState, placer: GroupPlacer, group: int, jobs: list[int], servers: int) -> Moves | None:
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
    return tuple(moves), np.flatnonzero(left)[:servers]


def make_space(cluster: ClusterState) -> bool:
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
    pause = checkpoint + cluster.switching_s
    expected, _ = expected_start(cluster, job)
    if expected - ready <= pause * len(moves[0]):
        return False
    for moved, new in moves[0]:
        work_from = ready + cluster.dark_s(new, cluster.now, ready)
        old = cluster.record.finish(moved, cluster.now, ready)
        cluster.record.begin(moved, new, ready, work_from)
        cluster.work.pause(moved, cluster.now, work_from)
        cluster.free[new] = False
        cluster.taken_at[new] = ready
        spared = np.setdiff1d(old, moves[1])
        if len(spared):
            cluster.release_later(spared, ready)
    cluster.start(job, moves[1], ready)
    return True


# Starting waiting jobs together.

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

    def together(self, free: Free, classes: Sequence[int], values: Sequence[int]) -> tuple[Servers | None, ...]:
        """int64 servers of each job, ascending, None for one that waits; those placed have the most value together."""


def start_jointly(cluster: ClusterState, placer: JointPlacer) -> None:
    queue = cluster.scheduling.queue
    if queue == "backfill":
        while cluster.queue:
            looked_at = cluster.queue[: min(placer.window, cluster.scheduling.depth + 1)]
            if _start_most(cluster, placer, looked_at, cluster.free) < len(looked_at):
                return
    _start_beginning(cluster, placer)
    if queue != "reserve" or len(cluster.queue) < 2 or not cluster.free.any():
        return
    start, aside = reserved(cluster)
    others = cluster.queue[1 : min(placer.window, cluster.scheduling.depth + 1)]
    switching = cluster.switching_s
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
        low, placement = 0, ()  # type: int, tuple[Servers | None, ...]
        count = high
        while low < high:  # all that may fit are asked for first, then halves
            kinds = [cluster.kind[job] for job in window[:count]]
            placed = placer.together(cluster.free, kinds, [cluster.size[job] for job in window[:count]])
            if all(servers is not None for servers in placed):
                low, placement = count, placed
            else:
                high = count - 1
            count = (low + high + 1) // 2
        for job, servers in zip(window, placement, strict=False):
            assert servers is not None
            cluster.start(job, servers)
        del cluster.queue[:low]
        if low < len(window):
            return


def _start_most(cluster: ClusterState, placer: JointPlacer, jobs: Sequence[int], free: Free) -> int:
    count = int(np.count_nonzero(free))
    fit = [job for job in jobs if cluster.size[job] <= count]
    if not fit:
        return 0
    placed = placer.together(free.copy(), [cluster.kind[job] for job in fit], [cluster.size[job] for job in fit])
    started = [(job, servers) for job, servers in zip(fit, placed, strict=True) if servers is not None]
    for job, servers in started:
        cluster.start(job, servers)
        cluster.queue.remove(job)
    return len(started)


# The event loop.

CHECK_EVERY = 64
"""Moments between two questions whether to stop; where jobs are placed together, which takes long, it is one."""


def start_waiting(cluster: ClusterState) -> None:
    if isinstance(cluster.placer, JointPlacer):
        start_jointly(cluster, cluster.placer)
        return
    while cluster.queue:
        job = cluster.queue[0]
        servers = cluster.placer.place(cluster.free, cluster.size[job], cluster.kind[job])
        if servers is None:
            break
        cluster.start(job, servers)
        del cluster.queue[0]
    if not cluster.queue:
        return
    if cluster.scheduling.defragment and make_space(cluster):
        del cluster.queue[0]
        start_waiting(cluster)
        return
    if cluster.scheduling.queue != "fifo" and len(cluster.queue) > 1:
        start_others(cluster)


def simulate(cluster: ClusterState, reason: Callable[[], StopReason | None]) -> tuple[Stays, Bools, StopReason | None]:
    """Run until every job has ended, or `reason` says why to stop.

    Returns:
        Stays of all jobs that started; bool[J], which have ended; None when all have.
    """
    jobs = len(cluster.jobs)
    finished = np.zeros(jobs, dtype=bool)
    arrived = moments = 0
    stopped_by: StopReason | None = None
    every = 1 if isinstance(cluster.placer, JointPlacer) else CHECK_EVERY
    while True:
        if moments % every == 0:
            stopped_by = reason()
            if stopped_by is not None:
                break
        moments += 1
        end, job = cluster.work.next_end()
        arrival = cluster.arrival[arrived] if arrived < jobs else np.inf
        release = cluster.releases[0][0] if cluster.releases else np.inf
        moment = max(min(end, arrival, release), cluster.now)
        if moment == np.inf:
            break
        cluster.work.advance(moment)
        cluster.now = moment
        while end <= moment:
            cluster.end(job)
            finished[job] = True
            end, job = cluster.work.next_end()
        while cluster.releases and cluster.releases[0][0] <= moment:
            cluster.free[heapq.heappop(cluster.releases)[2]] = True
        while arrived < jobs and cluster.arrival[arrived] <= moment:
            cluster.queue.append(arrived)
            arrived += 1
        start_waiting(cluster)
        cluster.work.refresh()
    return cluster.record.stays(cluster.now), finished, stopped_by
