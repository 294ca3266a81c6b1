"""When every pass of given orders begins and ends, and how much each rank holds at most.

A forward pass waits for that of the stage before; a backward pass for that of the stage behind and for its own forward
pass; gradients of weights for those of the inputs; and every pass for the one before it on its rank. Times are whole
multiples of a power of ten, small enough that all sums fit 64 bits: equal times compare equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.pipeline import StageCosts
from topoopt.simulate.jit import borrowed, kernel, piece
from topoopt.simulate.pipeline.orders import BACKWARD, FORWARD, INPUTS, JOINED, WEIGHTS, PassOrders

MOST_TICKS = 4e18
"""Sums of ticks stay below this; int64 ends at 9.2e18."""

FINEST = 22
"""Powers of ten up to this one are doubles."""


@dataclass(frozen=True, eq=False)
class TickCosts:
    """Costs of stages as whole numbers.

    Attributes:
        per_second: ticks in a second, a power of ten.
        cost: int64[4, stages], by kind of pass (but for those joined) and stage of the model.
        transfer: int64, ticks.
        blocking: as in `StageCosts`.
    """

    per_second: float
    cost: Ints
    transfer: int
    blocking: bool

    @staticmethod
    def of(costs: StageCosts, micro_batches: int) -> TickCosts:
        """Rounded to the finest power of ten at which all passes one after the other fit."""
        forward, inputs, weights = costs.forward_s, costs.inputs_s, costs.weights_s
        total = float((forward + inputs + weights + 2.0 * costs.transfer_s).sum()) * micro_batches
        digits = FINEST if total <= 0.0 else min(FINEST, math.floor(math.log10(MOST_TICKS / total)))
        scale = 10.0**digits
        rounded = [np.rint(part * scale).astype(np.int64) for part in (forward, inputs, weights)]
        cost = np.stack([rounded[0], rounded[1] + rounded[2], rounded[1], rounded[2]])
        return TickCosts(scale, cost, round(costs.transfer_s * scale), costs.blocking)

    def seconds(self, ticks: float) -> float:
        """Of a number of ticks."""
        return float(ticks) / self.per_second


@dataclass(frozen=True, eq=False)
class PipelineTimeline:
    """When the passes of orders are done.

    Attributes:
        costs: of the stages.
        ends: int64[n] ticks, as the passes of the orders.
        makespan: ticks from the first begin to the last end.
        spans: int64[p] ticks from the first begin to the last end on each rank. Where no rank waits for all others
            between iterations, the longest one is what an iteration takes.
    """

    costs: TickCosts
    ends: Ints
    makespan: int
    spans: Ints

    @property
    def makespan_s(self) -> float:
        """Seconds."""
        return self.costs.seconds(self.makespan)

    @property
    def longest_span_s(self) -> float:
        """Seconds."""
        return self.costs.seconds(int(self.spans.max()))


def timed(orders: PassOrders, ticks: TickCosts) -> PipelineTimeline:
    """Do the passes as early as their order allows.

    Raises:
        ValueError: passes wait for each other in a circle (a fault of the order).
    """
    cost = ticks.cost if orders.copies == 1 else np.tile(ticks.cost, orders.copies)
    arrived = np.full((2, len(orders.before), orders.micro_batches), -1)
    ends, spans = _ends(
        orders.start,
        orders.passes,
        orders.rank_of_stage,
        orders.before,
        orders.after,
        cost,
        ticks.transfer,
        ticks.blocking,
        arrived,
    )
    if len(ends) < len(orders.passes):
        raise ValueError("passes wait for each other in a circle")
    return PipelineTimeline(ticks, ends, int(ends.max(initial=0)), spans)


@piece
def _ready(kind: int, i: int, stage: int, before: Ints, after: Ints, arrived: Ints) -> int:  # pragma: no cover
    """When all that a pass waits for is there; -1: not known yet."""
    if kind == FORWARD:
        return int(arrived[0, before[stage], i]) if before[stage] >= 0 else 0
    if kind == WEIGHTS:
        return 0 if arrived[1, stage, i] >= 0 else -1
    if arrived[0, stage, i] < 0:
        return -1
    return int(arrived[1, after[stage], i]) if after[stage] >= 0 else 0


@kernel
def _ends(
    start: Ints,
    passes: Int32s,
    rank_of_stage: Ints,
    before: Ints,
    after: Ints,
    cost: Ints,
    transfer: int,
    blocking: bool,
    arrived: Ints,
) -> tuple[Ints, Ints]:  # pragma: no cover - compiled
    # arrived[0 | 1, stage, micro-batch]: when the next stage has what a pass forwards | backwards sends; -1: not yet
    ranks = len(start) - 1
    before, after, passes, arrived = borrowed((before, after, passes, arrived))
    ends = np.empty(len(passes), dtype=np.int64)
    at, free, first = start[:-1].copy(), np.zeros(ranks, dtype=np.int64), np.zeros(ranks, dtype=np.int64)
    left, moved = len(passes), True
    while left > 0 and moved:
        moved = False
        for turn in range(2 * ranks):
            rank = turn if turn < ranks else 2 * ranks - 1 - turn
            while at[rank] < start[rank + 1]:
                place = at[rank]
                kind, i, stage = passes[place, 0], passes[place, 1], passes[place, 2]
                joined = kind == JOINED
                ready = _ready(FORWARD if joined else kind, i, stage, before, after, arrived)
                if joined:
                    behind, back = passes[place + 1, 1], passes[place + 1, 2]
                    other = _ready(BACKWARD, behind, back, before, after, arrived)
                    ready = max(ready, other) if min(ready, other) >= 0 else -1
                if ready < 0:
                    break
                begin = max(free[rank], ready)
                end = begin + cost[FORWARD if joined else kind, stage]
                if joined:
                    end += cost[BACKWARD, back]
                    ends[place + 1] = end
                if place == start[rank]:
                    first[rank] = begin
                ends[place] = end
                free[rank] = end
                sent = end
                target = after[stage] if kind == FORWARD or joined else before[stage]
                if kind != WEIGHTS:
                    if target >= 0 and rank_of_stage[target] != rank:
                        sent = end + transfer
                    arrived[0 if kind == FORWARD or joined else 1, stage, i] = sent
                if joined:
                    away = before[back] >= 0 and rank_of_stage[before[back]] != rank
                    arrived[1, back, behind] = end + transfer if away else end
                    sent = max(sent, arrived[1, back, behind])
                if blocking:
                    free[rank] = sent
                at[rank] += 2 if joined else 1
                left -= 2 if joined else 1
                moved = True
    if left > 0:
        return ends[:0], first
    for rank in range(ranks):
        if start[rank + 1] > start[rank]:
            first[rank] = ends[start[rank + 1] - 1] - first[rank]
    return ends, first


def most_held(orders: PassOrders, activations: Floats, for_weights: Floats) -> Floats:
    """float64[p]: the most that each rank holds at any time, its orders being followed.

    Args:
        activations: float64[stages of the model], what a forward pass leaves behind.
        for_weights: float64[stages of the model], the part of it that is kept until the gradients of weights.
    """
    held, late = np.tile(activations, orders.copies), np.tile(for_weights, orders.copies)
    return _most_held(orders.start, orders.passes, held, late)


@kernel
def _most_held(
    start: Ints, passes: Int32s, activations: Floats, for_weights: Floats
) -> Floats:  # pragma: no cover - compiled
    most = np.zeros(len(start) - 1)
    for rank in range(len(most)):
        held = 0.0
        for at in range(start[rank], start[rank + 1]):
            kind, stage = passes[at, 0], passes[at, 2]
            if kind in (FORWARD, JOINED):
                held += activations[stage]
                most[rank] = max(most[rank], held)
            elif kind == BACKWARD:
                held -= activations[stage]
            elif kind == INPUTS:
                held -= activations[stage] - for_weights[stage]
            else:
                held -= for_weights[stage]
    return most
