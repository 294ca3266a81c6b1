"""Stages of a pipeline from topological orders of its blocks, and local search on stages.

Order slicing cuts an order into stages, best for that order by dynamic programming, O(n^2) for each device group and
step. One depth-first order alone is optimal on most published graphs, and within a percent on the others; a few dozen
orders make the start of the exact search.

Local search moves one block, or exchanges the devices of two stages, and keeps what lowers the objective. The cost of a
move follows from the nets of the moved block alone, by counting the ends of every net in every slot.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from formulations.stage_order import StageGraph
from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import Throughput

COARSE = 1500
"""Places where an order may be cut; longer orders may be cut between pieces of equal work only."""

THRESHOLDS = 24
"""Forward loads tried for GPipe, where the objective is a sum of two maxima."""


@dataclass(frozen=True, eq=False)
class Positions:
    """int64[blocks] stage of each block (slot, for free sets), and int64[slots] device group of each slot."""

    stage: Ints
    group: Ints


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
    position = {block: i for i, block in enumerate(order)}
    first = dict(position)
    has_before = {int(b) for _, b in graph.order}
    soonest: dict[int, int] = {}
    for a, b in graph.order.tolist():
        soonest[a] = min(soonest.get(a, len(order)), position[b])
    for block in order:
        if block not in has_before and block in soonest:
            first[block] = soonest[block]
    return sorted(order, key=lambda block: (first[block], block in has_before, position[block]))


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
        cached: dict[bytes, Floats] = {}
        self._communication = []
        for column in np.ascontiguousarray(costs.T):
            key = column.tobytes()
            if key not in cached:
                cached[key] = _crossing(n, pins, [net.phase for net in graph.nets], column.tolist())
            self._communication.append(cached[key])
        self._work = self._prefix(graph.time_ms[:, order])
        self._bytes = self._prefix(graph.memory_bytes[order].astype(np.float64))
        self._n = n

    @staticmethod
    def _places(graph: StageGraph, order: list[int]) -> Ints:
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
        if settings.schedule != "gpipe":
            compute, communication = compute.sum(axis=0, keepdims=True), communication.sum(axis=0, keepdims=True)
        cost = compute + communication if settings.communication == "added" else np.maximum(compute, communication)
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
) -> Positions | None:
    """Best stages of an order, None if memory or support leave none; `average`: see `SegmentCosts`."""
    costs = SegmentCosts(graph, order, average=average)
    counts = [len(group.devices) for group in graph.groups]
    states = int(np.prod([count + 1 for count in counts], dtype=np.float64))
    if fixed is None and states > 4096:  # beyond, groups are taken one after the other
        fixed = tuple(q for q, count in enumerate(counts) for _ in range(count))
    tables = [costs.tables(settings, q) for q in range(len(counts))]
    if settings.schedule != "gpipe":
        value, ends, groups = best_slices([table[0] for table in tables], counts, fixed)
    else:
        value, ends, groups = _two_maxima(tables, counts, fixed)
    if not np.isfinite(value):
        return None
    cuts = costs.cuts[[0, *ends]]
    stage = np.empty(graph.size, dtype=np.int64)
    stage[order] = np.repeat(np.arange(len(ends)), np.diff(cuts))
    return Positions(stage, np.array(groups, dtype=np.int64))


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


COLDEST = 1e-12
"""Part of the objective that is no gain, and of the first temperature that is left at the end."""


class _State:
    """Loads of all slots under a placement, updated move by move."""

    def __init__(self, graph: StageGraph, settings: Throughput, slot: list[int], group: list[int]) -> None:
        self.graph, self.settings, self.slot, self.group = graph, settings, slot, group
        self.compute = [[0.0, 0.0] for _ in group]
        self.sent = [[0.0, 0.0] for _ in group]
        self.memory = [0] * len(group)
        self.nets_of: dict[int, list[int]] = defaultdict(list)
        self.ends: list[dict[int, int]] = []
        self._pair_ms = [graph.costs.between(net).tolist() for net in graph.nets]
        for t, net in enumerate(graph.nets):
            ends: dict[int, int] = defaultdict(int)
            for block in (net.source, *net.targets):
                self.nets_of[block].append(t)
                ends[slot[block]] += 1
            self.ends.append(ends)
            self._charge(t, 1.0)
        self._time = graph.time_ms.transpose(1, 2, 0).tolist()
        self._bytes = graph.memory_bytes.tolist()
        for block, where in enumerate(slot):
            self._put(block, where, 1)

    def swap(self, first: int, other: int) -> bool:
        """Exchange the devices of two slots, if each can run and hold what the other one has; whether that was done."""
        pair = {first: other, other: first}
        blocks = [(block, where) for block, where in enumerate(self.slot) if where in pair]
        for where, to in pair.items():
            limit = self.graph.groups[self.group[to]].memory_bytes
            if limit is not None and self.memory[where] > limit:
                return False
        if not all(map(math.isfinite, (t for b, where in blocks for t in self._time[b][self.group[pair[where]]]))):
            return False
        for t in range(len(self.ends)):
            self._charge(t, -1.0)
        for block, where in blocks:
            self._put(block, where, -1)
        self.group[first], self.group[other] = self.group[other], self.group[first]
        for block, where in blocks:
            self._put(block, where, 1)
        for t in range(len(self.ends)):
            self._charge(t, 1.0)
        return True

    def _put(self, block: int, where: int, sign: int) -> None:
        forward, backward = self._time[block][self.group[where]]
        self.compute[where][0] += sign * forward
        self.compute[where][1] += sign * backward
        self.memory[where] += sign * self._bytes[block]

    def _charge(self, t: int, sign: float) -> None:
        """Add or take away what a net costs: each other slot that has an end of it, and the source the slowest copy."""
        ends, net = self.ends[t], self.graph.nets[t]
        if len(ends) < 2:
            return
        home = self.slot[net.source]
        cost = self._pair_ms[t][self.group[home]]
        slowest = 0.0
        for where in ends:
            if where != home:
                time = cost[self.group[where]]
                slowest = max(slowest, time)
                self.sent[where][net.phase] += sign * time
        self.sent[home][net.phase] += sign * slowest

    def move(self, block: int, where: int) -> None:
        before = self.slot[block]
        self._put(block, before, -1)
        self._put(block, where, 1)
        for t in self.nets_of[block]:
            self._charge(t, -1.0)
        self.slot[block] = where
        for t in self.nets_of[block]:
            ends = self.ends[t]
            ends[before] -= 1
            if not ends[before]:
                del ends[before]
            ends[where] += 1
            self._charge(t, 1.0)

    def fits(self, block: int, where: int) -> bool:
        """Whether a slot can run and hold one more block."""
        kind = self.graph.groups[self.group[where]]
        if not all(map(math.isfinite, self._time[block][self.group[where]])):
            return False
        return kind.memory_bytes is None or self.memory[where] + self._bytes[block] <= kind.memory_bytes

    def value(self) -> float:
        """The objective, and a little of the mean square of the loads so that plateaus have a slope."""
        settings = self.settings
        phases = ((0,), (1,)) if settings.schedule == "gpipe" else ((0, 1),)
        total, slope = 0.0, 0.0
        for phase in phases:
            loads = []
            for where, group in enumerate(self.group):
                compute = sum(self.compute[where][i] for i in phase)
                sent = 0.0 if self.graph.groups[group].host else sum(self.sent[where][i] for i in phase)
                added = settings.communication == "added"
                loads.append(compute + sent if added else max(compute, sent))
            worst = max(loads)
            total += worst
            slope += math.sqrt(sum(load * load for load in loads) / len(loads))
        return total + 1e-3 * slope


def improved(
    graph: StageGraph,
    settings: Throughput,
    stage: Ints,
    slot_of_stage: list[int],
    group_of_slot: list[int],
    rng: np.random.Generator,
    steps: int,
    *,
    swaps: bool = False,
) -> tuple[Ints, Ints]:
    """Stages after so many trial moves (simulated annealing): int64[blocks], and int64[slots] the group of each slot.

    Order edges are kept; memory and support are kept where the start keeps them. `swaps`: slots may exchange devices.
    """
    before: list[list[int]] = [[] for _ in range(graph.size)]
    after: list[list[int]] = [[] for _ in range(graph.size)]
    for a, b in graph.order.tolist():
        before[b].append(a)
        after[a].append(b)
    here = stage.tolist()
    state = _State(graph, settings, [slot_of_stage[j] for j in here], list(group_of_slot))
    value = best = state.value()
    kept = list(here), list(group_of_slot)
    stages = len(slot_of_stage)
    temperature = 0.02 * value
    blocks = rng.integers(0, graph.size, steps).tolist()
    draws = rng.random((steps, 2)).tolist()
    pairs = rng.integers(0, len(group_of_slot), (steps, 2)).tolist() if swaps else []
    for step, block in enumerate(blocks if temperature > 0 else []):
        undo: Callable[[], object]
        first, other = pairs[step] if swaps and not step % 20 else (0, 0)
        if first != other:
            if not state.swap(first, other):
                continue
            undo = partial(state.swap, first, other)
        else:
            low = max((here[a] for a in before[block]), default=0)
            high = min((here[b] for b in after[block]), default=stages - 1)
            target = low + int(draws[step][0] * (high - low + 1))
            old_stage, old_slot = here[block], state.slot[block]
            where = slot_of_stage[target]
            if target == old_stage or (where != old_slot and not state.fits(block, where)):
                continue
            if where != old_slot:
                state.move(block, where)
            here[block] = target
            undo = partial(_back, state, here, block, old_stage, old_slot)
        now = state.value()
        cold = temperature * ((1.0 - step / steps) ** 2 + COLDEST)
        if now <= value or draws[step][1] < math.exp(min(0.0, (value - now) / cold)):
            value = now
            if now < best * (1 - COLDEST):
                best, kept = now, (list(here), list(state.group))
        else:
            undo()
    return np.array(kept[0], dtype=np.int64), np.array(kept[1], dtype=np.int64)


def _back(state: _State, here: list[int], block: int, stage: int, slot: int) -> None:
    here[block] = stage
    if state.slot[block] != slot:
        state.move(block, slot)
