"""The best placements of small problems, derived by searching through all of them: plain arrays, no solver.

Assignments. Co-located groups get their devices one after the other, what a group needs before it, for many partial
assignments at once. One is dropped as soon as a device lacks memory or cannot run a group, stages cannot be ordered,
its loads alone are not below the limit (loads only grow), or the mean over the devices of these and of the remaining
work is not. A tensor counts when the last group it joins has its device. Of devices whose exchange changes no figure of
the instance the first one is used first, except where the order of devices is that of stages.

Schedules. Transfers are taken to have the links to themselves, which no schedule beats: the value is exact where
nothing is shared (`none`), and a lower bound for every other sharing. Some best schedule starts each operator as soon
as its inputs and its device allow; all of these are built by adding operators in the order of their starts, for many
partial schedules at once. One is dropped if

* an operator that has not ended, with the fastest path behind it, does not end below the limit;
* the devices have no time left for the work that is to come;
* it is another one with the names of like devices, or of operators that start at once, exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain, combinations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.proofs import Argument, Tolerance
from topoopt.verify.placement.bounds import order_edges, transfer_table
from topoopt.verify.placement.pipelines import MAX_SETS, least_pipeline

BATCH = 1 << 16
"""Partial assignments extended at once."""

MAX_ASSIGNMENTS = 2_000_000
"""Partial assignments looked at, seconds; 10 groups on 4 devices have 1.4 million, however bad the value."""

MAX_SCHEDULES = 60_000
"""Partial schedules with equally many operators; where there are more, nothing is derived."""


# Assignments.


@dataclass(frozen=True, eq=False)
class _PartialAssignments:
    """Partial assignments: device int64[rows, groups placed], compute and sent float64[rows, 2, devices], bytes.

    `waits`, bool[rows, devices, devices]: whether the second waits for the first, directly or over others.
    """

    device: Ints
    compute: Floats
    sent: Floats
    held: Ints
    waits: Bools

    def some(self, which: Bools | Ints | slice) -> _PartialAssignments:
        return _PartialAssignments(*(table[which] for table in vars(self).values()))


def _needed_first(time: Floats, edges: list[tuple[int, int]]) -> list[int]:
    weight = np.where(np.isfinite(time), time, 0.0).sum(axis=0).mean(axis=1).tolist()
    left, order = set(range(len(weight))), list[int]()
    while left:
        free = left - {b for a, b in edges if a in left and b in left}
        order.append(max(free or left, key=lambda g: (weight[g], -g)))
        left.remove(order[-1])
    return order


class _AssignmentTables:
    """Tables of one problem, by co-located group in the order in which they get devices."""

    def __init__(self, problem: PlacementProblem, settings: Throughput) -> None:
        self.settings, self.k = settings, len(problem.devices)
        groups = problem.colocated()
        group_of = {i: g for g, members in enumerate(groups) for i in members}
        column = [entry.class_index for entry in problem.devices]
        self.time = np.zeros((2, len(groups), self.k))
        self.bytes = np.zeros(len(groups), dtype=np.int64)
        for i, operator in enumerate(problem.operators):
            self.time[int(operator.backward), group_of[i]] += [operator.times_ms[c] for c in column]
            self.bytes[group_of[i]] += operator.memory_bytes
        most = np.iinfo(np.int64).max
        self.capacity = np.array([most if d.memory_bytes is None else d.memory_bytes for d in problem.devices])
        self.host = np.array([entry.host for entry in problem.devices])
        edges = {(group_of[a], group_of[b]) for a, b in order_edges(problem)}
        order = _needed_first(self.time, sorted((a, b) for a, b in edges if a != b))
        position = {g: i for i, g in enumerate(order)}
        self.time, self.bytes = self.time[:, order], self.bytes[order]
        self.edges: list[list[tuple[int, int]]] = [[] for _ in groups]
        for a, b in edges:
            if a != b:
                self.edges[max(position[a], position[b])].append((position[a], position[b]))
        self.ends: list[list[tuple[int, list[int], int, Floats]]] = [[] for _ in groups]
        for tensor in problem.tensors:
            home = position[group_of[tensor.producer]]
            users = sorted({position[group_of[user]] for user in tensor.consumers} - {home})
            if users:
                phase = int(problem.operators[tensor.producer].backward)
                self.ends[max(home, *users)].append((home, users, phase, transfer_table(problem, tensor.size_bytes)))
        self.phases = [[0], [1]] if settings.schedule == "gpipe" else [[0, 1]]
        fastest = np.array([self.time[phase].sum(axis=0).min(axis=1) for phase in self.phases])
        self.left = fastest[:, ::-1].cumsum(axis=1)[:, ::-1] - fastest
        self.alike = [] if settings.stages == "interleaved" else self._like_devices()

    def _like_devices(self) -> list[tuple[int, int]]:
        tables = [table for ends in self.ends for *_, table in ends]
        pairs = []
        for d, e in combinations(range(self.k), 2):
            swap = np.arange(self.k)
            swap[[d, e]] = e, d
            same = (self.time == self.time[:, :, swap]).all() and (self.capacity == self.capacity[swap]).all()
            if same and self.host[d] == self.host[e] and all((t == t[np.ix_(swap, swap)]).all() for t in tables):
                pairs.append((d, e))
        return pairs

    def first(self) -> _PartialAssignments:
        none, idle = np.zeros((1, 0), dtype=np.int64), np.zeros((1, 2, self.k))
        return _PartialAssignments(
            none, idle, idle, np.zeros((1, self.k), np.int64), np.zeros((1, self.k, self.k), dtype=bool)
        )

    def value(self, rows: _PartialAssignments, left: Floats) -> Floats:
        """float64[rows]: the objective of what is placed, or the mean over devices of it and of the work left."""
        total = np.zeros(len(rows.device))
        for phase, rest in zip(self.phases, left.tolist(), strict=True):
            compute, sent = rows.compute[:, phase].sum(axis=1), rows.sent[:, phase].sum(axis=1)
            added = self.settings.communication == "added"
            load = compute + sent if added else np.maximum(compute, sent)
            mean = (load if added else compute).sum(axis=1) + rest
            total += np.maximum(load.max(axis=1), mean / self.k)
        return total

    def placed(self, rows: _PartialAssignments, limit: float) -> _PartialAssignments:
        """All partial assignments with one more group, of those that may end below the limit."""
        g, count = rows.device.shape[1], len(rows.device)
        every, where = np.repeat(np.arange(count), self.k), np.tile(np.arange(self.k), count)
        good = np.isfinite(self.time[:, g, where]).all(axis=0)
        good &= rows.held[every, where] + self.bytes[g] <= self.capacity[where]
        for d, e in self.alike:
            good &= (where != e) | (rows.device == d).any(axis=1)[every]
        every, where = every[good], where[good]
        index = np.arange(len(every))
        extended = rows.some(every)
        extended.compute[index, :, where] += self.time[:, g, where].T
        extended.held[index, where] += self.bytes[g]
        extended = replace(extended, device=np.column_stack([extended.device, where]))
        extended = extended.some(self._ordered(extended, g))
        for tensor in self.ends[g]:
            self._charge(extended, *tensor)
        return extended.some(self.value(extended, self.left[:, g]) < limit)

    def _charge(self, rows: _PartialAssignments, home: int, users: list[int], phase: int, table: Floats) -> None:
        index = np.arange(len(rows.device))
        goes = np.zeros((len(index), self.k), dtype=bool)
        for user in users:
            goes[index, rows.device[:, user]] = True
        source = rows.device[:, home]
        goes[index, source] = False
        times = np.where(goes, table[source], 0.0)
        times[index, source] = times.max(axis=1, initial=0.0)
        rows.sent[:, phase] += np.where(self.host, 0.0, times)

    def _ordered(self, rows: _PartialAssignments, g: int) -> Bools:
        if self.settings.stages == "contiguous":
            return self._acyclic(rows, g)
        if self.settings.stages == "interleaved":
            return self._staged(rows.device)
        return np.ones(len(rows.device), dtype=bool)

    def _acyclic(self, rows: _PartialAssignments, g: int) -> Bools:
        """No two devices wait for each other; `waits` of the rows gains what the last group adds."""
        index, where, waits = np.arange(len(rows.device)), rows.device[:, g], rows.waits
        before, after = waits[index, :, where], waits[index, where]
        for a, b in self.edges[g]:
            other = rows.device[:, a if b == g else b]
            apart = other != where
            side, beyond = (before, waits[index, :, other]) if b == g else (after, waits[index, other])
            side |= beyond & apart[:, None]
            side[index[apart], other[apart]] = True
        good = ~(before & after).any(axis=1) & ~before[index, where] & ~after[index, where]
        before[index, where] = after[index, where] = True
        waits |= before[:, :, None] & after[:, None, :]
        waits[index, where, where] = False
        return np.asarray(good)

    def _staged(self, device: Ints) -> Bools:
        """Stages (d, d + k, ... of device d) raised until every edge runs forwards, or one is past the last."""
        stage = device.copy()
        stages = self.k * self.settings.stages_per_device
        while True:
            before = stage.copy()
            for a, b in chain.from_iterable(self.edges[: device.shape[1]]):
                behind = np.maximum(stage[:, a] - stage[:, b], 0)
                stage[:, b] += -(-behind // self.k) * self.k
            np.minimum(stage, stages + device, out=stage)
            if (stage == before).all():
                return np.asarray((stage < stages).all(axis=1))


def least_load(problem: PlacementProblem, settings: Throughput, value: float, max_rows: int = MAX_ASSIGNMENTS) -> float:
    """Least objective of all allowed assignments, ms, or the value of a known one if nothing is better.

    What is better by less than rounding counts as equal.

    Raises
    ------
    ValueError
        More partial assignments than are looked at.
    """
    case = _AssignmentTables(problem, settings)
    limit = value * (1 - Tolerance.ROUNDING.relative)
    best = value
    left, count = [case.first()], 0
    while left:
        rows = case.placed(left.pop(), limit)
        count += len(rows.device)
        if count > max_rows:
            raise ValueError(f"more than {max_rows} partial assignments")
        if rows.device.shape[1] < len(case.bytes):
            left += [rows.some(slice(i, i + BATCH)) for i in range(0, len(rows.device), BATCH)]
            continue
        best = min(best, float(case.value(rows, case.left[:, -1]).min(initial=np.inf)))
        limit = min(limit, best)
    return best


# Schedules.


@dataclass(frozen=True, eq=False)
class _PartialSchedules:
    """Partial schedules.

    Attributes
    ----------
    device : int64[rows, operators], -1 for those to come.
    end : float64[rows, operators], 0 for those to come.
    free : float64[rows, devices], when each device is free; held: int64[rows, devices], bytes.
    last_ms, last : float64[rows], int64[rows], start and number of the operator added last.
    """

    device: Ints
    end: Floats
    free: Floats
    held: Ints
    last_ms: Floats
    last: Ints

    def some(self, which: Bools) -> _PartialSchedules:
        return _PartialSchedules(*(getattr(self, field.name)[which] for field in fields(self)))


class _ScheduleTables:
    """Times, transfers and exchangeable devices of one problem, for all partial schedules."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.n, self.k = len(problem.operators), len(problem.devices)
        column = [entry.class_index for entry in problem.devices]
        self.time = np.array([[operator.times_ms[c] for c in column] for operator in problem.operators])
        self.bytes = np.array([operator.memory_bytes for operator in problem.operators], dtype=np.int64)
        most = np.iinfo(np.int64).max
        self.capacity = np.array([most if d.memory_bytes is None else d.memory_bytes for d in problem.devices])
        self.fast = self.time.min(axis=1)
        self.inputs: list[list[tuple[int, Floats]]] = [[] for _ in range(self.n)]
        for tensor in problem.tensors:
            table = self._durations(tensor.size_bytes)
            for user in tensor.consumers:
                self.inputs[user].append((tensor.producer, table))
        self.tail = self.fast.copy()  # from its start to the end of the step, at least
        for _ in range(self.n):
            for user, inputs in enumerate(self.inputs):
                for producer, _ in inputs:
                    self.tail[producer] = max(self.tail[producer], self.fast[producer] + self.tail[user])
        self.mates = [
            [i for i in members if i != j] for j in range(self.n) for members in problem.colocated() if j in members
        ]
        self.peers = [[e for e in range(d) if self._alike(e, d)] for d in range(self.k)]

    def _durations(self, size_bytes: int) -> Floats:
        problem, table = self.problem, np.zeros((self.k, self.k))
        links = [sum(link.gbps for link in server.links) for server in problem.servers]
        for d, first in enumerate(problem.devices):
            for e, other in enumerate(problem.devices):
                if d == e:
                    continue
                gbps, fixed = min(links[first.server], links[other.server]), problem.transfer_latency_ms
                if first.server == other.server:
                    inner = problem.servers[first.server].intra_gbps
                    gbps, fixed = links[first.server] if inner is None else inner, problem.intra_latency_ms
                table[d, e] = fixed + (size_bytes * 8e-6 / gbps if size_bytes else 0.0)
        return table

    def _alike(self, d: int, e: int) -> bool:
        first, other = self.problem.devices[d], self.problem.devices[e]
        if (first.class_index, first.memory_bytes) != (other.class_index, other.memory_bytes):
            return False
        alone = all(sum(entry.server == s for entry in self.problem.devices) == 1 for s in (first.server, other.server))
        rates = {sum(link.gbps for link in self.problem.servers[s].links) for s in (first.server, other.server)}
        return first.server == other.server or (alone and len(rates) == 1)

    def added(self, rows: _PartialSchedules, j: int, d: int, limit: float) -> _PartialSchedules:
        """The partial schedules with operator j next, on device d, of those that may end below the limit."""
        if not np.isfinite(self.time[j, d]):
            return rows.some(np.zeros(len(rows.last), dtype=bool))
        good = (rows.device[:, j] < 0) & (rows.held[:, d] + self.bytes[j] <= self.capacity[d])
        for i, _ in self.inputs[j]:
            good &= rows.device[:, i] >= 0
        for mate in self.mates[j]:
            good &= (rows.device[:, mate] < 0) | (rows.device[:, mate] == d)
        if self.peers[d]:
            good &= (rows.device == self.peers[d][-1]).any(axis=1)
        rows = rows.some(good)
        start = rows.free[:, d].copy() if self.time[j, d] > 0 else np.zeros(len(rows.last))
        for i, table in self.inputs[j]:
            start = np.maximum(start, rows.end[:, i] + table[rows.device[:, i], d])
        needed = np.isin(rows.last, [i for i, _ in self.inputs[j]])
        good = (start > rows.last_ms) | ((start == rows.last_ms) & ((rows.last < j) | needed))
        good &= start + self.time[j, d] + self.tail[j] - self.fast[j] < limit
        rows, start = rows.some(good), start[good]
        ended = start + self.time[j, d]
        rows.device[:, j], rows.end[:, j] = d, ended
        rows.held[:, d] += self.bytes[j]
        if self.time[j, d] > 0:
            rows.free[:, d] = ended
        rows.last_ms[:], rows.last[:] = start, j
        return rows.some(self._promising(rows, limit))

    def _promising(self, rows: _PartialSchedules, limit: float) -> Bools:
        good = np.ones(len(rows.last), dtype=bool)
        todo = rows.device < 0
        for i in range(self.n):
            soonest = rows.last_ms
            for producer, _ in self.inputs[i]:
                soonest = np.maximum(soonest, rows.end[:, producer])
            good &= ~todo[:, i] | (soonest + self.tail[i] < limit)
        capacity = np.maximum(limit - np.maximum(rows.free, rows.last_ms[:, None]), 0.0).sum(axis=1)
        return np.asarray(good & (capacity >= todo @ self.fast))


