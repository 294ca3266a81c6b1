"""Tasks of a graph while it runs: compute on devices, release of successors, jobs that begin again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.jit import piece

Events = TypeVar("Events")
"""A `Queue` of events, or `Lanes`."""

Announce = Callable[[Events, float, int], None]
"""Adds the event that a task is ready."""


class Tasks(NamedTuple):
    """T tasks on n devices, in J jobs; the tasks of job j are job_ptr[j]..job_ptr[j+1].

    Attributes:
        indegree, waiting: int32[T], predecessors, and those not done.
        ready, start, end: float64[T]; end -1: not done.
        cause: int32[T], the task whose end let it start, -1: none.
        device_free: float64[n]; device_task: int32[n], the last task of each device or -1.
        job_ptr: int64[J+1]; job_of: int32[T].
        job_left: int64[J], tasks not done in this iteration; job_began, job_end: float64[J] of it.
        first_end: float64[J], end of the first iteration, -1: not yet.
        unfinished: int64[1], jobs in their first iteration.
    """

    indegree: Int32s
    waiting: Int32s
    ready: Floats
    start: Floats
    end: Floats
    cause: Int32s
    device_free: Floats
    device_task: Int32s
    job_ptr: Ints
    job_of: Int32s
    job_left: Ints
    job_began: Floats
    job_end: Floats
    first_end: Floats
    unfinished: Ints


@piece
def new_tasks(successor: Int32s, job_ptr: Ints, devices: int, now: float) -> Tasks:
    """Tasks before an iteration that begins at `now`."""
    tasks, jobs = job_ptr[-1], len(job_ptr) - 1
    indegree = np.zeros(tasks, dtype=np.int32)
    for e in range(len(successor)):
        indegree[successor[e]] += 1
    job_of = np.zeros(tasks, dtype=np.int32)
    first_end = np.full(jobs, -1.0)
    unfinished = np.zeros(1, dtype=np.int64)
    for j in range(jobs):
        if j > 0:
            job_of[job_ptr[j] : job_ptr[j + 1]] = j
        if job_ptr[j] < job_ptr[j + 1]:
            unfinished[0] += 1
        else:
            first_end[j] = now
    return Tasks(
        indegree,
        indegree.copy(),
        np.full(tasks, now),
        np.zeros(tasks),
        np.full(tasks, -1.0),
        np.full(tasks, -1, dtype=np.int32),
        np.full(devices, now),
        np.full(devices, -1, dtype=np.int32),
        job_ptr,
        job_of,
        job_ptr[1:] - job_ptr[:-1],
        np.full(jobs, now),
        np.full(jobs, now),
        first_end,
        unfinished,
    )


@piece
def announce_first(k: Tasks, q: Events, first: int, last: int, announce: Announce[Events]) -> None:
    """Add the events of those of the tasks first..last that wait for none."""
    for t in range(first, last):
        if k.waiting[t] == 0:
            announce(q, k.ready[t], t)


@piece
def compute(k: Tasks, t: int, device: int, duration: float, now: float) -> float:
    """Let a task that is ready now run on its device after those before it; its end."""
    k.start[t] = now
    if k.device_free[device] > now:
        k.start[t] = k.device_free[device]
        k.cause[t] = k.device_task[device]
    finish = k.start[t] + duration
    k.device_free[device] = finish
    k.device_task[device] = t
    return float(finish)


@piece
def release(k: Tasks, q: Events, ptr: Ints, successor: Int32s, t: int, at: float, announce: Announce[Events]) -> None:
    """A task is done at that time, which may be later than now: those that wait for it wait for one less."""
    k.end[t] = at
    for e in range(ptr[t], ptr[t + 1]):
        then = successor[e]
        if at >= k.ready[then]:
            k.ready[then] = at
            k.cause[then] = t
        k.waiting[then] -= 1
        if k.waiting[then] == 0:
            announce(q, k.ready[then], then)


@piece
def all_jobs_done(k: Tasks, q: Events, t: int, at: float, restart: bool, announce: Announce[Events]) -> bool:
    """Whether with this task, done at `at`, every job has finished its first iteration.

    With `restart` a job whose tasks are all done begins again, unless its iteration took no time: it would never end.
    """
    j = k.job_of[t]
    k.job_left[j] -= 1
    k.job_end[j] = max(k.job_end[j], at)
    if k.job_left[j] > 0:
        return False
    if k.first_end[j] < 0.0:
        k.first_end[j] = k.job_end[j]
        k.unfinished[0] -= 1
    if k.unfinished[0] == 0:
        return True
    if restart and k.job_end[j] > k.job_began[j]:
        first, last = k.job_ptr[j], k.job_ptr[j + 1]
        k.job_began[j] = k.job_end[j]
        k.job_left[j] = last - first
        for again in range(first, last):
            k.waiting[again] = k.indegree[again]
            k.ready[again], k.end[again], k.cause[again] = k.job_end[j], -1.0, -1
        announce_first(k, q, first, last, announce)
    return False


@piece
def tasks_left(k: Tasks) -> int:
    """Tasks not done of jobs in their first iteration."""
    left = 0
    for j in range(len(k.first_end)):
        if k.first_end[j] < 0.0:
            left += k.job_left[j]
    return left
