"""Who held which servers when: nobody twice, whole shards, in order, all the work done, and nobody waits who fits.

First come, first served, and backfilling without a reservation, leave nothing open: at each moment the jobs that fit
start in order of arrival, and placements by group or by lowest number say on which servers. Where a reservation, moves
or a search of shards decide, only the first waiting job is looked at, or nothing; the check says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.core.proofs import Tolerance
from topoopt.core.shared_cluster import ACROSS_GROUPS, PARTITIONED, Fabric, JobTable, QueueOrder, SharedCluster
from topoopt.core.shared_plan import FabricRun, FabricSchedule, Stays
from topoopt.verify.laws.findings import ViolationLog, float_array, int_array

SECONDS = Tolerance.EVENTS.relative
"""Difference of two times that is rounding, relative to the time simulated beyond a second."""

WORK_RELATIVE = Tolerance.ROUNDING.relative

AS_DECLARED = "auto"
"""Method that keeps the queue of the instance; all others are named after their queue."""

MOVING = "-defragment"


def scheduled_by(problem: SharedCluster, method: str) -> SharedCluster:
    """Return the problem with queue and moves as the method of a result says.

    Raises
    ------
    ValueError
        There is no such way of scheduling.
    """
    if method == AS_DECLARED:
        return problem
    queue = QueueOrder(method.removesuffix(MOVING))
    return replace(problem, scheduling=replace(problem.scheduling, queue=queue, defragment=method.endswith(MOVING)))


def server_group_numbers(problem: SharedCluster) -> Ints:
    """Return int64[n]: servers with the same switches in all planes have one number, in the order of these switches."""
    columns = [tuple(column) for column in problem.layer.switch_of.T.tolist()]
    number = {column: index for index, column in enumerate(sorted(set(columns)))}
    return np.array([number[column] for column in columns], dtype=np.int64)


# Tables.


def table_errors(problem: SharedCluster, count: int, schedule: FabricSchedule) -> Iterator[str]:
    """Tables of fitting length with indices in range, in order; `count` is the number of jobs."""
    job, start, end = int_array(schedule.job, 1), float_array(schedule.start_s, 1), float_array(schedule.end_s, 1)
    unfinished = int_array(schedule.unfinished, 1)
    if job is None or start is None or end is None or unfinished is None:
        yield "tables that are no numbers"
        return
    if {len(job), len(start), len(end)} != {len(schedule.servers)}:
        yield "tables of different length"
        return
    low, servers = schedule.lists
    if (job < 0).any() or (job >= count).any() or (servers >= problem.servers).any():
        yield "a job or a server that does not exist"
        return
    if not (np.isfinite(start).all() and np.isfinite(end).all()):
        yield "times that are not finite"
    if (np.lexsort((job, start)) != np.arange(len(job))).any():
        yield "stays that are not sorted by start and job"
    inside = np.ones(max(len(servers) - 1, 0), dtype=bool)
    inside[low[1:-1] - 1] = False
    if (np.diff(servers)[inside] <= 0).any():
        yield "servers of a stay that do not ascend"
    if len(set(unfinished.tolist())) < len(unfinished) or not set(unfinished.tolist()) <= set(job.tolist()):
        yield "unfinished jobs that have not started, or stand there twice"
    elif (np.diff(unfinished) <= 0).any():
        yield "unfinished jobs that do not ascend"
    if (schedule.cut_s is None) != (len(unfinished) == 0):
        yield "the moment at which the simulation was cut short goes with jobs that were at work then"
    elif schedule.cut_s is not None and not max(start.max(initial=0.0), end.max(initial=0.0)) <= schedule.cut_s:
        yield f"times after {schedule.cut_s!r} s, when the simulation was cut short"


def arrived(jobs: JobTable, schedule: FabricSchedule) -> JobTable:
    """Return the jobs, arrivals that differ from starts by rounding taken as these: they are sums, drawn again."""
    first = np.full(len(jobs), np.inf)
    np.minimum.at(first, schedule.job, schedule.start_s)
    at_once = np.abs(first - jobs.arrival_s) <= Tolerance.ROUNDING.relative * jobs.arrival_s
    return replace(jobs, arrival_s=np.where(at_once, first, jobs.arrival_s))


def complete_stays(problem: SharedCluster, fabric: Fabric, jobs: JobTable, schedule: FabricSchedule) -> Stays:
    """Return all times of a sound table: work begins when the circuits are set, and servers are kept for a move."""
    switching = problem.layer.switching_time_s if fabric.kind == PARTITIONED else 0.0
    checkpoint = problem.scheduling.checkpoint_s
    low, servers = schedule.lists
    held_to, work_from = schedule.end_s.copy(), schedule.start_s.copy()
    taken = np.full(problem.servers, -np.inf)
    latest: dict[int, int] = {}
    for stay, (job, begin) in enumerate(zip(schedule.job.tolist(), schedule.start_s.tolist(), strict=True)):
        ready = float(jobs.arrival_s[job])
        if job in latest:
            ready = float(schedule.end_s[latest[job]])
            held_to[latest[job]] = ready + checkpoint
        latest[job] = stay
        own, dark = servers[low[stay] : low[stay + 1]], switching
        if problem.look_ahead and switching:
            dark = max(0.0, switching - max(0.0, begin - max(ready, float(taken[own].max()))))
        taken[own] = begin
        work_from[stay] = begin + dark
    if schedule.cut_s is not None:
        for job in schedule.unfinished.tolist():
            held_to[latest[job]] = schedule.cut_s
        held_to, work_from = np.minimum(held_to, schedule.cut_s), np.minimum(work_from, schedule.cut_s)
    return Stays(schedule.job, schedule.start_s, work_from, schedule.end_s, held_to, low, servers)


# Constraints of a run.


@dataclass(frozen=True, eq=False)
class CheckedRun:
    """The jobs on one fabric, as the checker completes them.

    Attributes
    ----------
    problem : queue and moves are those of the method, the fabrics have rates, the classes times.
    jobs : that arrive.
    run : with all times.
    cut_s : when the simulation was cut short; None: it was not.
    index : of the fabric.
    log : for what is left out.
    seed : of the run.
    """

    problem: SharedCluster
    jobs: JobTable
    run: FabricRun
    cut_s: float | None
    index: int
    log: ViolationLog
    seed: int

    @property
    def partitioned(self) -> bool:
        """Whether every job has a shard of its own."""
        return self.run.fabric.kind == PARTITIONED

    @property
    def moves(self) -> bool:
        """Whether running jobs may be moved."""
        allowed = self.partitioned and self.run.fabric.placement not in ACROSS_GROUPS
        return self.problem.scheduling.defragment and allowed

    @property
    def slack_s(self) -> float:
        """Rounding of times."""
        return SECONDS * max(1.0, self.run.until_s)

    @property
    def group(self) -> Ints:
        """int64[n], groups of servers as far as shards are concerned."""
        if self.partitioned:
            return server_group_numbers(self.problem)
        return np.zeros(self.problem.servers, dtype=np.int64)

    def name(self, stay: int) -> str:
        """Fabric and job of a stay."""
        return f"{self.run.fabric.name}: {self.jobs.names[self.run.stays.job[stay]]}"


def sizes(checked: CheckedRun) -> Iterator[str]:
    """As many servers as the job asks for."""
    stays = checked.run.stays
    count = np.diff(stays.low)
    needed = np.array([row.servers for row in checked.problem.classes])[checked.jobs.class_index][stays.job]
    for stay in np.flatnonzero(count != needed).tolist():
        yield f"{checked.name(stay)} has {count[stay]} servers, not {needed[stay]}"


def times_in_order(checked: CheckedRun) -> Iterator[str]:
    """A job arrives, gets its servers, works on them and gives them up."""
    stays = checked.run.stays
    ordered = (checked.jobs.arrival_s[stays.job] <= stays.held_from_s) & (stays.held_from_s <= stays.work_from_s)
    ordered &= (stays.work_from_s <= stays.work_to_s) & (stays.work_to_s <= stays.held_to_s)
    for stay in np.flatnonzero(~ordered).tolist():
        yield f"{checked.name(stay)} has times out of order"


def first_come(checked: CheckedRun) -> Iterator[str]:
    """Where only the first may start, nobody starts before an earlier job."""
    run, jobs, scheduling = checked.run, checked.jobs, checked.problem.scheduling
    if scheduling.queue is not QueueOrder.FIFO:
        return
    first = np.full(len(jobs), np.inf)
    np.minimum.at(first, run.stays.job, run.stays.held_from_s)
    # A job for which others are moved gets its servers that much after its turn.
    slack = scheduling.checkpoint_s if checked.moves else 0.0
    slack += checked.slack_s if slack else 0.0
    late = np.flatnonzero(first[1:] < np.maximum.accumulate(first)[:-1] - slack) + 1
    for job in late[np.isfinite(first[late])].tolist():
        yield f"{run.fabric.name}: {jobs.names[job]} starts before an earlier job"


def no_server_twice(checked: CheckedRun) -> Iterator[str]:
    """No server is in two stays at once."""
    run, stays = checked.run, checked.run.stays
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    order = np.lexsort((stays.held_to_s[owner], stays.held_from_s[owner], stays.servers))
    server, stay = stays.servers[order], owner[order]
    until = stays.held_to_s[stay]
    clash = (server[1:] == server[:-1]) & (stays.held_from_s[stay[1:]] < until[:-1])
    clash &= stays.held_to_s[stay[1:]] > stays.held_from_s[stay[1:]]
    for at in np.flatnonzero(clash).tolist():
        yield (
            f"{checked.name(int(stay[at + 1]))} and {checked.jobs.names[stays.job[stay[at]]]} both hold server "
            f"{server[at]} at {run.stays.held_from_s[stay[at + 1]]:.6g} s"
        )


def whole_shards(checked: CheckedRun) -> Iterator[str]:
    """Servers of a stay share a switch in as many planes as the job has interfaces, so that any shape can be set."""
    if not checked.partitioned:
        return
    problem, stays = checked.problem, checked.run.stays
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    planes = np.zeros(len(stays), dtype=np.int64)
    for switch in problem.layer.switch_of:
        separate = switch[stays.servers] != switch[stays.servers[stays.low[:-1]]][owner]
        planes += np.bincount(owner, separate, minlength=len(stays)) == 0
    used = [problem.cluster.degree if row.interfaces is None else row.interfaces for row in problem.classes]
    needed = np.array(used)[checked.jobs.class_index[stays.job]]
    for stay in np.flatnonzero(planes < needed).tolist():
        text = f"uses {needed[stay]} interfaces, its servers share a switch in {planes[stay]} planes"
        yield f"{checked.name(stay)} {text}"


def ends(checked: CheckedRun) -> Iterator[str]:
    """Jobs that have not ended hold servers until the simulation does."""
    run, stays, cut_s = checked.run, checked.run.stays, checked.cut_s
    if cut_s is None:
        return
    last = {int(job): stay for stay, job in enumerate(stays.job)}  # by start: the last one of each job
    checkpoint = checked.problem.scheduling.checkpoint_s
    for job in np.flatnonzero(~run.finished).tolist():
        stay = last.get(job)
        if stay is None or stays.work_to_s[stay] == cut_s:
            continue
        if not (checked.moves and stays.work_to_s[stay] + checkpoint > cut_s):  # on the move
            yield f"{checked.name(stay)} stops work before it ends, at {stays.work_to_s[stay]!r} s"


def moves_take_their_time(checked: CheckedRun) -> Iterator[str]:
    """A job that is moved saves its state on its old servers, and has the new ones at once then."""
    stays, checkpoint = checked.run.stays, checked.problem.scheduling.checkpoint_s
    latest: dict[int, int] = {}
    for stay, job in enumerate(stays.job.tolist()):
        if job in latest:
            if not checked.moves:
                yield f"{checked.name(stay)} was moved, which was not allowed"
            begin, past = float(stays.held_from_s[stay]), float(stays.work_to_s[latest[job]])
            if abs(begin - past - checkpoint) > checked.slack_s:
                yield f"{checked.name(stay)} is moved in other than {checkpoint:g} s"
        latest[job] = stay


def work_on_shards(checked: CheckedRun) -> Iterator[str]:
    """On a shard of its own every job does the work of its iterations."""
    if not checked.partitioned:
        return
    jobs, run, stays = checked.jobs, checked.run, checked.run.stays
    worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=len(jobs))
    needed = jobs.iterations * jobs.iteration_ms * 1e-3
    slack = checked.slack_s
    wrong = run.finished & (np.abs(worked - needed) > slack + WORK_RELATIVE * needed)
    wrong |= ~run.finished & (worked > needed + slack)
    for job in np.flatnonzero(wrong).tolist():
        text = f"works {worked[job]:.9g} s, its iterations take {needed[job]:.9g} s"
        yield f"{run.fabric.name}: {jobs.names[job]} {text}"


def decisions(checked: CheckedRun) -> Iterator[str]:
    """Starts and servers are those that queue and placement say, as far as these leave nothing open."""
    run, scheduling, log = checked.run, checked.problem.scheduling, checked.log
    name, fabric = run.fabric.name, run.fabric
    if checked.moves or fabric.placement in ACROSS_GROUPS:
        why = "running jobs are moved" if checked.moves else f"placement {fabric.placement} searches for shards"
        log.leave_out(f"which job starts when on {name}", f"{why}; that stays are legal is checked")
        return
    if scheduling.queue is QueueOrder.RESERVE:
        why = "they rest on expected ends; that the first one never waits in vain is checked"
        log.leave_out(f"which jobs are let past the first on {name}", why)
    if fabric.placement == "random":
        log.leave_out(f"which servers jobs get on {name}", "they are drawn as jobs start; any free ones are right")
    looked_at = scheduling.depth + 1 if scheduling.queue is QueueOrder.BACKFILL else 1
    fixed = scheduling.queue is not QueueOrder.RESERVE and fabric.placement != "random"
    yield from _sweep(checked, looked_at, fixed)


def _sweep(checked: CheckedRun, looked_at: int, fixed: bool) -> Iterator[str]:
    """Every moment at which jobs arrive or end: starts, in order of arrival, then whom nobody may leave waiting."""
    jobs, run, stays, group = checked.jobs, checked.run, checked.run.stays, checked.group
    size = np.array([row.servers for row in checked.problem.classes], dtype=np.int64)[jobs.class_index]
    starting, ending = defaultdict(list), defaultdict(list)
    for stay in range(len(stays)):
        starting[float(stays.held_from_s[stay])].append(stay)
        ending[float(stays.held_to_s[stay])].append(stay)
    arrivals = jobs.arrival_s[jobs.arrival_s <= run.until_s]
    free = np.ones(checked.problem.servers, dtype=bool)
    waiting: list[int] = []
    arrived = 0
    cut = set() if run.whole else {run.until_s}
    for moment in sorted({*starting, *(end for end in ending if end not in cut), *arrivals.tolist()}):
        for stay in ending.get(moment, []):
            if moment not in cut:
                free[stays.servers_of(stay)] = True
        while arrived < len(arrivals) and arrivals[arrived] <= moment:
            waiting.append(arrived)
            arrived += 1
        for stay in sorted(starting.get(moment, []), key=lambda stay: int(stays.job[stay])):
            job, own = int(stays.job[stay]), stays.servers_of(stay)
            expected = _servers(run.fabric, free, group, int(size[job])) if fixed else own
            if expected is None or not np.array_equal(own, expected):
                yield f"{run.fabric.name}: {jobs.names[job]} gets other servers than its turn says"
            free[own] = False
            if job in waiting:
                waiting.remove(job)
        largest = _largest(run.fabric, free, group)
        for job in waiting[:looked_at]:
            if size[job] <= largest and moment not in cut:
                yield f"{run.fabric.name}: {jobs.names[job]} waits at {moment:.9g} s though it fits"


def _largest(fabric: Fabric, free: Bools, group: Ints) -> int:
    """Most servers that a job could get."""
    if fabric.kind != PARTITIONED:
        return int(free.sum())
    return int(np.bincount(group[free], minlength=1).max())


def _servers(fabric: Fabric, free: Bools, group: Ints, count: int) -> Ints | None:
    """The servers a job gets: the lowest of all, or of the first group, or of the fullest one with enough."""
    if fabric.kind != PARTITIONED:
        return np.flatnonzero(free)[:count]
    remaining = np.bincount(group[free], minlength=int(group.max()) + 1)
    fitting = [
        (remaining[k] if fabric.placement == "best-fit" else 0, k) for k in np.flatnonzero(remaining >= count).tolist()
    ]
    return np.flatnonzero(free & (group == min(fitting)[1]))[:count] if fitting else None
