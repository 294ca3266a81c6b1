"""Times of iterations of shared clusters: alone, together by flows that share links max-min fairly, and what no plan
beats.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

import numpy as np

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Bools, Floats, Ints
from topoopt.core.job import CoOptimisation
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Argument, Bound, Tolerance
from topoopt.core.result import Decides
from topoopt.core.shared_cluster import (
    FAT_TREE,
    PARTITIONED,
    DrawnJobs,
    Fabric,
    FabricRun,
    JobClass,
    JobTable,
    SharedCluster,
    Stays,
)
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.bounds import instance_bounds
from topoopt.verify.job.simulation import ALLREDUCE, TRANSFER, IterationTasks, SimulatedNetwork

TOGETHER = 1e-11
READY, SEND, DONE = range(3)


@dataclass(eq=False)
class _Route:
    """A path or a ring: its links, and the flows on it as (mark, task, latency), the next to end first."""

    links: list[int]
    number: int
    rate: float = 0.0
    clock: float = 0.0
    since: float = 0.0
    ends_at: float = inf
    flows: list[tuple[float, int, int, float]] = field(default_factory=list)
    touched: bool = False

    def carry(self, now: float) -> None:
        self.clock += self.rate * max(0.0, now - self.since)
        self.since = now

    def next_end(self, now: float) -> float:
        return now + (self.flows[0][0] - self.clock) / self.rate if self.rate > 0 else inf


def joined_tasks(jobs: Sequence[tuple[IterationTasks, Sequence[int]]]) -> tuple[IterationTasks, list[int]]:
    """Return the tasks of several jobs as one list, on the servers of each, and where each job begins in it."""
    joined, starts = IterationTasks(), [0]
    for tasks, servers in jobs:
        first = len(joined)
        joined.kind.extend(tasks.kind)
        joined.lane.extend(servers[lane] if lane >= 0 else -1 for lane in tasks.lane)
        joined.target.extend(servers[target] if target >= 0 else -1 for target in tasks.target)
        joined.members.extend(tuple(servers[member] for member in members) for members in tasks.members)
        joined.duration_ms.extend(tasks.duration_ms)
        joined.bytes.extend(tasks.bytes)
        joined.operator.extend(tasks.operator)
        joined.followers.extend([first + then for then in followers] for followers in tasks.followers)
        starts.append(len(joined))
    return joined, starts


def crossings_of(tasks: IterationTasks, network: SimulatedNetwork) -> int:
    """Return how many links all flows of an iteration cross.

    Raises:
        KeyError: a transfer without a path, a group without rings.
    """
    total = len(tasks)
    for kind, lane, target, members in zip(tasks.kind, tasks.lane, tasks.target, tasks.members, strict=True):
        if kind == TRANSFER:
            total += sum(len(links) for _, links in network.paths[lane, target])
        elif kind == ALLREDUCE and members:
            total += sum(len(path) for _, ring in network.rings[members] for path in ring)
    return total


class _Fluid:
    """A fluid simulation of jobs that begin again until each has done its first iteration."""

    def __init__(self, tasks: IterationTasks, starts: Sequence[int], network: SimulatedNetwork) -> None:
        self.tasks, self.starts, self.network = tasks, starts, network
        count = len(tasks)
        self.rate = np.array(network.rate, dtype=np.float64)
        self.routes: dict[object, _Route] = {}  # by kind too: an AllReduce of two is not the pair of them
        self.flows = [self._flows(task) for task in range(count)]
        self.indegree = [0] * count
        for followers in tasks.followers:
            for then in followers:
                self.indegree[then] += 1
        self.waiting, self.ready, self.end = [*self.indegree], [0.0] * count, [0.0] * count
        self.in_flight = [0] * count
        self.server_free: dict[int, float] = {}
        self.job = [0] * count
        jobs = len(starts) - 1
        for job in range(jobs):
            self.job[starts[job] : starts[job + 1]] = [job] * (starts[job + 1] - starts[job])
        self.remaining = [starts[job + 1] - starts[job] for job in range(jobs)]
        self.began, self.ended, self.first = [0.0] * jobs, [0.0] * jobs, [-1.0] * jobs
        self.events: list[tuple[float, int, int, int]] = []
        self.active: list[_Route] = []
        self.serial, self.now, self.changed = 0, 0.0, False
        self.order = 0

    def _flows(self, task: int) -> list[tuple[_Route, float, float]]:
        """Return (route, bytes, latency) of each flow of a task."""
        tasks, network = self.tasks, self.network
        kind, size, members = tasks.kind[task], float(tasks.bytes[task]), tasks.members[task]
        if kind == TRANSFER:
            pair = (tasks.lane[task], tasks.target[task])
            return [
                (self._route((kind, pair, index), links), size * share, len(links) * network.hop_ms)
                for index, (share, links) in enumerate(network.paths[pair])
            ]
        if kind == ALLREDUCE and members:
            k = len(members)
            amount, tail = 2.0 * (k - 1.0) / k * size, 2.0 * (k - 1.0) * network.round_ms
            return [
                (self._route((kind, members, index), [link for path in ring for link in path]), amount * share, tail)
                for index, (share, ring) in enumerate(network.rings[members])
            ]
        return []

    def _route(self, key: object, links: Sequence[int]) -> _Route:
        if key not in self.routes:
            self.routes[key] = _Route(list(links), len(self.routes))
        return self.routes[key]

    def announce(self, at: float, task: int, what: int) -> None:
        self.serial += 1
        heappush(self.events, (at, self.serial, task, what))

    def begin(self, first: int, last: int) -> None:
        for task in range(first, last):
            if not self.waiting[task]:
                self.announce(self.ready[task], task, READY)

    def run(self) -> list[float]:
        """Return the end of the first iteration of each job."""
        self.begin(0, len(self.tasks))
        while min(self.first) < 0:
            upcoming = min((route.ends_at for route in self.active), default=inf)
            if self.events:
                upcoming = min(upcoming, self.events[0][0])
            if upcoming == inf:
                raise ValueError("tasks wait for each other in a circle")
            together = self.serve(upcoming)
            while self.events and self.events[0][0] <= together:
                at, _, task, what = heappop(self.events)
                if self.handle(at, task, what):
                    return self.first
            if self.changed:
                end_if_left()
                self.settle()
        return self.first

    def serve(self, at: float) -> float:
        """End the flows that end at a time; return until when events are taken together with it."""
        self.now = max(self.now, at)
        slack, active = TOGETHER * self.now, []
        for route in self.active:
            if route.ends_at <= self.now + slack:
                route.carry(self.now)
                self._end_flows(route, slack)
                if not route.flows:
                    route.rate, route.ends_at, route.touched = 0.0, inf, False
                    continue
                route.ends_at = route.next_end(self.now)
            active.append(route)
        self.active = active
        return self.now + slack

    def _end_flows(self, route: _Route, slack: float) -> None:
        while route.flows and route.flows[0][0] - route.clock <= route.rate * slack:
            _, _, task, tail = heappop(route.flows)
            self.changed = route.touched = True
            self.end[task] = max(self.end[task], self.now + tail)
            self.in_flight[task] -= 1
            if not self.in_flight[task]:
                self.announce(self.end[task], task, DONE)

    def handle(self, at: float, task: int, what: int) -> bool:
        if what == READY:
            then = at + self.tasks.duration_ms[task]
            if self.tasks.kind[task] < TRANSFER:
                server = self.tasks.lane[task]
                then = max(at, self.server_free.get(server, 0.0)) + self.tasks.duration_ms[task]
                self.server_free[server] = then
            self.announce(then, task, SEND if self.flows[task] else DONE)
            return False
        if what == SEND:
            self._send(task, at)
            return False
        return self._done(task, at)

    def _send(self, task: int, at: float) -> None:
        self.end[task] = at
        for route, size, tail in self.flows[task]:
            if size <= 0.0:
                self.end[task] = max(self.end[task], at + tail)
                continue
            if route.flows:
                route.carry(self.now)
            else:
                self.active.append(route)
                route.clock, route.since = 0.0, self.now
            self.order += 1
            heappush(route.flows, (route.clock + size, self.order, task, tail))
            self.changed = route.touched = True
            self.in_flight[task] += 1
        if not self.in_flight[task]:
            self.announce(self.end[task], task, DONE)

    def _done(self, task: int, at: float) -> bool:
        self.end[task] = at
        for then in self.tasks.followers[task]:
            self.ready[then] = max(self.ready[then], at)
            self.waiting[then] -= 1
            if not self.waiting[then]:
                self.announce(self.ready[then], then, READY)
        job = self.job[task]
        self.ended[job] = max(self.ended[job], at)
        self.remaining[job] -= 1
        if self.remaining[job]:
            return False
        if self.first[job] < 0:
            self.first[job] = self.ended[job]
        if min(self.first) >= 0:
            return True
        if self.ended[job] > self.began[job]:
            low, high = self.starts[job], self.starts[job + 1]
            self.began[job], self.remaining[job] = self.ended[job], high - low
            self.waiting[low:high] = self.indegree[low:high]
            self.ready[low:high] = [self.ended[job]] * (high - low)
            self.begin(low, high)
        return False

    def settle(self) -> None:
        self.changed = False
        if not self.active:
            return
        for route, rate in zip(self.active, self._fair().tolist(), strict=True):
            if rate == route.rate and not route.touched:
                continue
            route.carry(self.now)
            route.rate, route.touched = rate, False
            route.ends_at = route.next_end(self.now)

    def _fair(self) -> Floats:
        """Return the max-min rate of a flow on each active route: raise all, and freeze those on a full link."""
        lengths = [len(route.links) for route in self.active]
        owner = np.repeat(np.arange(len(self.active)), lengths)
        used, link = np.unique([k for route in self.active for k in route.links], return_inverse=True)
        weight = np.array([len(route.flows) for route in self.active], dtype=np.float64)
        rates, rising = np.zeros(len(self.active)), np.ones(len(self.active), dtype=bool)
        capacity = self.rate[used]
        growth = np.bincount(link, weight[owner], len(used))
        while rising.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                level = np.where(growth > 0.5, capacity / growth, inf)
            lowest = float(level.min())
            full = level <= lowest * (1 + 1e-13)
            frozen = np.zeros(len(self.active), dtype=bool)
            frozen[owner[full[link]]] = True
            frozen &= rising
            rates[frozen], rising = lowest, rising & ~frozen
            gone = frozen[owner]
            taken = np.bincount(link[gone], weight[owner[gone]], len(used))
            capacity, growth = np.maximum(capacity - taken * lowest, 0.0), growth - taken
        return rates


def first_iterations(jobs: Sequence[tuple[IterationTasks, Sequence[int]]], network: SimulatedNetwork) -> list[float]:
    """Return the first iteration of each job, ms.

    Args:
        jobs: tasks of each, and which server of the network each of its servers is.
        network: with paths and rings for all of them.

    Raises:
        LookupError, ValueError: The network lacks a path or a ring, or tasks wait in a circle.
    """
    tasks, starts = joined_tasks(jobs)
    return _Fluid(tasks, starts, network).run()


MS = 1e-3

OF_ONE_SERVER = (
    Argument.COMPUTE_WORK, Argument.WHOLE_OPERATORS, Argument.PINNED_OPERATORS,
    Argument.NO_LEGAL_SPLIT, Argument.TOO_LITTLE_MEMORY,
)  # fmt: skip
"""They bind what the busiest server computes; the others bind the iteration alone."""


def bounds_of_plan(job: CoOptimisation) -> tuple[float, float]:
    """Bounds for every plan of a job on a shard of its own, ms: an iteration, and compute of the busiest server."""
    bounds = instance_bounds(job.cluster, job.workload)
    busiest = max(bound.value for bound in bounds if bound.argument in OF_ONE_SERVER)
    return max(bound.value for bound in bounds), busiest


def least_alone_ms(problem: SharedCluster, fabric: Fabric, job_class: JobClass) -> float:
    """What no plan of a planned class beats alone on a fabric, in the time model of `topoopt.core.shared_cluster`.

    With t the time on a shard, R and r the rates of a server there and here: the model makes the iteration no shorter
    than the compute time and, as V / R <= t, than t min(1, R / r). Bounds on chains of operators bind t alone: at a
    rate r > R the model may go below them.
    """
    assert job_class.lower_bounds is not None
    iteration_ms, compute_ms = job_class.lower_bounds
    if fabric.kind == PARTITIONED:
        return iteration_ms
    measured = dict(job_class.fabric_ms).get(fabric.name)
    if measured is not None:
        return max(measured, compute_ms)
    faster = (fabric.server_gbps or math.inf) / problem.direct_gbps(job_class)
    return max(compute_ms, iteration_ms / max(1.0, faster))


# Alone, and bounds.


def alone_ms(problem: SharedCluster, fabric: Fabric, jobs: JobTable) -> Floats:
    """float64[J], iteration time of each job alone on a fabric (time model of `topoopt.core.shared_cluster`)."""
    if fabric.kind == PARTITIONED:
        return jobs.iteration_ms
    times = np.zeros(len(jobs))
    for j, c in enumerate(jobs.class_index):
        job_class = problem.classes[c]
        measured = dict(job_class.fabric_ms).get(fabric.name)
        if measured is not None:
            times[j] = max(measured, job_class.compute_ms)
            continue
        direct = job_class.sent_bytes / (problem.direct_gbps(job_class) * BYTES_PER_MS_PER_GBPS)
        own = job_class.sent_bytes / ((fabric.server_gbps or np.nan) * BYTES_PER_MS_PER_GBPS)
        hidden = job_class.compute_ms + direct - float(jobs.iteration_ms[j])
        times[j] = job_class.compute_ms + max(0.0, own - hidden)
    return times


def least_total_s(arrival_s: Floats, work_s: Floats) -> float:
    """Least sum of the times from arrival to end on one machine of speed 1; arrivals in order."""
    waiting: list[tuple[float, int]] = []
    now = total = 0.0
    index, count = 0, len(work_s)
    while index < count or waiting:
        if not waiting:
            now = max(now, float(arrival_s[index]))
        while index < count and arrival_s[index] <= now:
            heapq.heappush(waiting, (float(work_s[index]), index))
            index += 1
        remaining, job = heapq.heappop(waiting)
        following = float(arrival_s[index]) if index < count else np.inf
        if now + remaining <= following:
            now += remaining
            total += now - float(arrival_s[job])
        else:
            heapq.heappush(waiting, (remaining - (following - now), job))
            now = following
    return total


def shared_bound(problem: SharedCluster, fabric: Fabric, jobs: JobTable, counted: Bools) -> Bound:
    """Bound on the mean over the counted jobs; `problem.classes` and `fabric` have their figures."""
    alone = alone_ms(problem, fabric, jobs).copy()
    for index, job_class in enumerate(problem.classes):
        if job_class.lower_bounds is not None:
            alone[jobs.class_index == index] = least_alone_ms(problem, fabric, job_class)
    if problem.goal == "mean-iteration-time":
        return Bound(float(np.mean(alone[counted])), Argument.ALONE)
    seconds = _least_seconds(problem, fabric, jobs, alone)[counted]
    partitioned = fabric.kind == PARTITIONED
    switching = problem.layer.switching_time_s if partitioned else 0.0
    shortest = float(np.mean(seconds)) + switching  # circuits are set after the arrival, with look-ahead too
    if _arrivals_by_plans(problem):
        return Bound(shortest, Argument.ALONE_AT_ONCE)
    held = seconds + (0.0 if problem.look_ahead else switching)
    size = np.array([job_class.servers for job_class in problem.classes], dtype=np.float64)[jobs.class_index[counted]]
    area = least_total_s(jobs.arrival_s[counted], size * held / problem.servers) / len(seconds)
    return Bound(area, Argument.REMAINING_TIME) if area > shortest else Bound(shortest, Argument.ALONE_AT_ONCE)


def _least_seconds(problem: SharedCluster, fabric: Fabric, jobs: JobTable, alone: Floats) -> Floats:
    """float64[J], least length of each job alone, if an iteration takes no less than `alone`, ms.

    A job of a planned class that asks for a length L does max(1, round(L / t)) iterations of t each, 2 L / 3 at least
    (at t just above 2 L / 3). That k iterations of t' are done with the plan at hand says that L >= (k - 1 / 2) t'.
    """
    by_length = np.array([row.lower_bounds is not None and row.duration_s is not None for row in problem.classes])
    open_count = by_length[jobs.class_index]
    if isinstance(problem.jobs, tuple):
        open_count &= np.array([job.iterations is None for job in problem.jobs])
    seconds: Floats = jobs.iterations * alone * MS
    requested = np.where(jobs.iterations > 1, (jobs.iterations - 0.5) * jobs.iteration_ms * MS, 0.0)
    rounded = requested * (2 / 3 if fabric.kind == PARTITIONED else 0.0)
    return np.where(open_count, np.maximum(alone * MS, rounded), seconds)


def _arrivals_by_plans(problem: SharedCluster) -> bool:
    jobs = problem.jobs
    if not isinstance(jobs, DrawnJobs) or jobs.load is None:
        return False
    mixed = [problem.classes[index] for index, _ in jobs.mix]
    return any(row.lower_bounds is not None and row.duration_s is None for row in mixed)


# Links of a fat-tree, and the traffic of a job on them.

MASK = (1 << 64) - 1

Link = tuple[str, int, int, int]
"""Layer, rack or pod, uplink, core; -1 where paths are even."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A k-ary fat-tree: k/2, rate of a server, thinning of racks and pods, and whether a flow takes one path."""

    half: int
    server_gbps: float
    rack_ratio: float
    pod_ratio: float
    hashed: bool
    seed: int


