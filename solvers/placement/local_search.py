"""Local search on stages: move one block, or exchange the devices of two stages, keep what lowers the objective.

The cost of a move is found from the nets of the moved block alone, by counting the ends of every net in every slot.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np

from formulations.placement.stage_graph import StageGraph
from topoopt.core.arrays import Ints
from topoopt.core.placement import Communication, Schedule, Throughput

SWAP_EVERY = 20
"""Of so many trial moves one exchanges the devices of two slots; it costs about as much as the others together."""

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

    def swap(self, one: int, other: int) -> bool:
        """Exchange the devices of two slots, if each can run and hold what the other one has; whether that was done."""
        pair = {one: other, other: one}
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
        self.group[one], self.group[other] = self.group[other], self.group[one]
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
        """Put a block into another slot."""
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
        phases = ((0,), (1,)) if settings.schedule is Schedule.GPIPE else ((0, 1),)
        total, slope = 0.0, 0.0
        for phase in phases:
            loads = []
            for where, group in enumerate(self.group):
                compute = sum(self.compute[where][i] for i in phase)
                sent = 0.0 if self.graph.groups[group].host else sum(self.sent[where][i] for i in phase)
                added = settings.communication is Communication.ADDED
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
    heat = 0.02 * value
    blocks = rng.integers(0, graph.size, steps).tolist()
    draws = rng.random((steps, 2)).tolist()
    pairs = rng.integers(0, len(group_of_slot), (steps, 2)).tolist() if swaps else []
    for step, block in enumerate(blocks if heat > 0 else []):
        undo: Callable[[], object]
        one, other = pairs[step] if swaps and not step % SWAP_EVERY else (0, 0)
        if one != other:
            if not state.swap(one, other):
                continue
            undo = partial(state.swap, one, other)
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
        cold = heat * ((1.0 - step / steps) ** 2 + COLDEST)
        if now <= value or draws[step][1] < math.exp(min(0.0, (value - now) / cold)):
            value = now
            if now < best * (1 - COLDEST):
                best, kept = now, (list(here), list(state.group))
        else:
            undo()
    return np.array(kept[0], dtype=np.int64), np.array(kept[1], dtype=np.int64)


def _back(state: _State, here: list[int], block: int, stage: int, slot: int) -> None:
    """Take back the move of a block."""
    here[block] = stage
    if state.slot[block] != slot:
        state.move(block, slot)
