"""The best placements of small problems, derived by searching through all of them: plain arrays, no solver.

Assignments. Co-located groups get their devices one after the other, what a group needs before it, for many partial
assignments at once. One is dropped as soon as a device lacks memory or cannot run a group, stages cannot be ordered,
its loads alone are not below the limit (loads only grow), or the mean over the devices of these and of the remaining
work is not. A tensor counts when the last group it joins has its device. Of devices whose exchange changes no figure of
the instance the first one is used first, except where the order of devices is that of stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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

    Raises:
        ValueError: More partial assignments than are looked at.
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


def searches(problem: PlacementProblem) -> Mapping[Argument, Callable[[float, float], float]]:
    """Return the searches for the least load of a problem, the one with less work first.

    Each maps (limit in ms, share of the effort that a check may take) to the least objective below the limit, or to
    the limit where nothing is. It raises ValueError where the work is too much.
    """
    settings = problem.objective
    if not isinstance(settings, Throughput):
        return {}
    return {
        Argument.ALL_PIPELINES: lambda limit, share: least_pipeline(problem, settings, limit, int(share * MAX_SETS)),
        Argument.ALL_ASSIGNMENTS: lambda limit, share: least_load(
            problem, settings, limit, int(share * MAX_ASSIGNMENTS)
        ),
    }