def tree_of(servers: int, fabric: Fabric, seed: int) -> Tree | None:
    """The tree of a fabric with its rate; None of a fabric without links that jobs share."""
    if fabric.kind != FAT_TREE or fabric.server_gbps is None:
        return None
    half = 1
    while half * half * half * 2 < servers:  # k^3 / 4 servers, k = 2 half
        half += 1
    hashed = fabric.paths == "hashed"
    return Tree(half, fabric.server_gbps, fabric.rack_ratio, fabric.pod_ratio, hashed, seed)


def _hash(seed: int, source: int, target: int) -> int:
    z = (seed + (source * 65536 + target + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def link_parts(tree: Tree, servers: list[int], ring: float, pairs: float) -> dict[Link, float]:
    """Traffic over what a server sends on links (layer, rack or pod, uplink, core)."""
    k = len(servers)
    flows = [(servers[i], servers[(i + 1) % k], ring) for i in range(k)] if ring else []
    if pairs:
        flows += [(a, b, pairs / (k - 1)) for a in servers for b in servers if a != b]
    parts: dict[Link, float] = {}
    h, square = tree.half, tree.half**2

    def add(link: Link, part: float) -> None:
        parts[link] = parts.get(link, 0.0) + part

    for a, b, part in flows:
        if a // h == b // h:
            continue
        draw = _hash(tree.seed, a, b) if tree.hashed else 0
        up, core = (draw % h, draw // h % h) if tree.hashed else (-1, -1)
        add(("rack up", a // h, up, -1), part)
        add(("rack down", b // h, up, -1), part)
        if a // square != b // square:
            add(("pod up", a // square, up, core), part)
            add(("pod down", b // square, up, core), part)
    return parts


def even_parts(tree: Tree, servers: Ints, ring: float, pairs: float) -> dict[Link, float]:
    """The same for even paths, counted per rack and pod."""
    parts: dict[Link, float] = {}
    k = len(servers)
    ordered = np.sort(servers)
    for layer, size in (("rack", tree.half), ("pod", tree.half**2)):
        block = ordered // size
        leaves = block != np.roll(block, -1)
        for number in np.unique(block).tolist():
            inside = int((block == number).sum())
            out = ring * int(leaves[block == number].sum()) + pairs * inside * (k - inside) / max(1, k - 1)
            if out > 0:
                parts[f"{layer} up", number, -1, -1] = out
    return parts


def capacity_gbps(tree: Tree, link: Link) -> float:
    """Capacity of a link, or of the bundle that even paths make of all uplinks of a rack or pod."""
    bundle = tree.half if link[0].startswith("rack") else tree.half**2
    ratio = tree.rack_ratio if link[0].startswith("rack") else tree.pod_ratio
    return tree.server_gbps / ratio * (1 if tree.hashed else bundle)


# Together.

MOMENTS = 1500
"""Starts and ends that are followed one by one; of more, windows of this many in all."""

WINDOWS = 3
WORK_RELATIVE = Tolerance.EVENTS.relative
LEAST_PART = 1e-9


Loads = tuple[Ints, Ints, Floats]
"""Entries of a sparse table: the job of a row sends a part of its rate over a link."""


def _among(loads: Loads, kept: Bools) -> Loads:
    row, link, part = loads
    return row[kept], link[kept], part[kept]


def _on_links(loads: Loads, rate: Floats, links: int) -> Floats:
    row, link, part = loads
    return np.bincount(link, part * rate[row], minlength=links).astype(np.float64)


def _raised(loads: Loads, capacity: Floats, limit: Floats) -> Floats:
    """Max-min rates of the jobs with a limit above 0; the others have no entries that count."""
    links = len(capacity)
    tight = _on_links(loads, limit, links) > capacity
    if not tight.any():
        return limit
    row, link, _ = loads = _among(loads, tight[loads[1]] & (limit[loads[0]] > 0))
    rate, free = np.zeros(len(limit)), capacity.copy()
    rising = limit > 0
    while rising.any():
        growth = _on_links(loads, rising.astype(np.float64), links)
        slack = np.where(growth > LEAST_PART, free / np.maximum(growth, LEAST_PART), np.inf)
        step = max(0.0, min(float(slack.min()), float((limit - rate)[rising].min())))
        rate[rising] += step
        free -= growth * step
        full = (growth > LEAST_PART) & (free <= LEAST_PART * capacity)
        rising[row[full[link]]] = False
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
        self.interleaved = problem.contention == "interleaved"
        self.wire = np.array([row.sent_bytes / BYTES_PER_MS_PER_GBPS for row in self.classes])
        self.compute = np.array([row.compute_ms for row in self.classes])
        measured = [dict(row.fabric_ms).get(run.fabric.name) for row in self.classes]
        direct = [problem.direct_gbps(row) for row in self.classes]
        rate = np.array([own if time is None else gbps for time, own in zip(measured, direct, strict=True)])
        given = np.array([own if time is None else time for time, own in zip(measured, jobs.iteration_ms, strict=True)])
        self.hidden = self.compute + self.wire / rate - given
        self.limit = np.minimum(gbps, self.wire / self.alone) if self.interleaved else np.full(len(jobs), gbps)

    def parts(self, stay: int) -> dict[Link, float]:
        end_if_left()
        job_class = self.classes[self.run.stays.job[stay]]
        servers = self.run.stays.servers_of(stay)
        if self.tree is None or job_class.sent_bytes <= 0 or len(servers) < 2:
            return {}
        ring, pairs = (
            job_class.allreduce_bytes / job_class.sent_bytes,
            job_class.all_to_all_bytes / job_class.sent_bytes,
        )
        if self.tree.hashed:
            return link_parts(self.tree, servers.tolist(), ring, pairs)
        return even_parts(self.tree, servers, ring, pairs)

    def loads(self, stays: Iterable[int]) -> tuple[Loads, Floats]:
        tables = [self.parts(stay) for stay in stays]
        number = {link: index for index, link in enumerate(dict.fromkeys(link for table in tables for link in table))}
        entries = [(row, number[link], part) for row, table in enumerate(tables) for link, part in table.items()]
        rows, links, parts = zip(*entries, strict=True) if entries else ((), (), ())
        tree = self.tree
        capacity = np.array([capacity_gbps(tree, link) for link in number]) if tree is not None else np.zeros(0)
        of_rows, of_links = np.array(rows, dtype=np.int64), np.array(links, dtype=np.int64)
        return (of_rows, of_links, np.array(parts, dtype=np.float64)), capacity

    def iteration_ms(self, jobs: Ints, present: Bools, loads: Loads, capacity: Floats) -> Floats:
        """Time of each of the jobs, if those that are present run together; of the others it means nothing."""
        limit = np.where(present, self.limit[jobs], 0.0)
        rate = _raised(_among(loads, present[loads[0]]), capacity, limit)
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
    run = FabricRun(fabric, np.ones(count, dtype=bool), stays)
    follower = _Follower(problem, jobs, run, seed)
    loads, capacity = follower.loads(range(count))
    return follower.iteration_ms(np.arange(count), np.ones(count, dtype=bool), loads, capacity)


def contention(
    log: ViolationLog, problem: SharedCluster, jobs: JobTable, run: FabricRun, seed: int, decides: Decides
) -> Iterator[str]:
    """Follow the run: every job does its work between its start and its end.

    Args:
        log: for what is left out.
        problem: its classes have their figures.
        jobs, run: each job has one stay.
        seed: of hashed paths.
        decides: what rests on the run.
    """
    stays = run.stays
    follower = _Follower(problem, jobs, run, seed)
    times = np.unique(np.concatenate((stays.work_from_s, stays.work_to_s)))
    if len(times) <= MOMENTS + 1:
        windows = [(0, len(times) - 1)]
    else:
        span = MOMENTS // WINDOWS
        text = f"it is followed in {WINDOWS} windows of {span} starts and ends, of {len(times)}"
        log.leave_out(f"work of the jobs on {run.fabric.name} outside windows", text, decides)
        begins = np.linspace(0, len(times) - 1 - span, WINDOWS).astype(int)
        windows = [(int(begin), int(begin) + span) for begin in begins]
    for begin, end in windows:
        yield from _follow(follower, jobs, times[begin : end + 1])


def _follow(follower: _Follower, jobs: JobTable, times: Floats) -> Iterator[str]:
    """One window: iterations done between its moments against those of the jobs that lie within."""
    run, stays = follower.run, follower.run.stays
    touching = np.flatnonzero((stays.work_to_s >= times[0]) & (stays.work_from_s <= times[-1]))
    loads, capacity = follower.loads(touching.tolist())
    done = np.zeros(len(touching))
    begin, end, owner = stays.work_from_s[touching], stays.work_to_s[touching], stays.job[touching]
    for moment, following in itertools.pairwise(times):
        end_if_left()
        present = (begin <= moment) & (end >= following)
        if present.any():
            time_ms = follower.iteration_ms(owner, present, loads, capacity)
            done[present] += (following - moment) * 1e3 / time_ms[present]
    expected = jobs.iterations[owner]
    within = (begin >= times[0]) & (end <= times[-1])
    wrong = within & run.finished[owner] & ~(np.abs(done - expected) <= WORK_RELATIVE * expected)
    wrong |= within & ~run.finished[owner] & (done > expected * (1 + WORK_RELATIVE))
    for row in np.flatnonzero(wrong).tolist():
        yield (
            f"{run.fabric.name}: {jobs.names[owner[row]]} does {done[row]:.9g} iterations in its time there, "
            f"not {expected[row]}"
        )
