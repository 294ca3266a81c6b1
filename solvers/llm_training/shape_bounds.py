"""For every shape a time that none of its strategies is below, whatever memory they take.

The least bound of the orders of its strategies, nothing computed again, transfers of gradients and weights and the step
of the optimizer free: those that differ in ZeRO or recomputation alone are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solvers.llm_training.records import rows_of_shape
from solvers.llm_training.row_strategies import columns_of_rows
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.simulate.llm_training.order_bound import order_bounds
from topoopt.simulate.llm_training.stage_parts import GATHERED, REDUCED, STEP, stage_parts
from topoopt.simulate.llm_training.strategies import Column
from topoopt.simulate.llm_training.transfers import GroupRates

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
