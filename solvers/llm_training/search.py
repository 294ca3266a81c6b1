"""For every shape a time that none of its strategies is below, whatever memory they take. The best strategies of an
instance on an ideal switch, proven: branch and bound over the shapes of strategies. Strategies by their time on an
ideal switch: those that are known, then as many as are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from solvers.llm_training.space import columns_of_rows, rows_of_shape, strategy_of, strategy_shapes
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem, TrainingMemory
from topoopt.core.llm_training_plan import RankedStrategy, ShapeOutcome, ShapeVerdict, StrategyShape
from topoopt.core.parallelism import PipelineSchedule
from topoopt.core.proofs import StopReason
from topoopt.simulate.llm_training.costs import GroupRates, ledger
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.simulate.llm_training.times import GATHERED, REDUCED, STEP, iteration_times, order_bounds, stage_parts

BLOCK = 1 << 14
"""Strategies whose bounds are computed together."""


def shape_bounds(problem: LlmTrainingProblem, shapes: Sequence[StrategyShape]) -> Floats:
    """Seconds, one value a shape; inf where the rules leave no strategy."""
    found = np.full(len(shapes), np.inf)
    tables: dict[StrategyShape, Column] = {}
    places, parts, size = [], [], 0
    for place, shape in enumerate(shapes):
        dense = replace(shape, expert=1, expert_tensor=1)  # how experts are divided changes nothing in the rows
        if dense not in tables:
            tables[dense] = rows_of_shape(problem, dense, free=True)
        own = tables[dense]
        places.append(np.full(len(own), place))
        parts.append(np.concatenate([np.tile(shape_numbers(shape), (len(own), 1)), own], axis=1))
        size += len(own)
        if size >= BLOCK or place == len(shapes) - 1:
            table = np.concatenate(parts)
            if len(table):
                np.minimum.at(found, np.concatenate(places), _seconds(problem, table[:, :6], table[:, 6:]))
            places, parts, size = [], [], 0
    return found


def shape_numbers(shape: StrategyShape) -> tuple[float, ...]:
    """Its six parts."""
    parts = (shape.tensor, shape.context, shape.pipeline, shape.data, shape.expert, shape.expert_tensor)
    return tuple(float(part) for part in parts)


def _seconds(problem: LlmTrainingProblem, shapes: Column, rows: Column) -> Column:
    columns = columns_of_rows(problem, shapes, rows)
    nothing = np.zeros_like(columns.zero)
    columns = replace(columns, zero=nothing, recompute=nothing)
    rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    parts = stage_parts(problem, problem.device, columns, rates)
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
        """Strategies gone through."""
        return sum(one.records for one in self.shapes)

    @property
    def fitting(self) -> int:
        """Those that fit."""
        return sum(one.fitting for one in self.shapes)

    @property
    def left(self) -> int:
        """Shapes that nothing is known of but their bound, which does not leave them out."""
        return sum(one.verdict is ShapeVerdict.LEFT for one in self.shapes)


@dataclass
class _Best:
    """The fastest so far."""

    count: int
    found: list[tuple[float, int, float, StrategyShape, Column]] = field(default_factory=list)
    seen: int = 0
    found_at: int = 0

    @property
    def cutoff(self) -> float:
        """What is slower does not matter."""
        return self.found[-1][0] * (1.0 + SLACK) if len(self.found) == self.count else np.inf

    def add(self, shape: StrategyShape, row: Column, place: int, time: float, memory: float) -> None:
        """A strategy, by its place in the order of the space."""
        if not self.found or time < self.found[0][0]:
            self.found_at = self.seen
        self.found.append((time, self.seen + place, memory, shape, row))
        self.found.sort(key=lambda one: one[:2])
        del self.found[self.count :]

    def ranked(self, problem: LlmTrainingProblem) -> tuple[RankedStrategy, ...]:
        """As strategies."""
        return tuple(
            RankedStrategy(strategy_of(problem, shape, row), time, memory) for time, _, memory, shape, row in self.found
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
    place, reason, room = 0, None, FIRST
    while place < len(order) and reason is None and bounds[order[place]] <= best.cutoff:
        block, size = [], 0
        while place < len(order) and size < room and bounds[order[place]] <= best.cutoff:
            shape = shapes[order[place]]
            dense = replace(shape, expert=1, expert_tensor=1)  # how experts are divided changes nothing in the rows
            if dense not in tables:
                tables[dense] = rows_of_shape(problem, dense)
            block.append((shape, tables[dense], float(bounds[order[place]])))
            size += len(tables[dense])
            place += 1
        outcomes.update((one.shape, one) for one in _evaluated(problem, block, best, stop))
        room = min(2 * room, SEARCH_BLOCK)
        reason = stop.reason()
        if not problem.prove and best.seen - best.found_at >= PATIENCE:
            reason = reason or StopReason.BUDGET
        if tell is not None:
            tell(_found(problem, shapes, bounds, outcomes, best, reason), place, len(order))
    return _found(problem, shapes, bounds, outcomes, best, reason)


def least_memory(problem: LlmTrainingProblem, shape: StrategyShape) -> TrainingMemory:
    """Bytes on the fullest GPU under the strategy of a shape that takes least."""
    rows = rows_of_shape(problem, replace(shape, expert=1, expert_tensor=1))
    columns = columns_of_rows(problem, np.tile(np.array(shape_numbers(shape)), (len(rows), 1)), rows)
    held = ledger(problem, columns)
    one = int(np.argmin(held.total))
    parts = (held.weights, held.gradients, held.optimizer, held.activations)
    return TrainingMemory(*(float(part[one]) for part in parts))


def _found(
    problem: LlmTrainingProblem,
    shapes: list[StrategyShape],
    bounds: Column,
    outcomes: dict[StrategyShape, ShapeOutcome],
    best: _Best,
    reason: StopReason | None,
) -> SearchedSpace:
    """The outcome of every shape that has strategies."""
    lines = []
    for shape, bound in zip(shapes, bounds.tolist(), strict=True):
        if shape in outcomes:
            lines.append(outcomes[shape])
        elif np.isfinite(bound):
            verdict = ShapeVerdict.BOUND if bound > best.cutoff else ShapeVerdict.LEFT
            lines.append(ShapeOutcome(shape, verdict, bound))
    left = any(line.verdict is ShapeVerdict.LEFT for line in lines)
    return SearchedSpace(
        best.ranked(problem),
        tuple(lines),
        (reason or StopReason.TIME) if left else StopReason.CONVERGED,
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
    memory, usable = ledger(problem, columns).total, problem.cluster.usable_bytes
    fits = np.ones(len(rows), dtype=bool) if usable is None else memory <= usable
    if not _follow(problem, block, columns, rows, memory, np.flatnonzero(fits), best, stop):
        return []
    best.seen += len(rows)
    found, begin = [], 0
    for shape, part, bound in block:
        here = slice(begin, begin + len(part))
        begin += len(part)
        if len(part):
            fitting = int(fits[here].sum())
            verdict = ShapeVerdict.SEARCHED if fitting else ShapeVerdict.MEMORY
            found.append(ShapeOutcome(shape, verdict, bound, len(part), fitting, float(memory[here].min())))
    return found


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
    rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    bounds = order_bounds(problem, columns, stage_parts(problem, problem.device, columns, rates))
    shapes = np.repeat(np.arange(len(block)), [len(part) for _, part, _ in block])
    order, room = np.argsort(bounds, kind="stable"), FOLLOWED
    # Orders of ZB-2P are planned for each strategy by itself, which takes by far the longest.
    planned = columns.schedule == tuple(PipelineSchedule).index(PipelineSchedule.ZB_2P)
    work = np.where(planned, problem.batch.sequences / columns.data / columns.micro_batch * columns.pipeline, 0.0)
    while len(order) and bounds[order[0]] <= best.cutoff:
        if best.found and stop.reason() is not None:
            return False
        room = min(room, 1 + int(np.searchsorted(work[order].cumsum(), PLANNED)))
        chosen = order[:room][bounds[order[:room]] <= best.cutoff]
        order, room = order[room:], 2 * room
        here = fitting[chosen]
        times = iteration_times(problem, problem.device, columns.rows(chosen))
        for place, time in zip(here.tolist(), times.tolist(), strict=True):
            if time <= best.cutoff:
                best.add(block[shapes[place]][0], rows[place], place, time, float(memory[place]))
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
