"""The least load of all assignments of a small problem, found again by trying them: plain arrays, no solver.

Co-located groups get their devices one after the other, what a group needs before it, for many partial assignments at
once. One is dropped as soon as a device lacks memory or cannot run a group, stages cannot be ordered, its loads alone
are not below the limit (loads only grow), or the mean over the devices of these and of the work left is not. A tensor
counts when the last group it joins has its device. Of devices whose exchange changes no figure of the instance the
first one is used first, except where the order of devices is that of stages. The graph is not reduced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.verdict import Tolerance
from topoopt.verify.placement.loads import transfer_table
from topoopt.verify.placement.stages import order_edges

PIECE = 1 << 16
"""Partial assignments extended at once."""

MOST_ROWS = 2_000_000
"""Partial assignments looked at, seconds; 10 groups on 4 devices have 1.4 million, however bad the value."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Partial assignments: device int64[rows, groups placed], compute and sent float64[rows, 2, devices], bytes.

    `waits`, bool[rows, devices, devices]: whether the second waits for the first, directly or over others.
    """

    device: Ints
    compute: Floats
    sent: Floats
    held: Ints
    waits: Bools

    def some(self, which: Bools | Ints | slice) -> _Rows:
        return _Rows(*(table[which] for table in vars(self).values()))


def _needed_first(time: Floats, edges: list[tuple[int, int]]) -> list[int]:
    """Groups, the needed ones first; of those that may come next, and in a circle of needs, the one of most work."""
    weight = np.where(np.isfinite(time), time, 0.0).sum(axis=0).mean(axis=1).tolist()
    left, order = set(range(len(weight))), list[int]()
    while left:
        free = left - {b for a, b in edges if a in left and b in left}
        order.append(max(free or left, key=lambda g: (weight[g], -g)))
        left.remove(order[-1])
    return order


class _Case:
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
        self.room = np.array([most if d.memory_bytes is None else d.memory_bytes for d in problem.devices])
        self.host = np.array([entry.host for entry in problem.devices])
        edges = {(group_of[a], group_of[b]) for a, b in order_edges(problem)}
        order = _needed_first(self.time, sorted((a, b) for a, b in edges if a != b))
        place = {g: i for i, g in enumerate(order)}
        self.time, self.bytes = self.time[:, order], self.bytes[order]
        self.edges: list[list[tuple[int, int]]] = [[] for _ in groups]
        for a, b in edges:
            if a != b:
                self.edges[max(place[a], place[b])].append((place[a], place[b]))
        self.ends: list[list[tuple[int, list[int], int, Floats]]] = [[] for _ in groups]
        for tensor in problem.tensors:
            home = place[group_of[tensor.producer]]
            users = sorted({place[group_of[user]] for user in tensor.consumers} - {home})
            if users:
                phase = int(problem.operators[tensor.producer].backward)
                self.ends[max(home, *users)].append((home, users, phase, transfer_table(problem, tensor.size_bytes)))
        self.phases = [[0], [1]] if settings.schedule == "gpipe" else [[0, 1]]
        fastest = np.array([self.time[phase].sum(axis=0).min(axis=1) for phase in self.phases])
        self.left = fastest[:, ::-1].cumsum(axis=1)[:, ::-1] - fastest
        self.alike = [] if settings.stages == "interleaved" else self._like_devices()

    def _like_devices(self) -> list[tuple[int, int]]:
        """Pairs of devices of which the first is used first, as their exchange changes nothing."""
        tables = [table for ends in self.ends for *_, table in ends]
        pairs = []
        for d, e in combinations(range(self.k), 2):
            swap = np.arange(self.k)
            swap[[d, e]] = e, d
            same = (self.time == self.time[:, :, swap]).all() and (self.room == self.room[swap]).all()
            if same and self.host[d] == self.host[e] and all((t == t[np.ix_(swap, swap)]).all() for t in tables):
                pairs.append((d, e))
        return pairs

    def first(self) -> _Rows:
        """Nothing placed."""
        none, idle = np.zeros((1, 0), dtype=np.int64), np.zeros((1, 2, self.k))
        return _Rows(none, idle, idle, np.zeros((1, self.k), np.int64), np.zeros((1, self.k, self.k), dtype=bool))

    def value(self, rows: _Rows, left: Floats) -> Floats:
        """float64[rows]: the objective of what is placed, or the mean over devices of it and of the work left."""
        total = np.zeros(len(rows.device))
        for phase, rest in zip(self.phases, left.tolist(), strict=True):
            compute, sent = rows.compute[:, phase].sum(axis=1), rows.sent[:, phase].sum(axis=1)
            added = self.settings.communication == "added"
            load = compute + sent if added else np.maximum(compute, sent)
            mean = (load if added else compute).sum(axis=1) + rest
            total += np.maximum(load.max(axis=1), mean / self.k)
        return total

    def placed(self, rows: _Rows, limit: float) -> _Rows:
        """All partial assignments with one more group, of those that may end below the limit."""
        g, count = rows.device.shape[1], len(rows.device)
        every, where = np.repeat(np.arange(count), self.k), np.tile(np.arange(self.k), count)
        good = np.isfinite(self.time[:, g, where]).all(axis=0)
        good &= rows.held[every, where] + self.bytes[g] <= self.room[where]
        for d, e in self.alike:
            good &= (where != e) | (rows.device == d).any(axis=1)[every]
        every, where = every[good], where[good]
        one = np.arange(len(every))
        found = rows.some(every)
        found.compute[one, :, where] += self.time[:, g, where].T
        found.held[one, where] += self.bytes[g]
        found = replace(found, device=np.column_stack([found.device, where]))
        found = found.some(self._ordered(found, g))
        for tensor in self.ends[g]:
            self._charge(found, *tensor)
        return found.some(self.value(found, self.left[:, g]) < limit)

    def _charge(self, rows: _Rows, home: int, users: list[int], phase: int, table: Floats) -> None:
        """Add what one tensor costs: every other device with a consumer, and the sender for its slowest copy."""
        one = np.arange(len(rows.device))
        goes = np.zeros((len(one), self.k), dtype=bool)
        for user in users:
            goes[one, rows.device[:, user]] = True
        source = rows.device[:, home]
        goes[one, source] = False
        times = np.where(goes, table[source], 0.0)
        times[one, source] = times.max(axis=1, initial=0.0)
        rows.sent[:, phase] += np.where(self.host, 0.0, times)

    def _ordered(self, rows: _Rows, g: int) -> Bools:
        """bool[rows]: whether stages of what is placed can be ordered as the settings ask."""
        if self.settings.stages == "contiguous":
            return self._acyclic(rows, g)
        if self.settings.stages == "interleaved":
            return self._staged(rows.device)
        return np.ones(len(rows.device), dtype=bool)

    def _acyclic(self, rows: _Rows, g: int) -> Bools:
        """No two devices wait for each other; `waits` of the rows gains what the last group adds."""
        one, where, waits = np.arange(len(rows.device)), rows.device[:, g], rows.waits
        before, after = waits[one, :, where], waits[one, where]
        for a, b in self.edges[g]:
            other = rows.device[:, a if b == g else b]
            apart = other != where
            side, beyond = (before, waits[one, :, other]) if b == g else (after, waits[one, other])
            side |= beyond & apart[:, None]
            side[one[apart], other[apart]] = True
        good = ~(before & after).any(axis=1) & ~before[one, where] & ~after[one, where]
        before[one, where] = after[one, where] = True
        waits |= before[:, :, None] & after[:, None, :]
        waits[one, where, where] = False
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


def least_load(problem: PlacementProblem, settings: Throughput, value: float, most_rows: int = MOST_ROWS) -> float:
    """Least objective of all allowed assignments, ms, or the value of a known one if nothing is better.

    What is better by less than rounding counts as equal.

    Raises:
        ValueError: more partial assignments than are looked at.
    """
    case = _Case(problem, settings)
    limit = value * (1 - Tolerance.ROUNDING.relative)
    best = value
    left, count = [case.first()], 0
    while left:
        rows = case.placed(left.pop(), limit)
        count += len(rows.device)
        if count > most_rows:
            raise ValueError(f"more than {most_rows} partial assignments")
        if rows.device.shape[1] < len(case.bytes):
            left += [rows.some(slice(i, i + PIECE)) for i in range(0, len(rows.device), PIECE)]
            continue
        best = min(best, float(case.value(rows, case.left[:, -1]).min(initial=np.inf)))
        limit = min(limit, best)
    return best