def least_makespan(problem: PlacementProblem, value: float, max_rows: int = MAX_SCHEDULES) -> float:
    """Least makespan of all schedules, ms, or the value of a known one if nothing is better; see the module text.

    What is better by less than rounding counts as equal.

    Raises
    ------
    ValueError
        More partial schedules than are looked at.
    """
    case = _ScheduleTables(problem)
    limit = value * (1 - Tolerance.ROUNDING.relative)
    shape, k = (1, case.n), case.k
    rows = _PartialSchedules(
        np.full(shape, -1),
        np.zeros(shape),
        np.zeros((1, k)),
        np.zeros((1, k), dtype=np.int64),
        np.zeros(1),
        np.array([-1]),
    )
    for _ in range(case.n):
        extended: list[_PartialSchedules] = []
        count = 0
        for j in range(case.n):
            for d in range(k):
                extended.append(case.added(rows, j, d, limit))
                count += len(extended[-1].last)
                if count > max_rows:
                    raise ValueError(f"more than {max_rows} partial schedules")
        rows = _PartialSchedules(
            *(np.concatenate([getattr(part, field.name) for part in extended]) for field in fields(_PartialSchedules))
        )
    return min(value, float(rows.end.max(axis=1).min(initial=np.inf)))


def searches(problem: PlacementProblem) -> Mapping[Argument, Callable[[float, float], float]]:
    """Return the searches for the objective of a problem, the one with less work first.

    Each maps (limit in ms, share of the effort that a check may take) to the least objective below the limit, or to
    the limit where nothing is. It raises ValueError where the work is too much.
    """
    settings = problem.objective
    if not isinstance(settings, Throughput):
        return {Argument.ALL_SCHEDULES: lambda limit, share: least_makespan(problem, limit, int(share * MAX_SCHEDULES))}
    return {
        Argument.ALL_PIPELINES: lambda limit, share: least_pipeline(problem, settings, limit, int(share * MAX_SETS)),
        Argument.ALL_ASSIGNMENTS: lambda limit, share: least_load(
            problem, settings, limit, int(share * MAX_ASSIGNMENTS)
        ),
    }
