"""Rows of a table of strategies as columns that the time model takes, and as strategies."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from solvers.llm_training.records import BALANCED, EVEN, ends_of
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.parallelism import RANK_ORDERS, ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.balanced_stages import with_balanced
from topoopt.simulate.llm_training.strategies import (
    RECOMPUTE_CODES,
    SCHEDULE_CODES,
    Column,
    StrategyColumns,
    even_layers,
    short_ends,
    stage_layers,
)


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
    found = StrategyColumns(
        tensor=tensor,
        sequence=sequence,
        context=context,
        pipeline=pipeline,
        chunks=chunks,
        data=data,
        expert=expert,
        expert_tensor=expert_tensor,
        zero=zero,
        micro_batch=micro_batch,
        schedule=schedule,
        recompute=recompute,
        first_layers=first,
        inner_layers=inner,
        last_layers=last,
        order=order,
    )
    balanced = fewer[0] == BALANCED
    return with_balanced(problem, found, balanced) if balanced.any() else found


def with_layers(problem: LlmTrainingProblem, one: ParallelStrategy) -> ParallelStrategy:
    """A strategy that obeys the rules, its layers divided as the instance says; if in several ways, by the first one.

    Raises:
        InputError: the first and the last stage cannot be so short.
    """
    ends = ends_of(problem, one.pipeline, one.chunks, one.schedule)
    if not ends:
        fewer, text = ", ".join(map(str, problem.space.short_ends)), "no such ends of this pipeline"
        raise InputError([Problem(text, path="strategy.short_ends", value=fewer, allowed="even, or other numbers")])
    if ends[0][0] == EVEN:
        return one
    shape = StrategyShape(*(getattr(one, part.name) for part in fields(StrategyShape)))
    codes = SCHEDULE_CODES[one.schedule], RECOMPUTE_CODES[one.recompute], one.sequence
    row = (one.chunks, one.zero, one.micro_batch, *codes, *ends[0], RANK_ORDERS.index(one.order))
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
        layers_of = tuple(int(one) for one in stages[0])
    elif fewer[0] != EVEN:
        p, v, i, j = (np.array([float(one)]) for one in (shape.pipeline, chunks, *fewer))
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
