"""Figures of the jobs of a shared cluster, from the stays of jobs that arrive, or from the times of jobs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.shared_cluster import PARTITIONED
from topoopt.core.shared_cluster_jobs import JobClass, JobTable
from topoopt.core.shared_cluster_runs import ClassPlan, DrawnRun, FabricRun, Stays

MS = 1e-3


@dataclass(frozen=True)
class Tail:
    """Mean and tail of a list of figures; p of q percent is element floor(q N / 100) of the sorted list."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float


@dataclass(frozen=True)
class Metrics:
    """Figures of the finished jobs of a fabric, and of the servers over the time simulated.

    Attributes:
        finished: jobs.
        iteration_ms: time at work over iterations, of the finished jobs.
        waiting_s: from arrival until the servers are the job's.
        completion_s: from arrival to the end.
        slowdown: completion time over that on a shard of its own that is ready at once.
        makespan_s: first arrival to the last end.
        utilisation: held server-seconds over all, within the makespan.
        goodput: server-seconds at work over all, within the makespan.
        queue_length: waiting jobs, averaged over the makespan.
        waiting_free: free servers while a job waits, averaged over the makespan.
        stranded: free servers while the first waiting job asks for no more than are free.
        largest_share: largest group of free servers a shard can be cut from over all free servers, averaged over the
            time in which there are any; 1: no fragmentation.
        reconfigurations: circuits set for a job.
        moves: of running jobs.
        dark_s: time in which jobs held servers and did no work, all together.
    """

    finished: int
    iteration_ms: Tail
    waiting_s: Tail
    completion_s: Tail
    slowdown: Tail
    makespan_s: float
    utilisation: float
    goodput: float
    queue_length: float
    waiting_free: float
    stranded: float
    largest_share: float
    reconfigurations: int
    moves: int
    dark_s: float


@dataclass(frozen=True)
class LoadStatistics:
    """Iteration times of all jobs of all repetitions on one fabric at one load.

    Attributes:
        fabric, load, jobs: which, and how many times there are.
        iteration_ms: of them.
        over_alone: mean over jobs of the time over the time of its class alone on this fabric.
        over_first: mean time over the mean time of the same jobs on the first fabric.
        p99_over_first: the same of the 99th percentiles.
    """

    fabric: str
    load: int
    jobs: int
    iteration_ms: Tail
    over_alone: float
    over_first: float
    p99_over_first: float


