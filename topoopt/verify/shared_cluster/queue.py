"""Who may start when, and where: the decisions of the scheduler, made again moment by moment.

First come, first served, and backfilling without a reservation, leave nothing open: at each moment the jobs that fit
start in order of arrival, and placements by group or by lowest number say on which servers. Where a reservation, moves
or a search of shards decide, only the first waiting job is looked at, or nothing; the check says so.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.core.shared_cluster import ACROSS_GROUPS, PARTITIONED, Fabric, QueueOrder, SharedCluster
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.shared_cluster_runs import FabricRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.verify.laws.findings import ViolationLog

AS_STATED = "auto"
"""Method that keeps the queue of the instance; all others are named after their queue."""

MOVING = "-defragment"


def check_settings(
    findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution, run: FabricRun
) -> None:
    """Queue and moves of a run are those of the method, or of the instance."""
    method = solution.method
    queue, moves = problem.scheduling.queue.value, problem.scheduling.defragment
    if method != AS_STATED:
        queue, moves = method.removesuffix(MOVING), method.endswith(MOVING)
    moves = moves and run.fabric.kind == PARTITIONED and run.fabric.placement not in ACROSS_GROUPS
    findings.hold("queue", ("the queue", run.queue, queue), ("moves of running jobs", run.defragment, moves))


def check_decisions(
    findings: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun, group: Ints
) -> None:
    """Starts and servers of a run whose stays are legal."""
    name, fabric = run.fabric.name, run.fabric
    if run.decisions is not None:
        findings.leave_out(f"decisions on {name}", "how many placements were proven the best is the solver's word")
    if run.defragment or fabric.placement in ACROSS_GROUPS:
        why = "running jobs are moved" if run.defragment else f"placement {fabric.placement} searches for shards"
        findings.leave_out(f"which job starts when on {name}", f"{why}; that stays are legal is checked")
        return
    if run.queue == QueueOrder.RESERVE.value:
        why = "they rest on expected ends; that the first one never waits in vain is checked"
        findings.leave_out(f"which jobs are let past the first on {name}", why)
    if fabric.placement == "random":
        findings.leave_out(f"which servers jobs get on {name}", "they are drawn as jobs start; any free ones are right")
    looked_at = problem.scheduling.depth + 1 if run.queue == QueueOrder.BACKFILL.value else 1
    choice = run.queue != QueueOrder.RESERVE.value and fabric.placement != "random"
    _sweep(findings, problem, jobs, run, group, looked_at, choice)


def _sweep(
    findings: ViolationLog,
    problem: SharedCluster,
    jobs: JobTable,
    run: FabricRun,
    group: Ints,
    looked_at: int,
    choice: bool,
) -> None:
    """Every moment at which jobs arrive or end: starts, in order of arrival, then whom nobody may leave waiting."""
    stays = run.stays
    size = np.array([one.servers for one in problem.classes], dtype=np.int64)[jobs.class_index]
    begins, ends = defaultdict(list), defaultdict(list)
    for stay in range(len(stays)):
        begins[float(stays.held_from_s[stay])].append(stay)
        ends[float(stays.held_to_s[stay])].append(stay)
    arrivals = jobs.arrival_s[jobs.arrival_s <= run.until_s]
    free = np.ones(problem.servers, dtype=bool)
    waiting: list[int] = []
    arrived = 0
    cut = set() if run.whole else {run.until_s}
    for moment in sorted({*begins, *(end for end in ends if end not in cut), *arrivals.tolist()}):
        for stay in ends.get(moment, []):
            if moment not in cut:
                free[stays.servers_of(stay)] = True
        while arrived < len(arrivals) and arrivals[arrived] <= moment:
            waiting.append(arrived)
            arrived += 1
        for stay in sorted(begins.get(moment, []), key=lambda stay: int(stays.job[stay])):
            job, own = int(stays.job[stay]), stays.servers_of(stay)
            due = _servers(run.fabric, free, group, int(size[job])) if choice else own
            if due is None or not np.array_equal(own, due):
                findings.add("placement", f"{run.fabric.name}: {jobs.names[job]} gets other servers than its turn says")
            free[own] = False
            if job in waiting:
                waiting.remove(job)
        room = _largest(run.fabric, free, group)
        for job in waiting[:looked_at]:
            if size[job] <= room and moment not in cut:
                text = f"{run.fabric.name}: {jobs.names[job]} waits at {moment:.9g} s though it fits"
                findings.add("queue", text)


def _largest(fabric: Fabric, free: Bools, group: Ints) -> int:
    """Most servers that a job could get."""
    if fabric.kind != PARTITIONED:
        return int(free.sum())
    return int(np.bincount(group[free], minlength=1).max())


def _servers(fabric: Fabric, free: Bools, group: Ints, count: int) -> Ints | None:
    """The servers a job gets: the lowest of all, or of the first group, or of the fullest one with enough."""
    if fabric.kind != PARTITIONED:
        return np.flatnonzero(free)[:count]
    left = np.bincount(group[free], minlength=int(group.max()) + 1)
    fitting = [(left[k] if fabric.placement == "best-fit" else 0, k) for k in np.flatnonzero(left >= count).tolist()]
    return np.flatnonzero(free & (group == min(fitting)[1]))[:count] if fitting else None
