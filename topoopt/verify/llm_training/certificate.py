"""The bounds of the certificate again: for each way to divide the GPUs the least bound of the orders of strategies.

Nothing is computed again, gradients, weights and the step of the optimizer are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.parallelism import Recompute
from topoopt.verify.llm_training.iteration import least_seconds
from topoopt.verify.llm_training.space import BALANCED, RECOMPUTES, records_of, strategies_of
from topoopt.verify.llm_training.work import WorkBudget, bounding_work

BLOCK = 1 << 17
"""Rows that are evaluated together."""

ZERO, RECOMPUTED, FIRST = 8, 11, 12
"""Columns of a row."""


def bounds_of(problem: LlmTrainingProblem, shapes: Sequence[StrategyShape], budget: WorkBudget) -> Floats:
    """Seconds, one value a shape; inf where there is no strategy.

    Raises:
        BeyondWorkError: there are more strategies than the check may go through.
    """
    found, tables = np.full(len(shapes), np.inf), dict[StrategyShape, Floats]()
    places: list[Floats] = []
    rows: list[Floats] = []
    size = 0
    for place, shape in enumerate(shapes):
        plain = replace(shape, expert=1, expert_tensor=1)
        if plain not in tables:
            tables[plain] = _plainest(problem, plain)
        own = tables[plain].copy()
        own[:, 6:8] = shape.expert, shape.expert_tensor
        rows.append(own)
        places.append(np.full(len(own), place))
        size += len(own)
        if size >= BLOCK or place == len(shapes) - 1:
            table = np.concatenate(rows)
            if len(table):
                budget.take(bounding_work(records_of(table)))
                np.minimum.at(found, np.concatenate(places), least_seconds(problem, records_of(table), free=True))
            places, rows, size = [], [], 0
    return found


def _plainest(problem: LlmTrainingProblem, shape: StrategyShape) -> Floats:
    """Strategies of a shape that differ in more than ZeRO and what is computed again."""
    rows = strategies_of(problem, shape).copy()
    if not len(rows):
        return rows
    told = rows[:, FIRST] != BALANCED  # what is shared or computed again divides balanced layers otherwise
    rows[told, ZERO], rows[told, RECOMPUTED] = 0.0, RECOMPUTES.index(Recompute.NONE)
    return np.unique(rows, axis=0)
