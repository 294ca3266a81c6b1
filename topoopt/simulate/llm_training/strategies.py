"""Strategies as columns, so that many are evaluated at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Ints
from topoopt.core.parallelism import RANK_ORDERS, ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.native import pipeline as native

Column = NDArray[np.float64]

SCHEDULE_CODES = {schedule: code for code, schedule in enumerate(PipelineSchedule)}
BOTH_ENDS = (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)
"""Schedules in which micro-batches enter at both ends, or turn there."""

RECOMPUTE_CODES = {recompute: code for code, recompute in enumerate(Recompute)}


@dataclass(frozen=True, eq=False)
class StrategyColumns:
    """One value a strategy.

    Attributes:
        tensor, sequence, context, pipeline, chunks, data, expert, expert_tensor, zero, micro_batch: as in
            `ParallelStrategy`; `sequence` is 0 or 1.
        schedule, recompute: places in their enumerations.
        first_layers, inner_layers, last_layers: layers on the first rank of a pipeline, on the fullest of those
            between, on the last one.
        order: of the ranks, a place in `RANK_ORDERS`.
        stages: int64[R, most stages], layers of every stage; None: those between the ends are as even as can be.
    """

    tensor: Column
    sequence: Column
    context: Column
    pipeline: Column
    chunks: Column
    data: Column
    expert: Column
    expert_tensor: Column
    zero: Column
    micro_batch: Column
    schedule: Column
    recompute: Column
    first_layers: Column
    inner_layers: Column
    last_layers: Column
    order: Column
    stages: Ints | None = None

    @property
    def copies(self) -> Column:
        """Of the model along the ranks of a pipeline: DualPipe holds two."""
        return np.where(self.scheduled(PipelineSchedule.DUALPIPE), 2.0, 1.0)

    @property
    def replicas(self) -> Column:
        """Ranks that hold the same weights, but for experts."""
        return self.copies * self.data * self.context

    @property
    def expert_replicas(self) -> Column:
        """Ranks that hold the same experts."""
        return self.tensor * self.replicas / (self.expert * self.expert_tensor)

    def rows(self, rows: Ints) -> StrategyColumns:
        """Of these strategies."""
        parts: dict[str, Any] = {name: None if part is None else part[rows] for name, part in vars(self).items()}
        return replace(self, **parts)

    def scheduled(self, *schedules: PipelineSchedule) -> NDArray[np.bool_]:
        """Whether the schedule is one of these."""
        found = np.zeros(len(self.schedule), dtype=bool)
        for schedule in schedules:
            found |= self.schedule == SCHEDULE_CODES[schedule]
        return found

    def recomputes(self, recompute: Recompute) -> NDArray[np.bool_]:
        """Whether this is what is computed again."""
        return np.asarray(self.recompute == RECOMPUTE_CODES[recompute])


def loads_of_ranks(columns: StrategyColumns) -> Ints:
    """int64[R, most ranks]: layers of every rank, of strategies whose stages are told."""
    assert columns.stages is not None
    return native.loads_of_ranks(columns.pipeline.astype(np.int64), np.ascontiguousarray(columns.stages))


def with_stages(columns: StrategyColumns, stages: Ints) -> StrategyColumns:
    """The same with layers of every stage told, int64[R, most stages]."""
    own = replace(columns, stages=stages)
    loads, p = loads_of_ranks(own).astype(np.float64), columns.pipeline.astype(np.int64)
    lines, ranks = np.arange(len(p)), np.arange(loads.shape[1])
    between = (ranks[None] > 0) & (ranks[None] < p[:, None] - 1)
    inner = np.where(p > 2, np.where(between, loads, 0.0).max(axis=1), loads.max(axis=1))
    return replace(own, first_layers=loads[:, 0], inner_layers=inner, last_layers=loads[lines, p - 1])


def even_layers(layers: int, pipeline: Column, chunks: Column) -> tuple[Column, Column, Column]:
    """Layers of the first rank, of the fullest between, and of the last, as even as can be.

    Where chunks cannot be equal the last rank is the first to be short, for the head, then the first, for the
    embedding (arXiv:2407.21783, section 3.3.2), then the others; then all ranks once more.
    """
    stages = pipeline * chunks
    most = np.ceil(layers / stages)
    rounds, rest = np.divmod(stages * most - layers, pipeline)
    inner = chunks * most - rounds
    return inner - (rest >= 2), inner, inner - (rest >= 1)


def short_ends(
    layers: int, pipeline: Column, chunks: Column, fewer: tuple[Column, Column]
) -> tuple[Column, Column, Column, NDArray[np.bool_]]:
    """The same where the first and the last rank have so many layers fewer than the fullest of the others, and whether
    that can be: no chunk is empty but for one at each end, and no other numbers come to the same."""
    i, j = fewer
    inner = np.ceil((layers + i + j) / pipeline)
    missing = pipeline * inner - (layers + i + j)
    between = np.where(pipeline > 2, missing < pipeline - 2, (missing == 0) & (np.minimum(i, j) == 0))
    able = between & (np.minimum(inner - i, inner - j) >= chunks - 1)
    able &= (pipeline <= 2) | (inner - (missing > 0) >= chunks)
    return inner - i, inner, inner - j, able & (pipeline > 1)


def stage_layers(layers: int, pipeline: int, chunks: int, ends: tuple[int, int] | None = None) -> tuple[int, ...]:
    """Layers of every chunk in the order of the model, for loads of the first and the last rank; None: even ones.

    Where chunks of a rank differ, all ranks have the longer ones at the same turns, as ranks that go round in step wait
    for the slowest at each turn: the last turns, but for the last rank not the one that the head stands behind.
    """
    if ends is None:
        first, _, last = even_layers(layers, np.array([float(pipeline)]), np.array([float(chunks)]))
        ends = (int(first[0]), int(last[0]))
    p, v, first, last = np.array([[pipeline], [chunks], [ends[0]], [ends[1]]], dtype=np.int64)
    return tuple(native.even_stages(layers, p, v, first, last)[0].tolist())


def columns_of(strategies: Sequence[ParallelStrategy], layers: int) -> StrategyColumns:
    """Columns of strategies of a model of so many layers."""

    def column(name: str) -> Column:
        return np.array([float(getattr(one, name)) for one in strategies])

    pipeline, chunks = column("pipeline"), column("chunks")
    none = np.zeros_like(pipeline)
    stages = np.zeros((len(strategies), int((pipeline * chunks).max(initial=1))), dtype=np.int64)
    for place, one in enumerate(strategies):
        known = one.stage_layers or stage_layers(layers, one.pipeline, one.chunks)
        stages[place, : len(known)] = known
    found = StrategyColumns(
        tensor=column("tensor"),
        sequence=column("sequence"),
        context=column("context"),
        pipeline=pipeline,
        chunks=chunks,
        data=column("data"),
        expert=column("expert"),
        expert_tensor=column("expert_tensor"),
        zero=column("zero"),
        micro_batch=column("micro_batch"),
        schedule=np.array([float(SCHEDULE_CODES[one.schedule]) for one in strategies]),
        recompute=np.array([float(RECOMPUTE_CODES[one.recompute]) for one in strategies]),
        first_layers=none,
        inner_layers=none,
        last_layers=none,
        order=np.array([float(RANK_ORDERS.index(one.order)) for one in strategies]),
    )
    return with_stages(found, stages)
