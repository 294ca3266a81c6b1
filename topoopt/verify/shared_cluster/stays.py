"""Who held which servers when: nobody twice, whole shards, in order, and on partitions all the work done."""

from __future__ import annotations

import itertools

import numpy as np

from topoopt.core.shared_cluster import PARTITIONED, QueueOrder, SharedCluster
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.shared_cluster_runs import FabricRun
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog

SECONDS = Tolerance.EVENTS.relative
"""Difference of two times that is rounding, relative to the time simulated beyond a second."""

WORK_RELATIVE = Tolerance.ROUNDING.relative


def check_stays(findings: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun) -> bool:
    """Whether the stays can be trusted for what is computed from them."""
    before = sum(findings.counts.values())
    if not _check_shapes(findings, problem, jobs, run):
        return False
    _check_times(findings, problem, jobs, run)
    _check_servers(findings, jobs, run)
    _check_progress(findings, jobs, run)
    if run.fabric.kind == PARTITIONED:
        _check_shards(findings, problem, jobs, run)
        _check_partition(findings, problem, jobs, run)
    return sum(findings.counts.values()) == before


def _name(jobs: JobTable, run: FabricRun, stay: int) -> str:
    return f"{run.fabric.name}: {jobs.names[run.stays.job[stay]]}"


def _check_shapes(findings: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun) -> bool:
    """Tables of fitting length with indices in range, as many servers as the job asks for, each once."""
    stays, name = run.stays, run.fabric.name
    count = len(stays)
    lengths = {len(each) for each in (stays.held_from_s, stays.work_from_s, stays.work_to_s, stays.held_to_s)}
    if lengths != {count} or len(stays.low) != count + 1 or len(run.finished) != len(jobs):
        findings.add("stays", f"{name}: tables of different length")
        return False
    outside = (stays.job < 0).any() or (stays.job >= len(jobs)).any()
    if outside or (stays.servers < 0).any() or (stays.servers >= problem.servers).any():
        findings.add("stays", f"{name}: a job or a server that does not exist")
        return False
    sizes = np.diff(stays.low)
    if stays.low[0] != 0 or stays.low[-1] != len(stays.servers) or (sizes < 0).any():
        findings.add("stays", f"{name}: the servers of the stays do not add up")
        return False
    asked = np.array([problem.classes[c].servers for c in jobs.class_index])[stays.job]
    wrong = np.flatnonzero(sizes != asked)
    findings.add_each("size", wrong, lambda s: f"{_name(jobs, run, s)} has {sizes[s]} servers, not {asked[s]}")
    return not len(wrong)


def _check_times(findings: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun) -> None:
    stays = run.stays
    times = (stays.held_from_s, stays.work_from_s, stays.work_to_s, stays.held_to_s)
    ordered = np.all([a <= b for a, b in itertools.pairwise(times)], axis=0)
    ordered &= stays.held_from_s >= jobs.arrival_s[stays.job]
    ordered &= np.all(np.isfinite(times), axis=0)
    findings.add_each("times", np.flatnonzero(~ordered), lambda s: f"{_name(jobs, run, s)} has times out of order")
    if run.queue == QueueOrder.FIFO.value:
        first = np.full(len(jobs), np.inf)
        np.minimum.at(first, stays.job, stays.held_from_s)
        # A job for which others are moved gets its servers that much after its turn.
        slack = problem.scheduling.checkpoint_s if run.defragment else 0.0
        slack += SECONDS * max(1.0, run.until_s) if slack else 0.0
        late = np.flatnonzero(first[1:] < np.maximum.accumulate(first)[:-1] - slack) + 1
        late = late[np.isfinite(first[late])]
        findings.add_each("queue", late, lambda j: f"{run.fabric.name}: {jobs.names[j]} starts before an earlier job")


def _check_servers(findings: ViolationLog, jobs: JobTable, run: FabricRun) -> None:
    """No server in two stays at once, and none twice in one."""
    stays = run.stays
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    doubled = np.unique(np.column_stack((owner, stays.servers)), axis=0)
    if len(doubled) < len(owner):
        findings.add("servers", f"{run.fabric.name}: a stay has a server twice")
    order = np.lexsort((stays.held_to_s[owner], stays.held_from_s[owner], stays.servers))
    server, stay = stays.servers[order], owner[order]
    until = stays.held_to_s[stay]
    clash = (server[1:] == server[:-1]) & (stays.held_from_s[stay[1:]] < until[:-1])
    clash &= stays.held_to_s[stay[1:]] > stays.held_from_s[stay[1:]]
    findings.add_each(
        "servers",
        np.flatnonzero(clash),
        lambda at: (
            f"{_name(jobs, run, int(stay[at + 1]))} and {jobs.names[stays.job[stay[at]]]} both hold server "
            f"{server[at]} at {stays.held_from_s[stay[at + 1]]:.6g} s"
        ),
    )


