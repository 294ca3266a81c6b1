"""Strategies of training are enumerated by shape; a bound per shape proves which are best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints, divisors
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import END_SLOTS, LlmTrainingProblem, TrainingMemory
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, RankedStrategy, ShapeOutcome, ShapeVerdict, StrategyShape
from topoopt.core.parallelism import (
    RANK_ORDER,
    RANK_ORDERS,
    TENSOR_FIRST,
    ParallelDimension,
    ParallelStrategy,
    PipelineSchedule,
    Recompute,
)
from topoopt.core.proofs import StopReason
from topoopt.simulate.llm_training.costs import GroupRates, ledger, total_bytes
from topoopt.simulate.llm_training.strategies import (
    BOTH_ENDS,
    RECOMPUTE_CODES,
    SCHEDULE_CODES,
    Column,
    StrategyColumns,
    even_layers,
    short_ends,
    stage_layers,
)
from topoopt.simulate.llm_training.times import (
    GATHERED,
    REDUCED,
    STEP,
    iteration_times,
    order_bounds,
    stage_parts,
    with_balanced,
)


def strategy_shapes(problem: LlmTrainingProblem) -> list[StrategyShape]:
    """All that the rules and the space of the instance allow."""
    space, gpus, batch = problem.space, problem.cluster.gpus, problem.batch
    shapes = []
    for t in _tensors(problem):
        for c in _allowed(divisors(gpus // t), space.context):
            if c > 1 and batch.length % (2 * c):
                continue
            for p in _allowed(divisors(gpus // (t * c)), space.pipeline):
                d = gpus // (t * c * p)
                if p > problem.model.layers + END_SLOTS or batch.sequences % d or not _allowed([d], space.data):
                    continue
                if problem.pods is None or problem.pods.holds(t, c, gpus // p):
                    shapes += [StrategyShape(t, c, p, d, x, y) for x, y in _experts(problem, gpus // p)]
    return [shape for shape in shapes if _pods_hold_experts(problem, shape)]


def _pods_hold_experts(problem: LlmTrainingProblem, shape: StrategyShape) -> bool:
    """Whether pods, where there are any, hold whole groups of experts, or a group fills whole pods."""
    if problem.pods is None:
        return True
    gpus, experts = problem.pods.gpus, shape.expert
    return shape.expert_tensor == 1 and (gpus % experts == 0 or experts % gpus == 0)


def _allowed(values: list[int], pinned: tuple[int, ...] | None) -> list[int]:
    return values if pinned is None else [value for value in values if value in pinned]


def _tensors(problem: LlmTrainingProblem) -> Iterator[int]:
    model = problem.model
    for t in _allowed(divisors(problem.cluster.gpus), problem.space.tensor):
        heads = all(count % t == 0 or t % count == 0 for count in model.kv_heads)
        if heads and not any(whole % t for whole in (*model.heads, model.hidden, *model.inner)):
            yield t


def _experts(problem: LlmTrainingProblem, of_stage: int) -> Iterator[tuple[int, int]]:
    experts, space = problem.model.experts, problem.space
    if experts is None:
        if _allowed([1], space.expert) and _allowed([1], space.expert_tensor):
            yield 1, 1
        return
    for x in _allowed(divisors(experts.count), space.expert):
        for y in _allowed(divisors(experts.hidden), space.expert_tensor):
            if of_stage % (x * y) == 0:
                yield x, y


ONE_CHUNK = (PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ZB_H1, PipelineSchedule.ZB_2P)

PARTS = ("chunks", "zero", "micro_batch", "schedule", "recompute", "sequence", "first_less", "last_less", "order")
"""What strategies of a shape differ in; a row of a table has them in this order."""

ALL_SHARED = 3
"""ZeRO of weights that are gathered in every pass."""

EVEN, BALANCED = -1.0, -2.0
"""In place of how many layers fewer the ends have: layers are spread evenly, or so that the slowest rank is fastest."""


def rows_of_shape(problem: LlmTrainingProblem, shape: StrategyShape, *, free: bool = False) -> Column:
    """float64[records, 9], the parts of all strategies of a shape; schedules and recomputation as codes.

    Args:
        free: ZeRO and recomputation cost nothing: 0 and none stand for all, where no layers are divided by them.
    """
    tables = []
    space, batch = problem.space, problem.batch
    free = free and (shape.pipeline == 1 or space.layers == "even")
    zeros = _zeros(problem, shape)
    zeros = [min(zeros)] if free else zeros
    orders = orders_of_shape(problem, shape)
    recomputed = [Recompute.NONE] if free else _recomputations(problem)
    again = [float(RECOMPUTE_CODES[name]) for name in recomputed]
    for b in _allowed(divisors(batch.sequences // shape.data), space.micro_batch):
        m = batch.sequences // (shape.data * b)
        partitions = _partitions(problem, shape, m)
        split = [0.0] if shape.tensor == 1 else [0.0, 1.0]
        if b * batch.length // shape.context % shape.tensor:
            split = [0.0]
        split = [name for name in split if space.sequence is None or shape.tensor == 1 or bool(name) in space.sequence]
        grid = np.meshgrid(np.arange(len(partitions)), zeros, again, split, orders, indexing="ij")
        partition, zero, recompute, sequence, order = (part.ravel() for part in grid)
        if not len(partition):
            continue
        chunks, schedule, first, last = np.array(partitions, dtype=np.float64)[partition.astype(np.int64)].T
        parts = [chunks, zero, np.full_like(zero, b), schedule, recompute, sequence, first, last, order]
        tables.append(np.stack(parts, axis=1))
    rows = np.concatenate(tables) if tables else np.zeros((0, len(PARTS)))
    if PHOTONIC_RAILS in problem.fabrics:
        rows = rows[_standing_on_rails(problem, shape, rows)]
    if free:
        rows[:, PARTS.index("zero")] = 0.0
    return rows


def _standing_on_rails(problem: LlmTrainingProblem, shape: StrategyShape, rows: Column) -> Bools:
    """bool[records]: tensor and context groups lie inside servers, which hold one stage each; ranks hold the model
    once; passes gather no weights over the rail; and circuits have ports. Experts lie on no more servers than replicas.
    """
    allowed = np.zeros(len(rows), dtype=bool)
    ports = 0 if problem.switching is None else problem.switching.ports
    zero, schedule, order = (rows[:, PARTS.index(name)] for name in ("zero", "schedule", "order"))
    twice = np.isin(schedule, [SCHEDULE_CODES[schedule_name] for schedule_name in BOTH_ENDS])
    for code in np.unique(order):
        tensor, context, data, pipeline = _beside(problem, shape, RANK_ORDERS[int(code)])
        servers = shape.data * shape.context / (data * context)
        fits = max(min(shape.pipeline - 1, 2), min(servers - 1, 2)) <= ports
        if fits and (tensor, context) == (shape.tensor, shape.context) and pipeline == 1:
            allowed |= (order == code) & ~twice & ((zero < ALL_SHARED) | (servers == 1))
    return allowed


def _beside(
    problem: LlmTrainingProblem, shape: StrategyShape, order: tuple[ParallelDimension, ...]
) -> tuple[float, ...]:
    """Ranks of each dimension on a server, in the usual order of the dimensions."""
    sizes: dict[ParallelDimension, int] = {axis: getattr(shape, axis.value) for axis in RANK_ORDER}
    beside, stride = dict.fromkeys(RANK_ORDER, 1.0), 1
    for dimension in order:
        beside[dimension] = min(max(problem.cluster.gpus_per_server / stride, 1.0), float(sizes[dimension]))
        stride *= sizes[dimension]
    return tuple(beside.values())


def orders_of_shape(problem: LlmTrainingProblem, shape: StrategyShape) -> list[float]:
    """Orders of the ranks, as codes; of those that put the same groups on a server the first one."""
    codes: dict[tuple[float, ...], float] = {}
    for order in problem.space.order or TENSOR_FIRST:
        codes.setdefault(_beside(problem, shape, order), float(RANK_ORDERS.index(order)))
    return list(codes.values())


def _zeros(problem: LlmTrainingProblem, shape: StrategyShape) -> list[float]:
    pinned = problem.space.zero
    if shape.data * shape.context == 1:
        return [0.0]
    usual = (0, 1) if shape.pipeline > 1 else (0, 1, 2, 3)
    return [float(zero) for zero in (usual if pinned is None else pinned)]


def _recomputations(problem: LlmTrainingProblem) -> list[Recompute]:
    pinned = tuple(Recompute) if problem.space.recompute is None else problem.space.recompute
    same = problem.formats.flash and not problem.device.reached.again and Recompute.NONE in pinned
    return [recompute for recompute in pinned if not (same and recompute is Recompute.SELECTIVE)]


def stage_schedules(problem: LlmTrainingProblem, shape: StrategyShape, m: int) -> list[tuple[int, PipelineSchedule]]:
    """Chunks with a schedule, for m micro-batches of a replica."""
    p, space = shape.pipeline, problem.space
    names = tuple(PipelineSchedule) if space.schedule is None else space.schedule
    if problem.pods is not None:  # whose ranks hold one stage
        names = tuple(name for name in names if name is not PipelineSchedule.DUALPIPE)
    most = (problem.model.layers + END_SLOTS) // p
    if p == 1:
        partitions = [(1, PipelineSchedule.ONE_F_ONE_B)]
    else:
        partitions = [(1, name) for name in names if name in ONE_CHUNK]
        if PipelineSchedule.INTERLEAVED in names and m % p == 0:
            partitions += [(v, PipelineSchedule.INTERLEAVED) for v in range(2, most + 1)]
        if m >= 2 * p:
            if PipelineSchedule.DUALPIPE in names and p % 2 == 0 and m % 2 == 0:
                partitions.append((1, PipelineSchedule.DUALPIPE))
            if PipelineSchedule.DUALPIPE_V in names and most >= 2:
                partitions.append((2, PipelineSchedule.DUALPIPE_V))
    return [(v, name) for v, name in partitions if space.chunks is None or v in space.chunks]


def _partitions(problem: LlmTrainingProblem, shape: StrategyShape, m: int) -> list[tuple[float, ...]]:
    """Chunks, the code of the schedule, and how many layers fewer the ends have."""
    p = shape.pipeline
    return [
        (v, SCHEDULE_CODES[name], *ends)
        for v, name in stage_schedules(problem, shape, m)
        for ends in ends_of(problem, p, v, name)
    ]


def ends_of(problem: LlmTrainingProblem, p: int, v: int, schedule: PipelineSchedule) -> list[tuple[float, float]]:
    """How many layers fewer the first and the last rank may have."""
    fewer = problem.space.short_ends
    if problem.space.layers == "balanced" and p > 1 and schedule not in BOTH_ENDS:
        return [(BALANCED, BALANCED)]
    if not fewer or p == 1:
        return [(EVEN, EVEN)]
    i, j = (part.ravel().astype(np.float64) for part in np.meshgrid(fewer, fewer, indexing="ij"))
    able = short_ends(problem.model.layers, np.full_like(i, p), np.full_like(i, v), (i, j))[3]
    return list(zip(i[able].tolist(), j[able].tolist(), strict=True))


def columns_of_rows(problem: LlmTrainingProblem, shapes: Column, rows: Column) -> StrategyColumns:
    """Strategies as the time model takes them.

    Args:
        shapes: float64[records, 6], the shape of each row.
        rows: float64[records, 9], as `rows_of_shape`.
    """
    tensor, context, pipeline, data, expert, expert_tensor = shapes.T
    chunks, zero, micro_batch, schedule, recompute, sequence, *fewer, order = rows.T
    first, inner, last = even_layers(problem.model.layers, pipeline, chunks)
    if problem.space.short_ends:
        own = fewer[0] != EVEN
        loads = short_ends(problem.model.layers, pipeline, chunks, (fewer[0], fewer[1]))[:3]
        first, inner, last = (np.where(own, *pair) for pair in zip(loads, (first, inner, last), strict=True))
    columns = StrategyColumns(
        tensor, sequence, context, pipeline, chunks, data, expert, expert_tensor, zero, micro_batch, schedule,
        recompute, first, inner, last, order,
    )  # fmt: skip
    balanced = fewer[0] == BALANCED
    return with_balanced(problem, columns, balanced) if balanced.any() else columns


def with_layers(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> ParallelStrategy:
    """A strategy that obeys the rules, its layers divided as the instance says; if in several ways, by the first one.

    Raises:
        InputError: the first and the last stage cannot be so short.
    """
    ends = ends_of(problem, strategy.pipeline, strategy.chunks, strategy.schedule)
    if not ends:
        fewer, text = ", ".join(map(str, problem.space.short_ends)), "no such ends of this pipeline"
        raise InputError([Problem(text, path="strategy.short_ends", value=fewer, allowed="even, or other numbers")])
    if ends[0][0] == EVEN:
        return strategy
    shape = StrategyShape(*(getattr(strategy, part.name) for part in fields(StrategyShape)))
    codes = SCHEDULE_CODES[strategy.schedule], RECOMPUTE_CODES[strategy.recompute], strategy.sequence
    row = (strategy.chunks, strategy.zero, strategy.micro_batch, *codes, *ends[0], RANK_ORDERS.index(strategy.order))
    return strategy_of(problem, shape, np.array(row, dtype=np.float64))


def strategy_of(problem: LlmTrainingProblem, shape: StrategyShape, row: Column) -> ParallelStrategy:
    """One row as a strategy, with the layers of every chunk."""
    layers = problem.model.layers
    chunks, zero, micro_batch, schedule, recompute, sequence, *fewer, order = (int(value) for value in row)
    ends, layers_of = None, tuple[int, ...]()
    if fewer[0] == BALANCED:
        numbers = np.array([[getattr(shape, part.name) for part in fields(StrategyShape)]], dtype=np.float64)
        stages = columns_of_rows(problem, numbers, row[None]).stages
        assert stages is not None
        layers_of = tuple(int(layer_count) for layer_count in stages[0])
    elif fewer[0] != EVEN:
        p, v, i, j = (np.array([float(layer_count)]) for layer_count in (shape.pipeline, chunks, *fewer))
        first, _, last, _ = short_ends(layers, p, v, (i, j))
        ends = (int(first[0]), int(last[0]))
    return ParallelStrategy(
        tensor=shape.tensor,
        sequence=bool(sequence),
        context=shape.context,
        pipeline=shape.pipeline,
        chunks=chunks,
        data=shape.data,
        expert=shape.expert,
        expert_tensor=shape.expert_tensor,
        zero=zero,
        micro_batch=micro_batch,
        schedule=tuple(PipelineSchedule)[schedule],
        recompute=tuple(Recompute)[recompute],
        order=RANK_ORDERS[order],
        stage_layers=layers_of or stage_layers(layers, shape.pipeline, chunks, ends),
    )


SHOWN = 3
"""Values that a part could have, at most."""


def blocking_pins(problem: LlmTrainingProblem) -> list[str]:
    """Each part of the space that leaves no strategy, and values of shapes that would."""
    lines = []
    for axis in fields(problem.space):
        if not getattr(problem.space, axis.name) or axis.name == "layers":
            continue
        free: dict[str, Any] = {axis.name: () if axis.name == "short_ends" else None}
        freed = replace(problem, space=replace(problem.space, **free))
        shapes = [shape for shape in strategy_shapes(freed) if len(rows_of_shape(freed, shape, free=True))]
        if shapes:
            values = sorted({getattr(shape, axis.name) for shape in shapes if hasattr(shape, axis.name)})
            listed = ", ".join(map(str, values[:SHOWN])) + (", ..." if len(values) > SHOWN else "")
            lines.append(f"strategy.{axis.name} were {listed or 'otherwise'}")
    return lines


BLOCK = 1 << 14
"""Strategies whose bounds are computed together."""


def shape_bounds(problem: LlmTrainingProblem, shapes: Sequence[StrategyShape]) -> Floats:
    """Seconds, one value a shape; inf where the rules leave no strategy."""
    bounds = np.full(len(shapes), np.inf)
    tables: dict[StrategyShape, Column] = {}
    places, parts, size = [], [], 0
    for number, shape in enumerate(shapes):
        dense = replace(shape, expert=1, expert_tensor=1)  # how experts are divided changes nothing in the rows
        if dense not in tables:
            tables[dense] = rows_of_shape(problem, dense, free=True)
        own = tables[dense]
        places.append(np.full(len(own), number))
        parts.append(np.concatenate([np.tile(shape_numbers(shape), (len(own), 1)), own], axis=1))
        size += len(own)
        if size >= BLOCK or number == len(shapes) - 1:
            table = np.concatenate(parts)
            if len(table):
                np.minimum.at(bounds, np.concatenate(places), _seconds(problem, table[:, :6], table[:, 6:]))
            places, parts, size = [], [], 0
    return bounds


def shape_numbers(shape: StrategyShape) -> tuple[float, ...]:
    parts = (shape.tensor, shape.context, shape.pipeline, shape.data, shape.expert, shape.expert_tensor)
    return tuple(float(part) for part in parts)


def _seconds(problem: LlmTrainingProblem, shapes: Column, rows: Column) -> Column:
    columns = columns_of_rows(problem, shapes, rows)
    nothing = np.zeros_like(columns.zero)
    columns = replace(columns, zero=nothing, recompute=nothing)
    parts = stage_parts(problem, columns, GroupRates.of(problem, columns))
    parts.seconds[:, :, [REDUCED, GATHERED, STEP]] = 0.0
    return order_bounds(problem, columns, parts)


FIRST, SEARCH_BLOCK = 1 << 9, 1 << 14
"""Strategies that are evaluated together: few at first, as a good one leaves shapes out, then as many as keep memory
small and numpy busy."""

PLANNED = 100_000
"""Passes whose orders are planned before anybody looks at the clock again: half a second."""

FOLLOWED = 1 << 4
"""Strategies whose passes are followed together at first, then twice as many each time."""

PATIENCE = 1 << 14
"""Strategies without a better one after which a search that need not prove anything ends."""

SLACK = 1e-9
"""A bound within rounding of a strategy does not leave its shape out."""


@dataclass(frozen=True)
class SearchedSpace:
    """What was found.

    Attributes:
        ranked: the fastest strategies that fit, the best first; of equals the first of the search.
        shapes: all of them, in canonical order.
        stopped_by: CONVERGED where nothing that is not looked at can be better than the last of `ranked`.
    """

    ranked: tuple[RankedStrategy, ...]
    shapes: tuple[ShapeOutcome, ...]
    stopped_by: StopReason

    @property
    def records(self) -> int:
        return sum(outcome.records for outcome in self.shapes)

    @property
    def fitting(self) -> int:
        return sum(outcome.fitting for outcome in self.shapes)

    @property
    def left(self) -> int:
        """Shapes that nothing is known of but their bound, which does not leave them out."""
        return sum(outcome.verdict is ShapeVerdict.LEFT for outcome in self.shapes)


@dataclass
class _Best:
    count: int
    strategies: list[tuple[float, int, float, StrategyShape, Column]] = field(default_factory=list)
    seen: int = 0
    improved_at: int = 0

    @property
    def cutoff(self) -> float:
        """What is slower does not matter."""
        return self.strategies[-1][0] * (1.0 + SLACK) if len(self.strategies) == self.count else np.inf

    def add(self, shape: StrategyShape, row: Column, index: int, time: float, memory: float) -> None:
        """A strategy, by its place in the order of the space."""
        if not self.strategies or time < self.strategies[0][0]:
            self.improved_at = self.seen
        self.strategies.append((time, self.seen + index, memory, shape, row))
        self.strategies.sort(key=lambda entry: entry[:2])
        del self.strategies[self.count :]

    def ranked(self, problem: LlmTrainingProblem) -> tuple[RankedStrategy, ...]:
        return tuple(
            RankedStrategy(strategy_of(problem, shape, row), time, memory)
            for time, _, memory, shape, row in self.strategies
        )


def search(
    problem: LlmTrainingProblem,
    stop: Stop,
    *,
    count: int,
    tell: Callable[[SearchedSpace, int, int], None] | None = None,
) -> SearchedSpace:
    """Search the space of an instance, by its roofline.

    Args:
        count: how many strategies are ranked.
        tell: called with what is found, shapes that are done, and of how many, after each block.
    """
    shapes = strategy_shapes(problem)
    bounds = shape_bounds(problem, shapes)
    order = np.argsort(bounds, kind="stable").tolist()
    best, outcomes = _Best(count), dict[StrategyShape, ShapeOutcome]()
    tables: dict[StrategyShape, Column] = {}
    start, reason, block_size = 0, None, FIRST
    while start < len(order) and reason is None and bounds[order[start]] <= best.cutoff:
        block, size = [], 0
        while start < len(order) and size < block_size and bounds[order[start]] <= best.cutoff:
            shape = shapes[order[start]]
            dense = replace(shape, expert=1, expert_tensor=1)  # how experts are divided changes nothing in the rows
            if dense not in tables:
                tables[dense] = rows_of_shape(problem, dense)
            block.append((shape, tables[dense], float(bounds[order[start]])))
            size += len(tables[dense])
            start += 1
        outcomes.update((outcome.shape, outcome) for outcome in _evaluated(problem, block, best, stop))
        block_size = min(2 * block_size, SEARCH_BLOCK)
        reason = stop.reason()
        if not problem.prove and best.seen - best.improved_at >= PATIENCE:
            reason = reason or StopReason.BUDGET
        if tell is not None:
            tell(_outcome_of_search(problem, shapes, bounds, outcomes, best, reason), start, len(order))
    return _outcome_of_search(problem, shapes, bounds, outcomes, best, reason)


def least_memory(problem: LlmTrainingProblem, shape: StrategyShape) -> TrainingMemory:
    """Bytes on the fullest GPU under the strategy of a shape that takes least."""
    rows = rows_of_shape(problem, replace(shape, expert=1, expert_tensor=1))
    held = ledger(problem, columns_of_rows(problem, np.tile(np.array(shape_numbers(shape)), (len(rows), 1)), rows))
    return TrainingMemory(*held[:, np.argmin(total_bytes(held))].tolist())


def _outcome_of_search(
    problem: LlmTrainingProblem,
    shapes: list[StrategyShape],
    bounds: Column,
    outcomes: dict[StrategyShape, ShapeOutcome],
    best: _Best,
    reason: StopReason | None,
) -> SearchedSpace:
    lines = []
    for shape, bound in zip(shapes, bounds.tolist(), strict=True):
        if shape in outcomes:
            lines.append(outcomes[shape])
        elif np.isfinite(bound):
            verdict = ShapeVerdict.BOUND if bound > best.cutoff else ShapeVerdict.LEFT
            lines.append(ShapeOutcome(shape, verdict, bound))
    left = any(line.verdict is ShapeVerdict.LEFT for line in lines)
    return SearchedSpace(
        best.ranked(problem), tuple(lines), (reason or StopReason.TIME) if left else StopReason.CONVERGED
    )


def _evaluated(
    problem: LlmTrainingProblem, block: list[tuple[StrategyShape, Column, float]], best: _Best, stop: Stop
) -> list[ShapeOutcome]:
    """Evaluate the strategies of some shapes together; no outcome of any where a limit comes meanwhile."""
    rows = np.concatenate([part for _, part, _ in block])
    if not len(rows):
        return []
    shapes = np.array([shape_numbers(shape) for shape, _, _ in block])
    of_row = np.repeat(shapes, [len(part) for _, part, _ in block], axis=0)
    columns = columns_of_rows(problem, of_row, rows)
    memory, usable = total_bytes(ledger(problem, columns)), problem.usable_bytes
    fits = np.ones(len(rows), dtype=bool) if usable is None else memory <= usable
    if not _follow(problem, block, columns, rows, memory, np.flatnonzero(fits), best, stop):
        return []
    best.seen += len(rows)
    outcomes, begin = [], 0
    for shape, part, bound in block:
        here = slice(begin, begin + len(part))
        begin += len(part)
        if len(part):
            fitting = int(fits[here].sum())
            verdict = ShapeVerdict.SEARCHED if fitting else ShapeVerdict.MEMORY
            outcomes.append(ShapeOutcome(shape, verdict, bound, len(part), fitting, float(memory[here].min())))
    return outcomes


def _follow(
    problem: LlmTrainingProblem,
    block: list[tuple[StrategyShape, Column, float]],
    columns: StrategyColumns,
    rows: Column,
    memory: Column,
    fitting: Ints,
    best: _Best,
    stop: Stop,
) -> bool:
    """Follow the passes of strategies that fit, the least bound first, while one may be as fast as those known; whether
    all were that may be."""
    if not len(fitting):
        return True
    columns = columns.rows(fitting)
    bounds = order_bounds(problem, columns, stage_parts(problem, columns, GroupRates.of(problem, columns)))
    shapes = np.repeat(np.arange(len(block)), [len(part) for _, part, _ in block])
    order, size = np.argsort(bounds, kind="stable"), FOLLOWED
    # Orders of ZB-2P are planned for each strategy by itself, which takes by far the longest.
    planned = columns.schedule == tuple(PipelineSchedule).index(PipelineSchedule.ZB_2P)
    work = np.where(planned, problem.batch.sequences / columns.data / columns.micro_batch * columns.pipeline, 0.0)
    while len(order) and bounds[order[0]] <= best.cutoff:
        if best.strategies and stop.reason() is not None:
            return False
        size = min(size, 1 + int(np.searchsorted(work[order].cumsum(), PLANNED)))
        chosen = order[:size][bounds[order[:size]] <= best.cutoff]
        order, size = order[size:], 2 * size
        here = fitting[chosen]
        times = iteration_times(problem, columns.rows(chosen))
        for index, time in zip(here.tolist(), times.tolist(), strict=True):
            if time <= best.cutoff:
                best.add(block[shapes[index]][0], rows[index], index, time, float(memory[index]))
    return True


MORE = 64
"""Strategies that are ranked when those known are not enough."""


class Candidates:
    """Searches further as it is gone through; `space` is the most that was searched."""

    def __init__(self, problem: LlmTrainingProblem, space: SearchedSpace, stop: Stop) -> None:
        self._problem, self._stop = problem, stop
        self.space = space

    def __iter__(self) -> Iterator[RankedStrategy]:
        seen = 0
        while True:
            yield from self.space.ranked[seen:]
            seen = len(self.space.ranked)
            if self._stop.reason() is not None:
                return
            further = search(self._problem, self._stop, count=max(MORE, 4 * seen))
            if self._stop.reason() is not None or len(further.ranked) <= seen:
                return  # what a limit left is no certificate of more
            self.space = further
