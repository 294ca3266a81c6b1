"""The least makespan of all schedules of a small graph, found again by trying them: plain arrays, no solver.

Transfers are taken to have the links to themselves, which no schedule beats: the value is exact where nothing is shared
(`none`), and a lower bound for every other sharing. Some best schedule starts each operator as soon as its inputs and
its device allow; all of these are built by adding operators in the order of their starts, for many partial schedules at
once. One is dropped if

* an operator that has not ended, with the fastest path behind it, does not end below the limit;
* the devices have no room left for the work that is to come;
* it is another one with the names of like devices, or of operators that start at once, exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.placement import PlacementProblem
from topoopt.core.verdict import Tolerance

MOST_ROWS = 60_000
"""Partial schedules with equally many operators; where there are more, nothing is derived."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Partial schedules.

    Attributes:
        device: int64[rows, operators], -1 for those to come.
        end: float64[rows, operators], 0 for those to come.
        free: float64[rows, devices], when each device is free; held: int64[rows, devices], bytes.
        last_ms, last: float64[rows], int64[rows], start and number of the operator added last.
    """

    device: Ints
    end: Floats
    free: Floats
    held: Ints
    last_ms: Floats
    last: Ints

    def some(self, which: Bools) -> _Rows:
        return _Rows(*(getattr(self, field.name)[which] for field in fields(self)))


class _Case:
    """Tables of one problem."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.n, self.k = len(problem.operators), len(problem.devices)
        column = [entry.class_index for entry in problem.devices]
        self.time = np.array([[operator.times_ms[c] for c in column] for operator in problem.operators])
        self.bytes = np.array([operator.memory_bytes for operator in problem.operators], dtype=np.int64)
        most = np.iinfo(np.int64).max
        self.room = np.array([most if d.memory_bytes is None else d.memory_bytes for d in problem.devices])
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
        """float64[devices, devices]: least ms of a transfer."""
        problem, table = self.problem, np.zeros((self.k, self.k))
        links = [sum(link.gbps for link in server.links) for server in problem.servers]
        for d, one in enumerate(problem.devices):
            for e, other in enumerate(problem.devices):
                if d == e:
                    continue
                gbps, fixed = min(links[one.server], links[other.server]), problem.transfer_latency_ms
                if one.server == other.server:
                    inner = problem.servers[one.server].intra_gbps
                    gbps, fixed = links[one.server] if inner is None else inner, problem.intra_latency_ms
                table[d, e] = fixed + (size_bytes * 8e-6 / gbps if size_bytes else 0.0)
        return table

    def _alike(self, d: int, e: int) -> bool:
        """Whether two devices can be exchanged: also their servers, if these have no other devices."""
        one, other = self.problem.devices[d], self.problem.devices[e]
        if (one.class_index, one.memory_bytes) != (other.class_index, other.memory_bytes):
            return False
        alone = all(sum(entry.server == s for entry in self.problem.devices) == 1 for s in (one.server, other.server))
        rates = {sum(link.gbps for link in self.problem.servers[s].links) for s in (one.server, other.server)}
        return one.server == other.server or (alone and len(rates) == 1)

    def added(self, rows: _Rows, j: int, d: int, limit: float) -> _Rows:
        """The partial schedules with operator j next, on device d, of those that may end below the limit."""
        if not np.isfinite(self.time[j, d]):
            return rows.some(np.zeros(len(rows.last), dtype=bool))
        good = (rows.device[:, j] < 0) & (rows.held[:, d] + self.bytes[j] <= self.room[d])
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

    def _promising(self, rows: _Rows, limit: float) -> Bools:
        """Whether all that is to come may end below the limit."""
        good = np.ones(len(rows.last), dtype=bool)
        todo = rows.device < 0
        for i in range(self.n):
            soonest = rows.last_ms
            for producer, _ in self.inputs[i]:
                soonest = np.maximum(soonest, rows.end[:, producer])
            good &= ~todo[:, i] | (soonest + self.tail[i] < limit)
        room = np.maximum(limit - np.maximum(rows.free, rows.last_ms[:, None]), 0.0).sum(axis=1)
        return np.asarray(good & (room >= todo @ self.fast))


def least_makespan(problem: PlacementProblem, value: float, most_rows: int = MOST_ROWS) -> float:
    """Least makespan of all schedules, ms, or the value of a known one if nothing is better; see the module text.

    What is better by less than rounding counts as equal.

    Raises:
        ValueError: more partial schedules than are looked at.
    """
    case = _Case(problem)
    limit = value * (1 - Tolerance.ROUNDING.relative)
    one, k = (1, case.n), case.k
    rows = _Rows(
        np.full(one, -1),
        np.zeros(one),
        np.zeros((1, k)),
        np.zeros((1, k), dtype=np.int64),
        np.zeros(1),
        np.array([-1]),
    )
    for _ in range(case.n):
        found: list[_Rows] = []
        count = 0
        for j in range(case.n):
            for d in range(k):
                found.append(case.added(rows, j, d, limit))
                count += len(found[-1].last)
                if count > most_rows:
                    raise ValueError(f"more than {most_rows} partial schedules")
        rows = _Rows(*(np.concatenate([getattr(part, field.name) for part in found]) for field in fields(_Rows)))
    return min(value, float(rows.end.max(axis=1).min(initial=np.inf)))