def tail_of(values: Floats) -> Tail:
    """Mean and tail of one or more values."""
    ordered = np.sort(values)
    count = len(ordered)

    def at(percent: int) -> float:
        return float(ordered[min(percent * count // 100, count - 1)])

    return Tail(float(np.mean(values)), at(50), at(90), at(95), at(99), float(ordered[-1]))


@dataclass(frozen=True)
class FinishedTimes:
    """Of the jobs that ended, float64 each, in the order of the jobs; see `Metrics`."""

    iteration_ms: Floats
    waiting_s: Floats
    completion_s: Floats
    slowdown: Floats


def finished_times(run: FabricRun, jobs: JobTable) -> FinishedTimes:
    """How long the jobs that ended took."""
    stays, done = run.stays, run.finished
    start, end = np.full(len(jobs), np.inf), np.full(len(jobs), -np.inf)
    np.minimum.at(start, stays.job, stays.held_from_s)
    np.maximum.at(end, stays.job, stays.work_to_s)
    worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=len(jobs))
    arrival, iterations = jobs.arrival_s[done], jobs.iterations[done]
    completion = end[done] - arrival
    alone = iterations * jobs.iteration_ms[done] * MS
    return FinishedTimes(worked[done] / iterations / MS, start[done] - arrival, completion, completion / alone)


def rounding_of(value: float, run: FabricRun, jobs: JobTable) -> float:
    """What may be rounding of a mean `value`: every time is a difference of two moments, each rounded."""
    mean_s = max(float(np.mean(finished_times(run, jobs).completion_s)), np.spacing(1.0))
    return float(4 * np.spacing(run.until_s) / mean_s * abs(value))


def load_statistics(
    fabrics: Sequence[str], class_names: Sequence[str], plans: Sequence[ClassPlan], draws: Sequence[DrawnRun]
) -> tuple[LoadStatistics, ...]:
    """Of jobs at once, for every load, ascending, and every fabric."""
    alone = {(plan.fabric, plan.job_class): plan.alone_ms for plan in plans}
    rows = []
    for load in sorted({run.load for run in draws}):
        own = [run for run in draws if run.load == load]
        first: Tail | None = None
        for place, fabric in enumerate(fabrics):
            times = np.array([time for run in own for time in run.times_ms[place]])
            without = np.array([alone[fabric, class_names[index]] for run in own for index in run.classes])
            tail = tail_of(times)
            first = first or tail
            over_first, p99_over_first = tail.mean / first.mean, tail.p99 / first.p99
            over_alone = float(np.mean(times / without))
            rows.append(LoadStatistics(fabric, load, len(times), tail, over_alone, over_first, p99_over_first))
    return tuple(rows)


def metrics_of(
    run: FabricRun, jobs: JobTable, classes: Sequence[JobClass], groups: Ints, switching_s: float
) -> Metrics | None:
    """None when no job has ended. `groups` is int64[n], of the servers as far as shards are concerned."""
    if not run.finished.any():
        return None
    if run.fabric.kind != PARTITIONED:
        groups, switching_s = np.zeros_like(groups), 0.0
    stays, count = run.stays, len(jobs)
    size = np.array([one.servers for one in classes], dtype=np.float64)[jobs.class_index]
    start = np.full(count, np.inf)
    np.minimum.at(start, stays.job, stays.held_from_s)
    worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=count)
    held = np.bincount(stays.job, stays.held_to_s - stays.held_from_s, minlength=count)
    last = run.until_s
    makespan = max(last - float(jobs.arrival_s[0]), 0.0)
    whole = len(groups) * makespan
    waited = np.where(np.isfinite(start), start, last) - np.minimum(jobs.arrival_s, last)
    free, stranded, share = _fragmentation(jobs, size, start, stays, groups, last)
    times = finished_times(run, jobs)
    return Metrics(
        finished=int(run.finished.sum()),
        iteration_ms=tail_of(times.iteration_ms),
        waiting_s=tail_of(times.waiting_s),
        completion_s=tail_of(times.completion_s),
        slowdown=tail_of(times.slowdown),
        makespan_s=makespan,
        utilisation=float((held * size).sum() / whole) if whole else 0.0,
        goodput=float((worked * size).sum() / whole) if whole else 0.0,
        queue_length=float(waited.sum() / makespan) if makespan else 0.0,
        waiting_free=free,
        stranded=stranded,
        largest_share=share,
        reconfigurations=len(stays) if switching_s > 0 else 0,
        moves=len(stays) - len(np.unique(stays.job)),
        dark_s=float((held - worked).sum()),
    )


def _fragmentation(
    jobs: JobTable, size: Floats, start: Floats, stays: Stays, group: Ints, last: float
) -> tuple[float, float, float]:
    """Free servers while a job waits, those of them while the first waiting job needs no more, largest over free."""
    groups = int(group.max()) + 1
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    cells = np.bincount(owner * groups + group[stays.servers], minlength=len(stays) * groups).reshape(-1, groups)
    times = np.unique(np.concatenate((jobs.arrival_s[jobs.arrival_s <= last], stays.held_from_s, stays.held_to_s)))
    change = np.zeros((len(times), groups), dtype=np.int64)
    np.add.at(change, np.searchsorted(times, stays.held_from_s), -cells)
    np.add.at(change, np.searchsorted(times, stays.held_to_s), cells)
    free_of = np.bincount(group, minlength=groups) + np.cumsum(change, axis=0)
    free, largest = free_of.sum(axis=1)[:-1], free_of.max(axis=1)[:-1]
    seconds, moments = np.diff(times), times[:-1]
    # The first waiting job: the first in order of arrival that starts later, if it has arrived.
    latest = np.maximum.accumulate(start)
    head = np.searchsorted(latest, moments, side="right")
    known = np.minimum(head, len(jobs) - 1)
    waiting = (head < len(jobs)) & (jobs.arrival_s[known] <= moments)
    enough = waiting & (size[known] <= free)
    total = seconds.sum()
    if total <= 0:
        return 0.0, 0.0, 1.0
    some = free > 0
    open_s = seconds[some].sum()
    share = float((largest[some] / free[some] * seconds[some]).sum() / open_s) if open_s > 0 else 1.0
    return (float((free * seconds)[waiting].sum() / total), float((free * seconds)[enough].sum() / total), share)
