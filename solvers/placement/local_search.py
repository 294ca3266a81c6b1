"""Local search on stages: move one block, or the blocks between it and the border, keep what lowers the objective.

The cost of a move is found from the nets of the moved block alone, by counting the ends of every net in every slot.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from formulations.placement.stage_graph import StageGraph
from topoopt.core.arrays import Ints
from topoopt.core.placement import Communication, Schedule, Throughput


class _State:
    """Loads of all slots under a placement, updated move by move."""

    def __init__(self, graph: StageGraph, settings: Throughput, slot: list[int], group: list[int]) -> None:
        self.graph, self.settings, self.slot, self.group = graph, settings, slot, group
        self.compute = [[0.0, 0.0] for _ in group]
        self.sent = [[0.0, 0.0] for _ in group]
        self.memory = [0] * len(group)
        self.nets_of: dict[int, list[int]] = defaultdict(list)
        self.ends: list[dict[int, int]] = []
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

    def _put(self, block: int, where: int, sign: int) -> None:
        forward, backward = self._time[block][self.group[where]]
        self.compute[where][0] += sign * forward
        self.compute[where][1] += sign * backward
        self.memory[where] += sign * self._bytes[block]

    def _charge(self, t: int, sign: float) -> None:
        """Add or take away what a net costs: every slot that has an end of it, if there are several."""
        ends, net = self.ends[t], self.graph.nets[t]
        if len(ends) > 1:
            for where in ends:
                self.sent[where][net.phase] += sign * net.cost_ms

    def move(self, block: int, where: int) -> None:
        """Put a block into another slot."""
        before = self.slot[block]
        self._put(block, before, -1)
        self._put(block, where, 1)
        for t in self.nets_of[block]:
            self._charge(t, -1.0)
            ends = self.ends[t]
            ends[before] -= 1
            if not ends[before]:
                del ends[before]
            ends[where] += 1
            self._charge(t, 1.0)
        self.slot[block] = where

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
) -> Ints:
    """Stages after so many trial moves (simulated annealing with restarts from the best): int64[blocks].

    Order edges are kept; memory and support are kept where the start keeps them.
    """
    before: list[list[int]] = [[] for _ in range(graph.size)]
    after: list[list[int]] = [[] for _ in range(graph.size)]
    for a, b in graph.order.tolist():
        before[b].append(a)
        after[a].append(b)
    here = stage.tolist()
    state = _State(graph, settings, [slot_of_stage[j] for j in here], group_of_slot)
    value = best = state.value()
    kept = list(here)
    stages = len(slot_of_stage)
    heat = 0.02 * value
    blocks = rng.integers(0, graph.size, steps).tolist()
    draws = rng.random((steps, 2)).tolist()
    for step, block in enumerate(blocks):
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
        now = state.value()
        cold = heat * (1.0 - step / steps) ** 2 + 1e-12
        if now <= value or draws[step][1] < math.exp(min(0.0, (value - now) / cold)):
            value = now
            if now < best - 1e-12:
                best, kept = now, list(here)
            continue
        here[block] = old_stage
        if where != old_slot:
            state.move(block, old_slot)
    return np.array(kept, dtype=np.int64)
