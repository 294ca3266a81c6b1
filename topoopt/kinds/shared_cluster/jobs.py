"""The jobs of a shared cluster file: a trace, a mix that arrives, or a mix at once."""

from __future__ import annotations

from pathlib import Path as FilePath

from topoopt.core.fat_tree import fat_tree_arity
from topoopt.core.shared_cluster_jobs import DrawnJobs, JobClass, JobPlacement, JobsAtOnce, RankOrder, TracedJob
from topoopt.files.faults import Fault, nearest_text
from topoopt.files.findings import Findings
from topoopt.kinds.shared_cluster.schema import MAX_DRAWN_JOBS, JobsFile, SharedClusterFile
from topoopt.kinds.shared_cluster.trace import read_trace

OF_ARRIVALS = ("arrival", "rate_per_s", "load", "spread")
OF_JOBS_AT_ONCE = ("repetitions", "placement", "rank_order")
REPETITIONS = 5


def jobs_of(
    file: SharedClusterFile, folder: FilePath, classes: tuple[JobClass, ...], findings: Findings, *, flows: bool
) -> tuple[TracedJob, ...] | DrawnJobs | JobsAtOnce:
    """The trace, or how to draw jobs; `flows`: every flow is simulated."""
    jobs = file.jobs
    given = [key for key in ("trace", "count", "at_once") if getattr(jobs, key) is not None]
    if len(given) != 1:
        findings.add([Fault(("jobs",), "one of trace, count and at_once is needed", allowed="one of them, no more")])
        return ()
    if jobs.at_once is not None:
        _refuse(jobs, OF_ARRIVALS, "plays no part for jobs at once", "with count", findings)
        if not flows:
            _refuse(jobs, ("rank_order",), "the rings of the formula ascend", "with contention: flows", findings)
        return _at_once(file, classes, RankOrder(jobs.rank_order or ("random" if flows else "sorted")), findings)
    _refuse(jobs, OF_JOBS_AT_ONCE, "plays no part for jobs that arrive", "with at_once", findings)
    if jobs.trace is not None:
        _refuse(jobs, ("mix", *OF_ARRIVALS), "plays no part with a trace", "with count", findings)
        path = str(folder / jobs.trace)
        return findings.attempt(lambda: read_trace(path, classes), ("jobs", "trace")) or ()
    mix = _mix(jobs, classes, findings)
    for index, _ in mix:
        if classes[index].iterations is None and classes[index].duration_s is None:
            text, allowed = "how long its jobs are is missing", "iterations or duration_s"
            findings.add([Fault(("classes", index), text, allowed=allowed)])
    rates = [key for key in ("rate_per_s", "load") if getattr(jobs, key) is not None]
    if jobs.arrival == "together":
        if rates:
            findings.add([Fault(("jobs", rates[0]), "plays no part for jobs that arrive together")])
    elif len(rates) != 1:
        findings.add([Fault(("jobs",), "one of rate_per_s and load is needed", allowed="one of them, not both")])
    return DrawnJobs(jobs.count or 0, mix, jobs.rate_per_s, jobs.load, jobs.spread or "fixed")


def _refuse(jobs: JobsFile, keys: tuple[str, ...], message: str, allowed: str, findings: Findings) -> None:
    for key in keys:
        if getattr(jobs, key) is not None:
            findings.add([Fault(("jobs", key), message, allowed=allowed)])


def _mix(jobs: JobsFile, classes: tuple[JobClass, ...], findings: Findings) -> tuple[tuple[int, float], ...]:
    """(class index, weight) of each class of the mix."""
    index = {one.name: place for place, one in enumerate(classes)}
    mix = {one.name: 1.0 for one in classes} if jobs.mix is None else jobs.mix
    if not mix:
        findings.add([Fault(("jobs", "mix"), "no classes", allowed="at least one class with its weight")])
    for name in mix:
        if name not in index:
            findings.add([Fault(("jobs", "mix", name), "unknown class", name, nearest_text(name, index))])
    return tuple((index[name], weight) for name, weight in mix.items() if name in index)


def _at_once(
    file: SharedClusterFile, classes: tuple[JobClass, ...], rank_order: RankOrder, findings: Findings
) -> JobsAtOnce:
    """Loads that fit when all jobs are of the largest class, each once, and not too many in all."""
    jobs, n = file.jobs, file.cluster.servers
    loads, repetitions = tuple(jobs.at_once or ()), jobs.repetitions or REPETITIONS
    mix = _mix(jobs, classes, findings)
    largest = max((classes[index].servers for index, _ in mix), default=1)
    for place, load in enumerate(loads):
        where = ("jobs", "at_once", place)
        if load in loads[:place]:
            findings.add([Fault(where, "load given twice", str(load))])
        if load > n // largest:
            allowed = f"at most {n // largest} jobs of {largest} servers"
            findings.add([Fault(where, "more jobs than fit", str(load), allowed)])
    total = sum(loads) * repetitions
    if total > MAX_DRAWN_JOBS:
        findings.add([Fault(("jobs", "repetitions"), "too many jobs in all", str(total), f"at most {MAX_DRAWN_JOBS}")])
    return JobsAtOnce(
        loads=loads,
        repetitions=repetitions,
        mix=mix,
        placement=JobPlacement(jobs.placement or "random"),
        rank_order=rank_order,
        rack_servers=file.cluster.rack_servers or max(1, fat_tree_arity(n) // 2),
    )
