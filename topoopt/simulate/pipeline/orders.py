"""In which order every rank of a pipeline does its passes: GPipe, 1F1B, interleaved 1F1B, ZB-H1.

Rank r holds the stages j p + r, j < v. All orders are explicit: what is evaluated is what would be run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.parallelism import PassKind, PipelineShape
from topoopt.native import pipeline

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

    def program(self, *, blocking: bool) -> pipeline.PassProgram:
        """The passes in a sequence in which each stands behind all that it waits for.

        Args:
            blocking: a rank waits until what it sends has arrived.

        Raises:
            ValueError: passes wait for each other in a circle (a fault of the order).
        """
        return pipeline.PassProgram(
            self.start, self.passes, self.rank_of_stage, self.before, self.after, self.model_stages,
            self.micro_batches, blocking,
        )  # fmt: skip


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


def _woven(*streams: tuple[int, int, Ints, Ints]) -> Int32s:
    """int32[n, 3]: the passes of one rank, turn by turn.

    Args:
        streams: (kind, first turn, micro-batches, stages); a stream does one pass in each turn from its first one on,
            and within a turn they go in the order given.
    """
    turns = max(first + len(micro) for _, first, micro, _ in streams)
    passes = np.zeros((turns, len(streams), 3), dtype=np.int32)
    done = np.zeros((turns, len(streams)), dtype=np.bool_)
    for k, (kind, first, micro, stages) in enumerate(streams):
        own = slice(first, first + len(micro))
        passes[own, k, 0], passes[own, k, 1], passes[own, k, 2], done[own, k] = kind, micro, stages, True
    return passes[done]


def _gpipe(ranks: int, m: int) -> Int32s:
    numbers = np.arange(m)
    return np.concatenate(
        [
            _woven((FORWARD, 0, numbers, 0 * numbers + r), (BACKWARD, m, numbers[::-1], 0 * numbers + r))
            for r in range(ranks)
        ]
    )


def _one_f_one_b(ranks: int, m: int) -> Int32s:
    numbers, passes = np.arange(m), []
    for rank in range(ranks):
        own = 0 * numbers + rank
        passes.append(_woven((FORWARD, 0, numbers, own), (BACKWARD, min(ranks - 1 - rank, m), numbers, own)))
    return np.concatenate(passes)


def _interleaved(ranks: int, m: int, chunks: int, group: int) -> Int32s:
    turns = [
        (i, chunk)
        for first in range(0, m, group)
        for chunk in range(chunks)
        for i in range(first, min(first + group, m))
    ]
    micro, chunk = np.array(turns, dtype=np.int64).reshape(-1, 2).T
    passes = []
    for rank in range(ranks):
        ahead = min(2 * (ranks - rank - 1) + (chunks - 1) * group, m * chunks)
        there, back = chunk * ranks + rank, (chunks - 1 - chunk) * ranks + rank
        passes.append(_woven((FORWARD, 0, micro, there), (BACKWARD, ahead, micro, back)))
    return np.concatenate(passes)


def _zb_h1(ranks: int, m: int) -> Int32s:
    numbers, passes = np.arange(m), []
    for rank in range(ranks):
        ahead, own = min(ranks - 1 - rank, m), 0 * numbers + rank
        passes.append(
            _woven((FORWARD, 0, numbers, own), (INPUTS, ahead, numbers, own), (WEIGHTS, ahead + rank, numbers, own))
        )
    return np.concatenate(passes)
