"""Strategies as columns, so that many are evaluated at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule

Column = NDArray[np.float64]

SCHEDULE_CODES = {schedule: code for code, schedule in enumerate(PipelineSchedule)}
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

    def scheduled(self, *schedules: PipelineSchedule) -> NDArray[np.bool_]:
        """Whether the schedule is one of these."""
        found = np.zeros(len(self.schedule), dtype=bool)
        for schedule in schedules:
            found |= self.schedule == SCHEDULE_CODES[schedule]
        return found

    def recomputes(self, recompute: Recompute) -> NDArray[np.bool_]:
        """Whether this is what is computed again."""
        return np.asarray(self.recompute == RECOMPUTE_CODES[recompute])


def even_layers(layers: int, pipeline: Column, chunks: Column) -> tuple[Column, Column, Column]:
    """Layers of the first rank, of those between, and of the last, as even as can be.

    Where chunks cannot be equal the last one is the first to be short, for the head, then the first, for the
    embedding (arXiv:2407.21783, section 3.3.2).
    """
    stages = pipeline * chunks
    most = np.ceil(layers / stages)
    short = stages * most - layers
    inner = chunks * most
    first = inner - np.where(pipeline > 1, short >= 2, 0)
    last = inner - np.where(pipeline > 1, short >= 1, short)
    return first, inner, last


def columns_of(strategies: Sequence[ParallelStrategy], layers: int) -> StrategyColumns:
    """Columns of strategies of a model of so many layers."""

    def column(name: str) -> Column:
        return np.array([float(getattr(one, name)) for one in strategies])

    pipeline, chunks = column("pipeline"), column("chunks")
    first, inner, last = even_layers(layers, pipeline, chunks)
    for place, one in enumerate(strategies):
        if one.stage_layers:
            loads = [sum(one.stage_layers[rank :: one.pipeline]) for rank in range(one.pipeline)]
            first[place], last[place] = loads[0], loads[-1]
            inner[place] = max(loads[1:-1], default=max(loads))
    return StrategyColumns(
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
        first_layers=first,
        inner_layers=inner,
        last_layers=last,
    )
