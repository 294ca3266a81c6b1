"""The best strategies of an instance on an ideal switch, by going through all of them.

For every shape the outcome is kept: its fastest strategy that fits, or that none does and how much memory the smallest
takes. Nothing is left out, so the fastest of all is the best of the space, under the time model of the instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from solvers.llm_training.records import columns_of_rows, rows_of_shape, strategy_of
from solvers.llm_training.shapes import strategy_shapes
from solvers.stop import Stop
from topoopt.core.arrays import Bools
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import RankedStrategy, ShapeOutcome, ShapeVerdict, StrategyShape
from topoopt.core.verdict import StopReason
from topoopt.simulate.llm_training.ledger import ledger
from topoopt.simulate.llm_training.rank_weights import rank_weights
from topoopt.simulate.llm_training.roofline import roofline_columns
from topoopt.simulate.llm_training.strategies import Column

BLOCK = 1 << 14
"""Strategies that are evaluated together; so many keep memory small and numpy busy."""


@dataclass(frozen=True)
class ExhaustedSpace:
    """What was found.

    Attributes:
        ranked: the fastest strategies that fit, the best first; of equals the first of the space.
        shapes: what was found for each shape that was gone through.
        left: shapes that were not, when a limit came.
        stopped_by: CONVERGED where none was left.
    """

    ranked: tuple[RankedStrategy, ...]
    shapes: tuple[ShapeOutcome, ...]
    left: int
    stopped_by: StopReason

    @property
    def records(self) -> int:
        """Strategies gone through."""
        return sum(one.records for one in self.shapes)

    @property
    def fitting(self) -> int:
        """Those that fit."""
        return sum(one.fitting for one in self.shapes)


@dataclass
class _Best:
    """The fastest so far."""

    count: int
    found: list[tuple[float, int, float, StrategyShape, Column]] = field(default_factory=list)
    seen: int = 0

    def add(self, shape: StrategyShape, rows: Column, total: Column, memory: Column, fits: Bools) -> None:
        """Strategies of a shape, in the order of the space."""
        times = np.where(fits, total, np.inf)
        for place in np.argsort(times, kind="stable")[: self.count].tolist():
            if np.isfinite(times[place]):
                self.found.append((float(times[place]), self.seen + place, float(memory[place]), shape, rows[place]))
        self.seen += len(rows)
        self.found.sort(key=lambda one: one[:2])
        del self.found[self.count :]


def exhaust(problem: LlmTrainingProblem, stop: Stop, *, count: int) -> ExhaustedSpace:
    """Go through the whole space of an instance, by its roofline.

    Args:
        count: how many strategies are ranked.
    """
    best, outcomes = _Best(count), []
    shapes = strategy_shapes(problem)
    place, reason = 0, None
    rows, last = np.zeros((0, 0)), None
    while place < len(shapes) and reason is None:
        block, size = [], 0
        while place < len(shapes) and size < BLOCK:
            dense = replace(shapes[place], expert=1, expert_tensor=1)
            if dense != last:  # how experts are divided changes nothing here
                rows, last = rows_of_shape(problem, dense), dense
            block.append((shapes[place], rows))
            size += len(rows)
            place += 1
        outcomes += _evaluated(problem, block, best)
        reason = stop.reason()
    ranked = tuple(RankedStrategy(strategy_of(shape, row), time, memory) for time, _, memory, shape, row in best.found)
    left = len(shapes) - place
    reason = reason if left and reason is not None else StopReason.CONVERGED
    return ExhaustedSpace(ranked, tuple(outcomes), left, reason)


def _evaluated(
    problem: LlmTrainingProblem, block: list[tuple[StrategyShape, Column]], best: _Best
) -> list[ShapeOutcome]:
    """Evaluate the strategies of some shapes together."""
    rows = np.concatenate([part for _, part in block])
    if not len(rows):
        return []
    shapes = np.array([_numbers(shape) for shape, _ in block])
    of_row = np.repeat(shapes, [len(part) for _, part in block], axis=0)
    columns = columns_of_rows(problem, of_row, rows)
    micro_batches = problem.batch.sequences / columns.data / columns.micro_batch
    weights = rank_weights(problem.model, columns)
    held = ledger(problem.model, problem.formats, columns, weights, problem.batch.length, micro_batches)
    memory, usable = held.total, problem.cluster.usable_bytes
    fits = np.ones(len(rows), dtype=bool) if usable is None else memory <= usable
    total = np.full(len(rows), np.inf)
    if fits.any():
        total[fits] = roofline_columns(
            problem, problem.device, columns_of_rows(problem, of_row[fits], rows[fits])
        ).total
    found, begin = [], 0
    for shape, part in block:
        here = slice(begin, begin + len(part))
        begin += len(part)
        if not len(part):
            continue
        own = fits[here]
        fastest = float(total[here][own].min()) if own.any() else None
        verdict = ShapeVerdict.MEMORY if fastest is None else ShapeVerdict.SEARCHED
        least = float(memory[here].min())
        found.append(ShapeOutcome(shape, verdict, 0.0, len(part), int(own.sum()), fastest, least))
        best.add(shape, part, total[here], memory[here], own)
    return found


def _numbers(shape: StrategyShape) -> tuple[float, ...]:
    parts = (shape.tensor, shape.context, shape.pipeline, shape.data, shape.expert, shape.expert_tensor)
    return tuple(float(part) for part in parts)
