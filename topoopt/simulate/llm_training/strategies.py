"""Strategies as columns, so that many are evaluated at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Ints
from topoopt.core.errors import Problem
from topoopt.core.llm_training import END_SLOTS, LanguageModel, LlmTrainingProblem
from topoopt.core.parallelism import (
    RANK_ORDERS,
    ParallelStrategy,
    PipelineSchedule,
    PipelineShape,
    Recompute,
)
from topoopt.native import pipeline as native
from topoopt.simulate.pipeline import schedule_problems

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
        return self.tensor * self.replicas / (self.expert * self.expert_tensor)

    def rows(self, rows: Ints) -> StrategyColumns:
        parts: dict[str, Any] = {name: None if part is None else part[rows] for name, part in vars(self).items()}
        return replace(self, **parts)

    def scheduled(self, *schedules: PipelineSchedule) -> NDArray[np.bool_]:
        """Whether the schedule is one of these."""
        mask = np.zeros(len(self.schedule), dtype=bool)
        for schedule in schedules:
            mask |= self.schedule == SCHEDULE_CODES[schedule]
        return mask

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
        return np.array([float(getattr(strategy, name)) for strategy in strategies])

    pipeline, chunks = column("pipeline"), column("chunks")
    stages = np.zeros((len(strategies), int((pipeline * chunks).max(initial=1))), dtype=np.int64)
    for row, strategy in enumerate(strategies):
        counts = strategy.stage_layers or stage_layers(layers, strategy.pipeline, strategy.chunks)
        stages[row, : len(counts)] = counts
    names = ("tensor", "sequence", "context", "data", "expert", "expert_tensor", "zero", "micro_batch")
    tensor, sequence, context, data, expert, expert_tensor, zero, micro_batch = map(column, names)
    schedule = np.array([float(SCHEDULE_CODES[strategy.schedule]) for strategy in strategies])
    recompute = np.array([float(RECOMPUTE_CODES[strategy.recompute]) for strategy in strategies])
    order, none = np.array([float(RANK_ORDERS.index(strategy.order)) for strategy in strategies]), np.zeros_like(zero)
    columns = StrategyColumns(
        tensor, sequence, context, pipeline, chunks, data, expert, expert_tensor, zero, micro_batch, schedule,
        recompute, none, none, none, order,
    )  # fmt: skip
    return with_stages(columns, stages)


PARTS = {"stages": "pipeline", "chunks": "chunks", "micro-batches": "micro_batch", "group": "schedule"}
"""Sizes of a pipeline by the part of a strategy that sets them."""


def strategy_problems(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> list[Problem]:
    """All that is wrong with a strategy; paths are those of its parts."""
    return [
        *_of_model(problem.model, strategy),
        *_of_ranks(problem, strategy),
        *_of_batch(problem, strategy),
        *_of_pipeline(problem, strategy),
    ]


def _divides(part: str, count: int, whole: int, what: str) -> Iterator[Problem]:
    if whole % count:
        yield Problem(f"does not divide {what}", path=part, value=str(count), allowed=f"divisors of {whole}")


def _of_model(model: LanguageModel, strategy: ParallelStrategy) -> Iterator[Problem]:
    t = strategy.tensor
    for heads in model.heads:
        yield from _divides("tensor", t, heads, f"the {heads} heads")
    yield from _divides("tensor", t, model.hidden, f"the width {model.hidden}")
    for inner in model.inner:
        yield from _divides("tensor", t, inner, f"the inner width {inner}")
    for heads in model.kv_heads:
        if heads % t and t % heads:
            allowed = f"a divisor or a multiple of {heads}"
            yield Problem("does not go with the heads of keys and values", path="tensor", value=str(t), allowed=allowed)
    experts = model.experts
    if experts is None:
        for part, count in (("expert", strategy.expert), ("expert_tensor", strategy.expert_tensor)):
            if count > 1:
                yield Problem("the model has no experts", path=part, value=str(count), allowed="1")
    else:
        yield from _divides("expert", strategy.expert, experts.count, f"the {experts.count} experts")
        y, inner = strategy.expert_tensor, experts.hidden
        yield from _divides("expert_tensor", y, inner, f"the inner width {inner} of experts")


def _of_ranks(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    gpus = problem.cluster.gpus
    if strategy.gpus != gpus:
        text = "tensor x context x pipeline x data is not the number of GPUs"
        yield Problem(text, path="data", value=str(strategy.gpus), allowed=str(gpus))
        return
    of_stage = gpus // strategy.pipeline
    if of_stage % (strategy.expert * strategy.expert_tensor):
        text = f"expert x expert_tensor does not divide the {of_stage} GPUs of a stage"
        value = str(strategy.expert * strategy.expert_tensor)
        yield Problem(text, path="expert", value=value, allowed=f"divisors of {of_stage}")
    if strategy.zero and strategy.data * strategy.context == 1:
        yield Problem("nothing to share with one replica", path="zero", value=str(strategy.zero), allowed="0")


def _of_batch(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    batch, s = problem.batch, problem.batch.length
    if batch.sequences % (strategy.data * strategy.micro_batch):
        text = f"data x micro_batch does not divide the {batch.sequences} sequences of an iteration"
        value = f"{strategy.data} x {strategy.micro_batch}"
        yield Problem(text, path="micro_batch", value=value, allowed=f"divisors of {batch.sequences}")
    c = strategy.context
    if c > 1 and s % (2 * c):
        # A rank takes one part from the head and one from the tail, so that causal attention is even.
        yield Problem("does not cut a sequence into 2c parts", path="context", value=str(c), allowed=f"2c divides {s}")
    tokens = strategy.micro_batch * s // c
    if strategy.sequence and tokens % strategy.tensor:
        text = f"the {tokens} tokens of a micro-batch are not divisible by tensor"
        yield Problem(text, path="sequence", value=str(strategy.tensor), allowed=f"divisors of {tokens}")
    if strategy.sequence and strategy.tensor == 1:
        yield Problem("plays no part with tensor 1", path="sequence", value="true", allowed="false")


def _of_pipeline(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    p, v, layers = strategy.pipeline, strategy.chunks, problem.model.layers
    slots = layers + END_SLOTS
    if p * v > slots:
        text = f"more stages than layers: {p} x {v} chunks for {layers} layers, embedding and head"
        yield Problem(text, path="pipeline", value=str(p * v), allowed=f"at most {slots}")
    if p == 1:
        if v > 1:
            yield Problem("one stage has one run of layers", path="chunks", value=str(v), allowed="1")
        if strategy.schedule is not PipelineSchedule.ONE_F_ONE_B:
            text = "plays no part with one stage"
            yield Problem(text, path="schedule", value=strategy.schedule.value, allowed="1f1b")
        return
    if strategy.schedule is PipelineSchedule.INTERLEAVED and v == 1:
        yield Problem("with one run of layers it is 1f1b", path="chunks", value="1", allowed="2 or more")
    m = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    if m:
        for message in schedule_problems(strategy.schedule, PipelineShape(p, m, v)):
            yield replace(message, path=PARTS[message.path or ""])
    if strategy.stage_layers and (len(strategy.stage_layers) != p * v or sum(strategy.stage_layers) != layers):
        value = f"{len(strategy.stage_layers)} chunks, {sum(strategy.stage_layers)} layers"
        yield Problem("not all layers on all chunks", path="stage_layers", value=value, allowed=f"{p * v}, {layers}")
