"""Figures of what happened, from the stays of jobs that arrive, or from the times of jobs at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.shared_cluster import Goal
from topoopt.core.shared_cluster_jobs import JobClass, JobTable
from topoopt.core.shared_cluster_solution import ClassPlan, DrawnRun, LoadStatistics, Metrics, Stays, Tail
from topoopt.core.solution import Objective

MS = 1e-3


def tail_of(values: Floats) -> Tail:
    """Mean and tail of one or more values."""
    ordered = np.sort(values)
    count = len(ordered)

    def at(percent: int) -> float:
        return float(ordered[min(percent * count // 100, count - 1)])

    return Tail(float(np.mean(values)), at(50), at(90), at(95), at(99), float(ordered[-1]))


def objective_of(goal: Goal, metrics: Metrics) -> Objective:
    """The objective of a run, to be small."""
    if goal is Goal.ITERATION_TIME:
        return Objective("mean_iteration_time", metrics.iteration_ms.mean, "ms")
    return Objective("mean_completion_time", metrics.completion_s.mean, "s")


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


def load_objective(statistics: Sequence[LoadStatistics]) -> Objective:
    """The objective of jobs at once: on the first fabric at the largest load."""
    largest = max(row.load for row in statistics)
    return Objective("mean_iteration_time", next(r.iteration_ms.mean for r in statistics if r.load == largest), "ms")


def metrics_of(
    jobs: JobTable, classes: tuple[JobClass, ...], stays: Stays, finished: Bools, group: Ints, switching_s: float
) -> Metrics | None:
    """None when no job has ended. `group` is int64[n], of the servers as far as shards are concerned."""
    if not finished.any():
        return None
    count = len(jobs)
    size = np.array([one.servers for one in classes], dtype=np.float64)[jobs.class_index]
    start, end = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(start, stays.job, stays.held_from_s)
    np.maximum.at(end, stays.job, stays.work_to_s)
    worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=count)
    held = np.bincount(stays.job, stays.held_to_s - stays.held_from_s, minlength=count)
    done = finished
    completion = end[done] - jobs.arrival_s[done]
    alone = jobs.iterations[done] * jobs.iteration_ms[done] * MS
    first, last = float(jobs.arrival_s[0]), float(stays.held_to_s.max())
    makespan = max(last - first, 0.0)
    whole = len(group) * makespan
    started = np.isfinite(start)
    waited = np.where(started, start, last) - np.minimum(jobs.arrival_s, last)
    free, stranded, share = _fragmentation(jobs, size, start, stays, group, last)
    return Metrics(
        finished=int(done.sum()),
        iteration_ms=tail_of(worked[done] / jobs.iterations[done] / MS),
        waiting_s=tail_of(start[done] - jobs.arrival_s[done]),
        completion_s=tail_of(completion),
        slowdown=tail_of(completion / alone),
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
