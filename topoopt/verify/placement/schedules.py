"""The least makespan of all schedules, derived by a walk over partial schedules: plain arrays.

Transfers have the links to themselves, which no schedule beats: the value is exact where nothing is shared (`none`),
and a lower bound for every other sharing. Or, with queues (`fifo`), a server sends one tensor at a time and receives
one at a time. Some best schedule starts each event, an operator or a queued transfer, as soon as its inputs, its device
and its ports allow; partial schedules are built by adding events in the order of their starts, a level for each number
of events. A row of a level is dropped if

* an operator that is to come has no device on which it ends, with what follows it, below the limit. Heads run from the
  row through the whole graph. Two inputs of an operator are made where it is, one after the other, or elsewhere, with
  their transfers; the best of these cases is a head that sees that two inputs cannot both be near and at once;
* operators with tails of at least t have more work, each on its best device, than all devices have room from the
  first start to the limit less t (energetic reasoning); or both are so at prices of the devices' time;
* another row of the same events has every device and port free and every input ready no later, its last start no
  later, holds no more bytes, and has starts of no larger sum. Of all schedules below the limit take one of least sum of
  starts. Its first events may be exchanged for those of the other row: it stays below the limit and of least sum, so
  that it starts everything as early as its order allows, and by induction over levels a row survives. With queues only
  rows of equal devices are held against each other, as far as these still matter;
* it is another one with the names of like devices exchanged (without queues).

The tail of an operator is also at least the makespan of all that follows it alone, found by the same walk on that part,
of few operators and few rows (Russian dolls). All may run backwards in time as well.

References
----------
Carlier: The one-machine sequencing problem, EJOR 11, 1982 (heads and tails). Verfaillie, Lemaitre, Schiex: Russian doll
search, AAAI 1996. Baptiste, Le Pape, Nuijten: Constraint-based scheduling, 2001 (energetic reasoning).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.placement import PlacementProblem, WalkSize
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Tolerance
from topoopt.verify.placement.task_times import TaskTimes, Times, never

PIECE = 1 << 12
"""Rows extended at once."""

CUTS = 24
"""Sets of operators whose work is held against the room of the devices."""

MAX_PRICE, PRICE_STEPS = 64, 200
"""Of the time of a device, twice the mean; and steps towards even prices."""

CHAMPIONS, FEW = 6, 64
"""Rows that the others of the same events are held against; all of at most so many."""

PAIRED = 8
"""Inputs of an operator that are looked at in pairs."""


@dataclass(frozen=True, eq=False)
class PartialSchedules:
    """Partial schedules, in columns.

    Attributes:
        done: bool[n, rows], which operators have been added.
        device: int16[n, rows], -1 where it is open; that of all co-located ones is fixed with the first.
        end: [n, rows], of those added.
        free: [k, rows], when each device is free.
        out, into: [servers, rows], when ports are free; no servers without queues.
        arrival: [tensors k, rows], of queued tensors on devices, -1 where they are not sent.
        last, total: [rows], the start added last, and the sum of all starts.
        limit, tag: [rows], the makespan that is allowed, and which of several searches a row belongs to.
    """

    done: Bools
    device: NDArray[np.int16]
    end: Times
    free: Times
    out: Times
    into: Times
    arrival: Times
    last: Times
    total: Times
    limit: Times
    tag: Ints

    def some(self, which: Bools | Ints | slice) -> PartialSchedules:
        return PartialSchedules(*(getattr(self, field.name)[..., which] for field in fields(self)))

    @staticmethod
    def joined(parts: list[PartialSchedules]) -> PartialSchedules:
        columns = ([getattr(part, field.name) for part in parts] for field in fields(PartialSchedules))
        return PartialSchedules(*(np.concatenate(arrays, axis=-1) for arrays in columns))


def _away(ends: Times, transfer: Times) -> Times:
    """Least entry of the other devices with the transfer from there, [k, ...]."""
    k = len(ends)
    if transfer.ndim:
        return np.asarray(np.min([ends[e] + transfer[e].reshape(k, *[1] * (ends.ndim - 1)) for e in range(k)], axis=0))
    least = np.full_like(ends, never(ends))
    if k > 1:
        before = np.minimum.accumulate(ends[:-1], axis=0)
        after = np.minimum.accumulate(ends[:0:-1], axis=0)[::-1]
        least[0], least[-1] = after[0], before[-1]
        np.minimum(before[:-1], after[1:], out=least[1:-1])
    least += transfer
    return least


Arrival = tuple[Times, Times, Times, Times, Times | None]
"""Start, time, end on each device, and end elsewhere with its transfer, [k, ...]; units at a port, where it queues."""


def _both(first: Arrival, second: Arrival) -> Times:
    """When two inputs are there: made there one after the other, one of them there, or both elsewhere."""
    start_a, time_a, near_a, far_a, port_a = first
    start_b, time_b, near_b, far_b, port_b = second
    near = np.maximum(np.maximum(near_a, near_b), np.minimum(start_a, start_b) + (time_a + time_b))
    mixed = np.minimum(np.maximum(near_a, far_b), np.maximum(far_a, near_b))
    apart = np.maximum(far_a, far_b)
    if port_a is not None and port_b is not None:  # they come in one after the other
        apart = np.maximum(apart, np.minimum(far_a - port_a, far_b - port_b) + (port_a + port_b))
    return np.asarray(np.minimum(np.minimum(near, mixed), apart))


def tails(tasks: TaskTimes, doll_tasks: int = 0, doll_rows: int = 0) -> Times:
    """Return [n, k], the least time from the end of an operator on a device to the end of everything.

    By the users, one and two at a time; by the work of all that follows; and where few operators follow, by their least
    makespan, as far as levels of few rows tell.
    """
    (count, k), far = tasks.time.shape, never(tasks.time)
    tail = np.zeros_like(tasks.time)
    fast, users = tasks.time.min(axis=1), tasks.successors()
    follows = np.zeros((count, count), dtype=bool)
    for i in reversed(range(count)):
        arrivals: list[Arrival] = []
        for j, transfer, tensor in users[i]:
            follows[i] |= follows[j]
            follows[i, j] = True
            own = np.minimum(tasks.time[j] + tail[j], far)
            # Two tensors leave one after the other; two readers of one are sent it once.
            alone = tensor >= 0 and not transfer.ndim and sum(tensor == other for _, _, other in users[i]) == 1
            away = _away(own, transfer.T)
            arrivals.append((tail[j], tasks.time[j], own, away, transfer if alone else None))
        for _, _, near, away, _ in arrivals:
            tail[i] = np.maximum(tail[i], np.minimum(near, away))
        for first, second in combinations(arrivals[:PAIRED], 2):
            tail[i] = np.maximum(tail[i], _both(first, second))
        least = tail.min(axis=1)
        for t in np.unique(least[follows[i]]).tolist():
            work = int(fast[follows[i] & (least >= t)].sum(dtype=np.int64))
            tail[i] = np.maximum(tail[i], min(-(-work // k) + t, far))
        tail[i] = np.minimum(tail[i], far)
        some = np.flatnonzero(follows[i]).tolist()
        if 2 <= len(some) <= doll_tasks:
            tail[i] = _doll(tasks.part([i, *some]), tail[[i, *some]], doll_rows)
    return tail


def _doll(part: TaskTimes, tail: Times, most: int) -> Times:
    """Least time after the first operator, on each device, to the end of its part, as far as few rows tell.

    Limits are raised until a schedule is below them, and halved where there are too many rows; all devices at once.
    """
    far, own, least = never(tail), part.time[0].tolist(), tail[0].tolist()
    refuted = [t - 1 for t in least]
    step = [t // 32 + 1 for t in least]
    too_much: dict[int, int] = {}
    active = [d for d in range(len(own)) if own[d] < far and least[d] < far]
    walk = LevelWalk(part, tail)
    while active:
        limit = [(refuted[d] + too_much[d]) // 2 if d in too_much else refuted[d] + step[d] for d in active]
        limit = [min(t, far - 1) for t in limit]
        rows = walk.first(np.array([own[d] + t for d, t in zip(active, limit, strict=True)], dtype=tail.dtype))
        rows.device[0] = active
        spans, exceeded = walk.least(most, rows)
        after = []
        for d, t, span, over in zip(active, limit, spans.tolist(), exceeded.tolist(), strict=True):
            if over:
                too_much[d] = t
            elif span < far:
                refuted[d] = span - own[d] - 1
                continue
            else:
                refuted[d], step[d] = t, 2 * step[d]
            if refuted[d] < far - 1 and not (d in too_much and too_much[d] - refuted[d] <= 1 + (refuted[d] >> 20)):
                after.append(d)
        active = after
    return np.array([t + 1 for t in refuted], dtype=tail.dtype)


def _even_prices(time: Floats) -> Ints:
    """Prices of devices, whole numbers, at which the least price of all work is a large part of that of all devices.

    Whatever the prices are, work of which each part goes where it is cheapest costs no more than the room it takes.
    """
    price = best = np.ones(time.shape[1])
    most, index = 0.0, np.arange(len(time))
    for step in range(PRICE_STEPS):
        home = (time * price).argmin(axis=1)
        load = np.bincount(home, weights=time[index, home], minlength=len(price))
        part = float((load * price).sum() / price.sum())
        if part > most:
            most, best = part, price
        price = price * (1 + (load / (load.mean() or 1.0) - 1) / (step + 4))
        price = price / price.mean()
    return np.clip(np.rint(0.5 * MAX_PRICE * best), 1, MAX_PRICE).astype(np.int64)


class LevelWalk:
    """Levels of partial schedules whose makespan may be at most a limit."""

    def __init__(self, tasks: TaskTimes, tail: Times) -> None:
        self.tasks, self.tail = tasks, tail
        self.n, self.k = tasks.time.shape
        self.far = never(tail)
        self.needs = [sorted({i for i, _, _ in own}) for own in tasks.inputs]
        self.users = tasks.successors()
        shared = [np.flatnonzero(tasks.label == label) for label in tasks.label]
        self.mates = [members[members != j].tolist() for j, members in enumerate(shared)]
        self.grouped = [j for j, mates in enumerate(self.mates) if mates]
        self.limited = bool(tasks.size_bytes.any())
        self.bytes = np.array([tasks.size_bytes[members].sum() for members in shared])
        readers: dict[int, list[int]] = {}
        for j, own in enumerate(tasks.inputs):
            for _, _, tensor in own:
                readers.setdefault(tensor, []).append(j)
        readers.pop(-1, None)
        self.queued = [
            (i, transfer, tensor, readers[tensor])
            for tensor in sorted(readers)
            for i, transfer, other in tasks.inputs[readers[tensor][0]]
            if other == tensor
        ]
        # With queues exchanged names would also change who sends.
        self.alike: dict[int, int] = {} if self.queued else {e: d for d, e in tasks.like_devices()}
        self.devices = np.arange(self.k)[:, None]
        self.instant: Bools = np.equal(tasks.time, 0)
        self.prices: list[Times] = []
        self.cuts: list[tuple[int, int, list[int]]] = []

    def first(self, limits: Times) -> PartialSchedules:
        """Return a row without operators for each limit."""
        count, kind = len(limits), self.tail.dtype
        ports = len(set(self.tasks.server.tolist())) if self.queued else 0
        return PartialSchedules(
            np.zeros((self.n, count), bool),
            np.full((self.n, count), -1, np.int16),
            np.zeros((self.n, count), kind),
            np.zeros((self.k, count), kind),
            np.zeros((ports, count), kind),
            np.zeros((ports, count), kind),
            np.full((len(self.queued) * self.k, count), -1, kind),
            np.zeros(count, kind),
            np.zeros(count, kind),
            limits,
            np.arange(count),
        )

    def heads(self, rows: PartialSchedules) -> tuple[Times, Bools]:
        """Earliest starts [n, k, rows] of what is to come, `never` if too late; bool[rows], open rows."""
        count, time, far = len(rows.last), self.tasks.time, self.far
        head = np.empty((self.n, self.k, count), dtype=time.dtype)
        ended = np.empty_like(head)
        took: list[Times] = []
        done: list[int] = rows.done.sum(axis=1).tolist()
        some, every = [of > 0 for of in done], [of == count for of in done]
        busy = np.maximum(rows.free, rows.last)
        good = np.ones(count, dtype=bool)
        for j, own in enumerate(self.tasks.inputs):
            finished = np.where(rows.device[j] == self.devices, rows.end[j], far) if some[j] else None
            took.append(np.where(rows.done[j], 0, time[j][:, None]) if some[j] else time[j][:, None])
            if finished is not None and every[j]:
                head[j], ended[j] = far, finished
                continue
            here = busy.copy()
            if self.instant[j].any():  # what takes no time does not wait for its device
                here[self.instant[j]] = rows.last
            arrivals: list[tuple[Arrival, bool]] = []
            for i, transfer, tensor in own:
                start = np.minimum(head[i], ended[i]) if some[i] else head[i]
                away, port = (
                    (_away(ended[i], transfer), None)
                    if tensor < 0
                    else self._sent(rows, i, transfer, tensor, ended[i], some=some[i])
                )
                np.maximum(here, np.minimum(ended[i], away), out=here)
                arrivals.append(((start, took[i], ended[i], away, port), every[i] and tensor < 0))
            for (first, past), (second, over) in combinations(arrivals[:PAIRED], 2):
                if not (past or over):  # of two inputs one of which is made, the later one is all there is to see
                    np.maximum(here, _both(first, second), out=here)
            end = here + time[j][:, None]
            late = end + self.tail[j][:, None] > rows.limit
            if (rows.device[j] >= 0).any():
                late |= (rows.device[j] >= 0) & (rows.device[j] != self.devices)
            here[late] = far
            end[late] = far
            able = ~late.all(axis=0)
            if finished is not None:
                here = np.where(rows.done[j], far, here)
                end = np.where(rows.done[j], finished, end)
                able |= rows.done[j]
            good &= able
            head[j], ended[j] = here, end
        return head, good

    def _sent(
        self, rows: PartialSchedules, i: int, transfer: Times, tensor: int, ends: Times, *, some: bool
    ) -> tuple[Times, Times | None]:
        """When a queued tensor is on each device if it is made elsewhere; and units at a port that it still takes."""
        server = self.tasks.server
        into = rows.into[server]
        if transfer.ndim:
            apart = server[:, None] != server
            away = np.min(
                [
                    np.where(apart[e][:, None], np.maximum(ends[e], into), ends[e]) + transfer[e][:, None]
                    for e in range(self.k)
                ],
                axis=0,
            )
        else:
            away = np.maximum(_away(ends, np.zeros_like(transfer)), into) + transfer
        arrival = rows.arrival[tensor * self.k : (tensor + 1) * self.k]
        if not some:
            return np.asarray(away), None if transfer.ndim else transfer
        at = np.maximum(rows.device[i], 0)
        took = transfer[at].T if transfer.ndim else transfer
        out = np.take_along_axis(rows.out, server[at][None], axis=0)[0]
        leaves = np.maximum(np.maximum(rows.end[i], out), rows.last)
        waits = np.where(server[at] == server[:, None], rows.end[i], np.maximum(leaves, into)) + took
        waits[at == self.devices] = self.far
        waits = np.where(arrival >= 0, arrival, np.minimum(waits, 2 * self.far))
        away = np.where(rows.done[i], waits, away)
        return np.asarray(away), None if transfer.ndim else np.where(arrival >= 0, 0, transfer)

    def root_cuts(self, rows: PartialSchedules) -> list[tuple[int, int, list[int]]]:
        """Sets of operators with heads of at least s and tails of at least t that have least room for their work.

        Each with its t and the price of devices at which that is so.
        """
        heads, good = self.heads(rows)
        if not good.any():
            return []
        nearest = heads[:, :, good].min(axis=2)
        able = nearest < self.far
        head = nearest.min(axis=1)
        tail = np.where(able, self.tail, self.far).min(axis=1)
        self.prices = [np.ones(self.k, head.dtype), _even_prices(np.where(able, self.tasks.time, np.inf))]
        work = [np.where(able, self.tasks.time * price, self.far).min(axis=1) for price in self.prices]
        ranked: dict[bytes, tuple[float, int, int, Bools]] = {}
        starts, ends = (
            np.unique(np.quantile(values, np.linspace(0, 1, 24), method="nearest")) for values in (head, tail)
        )
        limit = int(rows.limit.max())
        for s in starts:
            for t in ends:
                which = (head >= s) & (tail >= t)
                if which.sum() > 1:
                    own = int(tail[which].min())
                    room = np.maximum(limit - own - nearest[which].min(axis=0), 0)
                    used = [
                        int(total[which].sum(dtype=np.int64)) / max(1, int((room * price).sum(dtype=np.int64)))
                        for total, price in zip(work, self.prices, strict=True)
                    ]
                    best = int(np.argmax(used))
                    ranked[which.tobytes()] = (used[best], own, best, which)
        best_sets = sorted(ranked.values(), key=lambda row: -row[0])[:CUTS]
        return [(t, price, np.flatnonzero(which).tolist()) for _, t, price, which in best_sets]

    def fits(self, rows: PartialSchedules, head: Times) -> Bools:
        """bool[rows]: the work that is to come has room."""
        good = np.ones(len(rows.last), dtype=bool)
        todo, able = ~rows.done, head < self.far
        some: list[bool] = np.asarray(todo.any(axis=1)).tolist()
        large = int(rows.limit.max(initial=0)) * MAX_PRICE * max(self.n, self.k) >= 1 << 62  # for sums
        work: dict[int, Times] = {}
        for t, price, which in self.cuts:
            members = [j for j in which if some[j]]
            if not members or (price and large):
                continue
            paid = self.prices[price]
            if price not in work:
                dear = np.where(able, (self.tasks.time * paid)[:, :, None], self.far).min(axis=1)
                work[price] = np.where(todo, dear, 0)
            start, total = head[members[0]].copy(), work[price][members[0]].copy()
            for j in members[1:]:
                np.minimum(start, head[j], out=start)
                total += work[price][j]
            good &= total <= (paid[:, None] * np.maximum(rows.limit - t - start, 0)).sum(axis=0)
        return good

    def _able(self, rows: PartialSchedules, own: Ints, j: int, d: int) -> Bools:
        """Whether an operator may be on a device, in some rows."""
        fixed = rows.device[j, own]
        fine: Bools = (fixed < 0) | (fixed == d)
        if self.limited:
            held = self.tasks.size_bytes @ (rows.device[:, own] == d)
            fine &= (fixed >= 0) | (held + self.bytes[j] <= self.tasks.capacity[d])
        if d in self.alike:
            fine &= ((rows.device[:, own] == self.alike[d]) | (rows.device[:, own] == d)).any(axis=0)
        return fine

    def _events(self, rows: PartialSchedules, head: Times, index: Ints) -> Iterator[tuple[int, int, Ints, Times]]:
        """What may come next: operator, or n plus queued tensor; device; rows and starts."""
        server = self.tasks.server
        for j, own_inputs in enumerate(self.tasks.inputs):
            ready = ~rows.done[j, index]
            for i in self.needs[j]:
                ready &= rows.done[i, index]
            if not ready.any():
                continue
            for d in range(self.k):
                own = index[ready]
                own = own[head[j, d, own] < self.far]
                own = own[self._able(rows, own, j, d)]
                if not len(own):
                    continue
                start = np.zeros_like(rows.last[own]) if self.instant[j, d] else rows.free[d, own]
                fine = np.ones(len(own), dtype=bool)
                for i, transfer, tensor in own_inputs:
                    at = rows.device[i, own]
                    arrives = rows.end[i, own] + np.where(at == d, 0, transfer[at, d] if transfer.ndim else transfer)
                    if tensor >= 0:
                        sent, apart = rows.arrival[tensor * self.k + d, own], server[at] != server[d]
                        fine &= ~apart | (sent >= 0)
                        arrives = np.where(apart, sent, arrives)
                    start = np.maximum(start, arrives)
                fine &= start >= rows.last[own]
                fine &= start + (self.tasks.time[j, d] + self.tail[j, d]) <= rows.limit[own]
                if fine.any():
                    yield j, d, own[fine], start[fine]
        for i, transfer, tensor, readers in self.queued:
            made = index[rows.done[i, index]]
            for d in range(self.k) if len(made) else ():
                own = made[(server[rows.device[i, made]] != server[d]) & (rows.arrival[tensor * self.k + d, made] < 0)]
                reads = [
                    self._able(rows, own, j, d) & (head[j, d, own] < self.far) for j in readers
                ]  # not what is done
                own = own[np.any(reads, axis=0)]
                at = rows.device[i, own]
                start = np.maximum(np.maximum(rows.end[i, own], rows.out[server[at], own]), rows.into[server[d], own])
                took = transfer[at, d] if transfer.ndim else transfer
                after = min(int(self.tasks.time[j, d]) + int(self.tail[j, d]) for j in readers)
                fine = (start >= rows.last[own]) & (start + took + min(after, self.far) <= rows.limit[own])
                if fine.any():
                    yield self.n + tensor, d, own[fine], start[fine]

    def children(self, rows: PartialSchedules) -> PartialSchedules | None:
        """Return some rows with an event more, or None if all end too late."""
        head, good = self.heads(rows)
        if not good.all():
            rows, head = rows.some(good), head[:, :, good]
        fits = self.fits(rows, head)
        events = list(self._events(rows, head, np.flatnonzero(fits))) if fits.any() else []
        if not events:
            return None
        child = rows.some(np.concatenate([own for _, _, own, _ in events]))
        begin = 0
        for event, d, own, start in events:
            part = slice(begin, begin := begin + len(own))
            child.last[part] = start
            child.total[part] += start
            if event < self.n:
                ended = start + self.tasks.time[event, d]
                child.done[event, part] = True
                child.end[event, part] = ended
                if not self.instant[event, d]:
                    child.free[d, part] = ended
                child.device[[event, *self.mates[event]], part] = d
                continue
            i, transfer, tensor, readers = self.queued[event - self.n]
            at = child.device[i, part]
            arrives = start + (transfer[at, d] if transfer.ndim else transfer)
            child.out[self.tasks.server[at], np.arange(part.start, part.stop)] = arrives
            child.into[self.tasks.server[d], part] = arrives
            child.arrival[tensor * self.k + d, part] = arrives
            if len(readers) == 1:
                child.device[[readers[0], *self.mates[readers[0]]], part] = d
        return child

    def _compared(self, rows: PartialSchedules) -> tuple[list[NDArray[np.uint64]], list[Times]]:
        """Keys that compared rows share; and columns, of which less is better."""
        todo = ~rows.done
        keys, columns = [*_bytes(rows.tag[None]), np.packbits(rows.done, axis=0)], [rows.last, rows.total]
        columns += [*np.maximum(rows.free, rows.last)]
        if self.queued:
            read = np.array([todo[[j for j, _, _ in users]].any(axis=0) for users in self.users])
            keys += _bytes(np.where(read | todo, rows.device, -1) + 1)
            columns += [*np.maximum(rows.out, rows.last), *np.maximum(rows.into, rows.last)]
            columns += [np.where(read[i] & rows.done[i], np.maximum(rows.end[i], rows.last), 0) for i in range(self.n)]
            for _, _, tensor, readers in self.queued:
                arrival = rows.arrival[tensor * self.k : (tensor + 1) * self.k]
                relevant = todo[readers].any(axis=0) & (arrival >= 0)
                keys.append(np.packbits(relevant, axis=0))
                columns += [*np.where(relevant, np.maximum(arrival, rows.last), 0)]
        else:
            # Where a group has begun is no matter of less or more; nor is which of like devices are in use.
            keys += _bytes(np.where(todo[self.grouped], rows.device[self.grouped], -1) + 1)
            used = {*self.alike, *self.alike.values()}
            keys += [(rows.device == d).any(axis=0, keepdims=True).astype(np.uint8) for d in sorted(used)]
            for j, own in enumerate(self.tasks.inputs):
                ready = np.broadcast_to(rows.last, (self.k, len(rows.last))).copy()
                for i, transfer, _ in own:
                    there = todo[j] & rows.done[i]
                    at = rows.device[i]
                    moved = transfer[at].T if transfer.ndim else transfer
                    arrives = rows.end[i] + np.where(at == self.devices, 0, moved)
                    np.maximum(ready, np.where(there, arrives, 0), out=ready)
                columns += [column for column in ready if (column > rows.last).any()]
        if self.limited:
            columns += [self.tasks.size_bytes @ (rows.device == d) for d in range(self.k)]
        table = np.concatenate(keys)
        words = np.zeros((rows.last.size, -(-len(table) // 8) * 8), dtype=np.uint8)
        words[:, : len(table)] = table.T
        return list(words.view(np.uint64).T), columns

    def undominated(self, rows: PartialSchedules) -> PartialSchedules:
        """Return the rows without those that another row of the same events beats.

        Champions are the rows of least sums, one after the other, in all groups of comparable rows at once.
        """
        keys, columns = self._compared(rows)
        score = np.zeros(len(rows.last))
        for column in columns:
            score += column
        order = np.lexsort((score, *keys))
        change = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
        group = np.concatenate([[0], np.cumsum(change)])
        size = np.bincount(group)
        position = np.arange(len(order))
        kept = []
        for turn in range(FEW):
            if turn == CHAMPIONS:
                few = size[group[position]] <= FEW
                kept.append(position[~few])
                position = position[few]
            if not len(position):
                break
            leads = np.concatenate([[True], group[position][1:] != group[position][:-1]])
            champions = position[leads]
            kept.append(champions)
            against = order[champions[np.cumsum(leads) - 1][~leads]]
            position = position[~leads]
            position = position[~_beaten(columns, order[position], against)]
        return rows.some(order[np.sort(np.concatenate([*kept, position]))])

    def least(self, most: int, rows: PartialSchedules) -> tuple[Times, Bools]:
        """Return the least makespan within the limit of each row, `never` where there is none.

        Args:
            most: rows of a level of each search.

        Returns:
            The makespans, and whether a level had more rows.
        """
        count = len(rows.tag)
        best, exceeded = np.full(count, self.far, dtype=rows.limit.dtype), np.zeros(count, dtype=bool)
        self.cuts = self.cuts or self.root_cuts(rows)
        while len(rows.last):
            parts: list[PartialSchedules] = []
            sizes = np.zeros(count, dtype=np.int64)
            for begin in range(0, len(rows.last), PIECE):
                end_if_left()
                part = self.children(rows.some(slice(begin, begin + PIECE)))
                if part is not None:
                    parts.append(part)
                    sizes += np.bincount(part.tag, minlength=count)
                exceeded |= sizes > most
                if exceeded.all():
                    return best, exceeded
            if not parts:
                break
            rows = PartialSchedules.joined(parts)
            complete = rows.done.all(axis=0)
            np.minimum.at(best, rows.tag[complete], rows.end[:, complete].max(axis=0))
            rows = rows.some(~complete & ~exceeded[rows.tag])
            np.minimum(rows.limit, best[rows.tag] - 1, out=rows.limit)
            rows = self.undominated(rows) if len(rows.last) else rows
        return best, exceeded


def _bytes(numbers: Ints | NDArray[np.int16]) -> list[NDArray[np.uint8]]:
    """Both bytes of each of numbers below 2^16."""
    return [(numbers & 255).astype(np.uint8), (numbers >> 8).astype(np.uint8)]


def _beaten(columns: list[Times], some: Ints, against: Ints) -> Bools:
    """Whether no column of some rows is less than that of the rows that they are held against."""
    index = np.arange(len(some))
    for column in columns:
        index = index[column[some[index]] >= column[against[index]]]
    beaten = np.zeros(len(some), dtype=bool)
    beaten[index] = True
    return beaten


class ScheduleWalk:
    """All schedules of a problem in one direction of time, with the tails of its operators.

    Args:
        limit_ms: the largest makespan that is looked for, positive.
        size: of the walk; its rows are those of `least`.
        queues: whether transfers between servers queue at their ports, of sharing `fifo`.

    Raises:
        ValueError: The walk cannot run backwards.
    """

    def __init__(self, problem: PlacementProblem, limit_ms: float, size: WalkSize, *, queues: bool = False) -> None:
        tasks, self.unit_ms = TaskTimes.of(problem, limit_ms, queues=queues)
        self.tasks = tasks.reversed() if size.backwards else tasks
        self.tail = tails(self.tasks, size.doll_tasks, size.doll_rows)

    def least(self, limit_ms: float, max_rows: int) -> float:
        """Least makespan of all schedules, ms, or the limit if nothing is below it.

        What is better by less than rounding counts as equal.

        Raises:
            ValueError: A level has too many partial schedules.
        """
        limit = int(limit_ms * (1 - Tolerance.ROUNDING.relative) / self.unit_ms)
        walk = LevelWalk(self.tasks, self.tail)
        spans, exceeded = walk.least(max_rows, walk.first(np.array([limit], dtype=self.tail.dtype)))
        if exceeded[0]:
            raise ValueError(f"more than {max_rows} partial schedules")
        return limit_ms if spans[0] >= never(self.tail) else min(limit_ms, spans.item(0) * self.unit_ms)
