"""Order slicing: cut a topological order of the blocks into stages, best for that order by dynamic programming.

One depth-first order alone is optimal on most published graphs, and within a percent on the others; a few dozen orders
make the start of the exact search. O(n^2) for each device group and step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from formulations.placement.stage_graph import StageGraph
from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import Communication, Schedule, Throughput

MOST_STATES = 4096
"""Ways to have used so many devices of each group; beyond, groups are taken one after the other."""

COARSE = 1500
"""Places where an order may be cut; longer orders may be cut between pieces of equal work only."""

THRESHOLDS = 24
"""Forward loads tried for GPipe, where the objective is a sum of two maxima."""


@dataclass(frozen=True, eq=False)
class Slices:
    """A placement: int64[blocks] stage of each block, and int64[stages] device group of each stage."""

    stage: Ints
    group: Ints
    value_ms: float


def random_order(graph: StageGraph, rng: np.random.Generator | None) -> list[int]:
    """A topological order, depth first; ties by number, or by the generator."""
    after: list[list[int]] = [[] for _ in range(graph.size)]
    waiting = [0] * graph.size
    for a, b in graph.order.tolist():
        after[a].append(b)
        waiting[b] += 1
    ready = [b for b in range(graph.size - 1, -1, -1) if waiting[b] == 0]
    if rng is not None:
        rng.shuffle(ready)
    order = []
    while ready:
        block = ready.pop()
        order.append(block)
        freed = [b for b in after[block] if waiting[b] == 1]
        for b in after[block]:
            waiting[b] -= 1
        if rng is not None:
            rng.shuffle(freed)
        ready += freed
    return order


def late_sources(graph: StageGraph, order: list[int]) -> list[int]:
    """The same order with every block without predecessors moved to just before its first successor."""
    place = {block: i for i, block in enumerate(order)}
    first = dict(place)
    has_before = {int(b) for _, b in graph.order}
    soonest: dict[int, int] = {}
    for a, b in graph.order.tolist():
        soonest[a] = min(soonest.get(a, len(order)), place[b])
    for block in order:
        if block not in has_before and block in soonest:
            first[block] = soonest[block]
    return sorted(order, key=lambda block: (first[block], block in has_before, place[block]))


def _crossing(n: int, pins: list[list[int]], phases: list[int], costs: list[float]) -> Floats:
    """float64[2, n + 1, n + 1]: by phase, costs of the nets with a pin in a segment and another one outside of it."""
    inside, outside = np.zeros((2, n + 1, n + 2)), np.zeros((2, n + 2, n + 1))
    total = np.zeros(2)
    for places, phase, cost in zip(pins, phases, costs, strict=True):
        total[phase] += cost
        inside[phase, places[0], places[-1] + 1] += cost
        for low, high in zip([-1, *places], [*places, n], strict=True):
            outside[phase, low + 1, high] += cost
    within = np.cumsum(np.cumsum(inside[:, ::-1], axis=1)[:, ::-1], axis=2)[:, :, : n + 1]
    untouched = np.cumsum(np.cumsum(outside, axis=1)[:, :, ::-1], axis=2)[:, : n + 1, ::-1]
    return np.asarray(np.maximum(total[:, None, None] - within - untouched, 0.0))


class SegmentCosts:
    """Costs of all segments [a, b) of an order: float64[n + 1, n + 1] tables, a first, inf where a > b.

    Where links differ, what a segment sends and receives costs what it costs a device of its group on average, or at
    least: with whom it will exchange that is not known.
    """

    def __init__(self, graph: StageGraph, order: list[int], *, average: bool = False) -> None:
        self._graph = graph
        self.cuts = self._places(graph, order)
        n = len(self.cuts) - 1
        position = np.empty(graph.size, dtype=np.int64)
        position[order] = np.repeat(np.arange(n), np.diff(self.cuts))
        pins = [sorted({int(position[net.source]), *(int(position[v]) for v in net.targets)}) for net in graph.nets]
        costs = graph.costs.mean(graph.nets) if average else graph.costs.least(graph.nets)
        known: dict[bytes, Floats] = {}
        self._communication = []
        for column in np.ascontiguousarray(costs.T):
            key = column.tobytes()
            if key not in known:
                known[key] = _crossing(n, pins, [net.phase for net in graph.nets], column.tolist())
            self._communication.append(known[key])
        self._work = self._prefix(graph.time_ms[:, order])
        self._bytes = self._prefix(graph.memory_bytes[order].astype(np.float64))
        self._n = n

    @staticmethod
    def _places(graph: StageGraph, order: list[int]) -> Ints:
        """Indices of the order at which it may be cut."""
        n = len(order)
        if n <= COARSE:
            return np.arange(n + 1)
        work = np.cumsum(np.where(np.isfinite(graph.time_ms), graph.time_ms, 0.0)[:, order].sum(axis=0).min(axis=1))
        work = work + np.arange(1, n + 1) * (1e-3 * work[-1] / n + 1e-12)  # blocks without work count a little
        marks = np.searchsorted(work, np.linspace(0.0, work[-1], COARSE + 1)[1:-1])
        return np.unique(np.concatenate(([0], marks, [n])))

    def _prefix(self, values: Floats) -> Floats:
        """Prefix sums along the order at the cuts; the order is axis -2 of times and the only one of bytes."""
        axis = 1 if values.ndim == 3 else 0
        finite = np.where(np.isfinite(values), values, 1e30)
        total = np.cumsum(finite, axis=axis)
        start = np.zeros_like(np.take(total, [0], axis=axis))
        return np.take(np.concatenate((start, total), axis=axis), self.cuts, axis=axis)

    def tables(self, settings: Throughput, group: int) -> Floats:
        """float64[phases, n + 1, n + 1]: load of a segment on a device of the group; one phase unless GPipe."""
        part = self._graph.groups[group]
        work = self._work[:, :, group]
        compute = work[:, None, :] - work[:, :, None]
        communication = np.zeros_like(compute) if part.host else self._communication[group]
        if settings.schedule is not Schedule.GPIPE:
            compute, communication = compute.sum(axis=0, keepdims=True), communication.sum(axis=0, keepdims=True)
        if settings.communication is Communication.ADDED:
            cost = compute + communication
        else:
            cost = np.maximum(compute, communication)
        forbidden = np.tri(self._n + 1, k=-1, dtype=bool) | (compute >= 1e29).any(axis=0)
        if part.memory_bytes is not None:
            forbidden |= self._bytes[None, :] - self._bytes[:, None] > part.memory_bytes
        cost[:, forbidden] = np.inf
        cost[:, np.arange(self._n + 1), np.arange(self._n + 1)] = 0.0
        return np.asarray(cost)


def _states(
    counts: list[int], *, fixed: tuple[int, ...] | None
) -> Iterator[tuple[tuple[int, ...], int, tuple[int, ...]]]:
    """Steps (from, group, to) of used devices, in an order in which every `from` comes before as a `to`."""
    if fixed is not None:
        used = [0] * len(counts)
        for group in fixed:
            before = tuple(used)
            used[group] += 1
            yield before, group, tuple(used)
        return
    for used_now in product(*(range(count + 1) for count in counts)):
        for group, count in enumerate(used_now):
            if count:
                before = (*used_now[:group], count - 1, *used_now[group + 1 :])
                yield before, group, used_now


def best_slices(
    cost: list[Floats], counts: list[int], fixed: tuple[int, ...] | None
) -> tuple[float, list[int], list[int]]:
    """Least largest cost of segments that cover the order: (value, ends of the segments, group of each).

    Args:
        cost: float64[n + 1, n + 1] of each group.
        counts: devices of each group, each used once (a segment may be empty).
        fixed: the groups in the order they are to be used; None: any.
    """
    n = len(cost[0]) - 1
    origin = tuple(0 for _ in counts)
    start = np.full(n + 1, np.inf)
    start[0] = 0.0
    best: dict[tuple[int, ...], Floats] = {origin: start}
    choice: dict[tuple[int, ...], tuple[Ints, Ints]] = {}
    for before, group, after in _states(counts, fixed=fixed):
        table = np.maximum(best[before][:, None], cost[group])
        arg = np.argmin(table, axis=0)
        value = table[arg, np.arange(n + 1)]
        if after not in best:
            best[after], choice[after] = value, (arg, np.full(n + 1, group))
            continue
        better = value < best[after]
        best[after] = np.where(better, value, best[after])
        old_arg, old_group = choice[after]
        choice[after] = (np.where(better, arg, old_arg), np.where(better, group, old_group))
    state, end = tuple(counts), n
    ends: list[int] = []
    groups: list[int] = []
    value = float(best[state][n])
    while state != origin and np.isfinite(value):
        arg, which = choice[state]
        group = int(which[end])
        ends.append(end)
        groups.append(group)
        end = int(arg[end])
        state = (*state[:group], state[group] - 1, *state[group + 1 :])
    return value, ends[::-1], groups[::-1]


def slice_order(
    graph: StageGraph,
    settings: Throughput,
    order: list[int],
    fixed: tuple[int, ...] | None = None,
    *,
    average: bool = False,
) -> Slices | None:
    """Best stages of an order, None if memory or support leave none; `average`: see `SegmentCosts`."""
    costs = SegmentCosts(graph, order, average=average)
    counts = [len(group.devices) for group in graph.groups]
    states = int(np.prod([count + 1 for count in counts], dtype=np.float64))
    if fixed is None and states > MOST_STATES:
        fixed = tuple(q for q, count in enumerate(counts) for _ in range(count))
    tables = [costs.tables(settings, q) for q in range(len(counts))]
    if settings.schedule is not Schedule.GPIPE:
        value, ends, groups = best_slices([table[0] for table in tables], counts, fixed)
    else:
        value, ends, groups = _two_maxima(tables, counts, fixed)
    if not np.isfinite(value):
        return None
    cuts = costs.cuts[[0, *ends]]
    stage = np.empty(graph.size, dtype=np.int64)
    stage[order] = np.repeat(np.arange(len(ends)), np.diff(cuts))
    return Slices(stage, np.array(groups, dtype=np.int64), value)


def _two_maxima(
    tables: list[Floats], counts: list[int], fixed: tuple[int, ...] | None
) -> tuple[float, list[int], list[int]]:
    """GPipe: the largest forward load is bounded, the largest backward load minimised, over a grid of such bounds."""
    least, ends, groups = best_slices([table[0] for table in tables], counts, fixed)
    best = (np.inf, ends, groups)
    if not np.isfinite(least):
        return best
    for factor in np.linspace(1.0, 2.0, THRESHOLDS):
        within = [np.where(table[0] <= least * factor * (1 + 1e-12), table[1], np.inf) for table in tables]
        value, ends, groups = best_slices(within, counts, fixed)
        if np.isfinite(value):
            marks = [0, *ends]
            forward = max(float(tables[q][0][a, b]) for q, a, b in zip(groups, marks, marks[1:], strict=False))
            best = min(best, (forward + value, ends, groups), key=lambda entry: entry[0])
    return best
