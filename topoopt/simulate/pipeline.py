"""A pipeline schedule says what shapes it allows, its order of passes, and how long an iteration takes."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.parallelism import PipelineSchedule, PipelineShape, StageCosts
from topoopt.native import pipeline
from topoopt.simulate import pipeline_timeline as orders
from topoopt.simulate.pipeline_timeline import (
    BACKWARD,
    FORWARD,
    INPUTS,
    JOINED,
    WEIGHTS,
    PassOrders,
    Period,
    PipelineTimeline,
    TickCosts,
    dualpipe_period,
    dualpipe_v_period,
    grown,
    in_a_line,
    interleaved_period,
    most_held,
    one_f_one_b_period,
    shift_of,
    timed,
    zb_h1_period,
)


def dualpipe(shape: PipelineShape) -> PassOrders:
    """Both ends of the ranks enter micro-batches; p even, m even and at least 2p.

    Stages 0 to p-1 are the copy of the model that runs up the ranks, p to 2p-1 the one that runs down.
    """
    p, m = shape.ranks, shape.micro_batches
    ranks, numbers = np.arange(p), np.arange(2 * p)
    up, down = (ranks, 0 * ranks), (2 * p - 1 - ranks, 0 * ranks + m // 2)
    near = np.where(ranks < p // 2, (up, down), (down, up))
    before, after = numbers - 1, numbers + 1
    before[p], after[p - 1], after[-1] = -1, -1, -1
    start, passes = _passes(np.minimum(ranks, p - 1 - ranks), p // 2, m // 2, near)
    home = np.where(numbers < p, numbers, 2 * p - 1 - numbers)
    return PassOrders(start, passes, home, before, after, m, model_stages=p)


def dualpipe_v(shape: PipelineShape) -> PassOrders:
    """The V shape: two stages a rank; m at least 2p."""
    p, m = shape.ranks, shape.micro_batches
    ranks, numbers = np.arange(p), np.arange(2 * p)
    streams = np.array([(ranks, 0 * ranks), (2 * p - 1 - ranks, 0 * ranks)])
    start, passes = _passes(ranks, p, m, streams)
    home = np.minimum(numbers, 2 * p - 1 - numbers)
    return PassOrders(start, passes, home, numbers - 1, np.append(numbers[1:], -1), m, model_stages=2 * p)


class _Rank:
    """The passes of one rank as they are written down; streams: (stage, first micro-batch) of both on this rank."""

    def __init__(self, streams: list[tuple[int, int]]) -> None:
        self.passes: list[tuple[int, int, int]] = []
        self.waiting: deque[tuple[int, int]] = deque()
        self._streams, self._there, self._back = streams, [0, 0], [0, 0]

    def _next(self, done: list[int], s: int) -> tuple[int, int]:
        stage, first = self._streams[s]
        done[s] += 1
        return first + done[s] - 1, stage

    def forward(self, s: int, kind: int = FORWARD) -> None:
        self.passes.append((kind, *self._next(self._there, s)))

    def backward(self, s: int) -> None:
        self.passes.append((BACKWARD, *self._next(self._back, s)))

    def inputs(self, s: int) -> None:
        self.waiting.append(self._next(self._back, s))
        self.passes.append((INPUTS, *self.waiting[-1]))

    def weights(self) -> None:
        self.passes.append((WEIGHTS, *self.waiting.popleft()))


def _passes(depth: Ints, half: int, m: int, streams: Ints) -> tuple[Ints, Int32s]:
    """Orders by eight steps.

    Args:
        depth: int64[p], ranks between each one and the end where its stream 0 enters.
        half: ranks from there to where the streams turn or meet.
        m: micro-batches of each stream.
        streams: int64[2, 2, p], stage and first micro-batch of both streams on each rank.
    """
    passes: list[tuple[int, int, int]] = []
    start = [0]
    for h, own in zip(depth.tolist(), streams.transpose(2, 0, 1).tolist(), strict=True):
        rank, rest = _Rank(own), half - h - 1
        for _ in range(2 * rest):  # 1
            rank.forward(0)
        for _ in range(h + 1):  # 2
            rank.forward(0)
            rank.forward(1)
        for _ in range(rest):  # 3
            rank.inputs(1)
            rank.weights()
            rank.forward(1)
        for i in range(m - 2 * half + h + 1):  # 4, the steady part
            rank.forward(0, FORWARD if i == 0 and rest == 0 else JOINED)
            rank.backward(1)
            rank.forward(1, JOINED)
            rank.backward(0)
        for _ in range(rest):  # 5
            rank.backward(1)
            rank.forward(1, JOINED)
            rank.backward(0)
        for i in range(2 * (h + 1)):  # 6: from the middle on, weights wait
            (rank.inputs if i >= h + 1 else rank.backward)(1 - i % 2)
        for _ in range(rest):  # 7
            rank.weights()
            rank.inputs(0)
        while rank.waiting:  # 8
            rank.weights()
        passes += rank.passes
        start.append(len(passes))
    return np.array(start, dtype=np.int64), np.array(passes, dtype=np.int32).reshape(-1, 3)


def zero_bubble(shape: PipelineShape, ticks: TickCosts, adds: Floats, capacity: Floats) -> PassOrders:
    """The best of the eight settings.

    Args:
        shape: of one chunk a rank.
        ticks: costs of the stages.
        adds: float64[3, p], memory taken by forward passes, gradients of inputs and gradients of
            weights on each rank; the latter two give back what the first took.
        capacity: float64[p], limit of each rank.

    Raises:
        InfeasibleError: the memory is too small for the rounds.
    """
    m = shape.micro_batches
    best: PassOrders | None = None
    shortest = 0
    cost = np.ascontiguousarray(ticks.cost[[FORWARD, INPUTS, WEIGHTS]])
    for switches in itertools.product((True, False), repeat=3):
        passes = pipeline.zero_bubble(cost, ticks.transfer, adds, capacity, m, *switches)
        orders = in_a_line(shape, passes, 3 * m)
        if len(passes) and (most_held(orders, adds[0], -adds[2]) <= capacity).all():
            span = int(timed(orders, ticks).spans.max())
            if best is None or span < shortest:
                best, shortest = orders, span
    if best is None:
        raise InfeasibleError("zero-bubble schedules: the memory holds too few micro-batches on a rank")
    return best


Rule = tuple[str, Callable[[PipelineShape], bool], str]
"""Name of a size, whether a shape keeps the rule, what is allowed."""


@dataclass(frozen=True, eq=False)
class PipelineMemory:
    """What ranks hold while micro-batches are on their way; the unit is the user's.

    Attributes:
        activations: float64[stages], what a forward pass leaves behind.
        for_weights: float64[stages], the part of it that is kept until the gradients of weights.
        capacity: float64[ranks]; None: twice p activations (only schedules that are made for a room look at it).
    """

    activations: Floats
    for_weights: Floats
    capacity: Floats | None = None

    @staticmethod
    def usual(stages: int) -> PipelineMemory:
        """In micro-batches; of the 34 s b h bytes of a layer, 32 wait for the weights (arXiv:2401.10241, table 2)."""
        return PipelineMemory(np.ones(stages), np.full(stages, 32.0 / 34.0))


@dataclass(frozen=True)
class ScheduleLine:
    """A line of the table.

    Attributes:
        summary: for people.
        order: of all passes.
        rules: for the sizes.
        period: how the order repeats itself; None: it does not, or nothing is proven.
        splits: whether gradients of inputs and weights are passes of their own.
        chunked: whether ranks may hold any number of stages.
    """

    summary: str
    order: Callable[[PipelineShape, TickCosts, PipelineMemory], PassOrders]
    rules: tuple[Rule, ...]
    period: Callable[[PipelineShape], Period | None] | None = None
    splits: bool = False


def _plain(order: Callable[[PipelineShape], PassOrders]) -> Callable[..., PassOrders]:
    return lambda shape, ticks, memory: order(shape)


def _zb_2p(shape: PipelineShape, ticks: TickCosts, memory: PipelineMemory) -> PassOrders:
    held, late = memory.activations, memory.for_weights
    capacity = 2.0 * shape.ranks * held if memory.capacity is None else memory.capacity
    return zero_bubble(shape, ticks, np.stack([held, late - held, -late]), capacity)


ONE_CHUNK: Rule = ("chunks", lambda shape: shape.chunks == 1, "1 for this schedule")
SEVERAL_CHUNKS: Rule = ("chunks", lambda shape: shape.chunks > 1, "at least 2 for this schedule")
TWO_CHUNKS: Rule = ("chunks", lambda shape: shape.chunks == 2, "2 for this schedule")
EVEN: Rule = ("stages", lambda shape: shape.ranks % 2 == 0, "an even number for this schedule")
EVEN_BATCHES: Rule = ("micro-batches", lambda shape: shape.micro_batches % 2 == 0, "an even number for this schedule")
FULL: Rule = ("micro-batches", lambda shape: shape.micro_batches >= 2 * shape.ranks, "at least twice the stages")


def _group(shape: PipelineShape) -> int:
    return shape.group or shape.ranks


GROUPS: tuple[Rule, ...] = (
    SEVERAL_CHUNKS,
    ("group", lambda shape: _group(shape) >= shape.ranks, "at least as many as stages"),
    (
        "micro-batches",
        lambda shape: shape.micro_batches % _group(shape) == 0 or shape.micro_batches % _group(shape) >= shape.ranks,
        "so many that those beside whole groups are none, or at least as many as stages",
    ),
)

SCHEDULES: Mapping[PipelineSchedule, ScheduleLine] = {
    PipelineSchedule.GPIPE: ScheduleLine(
        "all forward passes, then all backward ones", _plain(orders.gpipe), (ONE_CHUNK,)
    ),
    PipelineSchedule.ONE_F_ONE_B: ScheduleLine(
        "one forward, one backward pass in turn",
        _plain(orders.one_f_one_b),
        (ONE_CHUNK,),
        one_f_one_b_period,
    ),
    PipelineSchedule.INTERLEAVED: ScheduleLine(
        "the same over several stages a rank", _plain(orders.interleaved), GROUPS, interleaved_period
    ),
    PipelineSchedule.ZB_H1: ScheduleLine(
        "1f1b with gradients of weights put off, in its memory",
        _plain(orders.zb_h1),
        (ONE_CHUNK,),
        zb_h1_period,
        splits=True,
    ),
    PipelineSchedule.ZB_2P: ScheduleLine(
        "greedy zero-bubble rounds in twice the memory", _zb_2p, (ONE_CHUNK,), splits=True
    ),
    PipelineSchedule.DUALPIPE: ScheduleLine(
        "micro-batches enter at both ends, the model is held twice",
        _plain(dualpipe),
        (ONE_CHUNK, EVEN, EVEN_BATCHES, FULL),
        dualpipe_period,
        splits=True,
    ),
    PipelineSchedule.DUALPIPE_V: ScheduleLine(
        "micro-batches go up the ranks and come back",
        _plain(dualpipe_v),
        (TWO_CHUNKS, FULL),
        dualpipe_v_period,
        splits=True,
    ),
}


def schedule_problems(schedule: PipelineSchedule, shape: PipelineShape) -> list[Problem]:
    """What a schedule does not allow of a shape."""
    values = {
        "stages": shape.ranks,
        "micro-batches": shape.micro_batches,
        "chunks": shape.chunks,
        "group": _group(shape),
    }
    return [
        Problem(f"schedule {schedule} does not allow this", path=name, value=str(values[name]), allowed=allowed)
        for name, kept, allowed in SCHEDULES[schedule].rules
        if not kept(shape)
    ]


def pass_orders(
    schedule: PipelineSchedule, shape: PipelineShape, ticks: TickCosts, memory: PipelineMemory
) -> PassOrders:
    """The order of all passes.

    Raises:
        InputError: the schedule does not allow the shape.
        InfeasibleError: the room does not suffice.
    """
    problems = schedule_problems(schedule, shape)
    if problems:
        raise InputError(problems)
    return SCHEDULES[schedule].order(shape, ticks, memory)


@dataclass(frozen=True, eq=False)
class PipelineTime:
    """How long the micro-batches of an iteration are on their way.

    Attributes:
        makespan_s: from the first begin to the last end.
        longest_span_s: the longest time from the first begin to the last end of one rank: what an iteration takes where
            no rank waits for all others in between (the optimizer step of zero-bubble schedules).
        orders: of the micro-batches whose passes were followed; fewer than there are if the rest is proven to repeat
            them. What ranks hold at most is the same.
        line: when those passes end.
    """

    makespan_s: float
    longest_span_s: float
    orders: PassOrders
    line: PipelineTimeline


def pipeline_time(
    schedule: PipelineSchedule,
    shape: PipelineShape,
    costs: StageCosts,
    memory: PipelineMemory | None = None,
    *,
    whole: bool = False,
) -> PipelineTime:
    """Follow the passes of all micro-batches, or of so few that the others repeat them.

    Args:
        costs: of the stages of the model: p v.
        memory: what `zb-2p` looks at; None: as is usual.
        whole: follow all.

    Raises:
        InputError: the schedule does not allow the shape.
        InfeasibleError: the room does not suffice.
    """
    entry = SCHEDULES[schedule]
    held = memory or PipelineMemory.usual(shape.stages)
    ticks = TickCosts.of(costs, shape.micro_batches)
    period = None if whole or entry.period is None else entry.period(shape)
    while period is not None:
        few = replace(shape, micro_batches=period.few)
        orders = pass_orders(schedule, few, ticks, held)
        part = timed(orders, ticks)
        shift = shift_of(period, orders, part)
        if shift is not None:
            later = (shape.micro_batches - period.few) // period.batches * shift
            longest = int(part.spans.max())
            return PipelineTime(ticks.seconds(part.makespan + later), ticks.seconds(longest + later), orders, part)
        period = grown(period, shape.micro_batches)
    orders = pass_orders(schedule, shape, ticks, held)
    line = timed(orders, ticks)
    return PipelineTime(line.makespan_s, line.longest_span_s, orders, line)
