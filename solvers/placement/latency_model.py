"""Makespan of a placed graph as a CP-SAT model with intervals, in whole units of time, every time rounded down.

Sets: operators i, groups g of co-located operators, devices d, tensors t with their consumers.
Variables: at[g,d] in {0,1}, sum_d at[g,d] = 1; start[i]; span (the makespan).

1. memory:      sum_g m[g] at[g,d] <= M[d]
2. one_at_once: NoOverlap over the operators of each device that take time
3. precedence:  start[j] >= start[i] + p[i] + transfer of the tensor from the device of i to that of j
4. links (only with `queues`): transfers of one server out, and in, do not overlap (sharing FIFO), or those of one
   pair of servers (STATIC at given rates)
5. work:        span >= head + sum_i p[i,d] at + tail of each device (redundant)
6. symmetry:    if all devices are alike, the r-th largest group is on one of the first r + 1

Without (4) the model is a relaxation for every kind of sharing: a transfer is never faster than alone at the full rate
of both servers. Since times are rounded down, its bound holds for the true times in any case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.placement.search.groups import GroupGraph
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.placement.arrays import FIFO, STATIC, PlacementArrays

UNITS = 1 << 38
"""Units of time in the makespan known: rounding down n operators in a row loses n / UNITS of it."""


@dataclass(frozen=True, eq=False)
class LatencyModel:
    """The model and its variables; `unit_ms` is the length of a unit."""

    model: Any
    at: list[list[Any]]
    start: list[Any]
    span: Any
    unit_ms: float


def devices_alike(a: PlacementArrays) -> bool:
    """Whether any two devices can change names: equal times, memory, and links."""
    own_servers = len(set(a.server.tolist())) == len(a.server)
    one_server = len(set(a.server.tolist())) == 1
    if not (own_servers or one_server) or len(set(a.room.tolist())) > 1:
        return False
    links = {float(a.network[s]) for s in a.server.tolist()}
    return len(links) == 1 and bool((a.time == a.time[:, :1]).all())


def alone_ms(a: PlacementArrays, size: float, rates: Floats | None) -> Floats:
    """float64[k, k], time of a transfer of `size` bytes between each two devices, alone."""
    same = a.server[:, None] == a.server[None, :]
    network = a.network[a.server]
    rate = np.minimum(network[:, None], network[None, :]) if rates is None else rates[np.ix_(a.server, a.server)]
    if size > 0:
        with np.errstate(divide="ignore"):
            times = np.where(same, size / a.inside[a.server][:, None] + a.alpha_inside, size / rate + a.alpha)
    else:
        times = np.where(same, a.alpha_inside, a.alpha)
    np.fill_diagonal(times, 0.0)
    return times


def heads_and_tails(a: PlacementArrays) -> tuple[Floats, Floats]:
    """float64[n] each: longest path to the start of an operator, and from it to the end, without communication."""
    fast = a.time.min(axis=1)
    head, tail = np.zeros(len(fast)), np.zeros(len(fast))
    for i in a.topo:
        users = a.user[a.user_ptr[a.tensor_ptr[i]] : a.user_ptr[a.tensor_ptr[i + 1]]]
        head[users] = np.maximum(head[users], head[i] + fast[i])
    for i in a.topo[::-1]:
        users = a.user[a.user_ptr[a.tensor_ptr[i]] : a.user_ptr[a.tensor_ptr[i + 1]]]
        tail[i] = fast[i] + (tail[users].max() if len(users) else 0.0)
    return head, tail


def relabelled(a: PlacementArrays, g: GroupGraph, place: Ints) -> Ints:
    """An equal placement that obeys (6)."""
    names: dict[int, int] = {}
    for group in _by_work(g):
        names.setdefault(int(place[group]), len(names))
    return np.array([names[int(d)] for d in place], dtype=np.int64)


def _by_work(g: GroupGraph) -> list[int]:
    return [int(group) for group in np.lexsort((-g.memory, -g.time.min(axis=1)))]


class _LatencyBuilder:
    """Holds what the parts of the model share."""

    def __init__(self, a: PlacementArrays, g: GroupGraph, upper_ms: float, rates: Floats | None) -> None:
        from ortools.sat.python import cp_model

        self.a, self.g, self.rates = a, g, rates
        self.unit = upper_ms / UNITS
        self.horizon = UNITS
        self.model = cp_model.CpModel()
        self.size = np.floor(np.where(np.isfinite(a.time), a.time, 0.0) / self.unit).astype(np.int64)
        self.at: list[list[Any]] = []
        self.start: list[Any] = []
        self.apart: dict[tuple[int, int], Any] = {}
        self.fixed: dict[int, int] = {}

    def whole(self, time_ms: float) -> int:
        return math.floor(time_ms / self.unit)

    def place(self, fixed: dict[int, int]) -> None:
        from ortools.sat.python import cp_model

        a, g, model = self.a, self.g, self.model
        self.fixed = fixed
        for group in range(len(g.memory)):
            row = [
                model.new_bool_var(f"at_{group}_{d}")
                if np.isfinite(g.time[group, d]) and fixed.get(group, d) == d
                else model.new_constant(0)
                for d in range(len(a.room))
            ]
            model.add_exactly_one(row)
            self.at.append(row)
        for d, room in enumerate(a.room.tolist()):
            if g.memory.sum() > room:
                model.add(cp_model.LinearExpr.weighted_sum([row[d] for row in self.at], g.memory.tolist()) <= room)
        if devices_alike(a) and not fixed:
            for rank, group in enumerate(_by_work(g)[: len(a.room) - 1]):
                for d in range(rank + 1, len(a.room)):
                    model.add(self.at[group][d] == 0)

    def run(self) -> None:
        a, model = self.a, self.model
        head, tail = heads_and_tails(a)
        for i in range(len(head)):
            low, high = self.whole(head[i]), self.horizon - self.whole(tail[i])
            # heads and tails are sums rounded once; those of rounded terms may be smaller by a unit each
            self.start.append(model.new_int_var(max(0, low - len(head)), high + len(head), f"start_{i}"))
        for d in range(len(a.room)):
            intervals = [
                model.new_optional_fixed_size_interval_var(
                    self.start[i], int(self.size[i, d]), self.at[a.group[i]][d], f"run_{i}_{d}"
                )
                for i in range(len(head))
                if self.size[i, d] > 0 and np.isfinite(a.time[i, d]) and self.fixed.get(int(a.group[i]), d) == d
            ]
            model.add_no_overlap(intervals)

    def duration(self, i: int) -> Any:
        from ortools.sat.python import cp_model

        sizes = self.size[i]
        if (sizes == sizes[0]).all() and np.isfinite(self.a.time[i]).all():
            return int(sizes[0])
        return cp_model.LinearExpr.weighted_sum(self.at[self.a.group[i]], sizes.tolist())

    def differ(self, g: int, h: int) -> Any:
        """Literal: two groups are on different devices."""
        key = (min(g, h), max(g, h))
        if key not in self.apart:
            literal = self.model.new_bool_var(f"apart_{key[0]}_{key[1]}")
            for one, other in zip(self.at[g], self.at[h], strict=True):
                self.model.add_bool_or([~one, other, literal])
                self.model.add_bool_or([one, ~other, literal])
                self.model.add_bool_or([~one, ~other, ~literal])
            self.apart[key] = literal
        return self.apart[key]

    def precede(self) -> None:
        a = self.a
        for i in range(len(self.start)):
            ends = self.start[i] + self.duration(i)
            for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
                alone = alone_ms(a, float(a.tensor_size[tensor]), self.rates)
                away = alone[~np.eye(len(alone), dtype=bool)]
                for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]]:
                    self._wait(int(a.group[i]), int(a.group[j]), ends, self.start[j], alone, away)

    def _wait(self, g: int, h: int, ends: Any, start: Any, alone: Floats, away: Floats) -> None:
        model = self.model
        if g == h or not len(away) or not away.any():
            model.add(start >= ends)
        elif g in self.fixed and h in self.fixed:
            model.add(start >= ends + self.whole(alone[self.fixed[g], self.fixed[h]]))
        elif np.isfinite(away).all() and self.whole(away.min()) == self.whole(away.max()):
            model.add(start >= ends + self.whole(away[0]) * self.differ(g, h))
        else:
            model.add(start >= ends)
            for d in range(len(alone)):
                for e in range(len(alone)):
                    both = [self.at[g][d], self.at[h][e]]
                    if not np.isfinite(alone[d, e]):
                        model.add_bool_or([~both[0], ~both[1]])
                    elif self.whole(alone[d, e]) > 0:
                        model.add(start >= ends + self.whole(alone[d, e])).only_enforce_if(both)

    def queue(self) -> None:
        """Rows (4)."""
        a, model = self.a, self.model
        queues: dict[tuple[object, ...], list[Any]] = {}
        for i in range(len(self.start)):
            g = int(a.group[i])
            ends = self.start[i] + self.duration(i)
            for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
                users = [int(j) for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]] if a.group[j] != g]
                size = float(a.tensor_size[tensor])
                if not users or size <= 0:
                    continue
                alone = alone_ms(a, size, self.rates)
                for e in range(len(a.room)):
                    self._queue_one(queues, tensor, g, ends, users, alone, e)
        for intervals in queues.values():
            if len(intervals) > 1:
                model.add_no_overlap(intervals)

    def _queue_one(
        self,
        queues: dict[tuple[object, ...], list[Any]],
        tensor: int,
        g: int,
        ends: Any,
        users: list[int],
        alone: Floats,
        e: int,
    ) -> None:
        a, model = self.a, self.model
        leave = model.new_int_var(0, self.horizon, f"leave_{tensor}_{e}")
        model.add(leave >= ends)
        for d in range(len(a.room)):
            s, t = int(a.server[d]), int(a.server[e])
            if s == t or not np.isfinite(alone[d, e]):
                continue
            sent = model.new_bool_var(f"sent_{tensor}_{d}_{e}")
            model.add_implication(sent, self.at[g][d])
            for j in users:
                there = self.at[int(a.group[j])][e]
                model.add_bool_or([~self.at[g][d], ~there, sent])
                model.add(self.start[j] >= leave + self.whole(alone[d, e])).only_enforce_if([self.at[g][d], there])
            interval = model.new_optional_fixed_size_interval_var(
                leave, self.whole(alone[d, e]), sent, f"way_{tensor}_{d}_{e}"
            )
            if a.sharing == STATIC:
                queues.setdefault((s, t), []).append(interval)
            elif a.sharing == FIFO:
                queues.setdefault(("out", s), []).append(interval)
                queues.setdefault(("in", t), []).append(interval)

    def finish(self) -> Any:
        from ortools.sat.python import cp_model

        a, model = self.a, self.model
        span = model.new_int_var(0, self.horizon, "span")
        for i in range(len(self.start)):
            if a.tensor_ptr[i] == a.tensor_ptr[i + 1]:
                model.add(span >= self.start[i] + self.duration(i))
        for d in range(len(a.room)):
            work = [int(total) for total in np.bincount(a.group, weights=self.size[:, d], minlength=len(self.at))]
            model.add(span >= cp_model.LinearExpr.weighted_sum([row[d] for row in self.at], work))
        model.minimize(span)
        return span


def build_latency_model(
    a: PlacementArrays,
    g: GroupGraph,
    upper_ms: float,
    *,
    queues: bool = False,
    rates: Floats | None = None,
    fixed: dict[int, int] | None = None,
) -> LatencyModel:
    """The model of everything not above `upper_ms`.

    Args:
        queues: with rows (4).
        rates: float64[S, S] bytes/ms, of sharing STATIC; None: the full rate of the links.
        fixed: devices of groups that stay where they are.
    """
    builder = _LatencyBuilder(a, g, upper_ms, rates)
    builder.place(fixed or {})
    builder.run()
    builder.precede()
    if queues:
        builder.queue()
    span = builder.finish()
    return LatencyModel(builder.model, builder.at, builder.start, span, builder.unit)
