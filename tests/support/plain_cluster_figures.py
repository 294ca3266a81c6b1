"""Figures of shared clusters, moment by moment and by exact sums, as the figures of the kind should be."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster import FabricRun, JobTable
from topoopt.kinds.shared_cluster.figures import SharedClusterFigures

Figures = dict[str, float]


def tail(values: list[float]) -> Figures:
    """Mean and tail of a list."""
    ordered, count = sorted(values), len(values)
    places = {f"p{percent}": ordered[min(percent * count // 100, count - 1)] for percent in (50, 90, 95, 99)}
    return {"mean": math.fsum(ordered) / count, **places, "largest": ordered[-1]}


def run_figures(figures: SharedClusterFigures, place: int) -> dict[str, Figures | float]:
    """The figures of one fabric on which a job has ended, by name."""
    run, jobs = figures.runs[place], figures.jobs
    partitioned = run.fabric.kind == "partitioned"
    group = figures.groups if partitioned else np.zeros(figures.problem.servers, dtype=np.int64)
    stays = run.stays
    size = [figures.classes[c].servers for c in jobs.class_index]
    start: dict[int, float] = {}
    end: dict[int, float] = {}
    worked: dict[int, float] = defaultdict(float)
    held: dict[int, float] = defaultdict(float)
    for stay in range(len(stays)):
        job = int(stays.job[stay])
        start.setdefault(job, float(stays.held_from_s[stay]))
        end[job] = float(stays.work_to_s[stay])
        worked[job] += float(stays.work_to_s[stay] - stays.work_from_s[stay])
        held[job] += float(stays.held_to_s[stay] - stays.held_from_s[stay])
    done = np.flatnonzero(run.finished).tolist()
    arrival = jobs.arrival_s.tolist()
    alone = (jobs.iterations * jobs.iteration_ms * 1e-3).tolist()
    last = float(stays.held_to_s.max())
    span = max(last - arrival[0], 0.0)
    free, stranded, share, queue = _areas(jobs, size, start, run, group, last)
    n = figures.problem.servers
    return {
        "iteration_ms": tail([worked[j] * 1e3 / int(jobs.iterations[j]) for j in done]),
        "waiting_s": tail([start[j] - arrival[j] for j in done]),
        "completion_s": tail([end[j] - arrival[j] for j in done]),
        "slowdown": tail([(end[j] - arrival[j]) / alone[j] for j in done]),
        "finished": len(done),
        "makespan_s": span,
        "utilisation": _over(sum(held[j] * size[j] for j in held), n * span),
        "goodput": _over(sum(worked[j] * size[j] for j in worked), n * span),
        "queue_length": _over(queue, span),
        "waiting_free": _over(free, span),
        "stranded": _over(stranded, span),
        "largest_share": share,
        "reconfigurations": len(stays) if partitioned and figures.problem.layer.switching_time_s > 0 else 0,
        "moves": len(stays) - len(start),
        "dark_s": sum(held.values()) - sum(worked.values()),
    }


def load_rows(figures: SharedClusterFigures) -> list[dict[str, Figures | float | str]]:
    """The statistics of jobs at once, as they follow from the times one by one."""
    rows: list[dict[str, Figures | float | str]] = []
    for load in sorted({run.load for run in figures.draws}):
        first: Figures = {}
        for place, name in enumerate(fabric.name for fabric in figures.fabrics):
            own = [run for run in figures.draws if run.load == load]
            times = [time for run in own for time in run.times_ms[place]]
            at = place * len(figures.classes)
            alone = [figures.alone[at + index].alone_ms for run in own for index in run.classes]
            found = tail(times)
            first = first or found
            slower = math.fsum(time / without for time, without in zip(times, alone, strict=True)) / len(times)
            rows.append(
                {
                    "fabric": name,
                    "load": load,
                    "jobs": len(times),
                    "iteration_ms": found,
                    "over_alone": slower,
                    "over_first": found["mean"] / first["mean"],
                    "p99_over_first": found["p99"] / first["p99"],
                }
            )
    return rows


def _over(value: float, whole: float) -> float:
    return value / whole if whole > 0 else 0.0


def _areas(
    jobs: JobTable, size: list[int], start: dict[int, float], run: FabricRun, group: Ints, last: float
) -> tuple[float, float, float, float]:
    """Server-seconds free while a job waits, those of them that would be enough for the first one, mean share of the
    largest group, and job-seconds of waiting: swept over all moments."""
    stays = run.stays
    changes: dict[float, list[tuple[int, int]]] = defaultdict(list)
    for stay in range(len(stays)):
        changes[float(stays.held_from_s[stay])].append((stay, -1))
        changes[float(stays.held_to_s[stay])].append((stay, 1))
    for time in jobs.arrival_s.tolist():
        if time <= last:
            changes.setdefault(time, [])
    left = np.bincount(group)
    moments = sorted(changes)
    free = stranded = shares = open_s = queue = 0.0
    arrived = head = waiting = 0
    starts = sorted(start.values())
    started = 0
    for moment, following in itertools.pairwise(moments):
        for stay, sign in changes[moment]:
            own = np.bincount(group[stays.servers_of(stay)], minlength=len(left))
            left = left + sign * own
        while arrived < len(jobs) and jobs.arrival_s[arrived] <= moment:
            arrived += 1
        while started < len(starts) and starts[started] <= moment:
            started += 1
        while head < arrived and start.get(head, math.inf) <= moment:
            head += 1
        waiting = arrived - started
        seconds, total = following - moment, int(left.sum())
        queue += waiting * seconds
        if waiting:
            free += total * seconds
            if size[head] <= total:
                stranded += total * seconds
        if total:
            shares += int(left.max()) / total * seconds
            open_s += seconds
    return free, stranded, shares / open_s if open_s > 0 else 1.0, queue
