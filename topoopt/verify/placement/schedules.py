"""The least makespan of all schedules without contention, derived by a walk over partial schedules: plain arrays.

Transfers are taken to have the links to themselves, which no schedule beats: the value is exact where nothing is shared
(`none`), and a lower bound for every other sharing. Some best schedule starts each operator as soon as its inputs and
its device allow; partial schedules are built by adding operators in the order of their starts, a level for each number
of operators. A row of a level is dropped if

* an operator that is to come has no device on which it ends, with what follows it, below the limit. Heads run from the
  row through the whole graph. Two inputs of an operator are made where it is, one after the other, or elsewhere, with
  their transfers; the best of these cases is a head that sees that two inputs cannot both be near and at once;
* operators with tails of at least t have more work, each on its best device, than all devices have room from the
  first start to the limit less t (energetic reasoning);
* another row of the same operators has every device free and every input ready no later, its last start no later, holds
  no more bytes, and has starts of no larger sum. Of all schedules below the limit take one of least sum of starts. Its
  first operators may be exchanged for those of the other row: it stays below the limit and of least sum, so that it
  starts everything as early as its order allows, and by induction over levels a row survives;
* it is another one with the names of like devices exchanged.

The tail of an operator is also at least the makespan of all that follows it alone, found by the same walk on that part,
of few operators and few rows (Russian dolls). All may run backwards in time as well.

Times are rounded down to multiples of a power of two, about 10^-13 of the limit, so that all sums are exact. That only
shortens schedules, and is far below the part of the value that counts as equal.

References
----------
Carlier: The one-machine sequencing problem, EJOR 11, 1982 (heads and tails). Verfaillie, Lemaitre, Schiex: Russian doll
search, AAAI 1996. Baptiste, Le Pape, Nuijten: Constraint-based scheduling, 2001 (energetic reasoning).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.placement import PlacementProblem, WalkSize
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Tolerance

BITS = 44
"""Of the limit in units of time."""

FAR = 1 << 60
"""A time that is never reached; four of them fit into a number."""

PIECE = 1 << 13
"""Rows extended at once."""

CUTS = 24
"""Sets of operators whose work is held against the room of the devices."""

CHAMPIONS, FEW = 6, 64
"""Rows that the others of the same operators are held against; all of at most so many."""

PAIRED = 8
"""Inputs of an operator that are looked at in pairs."""

Input = tuple[int, Ints]
"""Operator, and int64[k, k], units of its transfer from each device to each other; FAR to itself."""


@dataclass(frozen=True, eq=False)
class _Tasks:
    """Operators in topological order, in units of time.

    Attributes
    ----------
    time : int64[n, k]; FAR where an operator cannot run.
    inputs : of every operator.
    label : int64[n]; operators of equal labels share a device.
    size_bytes, capacity : int64[n], int64[k].
    """

    time: Ints
    inputs: tuple[tuple[Input, ...], ...]
    label: Ints
    size_bytes: Ints
    capacity: Ints

    @staticmethod
    def of(problem: PlacementProblem, unit_ms: float) -> _Tasks:
        """Return the operators of a problem."""
        order = _topological(problem)
        index = {i: x for x, i in enumerate(order)}
        column = [entry.class_index for entry in problem.devices]
        times = np.array([[problem.operators[i].times_ms[c] for c in column] for i in order])
        inputs: list[dict[int, Ints]] = [{} for _ in order]
        for tensor in problem.tensors:
            table = _units(_transfer_ms(problem, tensor.size_bytes), unit_ms)
            np.fill_diagonal(table, FAR)
            for user in tensor.consumers:
                own = inputs[index[user]]
                source = index[tensor.producer]
                own[source] = np.maximum(own[source], table) if source in own else table
        label = np.empty(len(order), dtype=np.int64)
        for g, members in enumerate(problem.colocated()):
            label[[index[i] for i in members]] = g
        most = np.iinfo(np.int64).max
        return _Tasks(
            _units(times, unit_ms),
            tuple(tuple(sorted(own.items())) for own in inputs),
            label,
            np.array([problem.operators[i].memory_bytes for i in order], dtype=np.int64),
            np.array([most if d.memory_bytes is None else d.memory_bytes for d in problem.devices], dtype=np.int64),
        )

    def reversed(self) -> _Tasks:
        """Return the same with time running backwards: schedules are mirrored, makespans stay."""
        last = len(self.time) - 1
        inputs: list[list[Input]] = [[] for _ in self.inputs]
        for j, own in enumerate(self.inputs):
            for i, table in own:
                inputs[last - i].append((last - j, table.T))
        return replace(
            self,
            time=self.time[::-1],
            inputs=tuple(tuple(sorted(own, key=lambda row: row[0])) for own in inputs),
            label=self.label[::-1],
            size_bytes=self.size_bytes[::-1],
        )

    def part(self, some: list[int]) -> _Tasks:
        """Return some operators, ascending, each on its own and without bytes."""
        index = {i: x for x, i in enumerate(some)}
        inputs = tuple(tuple((index[i], table) for i, table in self.inputs[j] if i in index) for j in some)
        none = np.zeros(len(some), dtype=np.int64)
        return replace(self, time=self.time[some], inputs=inputs, label=np.arange(len(some)), size_bytes=none)

    def successors(self) -> list[list[Input]]:
        """Return the users of every operator, with the tables of the transfers to them."""
        users: list[list[Input]] = [[] for _ in self.inputs]
        for j, own in enumerate(self.inputs):
            for i, table in own:
                users[i].append((j, table))
        return users

    def like_devices(self) -> list[tuple[int, int]]:
        """Return pairs of devices whose exchange changes nothing."""
        tables = [table for own in self.inputs for _, table in own]
        pairs = []
        for d, e in combinations(range(self.time.shape[1]), 2):
            swap = np.arange(self.time.shape[1])
            swap[[d, e]] = e, d
            same = (self.time == self.time[:, swap]).all() and self.capacity[d] == self.capacity[e]
            if same and all((table == table[np.ix_(swap, swap)]).all() for table in tables):
                pairs.append((d, e))
        return pairs


def _topological(problem: PlacementProblem) -> list[int]:
    users: list[list[int]] = [[] for _ in problem.operators]
    waits = [0] * len(users)
    for tensor in problem.tensors:
        for user in tensor.consumers:
            users[tensor.producer].append(user)
            waits[user] += 1
    ready, order = [i for i, count in enumerate(waits) if not count], list[int]()
    while ready:
        i = ready.pop(0)
        order.append(i)
        for user in users[i]:
            waits[user] -= 1
            if not waits[user]:
                ready.append(user)
    return order


def _units(ms: Floats, unit_ms: float) -> Ints:
    units: Ints = np.where(np.isfinite(ms), np.minimum(np.where(np.isfinite(ms), ms, 0.0) / unit_ms, FAR), FAR).astype(
        np.int64
    )
    return units


def _transfer_ms(problem: PlacementProblem, size_bytes: int) -> Floats:
    count = len(problem.devices)
    table = np.zeros((count, count))
    links = [sum(link.gbps for link in server.links) for server in problem.servers]
    for d, first in enumerate(problem.devices):
        for e, other in enumerate(problem.devices):
            if d == e:
                continue
            if first.server == other.server:
                inner = problem.servers[first.server].intra_gbps
                gbps, fixed = links[first.server] if inner is None else inner, problem.intra_latency_ms
            else:
                gbps, fixed = min(links[first.server], links[other.server]), problem.transfer_latency_ms
            table[d, e] = fixed + (size_bytes * 8e-6 / gbps if size_bytes else 0.0)
    return table


@dataclass(frozen=True, eq=False)
class _Rows:
    """Partial schedules.

    Attributes
    ----------
    done : uint64[rows, words], which operators have been added.
    device : int16[rows, n], -1 where it is open; that of all co-located ones is fixed with the first.
    end : int64[rows, n], of those added.
    free : int64[rows, k], when each device is free.
    last, total : int64[rows], the start added last, and the sum of all starts.
    """

    done: NDArray[np.uint64]
    device: NDArray[np.int16]
    end: Ints
    free: Ints
    last: Ints
    total: Ints

    def some(self, which: Bools | Ints | slice) -> _Rows:
        return _Rows(*(getattr(self, field.name)[which] for field in fields(self)))

    @staticmethod
    def joined(parts: list[_Rows]) -> _Rows:
        return _Rows(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(_Rows)))

    def has(self, j: int) -> Bools:
        """bool[rows]: whether an operator has been added."""
        bit: Bools = (self.done[:, j // 64] >> np.uint64(j % 64) & np.uint64(1)).astype(bool)
        return bit


def _away(table: Ints, transfer: Ints) -> Ints:
    """Least entry of the other columns with the transfer from there, int64[..., k]."""
    k = transfer.shape[0]
    return np.asarray(np.min([table[..., e, None] + transfer[e] for e in range(k)], axis=0))


Arrival = tuple[Ints, Ints, Ints, Ints]
"""Start, time, end on each device, and end elsewhere with its transfer, int64[..., k]."""


def _both(first: Arrival, second: Arrival) -> Ints:
    """When two inputs are there: made there one after the other, one of them there, or both elsewhere."""
    start_a, time_a, near_a, far_a = first
    start_b, time_b, near_b, far_b = second
    near = np.maximum(np.maximum(near_a, near_b), np.minimum(start_a, start_b) + time_a + time_b)
    mixed = np.minimum(np.maximum(near_a, far_b), np.maximum(far_a, near_b))
    return np.asarray(np.minimum(np.minimum(near, mixed), np.maximum(far_a, far_b)))


def tails(tasks: _Tasks, doll_tasks: int = 0, doll_rows: int = 0) -> Ints:
    """Return int64[n, k], the least time from the end of an operator on a device to the end of everything.

    By the users, one and two at a time; by the work of all that follows; and where few operators follow, by their least
    makespan, as far as levels of few rows tell.
    """
    count, k = tasks.time.shape
    tail = np.zeros((count, k), dtype=np.int64)
    fast, users = tasks.time.min(axis=1), tasks.successors()
    follows = np.zeros((count, count), dtype=bool)
    for i in reversed(range(count)):
        arrivals: list[Arrival] = []
        for j, table in users[i]:
            follows[i] |= follows[j]
            follows[i, j] = True
            own = tasks.time[j] + tail[j]
            arrivals.append((tail[j], tasks.time[j], own, _away(own, table.T)))
        for _, _, near, far in arrivals:
            tail[i] = np.maximum(tail[i], np.minimum(near, far))
        for first, second in combinations(arrivals[:PAIRED], 2):
            tail[i] = np.maximum(tail[i], _both(first, second))
        least = tail.min(axis=1)
        for t in np.unique(least[follows[i]]).tolist():
            work = int(np.minimum(fast[follows[i] & (least >= t)], FAR).sum())
            tail[i] = np.maximum(tail[i], -(-work // k) + t)
        tail[i] = np.minimum(tail[i], FAR)
        some = np.flatnonzero(follows[i]).tolist()
        if 2 <= len(some) <= doll_tasks:
            part = tasks.part([i, *some])
            for d in np.flatnonzero(tasks.time[i] < FAR).tolist():
                tail[i, d] = _doll(part, tail[[i, *some]], d, doll_rows)
    return tail


def _doll(part: _Tasks, tail: Ints, d: int, most: int) -> int:
    """Least time after the first operator, on device d, to the end of its part, as far as few rows tell."""
    own = int(part.time[0, d])
    refuted, open_, step = own + int(tail[0, d]) - 1, -1, 1 << (BITS - 10)
    while open_ < 0 or open_ - refuted > 1 << (BITS - 20):
        limit = refuted + step if open_ < 0 else (refuted + open_) // 2
        walk = _Walk(part, limit, tail)
        first = walk.first()
        first.device[0, 0] = d
        try:
            reached = walk.least(most, first)
        except ValueError:
            open_ = limit
            continue
        if reached is None:
            refuted, step = limit, 2 * step
        else:  # the least of all
            return reached - own
    return refuted + 1 - own


class _Walk:
    """Levels of partial schedules whose makespan may be at most a limit."""

    def __init__(self, tasks: _Tasks, limit: int, tail: Ints) -> None:
        self.tasks, self.limit, self.tail = tasks, limit, tail
        self.n, self.k = tasks.time.shape
        self.words = -(-self.n // 64)
        self.need = np.zeros((self.n, self.words), dtype=np.uint64)
        for j, own in enumerate(tasks.inputs):
            for i, _ in own:
                self.need[j, i // 64] |= np.uint64(1 << i % 64)
        shared = [np.flatnonzero(tasks.label == label) for label in tasks.label]
        self.mates = [members[members != j] for j, members in enumerate(shared)]
        self.grouped = [j for j, mates in enumerate(self.mates) if len(mates)]
        self.limited = bool(tasks.size_bytes.any())
        self.alike: dict[int, int] = {e: d for d, e in tasks.like_devices()}  # the largest smaller one
        self.whole = np.zeros(self.words, dtype=np.uint64)
        for j in range(self.n):
            self.whole[j // 64] |= np.uint64(1 << j % 64)
        self.cuts: list[tuple[int, Bools]] = []
        self.cuts = self._cuts()

    def first(self) -> _Rows:
        """Return the row without operators."""
        return _Rows(
            np.zeros((1, self.words), np.uint64),
            np.full((1, self.n), -1, np.int16),
            np.zeros((1, self.n), np.int64),
            np.zeros((1, self.k), np.int64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
        )

    def heads(self, rows: _Rows) -> tuple[Ints, Bools, Bools]:
        """Earliest starts int64[n, rows, k], FAR if too late; bool[n, rows], those to come; bool[rows], open rows."""
        count, time = len(rows.last), self.tasks.time
        head = np.empty((self.n, count, self.k), dtype=np.int64)
        ended = np.empty_like(head)
        todo = np.array([~rows.has(j) for j in range(self.n)])
        busy, idle = np.maximum(rows.free, rows.last[:, None]), np.repeat(rows.last[:, None], self.k, axis=1)
        good = np.ones(count, dtype=bool)
        devices = np.arange(self.k)
        for j in range(self.n):
            here = np.where(time[j] > 0, busy, idle)  # what takes no time does not wait for its device
            arrivals: list[Arrival] = []
            for i, table in self.tasks.inputs[j]:
                new = todo[i][:, None]
                start, took = np.where(new, head[i], ended[i]), np.where(new, time[i], 0)
                arrivals.append((start, took, ended[i], _away(ended[i], table)))
            for _, _, near, far in arrivals:
                here = np.maximum(here, np.minimum(near, far))
            for first, second in combinations(arrivals[:PAIRED], 2):
                here = np.maximum(here, _both(first, second))
            fixed = rows.device[:, j, None]
            end = here + time[j]
            late = (end + self.tail[j] > self.limit) | ((fixed >= 0) & (fixed != devices))
            here = np.where(late, FAR, here)
            end = np.where(late, FAR, end)
            done = ~todo[j][:, None]
            end = np.where(done, np.where(fixed == devices, rows.end[:, j, None], FAR), end)
            head[j], ended[j] = here, end
            good &= done[:, 0] | (end < FAR).any(axis=1)
        return head, todo, good

    def _cuts(self) -> list[tuple[int, Bools]]:
        """Sets of operators with heads of at least s and tails of at least t that have least room for their work."""
        heads, _, good = self.heads(self.first())
        if not good[0]:
            return []
        able = heads[:, 0] < FAR
        head = heads[:, 0].min(axis=1)
        tail = np.where(able, self.tail, FAR).min(axis=1)
        work = np.where(able, self.tasks.time, FAR).min(axis=1)
        ranked: dict[bytes, tuple[float, int, Bools]] = {}
        starts, ends = (
            np.unique(np.quantile(values, np.linspace(0, 1, 24), method="nearest")) for values in (head, tail)
        )
        for s in starts:
            for t in ends:
                which = (head >= s) & (tail >= t)
                if which.sum() > 1:
                    own = int(tail[which].min())
                    room = int(np.maximum(self.limit - own - heads[which, 0].min(axis=0), 0).sum())
                    ranked[which.tobytes()] = (int(work[which].sum()) / max(1, room), own, which)
        return [(t, which) for _, t, which in sorted(ranked.values(), key=lambda row: -row[0])[:CUTS]]

    def _fits(self, head: Ints, todo: Bools) -> Bools:
        """bool[rows]: the work that is to come has room."""
        able = (head < FAR) & todo[:, :, None]
        work = np.where(able, self.tasks.time[:, None, :], FAR).min(axis=2)
        work[~todo] = 0
        start = np.where(able, head, FAR)
        good = np.ones(head.shape[1], dtype=bool)
        for t, which in self.cuts:
            room = np.maximum(self.limit - t - start[which].min(axis=0), 0).sum(axis=1)
            good &= work[which].sum(axis=0) <= room
        return good

    def _children(self, rows: _Rows) -> Iterator[_Rows]:
        head, todo, good = self.heads(rows)
        good &= self._fits(head, todo)
        index = np.flatnonzero(good)
        for j in range(self.n) if len(index) else ():
            ready = ((rows.done[index] & self.need[j]) == self.need[j]).all(axis=1)
            own = index[todo[j, index] & ready]
            for d in np.flatnonzero(self.tasks.time[j] < FAR).tolist() if len(own) else ():
                start = rows.free[own, d].copy() if self.tasks.time[j, d] > 0 else np.zeros(len(own), dtype=np.int64)
                for i, table in self.tasks.inputs[j]:
                    at = rows.device[own, i]
                    start = np.maximum(start, rows.end[own, i] + np.where(at == d, 0, table[at, d]))
                fine = (start >= rows.last[own]) & (start + self.tasks.time[j, d] + self.tail[j, d] <= self.limit)
                fixed = rows.device[own, j]
                fine &= (fixed < 0) | (fixed == d)
                if self.limited:
                    held = (rows.device[own] == d) @ self.tasks.size_bytes
                    more = int(self.tasks.size_bytes[[j, *self.mates[j]]].sum())
                    fine &= (fixed >= 0) | (held + more <= self.tasks.capacity[d])
                if d in self.alike:
                    fine &= ((rows.device[own] == self.alike[d]) | (rows.device[own] == d)).any(axis=1)
                if fine.any():
                    yield self._added(rows.some(own[fine]), j, d, start[fine])

    def _added(self, rows: _Rows, j: int, d: int, start: Ints) -> _Rows:
        """The rows, copies of some, with one more operator."""
        ended = start + self.tasks.time[j, d]
        rows.done[:, j // 64] |= np.uint64(1 << j % 64)
        rows.device[:, [j, *self.mates[j]]] = d
        rows.end[:, j] = ended
        if self.tasks.time[j, d] > 0:
            rows.free[:, d] = ended
        rows.last[:] = start
        rows.total[:] += start
        return rows

    def _state(self, rows: _Rows) -> Ints:
        """When devices are free and inputs are ready, no earlier than the last start; bytes held."""
        ready = np.zeros((len(rows.last), self.n, self.k), dtype=np.int64)
        added = [rows.has(j) for j in range(self.n)]
        devices = np.arange(self.k)
        for j, own in enumerate(self.tasks.inputs):
            for i, table in own:
                there = ~added[j] & added[i]
                if there.any():
                    at = rows.device[there, i]
                    moved = np.where(at[:, None] == devices, 0, table[at])
                    ready[there, j] = np.maximum(ready[there, j], rows.end[there, i][:, None] + moved)
        times = np.concatenate([rows.free, ready.reshape(len(ready), -1)], axis=1)
        columns = [np.maximum(times, rows.last[:, None]), rows.last, rows.total]
        if self.limited:
            columns += [(rows.device == d) @ self.tasks.size_bytes for d in range(self.k)]
        return np.column_stack(columns)

    def _undominated(self, rows: _Rows) -> _Rows:
        """Rows without those that another row of the same operators beats."""
        keys = [*rows.done.T]
        # Where a group has begun is no matter of less or more; nor is which of like devices are in use.
        keys += [np.where(rows.has(j), -1, rows.device[:, j]) for j in self.grouped]
        keys += [(rows.device == d).any(axis=1) for d in sorted({*self.alike, *self.alike.values()})]
        order = np.lexsort((rows.total, *keys))
        change = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
        begins = [0, *(np.flatnonzero(change) + 1).tolist(), len(order)]
        rows = rows.some(order)
        state = self._state(rows)
        kept = []
        for begin, end in pairwise(begins):
            part = state[begin:end]
            part = part[:, (part != part[0]).any(axis=0)]
            kept.append(begin + (_front(part) if part.shape[1] else np.zeros(1, dtype=np.int64)))
        return rows.some(np.concatenate(kept))

    def least(self, most: int, rows: _Rows | None = None) -> int | None:
        """Return the least makespan of all schedules within the limit, None where there is none.

        Raises
        ------
        ValueError
            A level has more than `most` rows.
        """
        rows = self.first() if rows is None else rows
        for _ in range(self.n):
            parts: list[_Rows] = []
            count = 0
            for begin in range(0, len(rows.last), PIECE):
                end_if_left()
                for part in self._children(rows.some(slice(begin, begin + PIECE))):
                    parts.append(part)
                    count += len(part.last)
                    if count > most:
                        raise ValueError(f"more than {most} partial schedules")
            if not parts:
                return None
            rows = self._undominated(_Rows.joined(parts))
        return int(rows.end.max(axis=1).min())


def _front(state: Ints) -> Ints:
    """Rows of a table that no champion beats; champions are those of least sums, one after the other."""
    left = np.argsort(state.astype(np.float64).sum(axis=1), kind="stable")
    kept: list[int] = []
    for _ in range(CHAMPIONS if len(state) > FEW else len(state)):
        if not len(left):
            break
        champion, rest = left[0], left[1:]
        kept.append(int(champion))
        left = rest[(state[rest] < state[champion]).any(axis=1)]
    return np.concatenate([np.array(kept, dtype=np.int64), left])


def least_makespan(problem: PlacementProblem, limit_ms: float, size: WalkSize) -> float:
    """Least makespan of all schedules without contention, ms, or the limit if nothing is below it.

    What is better by less than rounding counts as equal.

    Raises
    ------
    ValueError
        A level has too many partial schedules.
    """
    if limit_ms <= 0:
        return limit_ms
    unit_ms = 2.0 ** (math.frexp(limit_ms)[1] - BITS)
    tasks = _Tasks.of(problem, unit_ms)
    tasks = tasks.reversed() if size.backwards else tasks
    limit = int(limit_ms * (1 - Tolerance.ROUNDING.relative) / unit_ms)
    walk = _Walk(tasks, limit, tails(tasks, size.doll_tasks, size.doll_rows))
    least = walk.least(size.rows)
    return limit_ms if least is None else min(limit_ms, least * unit_ms)
