"""The least load of all assignments of a small problem, found again by trying them: plain arrays, no solver.

Co-located groups get their devices one after the other, in the order of the instance, for many partial assignments at
once. One is dropped as soon as a device lacks memory or cannot run a group, or its loads alone are not below the limit;
loads only grow. A tensor counts when the last group it joins has its device. Whether stages can be ordered is looked at
when all groups are placed. Nothing is taken for alike: no symmetry, no reduction, no order of the search.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """Partial assignments: device int64[rows, groups placed], compute and sent float64[2, rows, devices], bytes."""

    device: Ints
    compute: Floats
    sent: Floats
    held: Ints

    def some(self, which: Bools | slice) -> _Rows:
        return _Rows(self.device[which], self.compute[:, which], self.sent[:, which], self.held[which])


class _Case:
    """Tables of one problem, by co-located group."""

    def __init__(self, problem: PlacementProblem, settings: Throughput) -> None:
        self.problem, self.settings = problem, settings
        self.k = len(problem.devices)
        self.groups = problem.colocated()
        group_of = {i: g for g, members in enumerate(self.groups) for i in members}
        column = [entry.class_index for entry in problem.devices]
        self.time = np.zeros((2, len(self.groups), self.k))
        self.bytes = np.zeros(len(self.groups), dtype=np.int64)
        for i, operator in enumerate(problem.operators):
            self.time[int(operator.backward), group_of[i]] += [operator.times_ms[c] for c in column]
            self.bytes[group_of[i]] += operator.memory_bytes
        most = np.iinfo(np.int64).max
        self.room = np.array([most if d.memory_bytes is None else d.memory_bytes for d in problem.devices])
        self.host = np.array([entry.host for entry in problem.devices])
        self.ends: list[list[tuple[int, list[int], int, Floats]]] = [[] for _ in self.groups]
        for tensor in problem.tensors:
            home = group_of[tensor.producer]
            users = sorted({group_of[user] for user in tensor.consumers} - {home})
            if users:
                phase = int(problem.operators[tensor.producer].backward)
                table = transfer_table(problem, tensor.size_bytes)
                self.ends[max(home, *users)].append((home, users, phase, table))
        pairs = {(group_of[a], group_of[b]) for a, b in order_edges(problem)}
        self.edges = sorted((a, b) for a, b in pairs if a != b)

    def value(self, rows: _Rows) -> Floats:
        """float64[rows]: the objective of what is placed."""
        together = np.add if self.settings.communication == "added" else np.maximum
        if self.settings.schedule == "gpipe":
            return np.asarray(together(rows.compute, rows.sent).max(axis=2).sum(axis=0))
        return np.asarray(together(rows.compute.sum(axis=0), rows.sent.sum(axis=0)).max(axis=1))

    def placed(self, rows: _Rows, limit: float) -> _Rows:
        """All partial assignments with one more group, of those below the limit."""
        g, count = rows.device.shape[1], len(rows.device)
        every = np.repeat(np.arange(count), self.k)
        where = np.tile(np.arange(self.k), count)
        one = np.arange(len(every))
        compute, held = rows.compute[:, every], rows.held[every]
        compute[:, one, where] += self.time[:, g, where]
        held[one, where] += self.bytes[g]
        device = np.column_stack([rows.device[every], where])
        good = np.asarray(np.isfinite(compute[:, one, where]).all(axis=0) & (held <= self.room).all(axis=1))
        found = _Rows(device, compute, rows.sent[:, every], held).some(good)
        for tensor in self.ends[g]:
            self._charge(found, *tensor)
        return found.some(np.asarray(self.value(found) < limit))

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
        rows.sent[phase] += np.where(self.host, 0.0, times)

    def ordered(self, device: Ints) -> Bools:
        """bool[rows]: complete assignments whose stages can be ordered as the settings ask."""
        if self.settings.stages == "contiguous":
            return self._acyclic(device)
        if self.settings.stages == "interleaved":
            return self._staged(device)
        return np.ones(len(device), dtype=bool)

    def _acyclic(self, device: Ints) -> Bools:
        """No two devices wait for each other, directly or over others."""
        one = np.arange(len(device))
        reach = np.zeros((len(device), self.k, self.k), dtype=bool)
        for a, b in self.edges:
            reach[one, device[:, a], device[:, b]] = True
        reach[:, np.arange(self.k), np.arange(self.k)] = False
        for d in range(self.k):
            reach |= reach[:, :, d, None] & reach[:, None, d, :]
        return np.asarray(~reach[:, np.arange(self.k), np.arange(self.k)].any(axis=1))

    def _staged(self, device: Ints) -> Bools:
        """Stages (d, d + k, ... of device d) raised until every edge runs forwards, or one is past the last."""
        stage = device.copy()
        stages = self.k * self.settings.stages_per_device
        while True:
            before = stage.copy()
            for a, b in self.edges:
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
    k = case.k
    limit = value * (1 - Tolerance.ROUNDING.relative)
    best = value
    none, zero = np.zeros((1, 0), dtype=np.int64), np.zeros((1, k), dtype=np.int64)
    left = [_Rows(none, np.zeros((2, 1, k)), np.zeros((2, 1, k)), zero)]
    count = 0
    while left:
        rows = case.placed(left.pop(), limit)
        count += len(rows.device)
        if count > most_rows:
            raise ValueError(f"more than {most_rows} partial assignments")
        if rows.device.shape[1] < len(case.groups):
            left += [rows.some(slice(i, i + PIECE)) for i in range(0, len(rows.device), PIECE)]
            continue
        values = case.value(rows)[case.ordered(rows.device)]
        best = min(best, float(values.min(initial=np.inf)))
        limit = min(limit, best)
    return best
