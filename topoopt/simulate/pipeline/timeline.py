"""When every pass of given orders begins and ends, and how much each rank holds at most.

A forward pass waits for that of the stage before; a backward pass for that of the stage behind and for its own forward
pass; gradients of weights for those of the inputs; and every pass for the one before it on its rank. Times are whole
multiples of a power of ten, small enough that all sums are exact in doubles: equal times compare equal.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.parallelism import PassKind, StageCosts
from topoopt.simulate.pipeline.orders import BACKWARD, FORWARD, INPUTS, JOINED, WEIGHTS, PassOrders

MOST_TICKS = 4e15
"""Sums of ticks stay below this; doubles are exact up to 9.0e15."""

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
    program = orders.program(blocking=ticks.blocking)
    forward, _, inputs, weights = (part.astype(np.float64)[:, None] for part in ticks.cost)
    ready = np.zeros((len(orders.rank_of_stage), 1))
    transfer, passes = np.array([float(ticks.transfer)]), np.arange(len(orders.passes))
    ends = program.ends(forward, inputs, weights, transfer, ready, passes)[:, 0].astype(np.int64)
    own = orders.start[:-1] < orders.start[1:]
    first, last = orders.start[:-1][own], orders.start[1:][own] - 1
    spans = np.zeros(orders.ranks, dtype=np.int64)
    stage = orders.passes[first, 2] % orders.model_stages
    spans[own] = ends[last] - ends[first] + ticks.cost[FORWARD, stage]  # all ranks begin with a forward pass
    return PipelineTimeline(ticks, ends, int(ends.max(initial=0)), spans)


def most_held(orders: PassOrders, activations: Floats, for_weights: Floats) -> Floats:
    """float64[p]: the most that each rank holds at any time, its orders being followed.

    Args:
        activations: float64[stages of the model], what a forward pass leaves behind.
        for_weights: float64[stages of the model], the part of it that is kept until the gradients of weights.
    """
    held, late = np.tile(activations, orders.copies), np.tile(for_weights, orders.copies)
    change = np.empty((len(PassKind), len(held)))
    change[FORWARD] = change[JOINED] = held
    change[BACKWARD], change[INPUTS], change[WEIGHTS] = -held, -(held - late), -late
    most = np.zeros(orders.ranks)
    for rank, (begin, end) in enumerate(itertools.pairwise(orders.start)):
        kinds, stages = orders.passes[begin:end, 0], orders.passes[begin:end, 2]
        most[rank] = np.cumsum(change[kinds, stages]).max(initial=0.0)
    return most
