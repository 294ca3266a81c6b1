"""A pipeline schedule says what shapes it allows, its order of passes, and how long an iteration takes."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError, Problem, raise_any
from topoopt.core.parallelism import PassKind, PipelineSchedule, PipelineShape, StageCosts
from topoopt.native import pipeline

FORWARD, BACKWARD, INPUTS, WEIGHTS, JOINED = (int(kind) for kind in PassKind)


@dataclass(frozen=True, eq=False)
class PassOrders:
    """What each rank does, in its order.

    Attributes:
        start: int64[p + 1], where the passes of each rank begin; those of rank r end where those of r + 1 begin.
        passes: int32[n, 3]: kind, micro-batch, stage.
        rank_of_stage: int64[S].
        before: int64[S], the stage that feeds each one; -1: none.
        after: int64[S], the stage that it feeds; -1: none.
        micro_batches: m.
        model_stages: stages of the model; less than S where the model is held several times.
    """

    start: Ints
    passes: Int32s
    rank_of_stage: Ints
    before: Ints
    after: Ints
    micro_batches: int
    model_stages: int

    @property
    def ranks(self) -> int:
        return len(self.start) - 1

    @property
    def copies(self) -> int:
        """How many times the model is held."""
        return len(self.rank_of_stage) // self.model_stages

    def program(self, *, blocking: bool) -> pipeline.PassProgram:
        """The passes in a sequence in which each stands behind all that it waits for.

        Args:
            blocking: a rank waits until what it sends has arrived.

        Raises:
            ValueError: passes wait for each other in a circle (a fault of the order).
        """
        return pipeline.PassProgram(
            self.start, self.passes, self.rank_of_stage, self.before, self.after, self.model_stages,
            self.micro_batches, blocking,
        )  # fmt: skip


def in_a_line(shape: PipelineShape, passes: Int32s, per_rank: int) -> PassOrders:
    """Orders of as many passes on every rank, stages round the ranks in turn.

    Args:
        passes: int32[p * per_rank, 3].
    """
    p, stages = shape.ranks, shape.stages
    numbers = np.arange(stages)
    return PassOrders(
        start=np.arange(p + 1) * per_rank,
        passes=passes,
        rank_of_stage=numbers % p,
        before=numbers - 1,
        after=np.append(numbers[1:], -1),
        micro_batches=shape.micro_batches,
        model_stages=stages,
    )


def gpipe(shape: PipelineShape) -> PassOrders:
    """All forward passes, then all backward ones, the last micro-batch first (Huang et al., NeurIPS 2019)."""
    m = shape.micro_batches
    return in_a_line(shape, _gpipe(shape.ranks, m), 2 * m)


def one_f_one_b(shape: PipelineShape) -> PassOrders:
    """Forward passes until the first one can come back, then one of each in turn (Narayanan et al., SOSP 2019)."""
    m = shape.micro_batches
    return in_a_line(shape, _one_f_one_b(shape.ranks, m), 2 * m)


def interleaved(shape: PipelineShape) -> PassOrders:
    """The same over chunks: groups of micro-batches pass one chunk of a rank, then the next (arXiv:2104.04473)."""
    m, group = shape.micro_batches, shape.group or shape.ranks
    return in_a_line(shape, _interleaved(shape.ranks, m, shape.chunks, group), 2 * m * shape.chunks)


def zb_h1(shape: PipelineShape) -> PassOrders:
    """1F1B whose gradients of weights wait r micro-batches on rank r: no more memory than 1F1B (arXiv:2401.10241)."""
    m = shape.micro_batches
    return in_a_line(shape, _zb_h1(shape.ranks, m), 3 * m)


def _woven(*streams: tuple[int, int, Ints, Ints]) -> Int32s:
    """int32[n, 3]: the passes of one rank, turn by turn.

    Args:
        streams: (kind, first turn, micro-batches, stages); a stream does one pass in each turn from its first one on,
            and within a turn they go in the order given.
    """
    turns = max(first + len(micro) for _, first, micro, _ in streams)
    passes = np.zeros((turns, len(streams), 3), dtype=np.int32)
    done = np.zeros((turns, len(streams)), dtype=np.bool_)
    for k, (kind, first, micro, stages) in enumerate(streams):
        own = slice(first, first + len(micro))
        passes[own, k, 0], passes[own, k, 1], passes[own, k, 2], done[own, k] = kind, micro, stages, True
    return passes[done]


def _gpipe(ranks: int, m: int) -> Int32s:
    numbers = np.arange(m)
    return np.concatenate(
        [
            _woven((FORWARD, 0, numbers, 0 * numbers + r), (BACKWARD, m, numbers[::-1], 0 * numbers + r))
            for r in range(ranks)
        ]
    )


def _one_f_one_b(ranks: int, m: int) -> Int32s:
    numbers, passes = np.arange(m), []
    for rank in range(ranks):
        own = 0 * numbers + rank
        passes.append(_woven((FORWARD, 0, numbers, own), (BACKWARD, min(ranks - 1 - rank, m), numbers, own)))
    return np.concatenate(passes)


def _interleaved(ranks: int, m: int, chunks: int, group: int) -> Int32s:
    turns = [
        (i, chunk)
        for first in range(0, m, group)
        for chunk in range(chunks)
        for i in range(first, min(first + group, m))
    ]
    micro, chunk = np.array(turns, dtype=np.int64).reshape(-1, 2).T
    passes = []
    for rank in range(ranks):
        ahead = min(2 * (ranks - rank - 1) + (chunks - 1) * group, m * chunks)
        there, back = chunk * ranks + rank, (chunks - 1 - chunk) * ranks + rank
        passes.append(_woven((FORWARD, 0, micro, there), (BACKWARD, ahead, micro, back)))
    return np.concatenate(passes)


def _zb_h1(ranks: int, m: int) -> Int32s:
    numbers, passes = np.arange(m), []
    for rank in range(ranks):
        ahead, own = min(ranks - 1 - rank, m), 0 * numbers + rank
        passes.append(
            _woven((FORWARD, 0, numbers, own), (INPUTS, ahead, numbers, own), (WEIGHTS, ahead + rank, numbers, own))
        )
    return np.concatenate(passes)


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
        return self.costs.seconds(self.makespan)

    @property
    def longest_span_s(self) -> float:
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


@dataclass(frozen=True)
class Period:
    """How an order repeats itself.

    Attributes:
        few: micro-batches of the pipeline that stands for the large one; they differ by a multiple of `batches`.
        batches: micro-batches of a period.
        rounds: L, of a period.
        passes: of a round.
        first: round, counted from o_r, at which the first of the two periods begins.
        skipped: passes of rank r before round x are `passes * x + skipped[r]`.
    """

    few: int
    batches: int
    rounds: int
    passes: int
    first: int
    skipped: tuple[int, ...]


def one_f_one_b_period(shape: PipelineShape) -> Period | None:
    p = shape.ranks
    return _simple(shape, 2, tuple(p - 1 - rank for rank in range(p)))


def zb_h1_period(shape: PipelineShape) -> Period | None:
    """The same; gradients of weights begin in round r of rank r."""
    p = shape.ranks
    return _simple(shape, 3, tuple(p - 1 - 2 * rank for rank in range(p)))


def _simple(shape: PipelineShape, passes: int, skipped: tuple[int, ...]) -> Period | None:
    p, m = shape.ranks, shape.micro_batches
    few = 3 * p + (m - 3 * p) % p
    return Period(few, p, p, passes, few - (p - 1) - 2 * p, skipped) if few < m else None


def interleaved_period(shape: PipelineShape) -> Period | None:
    """That of a group of micro-batches in all chunks; both periods lie in whole groups."""
    p, m, v = shape.ranks, shape.micro_batches, shape.chunks
    group = shape.group or p
    rounds, ahead = group * v, 2 * (p - 1) + (v - 1) * group
    groups = 2 - (-ahead // rounds)
    few = groups * group + m % group
    skipped = tuple(ahead - 2 * rank for rank in range(p))
    return Period(few, group, rounds, 2, (groups - 2) * rounds - ahead, skipped) if few < m else None


def dualpipe_period(shape: PipelineShape) -> Period | None:
    """That of p micro-batches, half of them from each end."""
    half = shape.ranks // 2
    depth = [min(rank, shape.ranks - 1 - rank) for rank in range(shape.ranks)]
    return _two_streams(shape, half, 2, depth)


def dualpipe_v_period(shape: PipelineShape) -> Period | None:
    """The same in the V shape."""
    return _two_streams(shape, shape.ranks, 1, list(range(shape.ranks)))


def _two_streams(shape: PipelineShape, half: int, streams: int, depth: list[int]) -> Period | None:
    """Rounds of the steady part, four passes each.

    Args:
        half: ranks from the end where a stream enters to where streams turn or meet.
        streams: that micro-batches are shared out to.
        depth: ranks between each one and that end.
    """
    m, batches = shape.micro_batches, half * streams
    few = 5 * batches + m % batches
    before = [5 * (half - device - 1) + 2 * (device + 1) for device in depth]
    skipped = tuple(passes - 4 * rank for rank, passes in enumerate(before))
    return Period(few, batches, half, 4, few // streams - 4 * half + 1, skipped) if few < m else None


def grown(period: Period, micro_batches: int) -> Period | None:
    """The same behind about twice as many micro-batches; None: that is all there are."""
    more = -(-period.few // period.batches)
    few = period.few + more * period.batches
    return replace(period, few=few, first=period.first + more * period.rounds) if few < micro_batches else None


def periods_compared(period: Period, start: Ints) -> tuple[Ints, Ints]:
    """Places of the passes of two periods, the second right behind the first; int64[ranks, rounds of both] each.

    Args:
        start: int64[p + 1], where the passes of each rank begin.
    """
    ranks, length = np.arange(len(period.skipped)), period.rounds * period.passes
    begin = start[:-1] + np.array(period.skipped) + period.passes * (period.first + ranks)
    first = begin[:, None] + np.arange(length)
    return first, first + length


def shift_of(period: Period, orders: PassOrders, line: PipelineTimeline) -> int | None:
    """D in ticks: by how much all ends of the second period are later than those of the first; None: it varies.

    Args:
        orders, line: of `few` micro-batches.
    """
    first, second = periods_compared(period, orders.start)
    later = line.ends[second] - line.ends[first]
    shift = int(later[0, 0])
    return shift if (later == shift).all() else None


def makespan_bound_s(shape: PipelineShape, costs: StageCosts, *, split: bool = True) -> float:
    """Seconds; stage j p + r is on rank r.

    Args:
        split: whether gradients of weights may be passes of their own.
    """
    p, m = shape.ranks, shape.micro_batches
    back = costs.inputs_s if split else costs.inputs_s + costs.weights_s
    hop = costs.transfer_s if p > 1 else 0.0
    rank = np.arange(p)
    ahead = np.concatenate([[0.0], np.cumsum(costs.forward_s)])[:p] + hop * rank
    behind = np.concatenate([[0.0], np.cumsum(back)])[:p] + hop * rank

    def of_ranks(times: np.ndarray) -> np.ndarray:
        return np.asarray(times.reshape(shape.chunks, p).sum(axis=0))

    work = m * of_ranks(costs.forward_s + costs.inputs_s + costs.weights_s)
    chain = m * of_ranks(costs.forward_s + back)
    return float(max((ahead + work).max(), (ahead + chain + behind).max()))


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
    PipelineSchedule.GPIPE: ScheduleLine("all forward passes, then all backward ones", _plain(gpipe), (ONE_CHUNK,)),
    PipelineSchedule.ONE_F_ONE_B: ScheduleLine(
        "one forward, one backward pass in turn", _plain(one_f_one_b), (ONE_CHUNK,), one_f_one_b_period
    ),
    PipelineSchedule.INTERLEAVED: ScheduleLine(
        "the same over several stages a rank", _plain(interleaved), GROUPS, interleaved_period
    ),
    PipelineSchedule.ZB_H1: ScheduleLine(
        "1f1b with gradients of weights put off, in its memory", _plain(zb_h1), (ONE_CHUNK,), zb_h1_period, splits=True
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
    raise_any(schedule_problems(schedule, shape))
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
        orders = pass_orders(schedule, replace(shape, micro_batches=period.few), ticks, held)
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
