"""Random draws of what happens to a cluster: arrivals of jobs, jobs at once, and servers that are down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import Bools, Draws, Floats, Int32s, Ints
from topoopt.core.shared_cluster import DrawnJobs, JobClass, JobsAtOnce, JobTable, TracedJob

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


def _mean_seconds(job_class: JobClass) -> float:
    if job_class.duration_s is not None:
        return job_class.duration_s
    return (job_class.iterations or 0) * float(np.mean(job_class.iteration_ms)) * MS


def _iteration_ms(index: Int32s, classes: Sequence[JobClass], draws: Draws) -> Floats:
    """One of the times of its class for each job; classes with one time leave the generator alone."""
    times = np.empty(len(index))
    for c, job_class in enumerate(classes):
        own = np.flatnonzero(index == c)
        samples = np.array(job_class.iteration_ms)
        times[own] = samples[0] if len(samples) == 1 else samples[draws.below(len(samples), len(own))]
    return times


def _usual_iterations(index: Int32s, times: Floats, classes: Sequence[JobClass]) -> Floats:
    """What the class says; 0 where it says nothing."""
    given = np.array([float(job_class.iterations or 0) for job_class in classes])[index]
    seconds = np.array([job_class.duration_s or 0.0 for job_class in classes])[index]
    return np.where(seconds > 0, seconds / (times * MS), given)


Draw = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[float, ...], int]
"""Jobs at once: their classes; their servers, in rank order; which of the given times each takes, as a part of their
list; the seed of routes on fabrics with a choice."""


def server_order(jobs: JobsAtOnce, servers: int, draws: Draws) -> list[int]:
    """All servers in the order in which jobs take them."""
    if jobs.placement == "random":
        return [int(server) for server in draws.permutation(servers)]
    rack = jobs.rack_servers
    racks = [range(first, min(first + rack, servers)) for first in range(0, servers, rack)]
    return [server for index in draws.permutation(len(racks)) for server in racks[int(index)]]


def place_jobs(jobs: JobsAtOnce, sizes: Sequence[int], servers: int, draws: Draws) -> tuple[tuple[int, ...], ...]:
    """Servers of jobs of the given sizes, all different."""
    order = server_order(jobs, servers, draws)
    placed, first = [], 0
    for size in sizes:
        own = order[first : first + size]
        placed.append(tuple(sorted(own) if jobs.rank_order == "sorted" else own))
        first += size
    return tuple(placed)


def draw_jobs(
    jobs: JobsAtOnce, classes: Sequence[JobClass], servers: int, load: int, repetition: int, seed: int
) -> Draw:
    """`load` jobs, each of a class drawn by its weight (another load or repetition does not change them)."""
    draws = Draws(seed, load, repetition)
    chosen = draws.weighted(np.array([weight for _, weight in jobs.mix]), load)
    index = tuple(jobs.mix[int(drawn)][0] for drawn in chosen)
    sample = tuple(float(value) for value in draws.uniform(load))
    routes_seed = int(draws.below(2**31, 1)[0])
    return index, place_jobs(jobs, [classes[c].servers for c in index], servers, draws), sample, routes_seed


def sampled(job_class: JobClass, sample: float) -> float | None:
    """One of the given times of a class, ms; None of a class without."""
    times = job_class.iteration_ms
    return times[min(int(sample * len(times)), len(times) - 1)] if times else None


MEMORY_DAYS = 7.0
"""After so many days the correlation of numbers is 1/e."""


TRACE_MEAN, TRACE_P99, TRACE_LARGEST = 0.0231, 0.0775, 35 / 400
"""Parts of all servers that are down in the trace: mean over days, 99th percentile, largest."""

TRACE_SERVERS, TRACE_DAYS = 400, 349


def down_parts(days: int) -> Floats:
    """float64[days], ascending: parts of the servers that are down."""
    from scipy.special import gammaincinv

    rank = (np.arange(days) + 0.5) / days

    def parts(shape: float) -> Floats:
        quantiles = gammaincinv(shape, np.append(rank, 0.99))
        return np.asarray(np.minimum(TRACE_P99 / quantiles[-1] * quantiles[:-1], TRACE_LARGEST))

    low, high = 0.05, 50.0  # the mean grows with the shape, as the 99th percentile is held
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if parts(middle).mean() > TRACE_MEAN else (middle, high)
    return parts(high)


def whole_servers(parts: Floats) -> Ints:
    """int64[days]: servers, rounded down after a share of one is added, so that their sum stays to half a day.

    Rounded to the nearest, no server of five would ever be down, as 8.75 % of them is less than half a server.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if np.floor(parts + middle).sum() < parts.sum() else (low, middle)
    fewer, more = (np.floor(parts + share).astype(np.int64) for share in (low, high))
    return fewer if parts.sum() - fewer.sum() < more.sum() - parts.sum() else more


def server_outages(servers: int, days: int, rng: np.random.Generator) -> Bools:
    """bool[days, servers]: which are down."""
    keep = np.exp(-1.0 / MEMORY_DAYS)
    shock = rng.standard_normal(days)
    state = np.empty(days)
    for day in range(days):
        state[day] = shock[0] if day == 0 else keep * state[day - 1] + (1.0 - keep**2) ** 0.5 * shock[day]
    counts = np.empty(days, dtype=np.int64)
    counts[np.argsort(state, kind="stable")] = whole_servers(servers * down_parts(days))
    down = np.zeros((days, servers), dtype=np.bool_)
    for day, count in enumerate(counts.tolist()):
        if day:
            down[day] = down[day - 1]
        change = count - int(down[day].sum())
        among = np.flatnonzero(down[day] == (change < 0))
        down[day, rng.choice(among, abs(change), replace=False)] = change > 0
    return down
