"""In which order every rank of a pipeline does its passes: GPipe, 1F1B, interleaved 1F1B, ZB-H1.

Rank r holds the stages j p + r, j < v. All orders are explicit: what is evaluated is what would be run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.pipeline import PassKind, PipelineShape
from topoopt.simulate.jit import kernel, piece

FORWARD, BACKWARD, INPUTS, WEIGHTS, JOINED = (int(kind) for kind in PassKind)


@dataclass(frozen=True, eq=False)
class PassOrders:
    """What each rank does, in its order.

    Attributes:
        start: int64[p + 1], where the passes of each rank begin; those of rank r end where those of r + 1 begin.
        passes: int32[n, 3]: kind, micro-batch, stage.
        rank_of_stage: int64[S].
        before: int64[S], the stage that feeds each one; -1: none.
        after: int64[S], the stage that it feeds; -1: none.
        micro_batches: m.
        model_stages: stages of the model; less than S where the model is held several times.
    """

    start: Ints
    passes: Int32s
    rank_of_stage: Ints
    before: Ints
    after: Ints
    micro_batches: int
    model_stages: int

    @property
    def ranks(self) -> int:
        """p."""
        return len(self.start) - 1

    @property
    def copies(self) -> int:
        """How many times the model is held."""
        return len(self.rank_of_stage) // self.model_stages


def in_a_line(shape: PipelineShape, passes: Int32s, per_rank: int) -> PassOrders:
    """Orders of as many passes on every rank, stages round the ranks in turn.

    Args:
        passes: int32[p * per_rank, 3].
    """
    p, stages = shape.ranks, shape.stages
    numbers = np.arange(stages)
    return PassOrders(
        start=np.arange(p + 1) * per_rank,
        passes=passes,
        rank_of_stage=numbers % p,
        before=numbers - 1,
        after=np.append(numbers[1:], -1),
        micro_batches=shape.micro_batches,
        model_stages=stages,
    )


def gpipe(shape: PipelineShape) -> PassOrders:
    """All forward passes, then all backward ones, the last micro-batch first (Huang et al., NeurIPS 2019)."""
    m = shape.micro_batches
    return in_a_line(shape, _gpipe(shape.ranks, m), 2 * m)


def one_f_one_b(shape: PipelineShape) -> PassOrders:
    """Forward passes until the first one can come back, then one of each in turn (Narayanan et al., SOSP 2019)."""
    m = shape.micro_batches
    return in_a_line(shape, _one_f_one_b(shape.ranks, m), 2 * m)


def interleaved(shape: PipelineShape) -> PassOrders:
    """The same over chunks: groups of micro-batches pass one chunk of a rank, then the next (arXiv:2104.04473)."""
    m, group = shape.micro_batches, shape.group or shape.ranks
    passes = _interleaved(shape.ranks, m, shape.chunks, group)
    return in_a_line(shape, passes, 2 * m * shape.chunks)


def zb_h1(shape: PipelineShape) -> PassOrders:
    """1F1B whose gradients of weights wait r micro-batches on rank r: no more memory than 1F1B (arXiv:2401.10241)."""
    m = shape.micro_batches
    return in_a_line(shape, _zb_h1(shape.ranks, m), 3 * m)


@piece
def put(passes: Int32s, at: int, kind: int, micro_batch: int, stage: int) -> int:  # pragma: no cover - compiled
    """Write one pass; the place of the next one."""
    passes[at, 0], passes[at, 1], passes[at, 2] = kind, micro_batch, stage
    return at + 1


@kernel
def _gpipe(ranks: int, m: int) -> Int32s:  # pragma: no cover - compiled
    passes = np.empty((ranks * 2 * m, 3), dtype=np.int32)
    for rank in range(ranks):
        for i in range(m):
            put(passes, 2 * m * rank + i, FORWARD, i, rank)
            put(passes, 2 * m * rank + m + i, BACKWARD, m - 1 - i, rank)
    return passes


@kernel
def _one_f_one_b(ranks: int, m: int) -> Int32s:  # pragma: no cover - compiled
    passes = np.empty((ranks * 2 * m, 3), dtype=np.int32)
    at = 0
    for rank in range(ranks):
        ahead = min(ranks - 1 - rank, m)
        for i in range(m + ahead):
            if i < m:
                at = put(passes, at, FORWARD, i, rank)
            if i >= ahead:
                at = put(passes, at, BACKWARD, i - ahead, rank)
    return passes


@kernel
def _interleaved(ranks: int, m: int, chunks: int, group: int) -> Int32s:  # pragma: no cover - compiled
    turns = np.empty((m * chunks, 2), dtype=np.int32)
    at = 0
    for first in range(0, m, group):
        for chunk in range(chunks):
            for i in range(first, min(first + group, m)):
                turns[at, 0], turns[at, 1] = i, chunk
                at += 1
    passes = np.empty((ranks * 2 * m * chunks, 3), dtype=np.int32)
    at = 0
    for rank in range(ranks):
        ahead = min(2 * (ranks - rank - 1) + (chunks - 1) * group, m * chunks)
        for turn in range(m * chunks + ahead):
            if turn < m * chunks:
                at = put(passes, at, FORWARD, turns[turn, 0], turns[turn, 1] * ranks + rank)
            if turn >= ahead:
                back = turns[turn - ahead]
                at = put(passes, at, BACKWARD, back[0], (chunks - 1 - back[1]) * ranks + rank)
    return passes


@kernel
def _zb_h1(ranks: int, m: int) -> Int32s:  # pragma: no cover - compiled
    passes = np.empty((ranks * 3 * m, 3), dtype=np.int32)
    at = 0
    for rank in range(ranks):
        ahead = min(ranks - 1 - rank, m)
        for i in range(m + ahead + rank):
            back = i - ahead
            if i < m:
                at = put(passes, at, FORWARD, i, rank)
            if 0 <= back < m:
                at = put(passes, at, INPUTS, back, rank)
            if 0 <= back - rank < m:
                at = put(passes, at, WEIGHTS, back - rank, rank)
    return passes