def _check_shards(findings: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun) -> None:
    """Servers of a stay share a switch in as many planes as the job has interfaces, so that any shape can be set."""
    stays = run.stays
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    planes = np.zeros(len(stays), dtype=np.int64)
    for switch in problem.layer.switch_of:
        apart = switch[stays.servers] != switch[stays.servers[stays.low[:-1]]][owner]
        planes += np.bincount(owner, apart, minlength=len(stays)) == 0
    used = [problem.cluster.degree if one.interfaces is None else one.interfaces for one in problem.classes]
    needed = np.array(used)[jobs.class_index[stays.job]]
    findings.add_each(
        "shard",
        np.flatnonzero(planes < needed),
        lambda s: (
            f"{_name(jobs, run, s)} uses {needed[s]} interfaces, its servers share a switch in {planes[s]} planes"
        ),
    )


def _check_progress(findings: ViolationLog, jobs: JobTable, run: FabricRun) -> None:
    """Finished jobs have ended, others hold servers until the end of the simulation or have not started."""
    stays = run.stays
    last = np.full(len(jobs), -np.inf)
    np.maximum.at(last, stays.job, stays.held_to_s)
    idle = np.flatnonzero(run.finished & ~np.isfinite(last))
    findings.add_each("finished", idle, lambda j: f"{run.fabric.name}: {jobs.names[j]} has ended without a start")
    gone = np.flatnonzero(~run.finished & np.isfinite(last) & (last < run.until_s))
    findings.add_each("finished", gone, lambda j: f"{run.fabric.name}: {jobs.names[j]} gave its servers up unfinished")
    end = {int(job): stay for stay, job in enumerate(stays.job)}  # by held_from_s: the last one of each job
    beyond = stays.held_to_s - stays.work_to_s > SECONDS * max(1.0, run.until_s)
    kept = [stay for job, stay in end.items() if run.finished[job] and beyond[stay]]
    findings.add_each("held", kept, lambda s: f"{_name(jobs, run, s)} keeps its servers after its work")
    often = np.flatnonzero(np.bincount(stays.job, minlength=len(jobs)) > 1)
    if len(often) and not run.defragment:
        findings.add("moves", f"{run.fabric.name}: {jobs.names[often[0]]} was moved, which was not allowed")


def _check_partition(findings: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun) -> None:
    """Circuits take their time, moves theirs, and the work of every job is done."""
    stays = run.stays
    slack = SECONDS * max(1.0, run.until_s)
    switching, checkpoint = problem.layer.switching_time_s, problem.scheduling.checkpoint_s
    taken = np.full(problem.servers, -np.inf)
    latest: dict[int, int] = {}
    for stay in range(len(stays)):  # by held_from_s
        job, servers = int(stays.job[stay]), stays.servers_of(stay)
        begin, ready = float(stays.held_from_s[stay]), float(jobs.arrival_s[job])
        if job in latest:
            past = latest[job]
            ready = float(stays.work_to_s[past])
            if abs(begin - stays.held_to_s[past]) > slack or abs(begin - ready - checkpoint) > slack:
                findings.add("moves", f"{_name(jobs, run, stay)} is moved in other than {checkpoint:g} s")
        latest[job] = stay
        dark = switching
        if problem.look_ahead:
            dark = max(0.0, switching - max(0.0, begin - max(ready, float(taken[servers].max()))))
        taken[servers] = begin
        expected = min(begin + dark, run.until_s)
        if abs(float(stays.work_from_s[stay]) - expected) > slack:
            findings.add("switching", f"{_name(jobs, run, stay)} works from {stays.work_from_s[stay]:.9g} s, "
                         f"its circuits are set at {expected:.9g} s")  # fmt: skip
    worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=len(jobs))
    needed = jobs.iterations * jobs.iteration_ms * 1e-3
    wrong = run.finished & (np.abs(worked - needed) > slack + WORK_RELATIVE * needed)
    wrong |= ~run.finished & (worked > needed + slack)
    findings.add_each(
        "work",
        np.flatnonzero(wrong),
        lambda j: f"{run.fabric.name}: {jobs.names[j]} works {worked[j]:.9g} s, its iterations take {needed[j]:.9g} s",
    )
