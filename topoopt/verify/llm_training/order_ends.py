"""When the passes of pipelines end, for many strategies of one order at once, level by level.

A pass ends behind its rank's pass before, and behind what it waits for. Of many micro-batches so few are followed that
a stretch of them, wider than any pass waits for, is the stretch before it plus a constant: then so is every later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.pass_levels import Levels, levelled
from topoopt.verify.llm_training.pass_orders import rank_order

EXACT = 2.0**52
"""Doubles hold whole numbers up to twice this."""

MOST_ENDS = 4_000_000
"""Passes times strategies that are followed together."""

STRETCHES = {S.INTERLEAVED: (3, 4, 3)}
"""In periods: micro-batches before the stretches that are compared, in one, behind the second."""

PLAIN_STRETCH = (2, 3, 2)


@dataclass(frozen=True, eq=False)
class OrderCosts:
    """Ticks: passes float64[4 stages + 1, R] (F, B, I, W, nothing), a hop float64[R], before when no pass of a stage
    begins float64[stages, R]; ticks of a second float64[R]."""

    passes: Floats
    hop: Floats
    ready: Floats
    scale: Floats

    @staticmethod
    def of(forward: Floats, inputs: Floats, weights: Floats, hop: Floats, ready: Floats, m: int) -> OrderCosts:
        """Of seconds, as fine as sums of m micro-batches stay exact."""
        total = (forward + inputs + weights + 2.0 * hop).sum(axis=0) * m + ready.sum(axis=0) + hop
        scale = 2.0 ** np.floor(np.log2(EXACT / total))
        f, i, w, hops, begin = (np.rint(part * scale) for part in (forward, inputs, weights, hop, ready))
        return OrderCosts(np.concatenate([f, i + w, i, w, np.zeros((1, len(hop)))]), hops, begin, scale)


def ends_of(made: Levels, costs: OrderCosts) -> Floats:
    """float64[1 + copies + steps, R] ticks."""
    ends = np.zeros((made.size, len(costs.hop)))
    ends[1 : 1 + made.copies] = np.tile(costs.ready, (made.copies // len(costs.ready), 1))
    for level in made.levels:
        begin = ends[level[:, 1]] + level[:, 2:3] * costs.hop
        for column in (3, 5):
            np.maximum(begin, ends[level[:, column]] + level[:, column + 1 : column + 2] * costs.hop, out=begin)
        ends[level[:, 0]] = begin + costs.passes[level[:, 7]] + costs.passes[level[:, 8]]
    return ends


@lru_cache(maxsize=32)
def _ruled(schedule: S, p: int, v: int, m: int, blocking: bool) -> Levels:
    orders = [rank_order(schedule, rank, p, v, m) for rank in range(p)]
    return levelled(orders, p * v, blocking=blocking)


def _period(schedule: S, p: int) -> int:
    """Micro-batches of each stream after which an order repeats itself."""
    return p // 2 if schedule is S.DUALPIPE else p


def done_of(
    schedule: S, p: int, v: int, m: int, costs: OrderCosts, *, blocking: bool, made: Levels | None = None
) -> tuple[Floats, Floats]:
    """Seconds: when the last pass ends, float64[R], and the last one of every stage, float64[stages, R].

    Args:
        made: passes of an order that is no rule.
    """
    stages, count = p * v, len(costs.hop)
    if made is not None:
        return _last(made, ends_of(made, costs), stages, costs.scale, 0.0)
    streams, unit = (2 if schedule is S.DUALPIPE else 1), _period(schedule, p)
    before, wide, behind = STRETCHES.get(schedule, PLAIN_STRETCH)
    last, done = np.empty(count), np.empty((stages, count))
    left, longer = np.arange(count), 0
    while len(left):
        few = streams * unit * (before + longer + wide + 1 + behind)
        few += (m - few) % (streams * unit)
        repeats = few < m and schedule is not S.GPIPE
        made = _ruled(schedule, p, v, few if repeats else m, blocking)
        again: list[Ints] = []
        width = max(1, MOST_ENDS // made.size)
        for begin in range(0, len(left), width):
            own = left[begin : begin + width]
            part = OrderCosts(costs.passes[:, own], costs.hop[own], costs.ready[:, own], costs.scale[own])
            ends, later, proven = ends_of(made, part), np.zeros(len(own)), np.ones(len(own), dtype=bool)
            if repeats:
                first = unit * (before + longer)
                shift = _shift(made, ends, schedule, (first, first + unit * wide, unit), few, stages)
                proven = (shift == shift[0]).all(axis=0)
                later = shift[0] * ((m - few) // (streams * unit))
            last[own], done[:, own] = _last(made, ends, stages, part.scale, later)
            again.append(own[~proven])
        left, longer = np.concatenate(again), 2 * longer + 8
    return last, done


def _shift(made: Levels, ends: Floats, schedule: S, stretch: tuple[int, int, int], few: int, stages: int) -> Floats:
    """By how much the passes of a stretch are later one period on."""
    begin, end, unit = stretch
    second = (made.stage >= stages) & (schedule is S.DUALPIPE)
    place = made.micro - np.where(second, few // 2, 0)
    own = np.flatnonzero((begin <= place) & (place < end))
    later = made.micro[own] + unit
    if len(own) == 0 or later.max() >= made.table.shape[2]:
        return np.array([[0.0], [1.0]]) * np.ones((1, ends.shape[1]))
    number = made.table[made.kind[own], made.stage[own], later]
    if (number < 0).any():  # a pass of another kind: this is no steady part
        return np.array([[0.0], [1.0]]) * np.ones((1, ends.shape[1]))
    return np.asarray(ends[number] - ends[made.number[own]])


def _last(made: Levels, ends: Floats, stages: int, scale: Floats, later: Floats | float) -> tuple[Floats, Floats]:
    done = ends[made.final].reshape(-1, stages, ends.shape[1]).max(axis=0)
    return (ends[made.last].max(axis=0) + later) / scale, (done + later) / scale
