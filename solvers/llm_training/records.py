"""All strategies of a shape, as columns; each stands once.

What plays no part is not asked whether the instance allows it, and what does the same stands once: no sequence
parallelism with tensor 1, 1F1B for one stage, ZeRO 0 with one replica, no selective recomputation where attention
computes its scores again anyway. ZeRO 2 and 3 go with several stages only where an instance says so, as gradients or
weights would be exchanged in every micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from solvers.llm_training.shapes import divisors
from topoopt.core.llm_training import END_SLOTS, LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.strategies import (
    RECOMPUTE_CODES,
    SCHEDULE_CODES,
    Column,
    StrategyColumns,
    even_layers,
)

ONE_CHUNK = (PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ZB_H1, PipelineSchedule.ZB_2P)

PARTS = ("chunks", "zero", "micro_batch", "schedule", "recompute", "sequence")
"""What strategies of a shape differ in; a row of a table has them in this order."""


def rows_of_shape(problem: LlmTrainingProblem, shape: StrategyShape) -> Column:
    """float64[records, 6], the parts of all strategies of a shape; schedules and recomputation as codes."""
    tables = []
    space, batch = problem.space, problem.batch
    zeros = _zeros(problem, shape)
    again = [float(RECOMPUTE_CODES[one]) for one in _recomputations(problem)]
    for b in _stated(divisors(batch.sequences // shape.data), space.micro_batch):
        m = batch.sequences // (shape.data * b)
        ways = _ways(problem, shape, m)
        split = [0.0] if shape.tensor == 1 else [0.0, 1.0]
        if b * batch.length // shape.context % shape.tensor:
            split = [0.0]
        split = [one for one in split if space.sequence is None or shape.tensor == 1 or bool(one) in space.sequence]
        grid = np.meshgrid(np.arange(len(ways)), zeros, again, split, indexing="ij")
        way, zero, recompute, sequence = (part.ravel() for part in grid)
        if not len(way):
            continue
        chunks, schedule = np.array(ways, dtype=np.float64)[way.astype(np.int64)].T
        tables.append(np.stack([chunks, zero, np.full_like(zero, b), schedule, recompute, sequence], axis=1))
    return np.concatenate(tables) if tables else np.zeros((0, len(PARTS)))


def _stated(values: Iterable[int], stated: tuple[int, ...] | None) -> list[int]:
    return [value for value in values if stated is None or value in stated]


def _zeros(problem: LlmTrainingProblem, shape: StrategyShape) -> list[float]:
    stated = problem.space.zero
    if shape.data * shape.context == 1:
        return [0.0]
    usual = (0, 1) if shape.pipeline > 1 else (0, 1, 2, 3)
    return [float(zero) for zero in (usual if stated is None else stated)]


def _recomputations(problem: LlmTrainingProblem) -> list[Recompute]:
    stated = tuple(Recompute) if problem.space.recompute is None else problem.space.recompute
    same = problem.formats.flash and Recompute.NONE in stated
    return [one for one in stated if not (same and one is Recompute.SELECTIVE)]


def _ways(problem: LlmTrainingProblem, shape: StrategyShape, m: int) -> list[tuple[int, int]]:
    """Chunks and the code of the schedule."""
    p, space = shape.pipeline, problem.space
    names = tuple(PipelineSchedule) if space.schedule is None else space.schedule
    most = (problem.model.layers + END_SLOTS) // p
    if p == 1:
        ways = [(1, PipelineSchedule.ONE_F_ONE_B)]
    else:
        ways = [(1, name) for name in names if name in ONE_CHUNK]
        if PipelineSchedule.INTERLEAVED in names and m % p == 0:
            ways += [(v, PipelineSchedule.INTERLEAVED) for v in range(2, most + 1)]
        if m >= 2 * p:
            if PipelineSchedule.DUALPIPE in names and p % 2 == 0 and m % 2 == 0:
                ways.append((1, PipelineSchedule.DUALPIPE))
            if PipelineSchedule.DUALPIPE_V in names and most >= 2:
                ways.append((2, PipelineSchedule.DUALPIPE_V))
    return [(v, SCHEDULE_CODES[name]) for v, name in ways if space.chunks is None or v in space.chunks]


def columns_of_rows(problem: LlmTrainingProblem, shapes: Column, rows: Column) -> StrategyColumns:
    """Strategies as the time model takes them.

    Args:
        shapes: float64[records, 6], the shape of each row.
        rows: float64[records, 6], as `rows_of_shape`.
    """
    tensor, context, pipeline, data, expert, expert_tensor = shapes.T
    chunks, zero, micro_batch, schedule, recompute, sequence = rows.T
    first, inner, last = even_layers(problem.model.layers, pipeline, chunks)
    return StrategyColumns(
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
    )


def strategy_of(shape: StrategyShape, row: Column) -> ParallelStrategy:
    """One row as a strategy."""
    chunks, zero, micro_batch, schedule, recompute, sequence = (int(value) for value in row)
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
    )
