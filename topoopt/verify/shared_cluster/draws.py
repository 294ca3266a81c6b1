"""Random draws of shared clusters, made again from the seed: jobs that arrive, and jobs at once with their servers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topoopt.core.draws import Draws
from topoopt.core.shared_cluster import Contention, SharedCluster
from topoopt.core.shared_cluster_jobs import DrawnJobs, JobClass, JobPlacement, JobsAtOnce, JobTable, RankOrder
from topoopt.core.shared_cluster_runs import DrawnRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog

RELATIVE = Tolerance.ROUNDING.relative


def check_jobs_drawn(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """Classes, times, lengths and arrivals are those of the seed; `problem.classes` have their times."""
    given, jobs = problem.jobs, solution.jobs
    draws = Draws(solution.seed)
    if not isinstance(given, DrawnJobs):
        due = _times(jobs.class_index, problem.classes, draws)
        wrong = np.flatnonzero(due != jobs.iteration_ms)
    else:
        table = _drawn(given, problem, draws)
        wrong = np.flatnonzero(
            (table.class_index != jobs.class_index)
            | (table.iteration_ms != jobs.iteration_ms)
            | (table.iterations != jobs.iterations)
            | ~(np.abs(table.arrival_s - jobs.arrival_s) <= RELATIVE * table.arrival_s)
        )
        findings.hold("draw", ("names of the jobs", jobs.names, table.names))
    findings.add_each("draw", wrong, lambda j: f"{jobs.names[j]} is not what seed {solution.seed} draws")


def _times(index: np.ndarray, classes: tuple[JobClass, ...], draws: Draws) -> np.ndarray:
    times = np.zeros(len(index))
    for place, one in enumerate(classes):
        own = index == place
        many = len(one.iteration_ms) > 1
        given = np.array(one.iteration_ms)
        times[own] = given[draws.below(len(given), int(own.sum()))] if many else given[0]
    return times


def _drawn(given: DrawnJobs, problem: SharedCluster, draws: Draws) -> JobTable:
    """Classes by weight, a time of each class by turns, lengths, gaps between arrivals: in this order."""
    weights = np.array([weight for _, weight in given.mix])
    share = weights / weights.sum()
    index = np.array([place for place, _ in given.mix], dtype=np.int32)[draws.weighted(share, given.count)]
    times = _times(index, problem.classes, draws)
    length = np.empty(given.count)
    for job, place in enumerate(index):
        one = problem.classes[place]
        length[job] = one.iterations or 0 if one.duration_s is None else one.duration_s / (times[job] * 1e-3)
    if given.spread == "exponential":
        length = length * draws.exponential(given.count)
    arrival = np.zeros(given.count)
    rate = given.rate_per_s
    if rate is None and given.load is not None:
        seconds = [
            one.duration_s if one.duration_s is not None else (one.iterations or 0) * np.mean(one.iteration_ms) * 1e-3
            for one in (problem.classes[place] for place, _ in given.mix)
        ]
        sizes = [problem.classes[place].servers for place, _ in given.mix]
        work = sum(part * size * long for part, size, long in zip(share, sizes, seconds, strict=True))
        rate = given.load * problem.servers / float(work)
    if rate is not None:
        arrival = np.cumsum(draws.exponential(given.count)) / rate
    names = tuple(f"job-{number}" for number in range(given.count))
    return JobTable(names, arrival, index, np.maximum(1, np.rint(length)).astype(np.int64), times)


def check_runs_drawn(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """Every draw of jobs at once is that of its seed, load and repetition: classes, servers, given times."""
    for run in solution.draws:
        for text in _wrong_draw(problem, solution, run):
            findings.add("draw", text)


def _wrong_draw(problem: SharedCluster, solution: SharedClusterSolution, run: DrawnRun) -> Iterator[str]:
    """What of a draw is not drawn again."""
    classes, servers, sample = _run(problem, run, solution.seed)
    where = f"{run.load} jobs, repetition {run.repetition}"
    if run.classes != classes or run.servers != servers:
        yield f"{where}: not the jobs and servers that seed {solution.seed} draws"
        return
    rows = [problem.classes[index].iteration_ms for index in classes]
    parts = zip(rows, sample, strict=True)
    due = [row[min(int(part * len(row)), len(row) - 1)] if row else None for row, part in parts]
    # Where flows are simulated, a class with given times runs on shards alone, and a planned one has no other times.
    stated = run.times_ms if problem.contention is Contention.FLOWS else (run.shard_ms,)
    for times in stated:
        if any(one is not None and one != time for one, time in zip(due, times, strict=True)):
            yield f"{where}: not the given times that seed {solution.seed} draws"


def _run(
    problem: SharedCluster, run: DrawnRun, seed: int
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[float, ...]]:
    """Classes, servers in rank order, and which of the given times as a part of their list."""
    jobs = problem.jobs
    assert isinstance(jobs, JobsAtOnce)
    draws = Draws(seed, run.load, run.repetition)
    weights = np.array([weight for _, weight in jobs.mix])
    chosen = draws.weighted(weights, run.load)
    classes = tuple(jobs.mix[place][0] for place in chosen)
    sample = tuple(draws.uniform(run.load).tolist())
    draws.uniform(1)  # of the routes
    n, rack = problem.servers, jobs.rack_servers
    if jobs.placement is JobPlacement.RANDOM:
        order = draws.permutation(n).tolist()
    else:
        order = [s for k in draws.permutation(-(-n // rack)).tolist() for s in range(k * rack, min((k + 1) * rack, n))]
    servers = []
    for place in classes:
        size = problem.classes[place].servers
        own, order = order[:size], order[size:]
        servers.append(tuple(sorted(own) if jobs.rank_order is RankOrder.SORTED else own))
    return classes, tuple(servers), sample
