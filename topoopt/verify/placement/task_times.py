"""Operators in topological order with their times and transfers as whole numbers: what walks over schedules add up.

Times are counted in a common divisor of theirs, less a part of it for rounding, where such numbers are small. Elsewhere
they are rounded down to multiples of a power of two, about 10^-13 of the limit. So all sums are exact. Both only
shorten schedules, by far less than the part of the value that counts as equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import PlacementProblem
from topoopt.verify.placement.bounds import topological_order

BITS = 44
"""Of the limit in units of time, where times have no common divisor."""

COMMON = 1e-11
"""Part of a common divisor by which the unit is less: times and their multiples may be rounded."""

DIGITS = 7
"""Decimal places of a millisecond that a common divisor may have, less one."""

Times = NDArray[np.signedinteger]
"""Numbers of units: int32 where all sums are small, else int64."""

Input = tuple[int, Times, int]
"""Operator; units of its transfer between any two devices, [], or from each to each, [k, k]; queued tensor, or -1."""


def never(times: Times) -> int:
    """A time that is never reached; six of them fit into a number."""
    return 1 << 28 if times.dtype == np.int32 else 1 << 60


@dataclass(frozen=True, eq=False)
class TaskTimes:
    """Operators in topological order, in units of time.

    Attributes:
        time: [n, k]; `never` where an operator cannot run.
        inputs: of every operator.
        label: int64[n]; operators of equal labels share a device.
        size_bytes, capacity: int64[n], int64[k].
        server: int64[k], counted in order of devices.
    """

    time: Times
    inputs: tuple[tuple[Input, ...], ...]
    label: Ints
    size_bytes: Ints
    capacity: Ints
    server: Ints

    @staticmethod
    def of(problem: PlacementProblem, limit_ms: float, *, queues: bool) -> tuple[TaskTimes, float]:
        """Return the operators of a problem, and ms of a unit."""
        order = topological_order(problem)
        index = {i: x for x, i in enumerate(order)}
        column = [entry.class_index for entry in problem.devices]
        times = np.array([[problem.operators[i].times_ms[c] for c in column] for i in order])
        tables = {size: _transfer_ms(problem, size) for size in {tensor.size_bytes for tensor in problem.tensors}}
        sent = len(problem.tensors) * len(problem.devices) if queues else 0
        values = np.concatenate([times.ravel(), *(table.ravel() for table in tables.values())])
        unit_ms, kind = _unit_ms(values, limit_ms, len(order) + sent)
        number: dict[int, int] = {}
        server = np.array([number.setdefault(entry.server, len(number)) for entry in problem.devices])
        compact = not queues or len(number) == len(server)
        units = {size: _transfer(_units(table, unit_ms, kind), compact=compact) for size, table in tables.items()}
        inputs: list[dict[tuple[int, int], Times]] = [{} for _ in order]
        queued = -1
        for tensor in problem.tensors:
            apart = queues and len(number) > 1 and tensor.size_bytes > 0
            queued += apart
            for user in tensor.consumers:
                own, key = inputs[index[user]], (index[tensor.producer], queued if apart else -1)
                table = units[tensor.size_bytes]
                own[key] = np.maximum(own[key], table) if key in own else table
        label = np.empty(len(order), dtype=np.int64)
        for g, members in enumerate(problem.colocated()):
            label[[index[i] for i in members]] = g
        most = np.iinfo(np.int64).max
        tasks = TaskTimes(
            _units(times, unit_ms, kind),
            tuple(tuple((i, own[i, tensor], tensor) for i, tensor in sorted(own)) for own in inputs),
            label,
            np.array([problem.operators[i].memory_bytes for i in order], dtype=np.int64),
            np.array([most if d.memory_bytes is None else d.memory_bytes for d in problem.devices], dtype=np.int64),
            server,
        )
        return tasks, unit_ms

    def reversed(self) -> TaskTimes:
        """Return the same with time running backwards: schedules are mirrored, makespans stay.

        Raises:
            ValueError: A queued tensor has several readers: backwards it is not sent when the first of them starts.
        """
        queued = [tensor for own in self.inputs for _, _, tensor in own if tensor >= 0]
        if len(set(queued)) < len(queued):
            raise ValueError("a queued tensor with several readers")
        last = len(self.time) - 1
        inputs: list[list[Input]] = [[] for _ in self.inputs]
        for j, own in enumerate(self.inputs):
            for i, transfer, tensor in own:
                inputs[last - i].append((last - j, transfer.T, tensor))
        return replace(
            self,
            time=self.time[::-1],
            inputs=tuple(tuple(sorted(own, key=lambda row: (row[0], row[2]))) for own in inputs),
            label=self.label[::-1],
            size_bytes=self.size_bytes[::-1],
        )

    def part(self, some: list[int]) -> TaskTimes:
        """Return some operators, ascending, each on its own and without bytes."""
        index = {i: x for x, i in enumerate(some)}
        number: dict[int, int] = {-1: -1}
        inputs = tuple(
            tuple(
                (index[i], transfer, number.setdefault(tensor, len(number) - 1))
                for i, transfer, tensor in self.inputs[j]
                if i in index
            )
            for j in some
        )
        none = np.zeros(len(some), dtype=np.int64)
        return replace(self, time=self.time[some], inputs=inputs, label=np.arange(len(some)), size_bytes=none)

    def successors(self) -> list[list[Input]]:
        """Return the users of every operator, with the transfers to them."""
        users: list[list[Input]] = [[] for _ in self.inputs]
        for j, own in enumerate(self.inputs):
            for i, transfer, tensor in own:
                users[i].append((j, transfer, tensor))
        return users

    def like_devices(self) -> list[tuple[int, int]]:
        """Return pairs of devices whose exchange changes nothing."""
        tables = [table for own in self.inputs for _, table, _ in own if table.ndim]
        pairs = []
        for d, e in combinations(range(self.time.shape[1]), 2):
            swap = np.arange(self.time.shape[1])
            swap[[d, e]] = e, d
            same = (self.time == self.time[:, swap]).all() and self.capacity[d] == self.capacity[e]
            if same and all((table == table[np.ix_(swap, swap)]).all() for table in tables):
                pairs.append((d, e))
        return pairs


def _unit_ms(times_ms: Floats, limit_ms: float, events: int) -> tuple[float, type[np.signedinteger]]:
    """Ms of a unit, and a type for sums of as many starts as there are events."""
    some = times_ms[(times_ms > 0) & (times_ms <= limit_ms)]
    for digits in range(DIGITS):
        scaled = some * 10.0**digits
        numbers = np.rint(scaled)
        if len(some) and scaled.max() < 1 << 53 and (np.abs(scaled - numbers) <= 0.1 * COMMON * scaled).all():
            unit_ms = float(np.gcd.reduce(numbers.astype(np.int64))) / 10.0**digits * (1 - COMMON)
            if limit_ms / unit_ms * max(16, events) < 1 << 31:
                return unit_ms, np.int32
            break
    return 2.0 ** (math.frexp(limit_ms)[1] - BITS), np.int64


def _units(ms: Floats, unit_ms: float, kind: type[np.signedinteger]) -> Times:
    far = never(np.zeros(0, dtype=kind))
    units: Times = np.minimum(np.where(np.isfinite(ms), ms, 0.0) / unit_ms, far).astype(kind)
    units[~np.isfinite(ms)] = far
    return units


def _transfer(table: Times, *, compact: bool) -> Times:
    """A table of transfers, or the one number in it off the diagonal."""
    apart = table[~np.eye(len(table), dtype=bool)]
    if compact and (apart == apart[:1]).all():
        return np.asarray(apart.max(initial=0), dtype=table.dtype)
    np.fill_diagonal(table, never(table))
    return table


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
