"""Jobs of a shared cluster: those of a trace, or drawn from a mix of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import Draws, Floats, Int32s
from topoopt.core.shared_cluster import DrawnJobs, JobClass, JobTable, TracedJob

MS = 1e-3


def job_table(jobs: Sequence[TracedJob] | DrawnJobs, classes: Sequence[JobClass], servers: int, seed: int) -> JobTable:
    """The jobs in order of arrival, each with its iteration time; classes have their times.

    The same seed gives the same jobs.
    """
    draws = Draws(seed)
    if isinstance(jobs, DrawnJobs):
        return _drawn(jobs, classes, servers, draws)
    index = np.array([job.class_index for job in jobs], dtype=np.int32)
    times = _iteration_ms(index, classes, draws)
    usual = _usual_iterations(index, times, classes)
    given = np.array([0 if job.iterations is None else job.iterations for job in jobs], dtype=np.int64)
    iterations = np.where(given > 0, given, np.maximum(1, np.rint(usual))).astype(np.int64)
    arrival = np.array([job.arrival_s for job in jobs])
    return JobTable(tuple(job.name for job in jobs), arrival, index, iterations, times)


def _drawn(jobs: DrawnJobs, classes: Sequence[JobClass], servers: int, draws: Draws) -> JobTable:
    chosen = np.array([index for index, _ in jobs.mix], dtype=np.int32)
    weight = np.array([weight for _, weight in jobs.mix])
    weight = weight / weight.sum()
    index = chosen[draws.weighted(weight, jobs.count)]
    times = _iteration_ms(index, classes, draws)
    usual = _usual_iterations(index, times, classes)
    if jobs.spread == "exponential":
        usual = usual * draws.exponential(jobs.count)
    iterations = np.maximum(1, np.rint(usual)).astype(np.int64)
    names = tuple(f"job-{number}" for number in range(jobs.count))
    if jobs.rate_per_s is None and jobs.load is None:
        return JobTable(names, np.zeros(jobs.count), index, iterations, times)
    rate = jobs.rate_per_s
    if rate is None:
        work = [classes[c].servers * _mean_seconds(classes[c]) for c in chosen]
        rate = (jobs.load or 0.0) * servers / float(weight @ np.array(work))
    return JobTable(names, np.cumsum(draws.exponential(jobs.count)) / rate, index, iterations, times)


def _mean_seconds(one: JobClass) -> float:
    """Mean length of the jobs of a class on shards of their own."""
    if one.duration_s is not None:
        return one.duration_s
    return (one.iterations or 0) * float(np.mean(one.iteration_ms)) * MS


def _iteration_ms(index: Int32s, classes: Sequence[JobClass], draws: Draws) -> Floats:
    """One of the times of its class for each job; classes with one time leave the generator alone."""
    times = np.empty(len(index))
    for c, one in enumerate(classes):
        own = np.flatnonzero(index == c)
        samples = np.array(one.iteration_ms)
        times[own] = samples[0] if len(samples) == 1 else samples[draws.below(len(samples), len(own))]
    return times


def _usual_iterations(index: Int32s, times: Floats, classes: Sequence[JobClass]) -> Floats:
    """What the class says; 0 where it says nothing."""
    given = np.array([float(one.iterations or 0) for one in classes])[index]
    seconds = np.array([one.duration_s or 0.0 for one in classes])[index]
    return np.where(seconds > 0, seconds / (times * MS), given)
