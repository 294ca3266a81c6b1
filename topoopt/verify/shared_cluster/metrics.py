"""The figures of a run, recomputed moment by moment."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.shared_cluster_solution import FabricRun, Metrics, Tail
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog, differs

RELATIVE = Tolerance.LONG_SUMS.relative


def check_metrics(
    findings: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun, group: Ints, switching_s: float
) -> None:
    """Compare every figure with its own computation; `run.stays` has passed `check_stays`."""
    given, stays = run.metrics, run.stays
    assert given is not None
    size = [problem.classes[c].servers for c in jobs.class_index]
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
    tails = {
        "iteration_ms": [worked[j] * 1e3 / int(jobs.iterations[j]) for j in done],
        "waiting_s": [start[j] - arrival[j] for j in done],
        "completion_s": [end[j] - arrival[j] for j in done],
        "slowdown": [(end[j] - arrival[j]) / alone[j] for j in done],
    }  # fmt: skip
    for name, values in tails.items():
        _check_tail(findings, f"{run.fabric.name}: {name}", getattr(given, name), sorted(values))
    last = float(stays.held_to_s.max())
    span = max(last - arrival[0], 0.0)
    free, stranded, share, queue = _areas(jobs, size, start, run, group, last)
    n = problem.servers
    expected = {
        "finished": len(done),
        "makespan_s": span,
        "utilisation": _over(sum(held[j] * size[j] for j in held), n * span),
        "goodput": _over(sum(worked[j] * size[j] for j in worked), n * span),
        "queue_length": _over(queue, span),
        "waiting_free": _over(free, span),
        "stranded": _over(stranded, span),
        "largest_share": share,
        "reconfigurations": len(stays) if switching_s > 0 else 0,
        "moves": len(stays) - len(start),
        "dark_s": sum(held.values()) - sum(worked.values()),
    }
    _compare(findings, run, given, expected, span)


def _compare(findings: ViolationLog, run: FabricRun, given: Metrics, expected: dict[str, float], span: float) -> None:
    for name, value in expected.items():
        found = float(getattr(given, name))
        if differs(found, value, RELATIVE, RELATIVE * max(1.0, span if name.endswith("_s") else 1.0)):
            findings.add("metrics", f"{run.fabric.name}: {name} is {found!r}, not {value!r}")


def _over(value: float, whole: float) -> float:
    return value / whole if whole > 0 else 0.0


def _check_tail(findings: ViolationLog, name: str, found: Tail, ordered: list[float]) -> None:
    count = len(ordered)
    places = {f"p{q}": ordered[min(q * count // 100, count - 1)] for q in (50, 90, 95, 99)}
    expected = {"mean": math.fsum(ordered) / count, **places, "largest": ordered[-1]}
    scale = RELATIVE * max(1.0, ordered[-1])
    for key, value in expected.items():
        if differs(getattr(found, key), value, RELATIVE, scale):
            findings.add("metrics", f"{name}, {key} is {getattr(found, key)!r}, not {value!r}")


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
