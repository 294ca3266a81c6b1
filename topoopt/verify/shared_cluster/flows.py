"""Flows of jobs that share links max-min fairly (time model `fluid`), simulated in plain Python from what it means.

* A server computes its tasks one after another, in the order in which they become ready.
* A transfer is a flow on each of its paths. An AllReduce of S bytes over k servers is first summed up inside the
  servers; then it is a flow of 2 (k - 1) / k f S bytes on each ring with share f, over the links of all members.
* Rates are max-min fair, and are computed anew when flows begin or end. Latency is added at the end: a hop for each
  link of a path, 2 (k - 1) rounds for a ring.
* All jobs begin at time 0. A job that is done begins again until each has done its first iteration, which counts.

Flows of one path or ring always have one rate, so that a flow ends when its route has given each of its flows so many
bytes. Events within 1e-11 of the time of each other are taken together; others go by when they were announced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.process import end_if_left
from topoopt.verify.job.events import ALLREDUCE, TRANSFER, IterationTasks, SimulatedNetwork

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
        """Let it give its flows their rate until now."""
        self.clock += self.rate * max(0.0, now - self.since)
        self.since = now

    def next_end(self, now: float) -> float:
        """When its first flow ends at this rate."""
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

    Raises
    ------
    KeyError
        A transfer without a path, a group without rings.
    """
    total = len(tasks)
    for kind, lane, target, members in zip(tasks.kind, tasks.lane, tasks.target, tasks.members, strict=True):
        if kind == TRANSFER:
            total += sum(len(path.links) for path in network.paths[lane, target])
        elif kind == ALLREDUCE and members:
            total += sum(len(path) for ring in network.rings[members] for path in ring.ways)
    return total


class _Fluid:
    """A simulation under way."""

    def __init__(self, tasks: IterationTasks, starts: Sequence[int], network: SimulatedNetwork) -> None:
        self.tasks, self.starts, self.network = tasks, starts, network
        count = len(tasks)
        self.rate = np.array(network.rate, dtype=np.float64)
        self.routes: dict[object, _Route] = {}
        self.flows = [self._flows(task) for task in range(count)]
        self.indegree = [0] * count
        for followers in tasks.followers:
            for then in followers:
                self.indegree[then] += 1
        self.waiting, self.ready, self.end = [*self.indegree], [0.0] * count, [0.0] * count
        self.under_way = [0] * count
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
                (self._route((pair, index), path.links), size * path.share, len(path.links) * network.hop_ms)
                for index, path in enumerate(network.paths[pair])
            ]
        if kind == ALLREDUCE and members:
            k = len(members)
            amount, tail = 2.0 * (k - 1.0) / k * size, 2.0 * (k - 1.0) * network.round_ms
            return [
                (
                    self._route((members, index), [link for path in ring.ways for link in path]),
                    amount * ring.share,
                    tail,
                )
                for index, ring in enumerate(network.rings[members])
            ]
        return []

    def _route(self, key: object, links: Sequence[int]) -> _Route:
        if key not in self.routes:
            self.routes[key] = _Route(list(links), len(self.routes))
        return self.routes[key]

    def announce(self, at: float, task: int, what: int) -> None:
        """Put an event on the list."""
        self.serial += 1
        heappush(self.events, (at, self.serial, task, what))

    def begin(self, first: int, last: int) -> None:
        """Announce the tasks of a job that wait for nothing."""
        for task in range(first, last):
            if not self.waiting[task]:
                self.announce(self.ready[task], task, READY)

    def run(self) -> list[float]:
        """Return the end of the first iteration of each job.

        Raises
        ------
        ValueError
            Tasks wait for each other in a circle.
        """
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
            self.under_way[task] -= 1
            if not self.under_way[task]:
                self.announce(self.end[task], task, DONE)

    def handle(self, at: float, task: int, what: int) -> bool:
        """Do what an event says; return whether every job has done its first iteration."""
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
            self.under_way[task] += 1
        if not self.under_way[task]:
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
        """Compute the rates anew, since flows came or went."""
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

    Parameters
    ----------
    jobs : tasks of each, and which server of the network each of its servers is.
    network : with paths and rings for all of them.

    Raises
    ------
    LookupError, ValueError
        The network lacks a path or a ring, or tasks wait in a circle.
    """
    tasks, starts = joined_tasks(jobs)
    return _Fluid(tasks, starts, network).run()
