"""Jobs that share links, followed once more from their recorded starts and ends: does every job do its work?

Written apart from the simulator: between two starts or ends the fair rates are found anew by raising all rates in
steps. A long run is followed in windows; the jobs that begin and end in one are checked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.leaving import end_if_left
from topoopt.core.shared_cluster import Contention, Fabric, SharedCluster
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.shared_cluster_runs import FabricRun, Stays
from topoopt.core.solution import Decides
from topoopt.core.units import BYTES_PER_MS_PER_GBPS
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.shared_cluster.bounds import alone_ms
from topoopt.verify.shared_cluster.trees import Link, capacity_gbps, even_parts, link_parts, tree_of

MOMENTS = 1500
"""Starts and ends that are followed one by one; of more, windows of this many in all."""

WINDOWS = 3
WORK_RELATIVE = Tolerance.EVENTS.relative
LEAST_PART = 1e-9


@dataclass(frozen=True, eq=False)
class _Loads:
    """Entries of a sparse table: job of row `row` sends `part` of its rate over link `link`."""

    row: Ints
    link: Ints
    part: Floats

    def among(self, kept: Bools) -> _Loads:
        """Some of the entries."""
        return _Loads(self.row[kept], self.link[kept], self.part[kept])

    def on_links(self, rate: Floats, links: int) -> Floats:
        """Load of every link when the rows have these rates."""
        return np.bincount(self.link, self.part * rate[self.row], minlength=links).astype(np.float64)


def _raised(loads: _Loads, capacity: Floats, limit: Floats) -> Floats:
    """Max-min rates of the jobs with a limit above 0; the others have no entries that count."""
    links = len(capacity)
    tight = loads.on_links(limit, links) > capacity
    if not tight.any():
        return limit
    loads = loads.among(tight[loads.link] & (limit[loads.row] > 0))
    rate, free = np.zeros(len(limit)), capacity.copy()
    rising = limit > 0
    while rising.any():
        growth = loads.on_links(rising.astype(np.float64), links)
        room = np.where(growth > LEAST_PART, free / np.maximum(growth, LEAST_PART), np.inf)
        step = max(0.0, min(float(room.min()), float((limit - rate)[rising].min())))
        rate[rising] += step
        free -= growth * step
        full = (growth > LEAST_PART) & (free <= LEAST_PART * capacity)
        rising[loads.row[full[loads.link]]] = False
        rising &= rate < limit * (1 - LEAST_PART)
    return rate


class _Follower:
    """Iteration times of sets of running jobs of one run."""

    def __init__(self, problem: SharedCluster, jobs: JobTable, run: FabricRun, seed: int) -> None:
        self.tree = tree_of(problem.servers, run.fabric, seed)
        self.classes = [problem.classes[c] for c in jobs.class_index]
        self.alone = alone_ms(problem, run.fabric, jobs)
        self.run = run
        gbps = run.fabric.server_gbps or np.nan
        self.interleaved = problem.contention is Contention.INTERLEAVED
        self.wire = np.array([one.sent_bytes / BYTES_PER_MS_PER_GBPS for one in self.classes])
        self.compute = np.array([one.compute_ms for one in self.classes])
        measured = [dict(one.fabric_ms).get(run.fabric.name) for one in self.classes]
        direct = [problem.direct_gbps(one) for one in self.classes]
        there = np.array([own if each is None else gbps for each, own in zip(measured, direct, strict=True)])
        known = np.array(
            [each if each is not None else own for each, own in zip(measured, jobs.iteration_ms, strict=True)]
        )
        self.hidden = self.compute + self.wire / there - known
        self.limit = np.minimum(gbps, self.wire / self.alone) if self.interleaved else np.full(len(jobs), gbps)

    def parts(self, stay: int) -> dict[Link, float]:
        """Loads of the job of a stay."""
        end_if_left()
        one = self.classes[self.run.stays.job[stay]]
        servers = self.run.stays.servers_of(stay)
        if self.tree is None or one.sent_bytes <= 0 or len(servers) < 2:
            return {}
        ring, pairs = one.allreduce_bytes / one.sent_bytes, one.all_to_all_bytes / one.sent_bytes
        if self.tree.hashed:
            return link_parts(self.tree, servers.tolist(), ring, pairs)
        return even_parts(self.tree, servers, ring, pairs)

    def loads(self, stays: Iterable[int]) -> tuple[_Loads, Floats]:
        """Loads of the jobs of some stays, a row each, and the capacity of the links they use."""
        tables = [self.parts(stay) for stay in stays]
        number = {link: place for place, link in enumerate(dict.fromkeys(link for table in tables for link in table))}
        entries = [(row, number[link], part) for row, table in enumerate(tables) for link, part in table.items()]
        rows, links, parts = zip(*entries, strict=True) if entries else ((), (), ())
        tree = self.tree
        capacity = np.array([capacity_gbps(tree, link) for link in number]) if tree is not None else np.zeros(0)
        of_rows, of_links = np.array(rows, dtype=np.int64), np.array(links, dtype=np.int64)
        return _Loads(of_rows, of_links, np.array(parts, dtype=np.float64)), capacity

    def iteration_ms(self, jobs: Ints, there: Bools, loads: _Loads, capacity: Floats) -> Floats:
        """Time of each of the jobs, if those that are there run together; of the others it means nothing."""
        limit = np.where(there, self.limit[jobs], 0.0)
        rate = _raised(loads.among(there[loads.row]), capacity, limit)
        wire = np.divide(self.wire[jobs], rate, out=np.zeros(len(jobs)), where=rate > 0)
        if self.interleaved:
            longest: Floats = np.maximum(self.alone[jobs], wire)
            return longest
        times: Floats = self.compute[jobs] + np.maximum(0.0, wire - self.hidden[jobs])
        return times


def times_together(
    problem: SharedCluster, fabric: Fabric, jobs: JobTable, servers: Sequence[Sequence[int]], seed: int
) -> Floats:
    """float64[J], iteration of each job while all of them run, ms; `fabric` and the classes have their figures."""
    count = len(jobs)
    zero = np.zeros(count)
    stays = Stays(
        np.arange(count),
        zero,
        zero,
        zero,
        zero,
        np.cumsum([0, *map(len, servers)], dtype=np.int64),
        np.array([server for own in servers for server in sorted(own)], dtype=np.int64),
    )
    run = FabricRun(fabric, "", False, np.ones(count, dtype=bool), stays)
    follower = _Follower(problem, jobs, run, seed)
    loads, capacity = follower.loads(range(count))
    return follower.iteration_ms(np.arange(count), np.ones(count, dtype=bool), loads, capacity)


def check_contention(
    findings: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun, seed: int, decides: Decides
) -> None:
    """Follow the run; `problem.classes` have their figures. Each job has one stay. `decides`: what rests on the run."""
    stays = run.stays
    follower = _Follower(problem, jobs, run, seed)
    times = np.unique(np.concatenate((stays.work_from_s, stays.work_to_s)))
    if len(times) <= MOMENTS + 1:
        windows = [(0, len(times) - 1)]
    else:
        each = MOMENTS // WINDOWS
        text = f"it is followed in {WINDOWS} windows of {each} starts and ends, of {len(times)}"
        findings.leave_out(f"work of the jobs on {run.fabric.name} outside windows", text, decides)
        begins = np.linspace(0, len(times) - 1 - each, WINDOWS).astype(int)
        windows = [(int(begin), int(begin) + each) for begin in begins]
    for begin, end in windows:
        _follow(findings, follower, jobs, times[begin : end + 1])


def _follow(findings: ViolationLog, follower: _Follower, jobs: JobTable, times: Floats) -> None:
    """One window: iterations done between its moments against those of the jobs that lie within."""
    run, stays = follower.run, follower.run.stays
    touching = np.flatnonzero((stays.work_to_s > times[0]) & (stays.work_from_s < times[-1]))
    loads, capacity = follower.loads(touching.tolist())
    done = np.zeros(len(touching))
    begin, end, owner = stays.work_from_s[touching], stays.work_to_s[touching], stays.job[touching]
    for moment, following in itertools.pairwise(times):
        end_if_left()
        there = (begin <= moment) & (end >= following)
        if there.any():
            time_ms = follower.iteration_ms(owner, there, loads, capacity)
            done[there] += (following - moment) * 1e3 / time_ms[there]
    expected = jobs.iterations[owner]
    within = (begin >= times[0]) & (end <= times[-1])
    wrong = within & run.finished[owner] & ~(np.abs(done - expected) <= WORK_RELATIVE * expected)
    wrong |= within & ~run.finished[owner] & (done > expected * (1 + WORK_RELATIVE))
    findings.add_each(
        "work",
        np.flatnonzero(wrong),
        lambda row: (
            f"{run.fabric.name}: {jobs.names[owner[row]]} does {done[row]:.9g} iterations in its time there, "
            f"not {expected[row]}"
        ),
    )
