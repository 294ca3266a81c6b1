"""When the passes of pipelines end, for many strategies of one order at once, level by level.

A pass ends behind its rank's pass before, and behind what it waits for; passes that wait for no more than those of the
levels before form the next level. Of many micro-batches so few are followed that a stretch of them, wider than any pass
waits for, is the stretch before it plus a constant: then so is every later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.pass_orders import Pass, rank_order

EXACT = 2.0**52
"""Doubles hold whole numbers up to twice this."""

MOST_ENDS = 4_000_000
"""Passes times strategies that are followed together."""

STRETCHES = {S.INTERLEAVED: (3, 4, 3)}
"""In periods: micro-batches before the stretches that are compared, in one, behind the second."""

PLAIN_STRETCH = (2, 3, 2)


@dataclass(frozen=True, eq=False)
class Levels:
    """Passes by level.

    Attributes:
        levels: for each an int64[k, 8]: the place of each pass, what is before it and whether it is a hop away (three
            times; place 0: nothing), and rows of costs as `places` counts them.
        place: of each pass.
        copies: stages, the model's copies counted apart.
    """

    levels: list[Ints]
    place: dict[Pass, int]
    copies: int


def levelled(orders: Sequence[list[Pass]], stages: int, *, blocking: bool) -> Levels:
    """Passes of ranks whose orders are given.

    Args:
        stages: of the model.

    Raises:
        ValueError: passes wait for each other.
    """
    home = {stage: rank for rank, own in enumerate(orders) for _, _, stage in own}
    copies, depth = len(home), {0: 0}
    place: dict[Pass, int] = {}
    at, last = [0] * len(orders), [(0, 0)] * len(orders)
    found: list[list[tuple[int, ...]]] = []
    started: set[int] = set()
    moved = True
    while moved:
        moved = False
        for rank, own in enumerate(orders):
            while at[rank] < len(own):
                kind, _, stage = own[at[rank]]
                both = [own[at[rank]], own[at[rank] + 1]] if kind == "J" else [own[at[rank]]]
                needs = [_need(one, stages, home, rank, place) for one in both]
                if any(need is None for need in needs):
                    break
                before = [last[rank], *(need for need in needs if need is not None)]
                if kind in "FJ" and stage not in started:
                    started.add(stage)
                    before.append((1 + stage, 0))  # weights that are gathered
                before += [(0, 0)] * (3 - len(before))
                rows = [_row(one, stages) for one in both] + [-1] * (2 - len(both))
                number = 1 + copies + len(place)
                own_depth = 1 + max(depth.get(source, 0) for source, _ in before)
                depth[number] = own_depth
                for one in both:
                    place[one] = number
                if own_depth > len(found):
                    found.append([])
                found[own_depth - 1].append((number, *(part for pair in before for part in pair), *rows))
                last[rank] = (number, int(blocking and any(_leaves(one, stages, home, rank) for one in both)))
                at[rank] += len(both)
                moved = True
    if any(place_ < len(own) for place_, own in zip(at, orders, strict=True)):
        raise ValueError("passes wait for each other")
    return Levels([np.array(level, dtype=np.int64) for level in found], place, copies)


def _step(one: Pass, stages: int) -> int | None:
    """The stage that gets what a pass makes."""
    kind, _, stage = one
    other = stage + 1 if kind in "FJ" else stage - 1
    same = other // stages == stage // stages and other >= 0
    return other if same and kind != "W" else None


def _leaves(one: Pass, stages: int, home: dict[int, int], rank: int) -> bool:
    other = _step(one, stages)
    return other is not None and home[other] != rank


def _need(one: Pass, stages: int, home: dict[int, int], rank: int, place: dict[Pass, int]) -> tuple[int, int] | None:
    """What a pass waits for on another stage, and whether that is a hop away; None: it is not known yet."""
    kind, i, stage = one
    other = stage - 1 if kind in "FJ" else stage + 1
    if kind == "W" or other < 0 or other // stages != stage // stages:
        return (0, 0)
    for name in "FJ" if kind in "FJ" else "BI":
        if (name, i, other) in place:
            return place[name, i, other], int(home[other] != rank)
    return None


def _row(one: Pass, stages: int) -> int:
    return "FBIW".index(one[0].replace("J", "F")) * stages + one[2] % stages


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
    """float64[1 + copies + passes, R] ticks."""
    count = costs.hop.shape[0]
    size = 1 + made.copies + len(made.place)
    ends = np.zeros((size, count))
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
        width = max(1, MOST_ENDS // len(made.place))
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
    one, other = [], []
    for (kind, i, stage), place in made.place.items():
        first = few // 2 if schedule is S.DUALPIPE and stage >= stages else 0
        if begin <= i - first < end:
            later = made.place.get((kind, i + unit, stage))
            if later is None:  # a pass of another kind: this is no steady part
                return np.array([[0.0], [1.0]]) * np.ones((1, ends.shape[1]))
            one.append(place)
            other.append(later)
    return np.asarray(ends[other] - ends[one])


def _last(made: Levels, ends: Floats, stages: int, scale: Floats, later: Floats | float) -> tuple[Floats, Floats]:
    done = np.zeros((stages, ends.shape[1]))
    final: dict[int, set[int]] = {}
    for (kind, _, stage), place in made.place.items():
        if kind in "BW":
            final.setdefault(stage % stages, set()).add(place)
    for stage, places in final.items():
        done[stage] = ends[sorted(places)].max(axis=0)
    return (ends.max(axis=0) + later) / scale, (done + later) / scale
