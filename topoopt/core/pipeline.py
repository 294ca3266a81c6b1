"""Pipelines of stages that micro-batches pass forwards and backwards: schedules, sizes, costs of the stages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np

from topoopt.core.arrays import Floats


class PipelineSchedule(StrEnum):
    """Order of the passes of a pipeline."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZB_H1 = "zb-h1"
    ZB_2P = "zb-2p"
    DUALPIPE = "dualpipe"
    DUALPIPE_V = "dualpipe-v"


class PassKind(IntEnum):
    """What a rank does with one micro-batch in one stage."""

    FORWARD = 0
    BACKWARD = 1  # gradients of inputs and weights in one
    INPUTS = 2  # of the inputs alone: what the stage before waits for
    WEIGHTS = 3  # of the weights alone: nobody waits for them
    JOINED = 4  # forward, mixed with the whole backward pass behind it: both begin and end together


@dataclass(frozen=True)
class PipelineShape:
    """How large a pipeline is.

    Attributes:
        ranks: p.
        micro_batches: m of one iteration.
        chunks: v, stages of each rank.
        group: micro-batches that pass one chunk before the next chunk's turn, of interleaved schedules; 0: p.
    """

    ranks: int
    micro_batches: int
    chunks: int = 1
    group: int = 0

    @property
    def stages(self) -> int:
        """p v."""
        return self.ranks * self.chunks


@dataclass(frozen=True, eq=False)
class StageCosts:
    """What one micro-batch costs in each stage, in the order of the model.

    Attributes:
        forward_s: float64[stages].
        inputs_s: float64[stages], gradients of the inputs.
        weights_s: float64[stages], gradients of the weights.
        transfer_s: from a stage to the next on another rank, and back.
        blocking: a rank does nothing else until what it sends has arrived.
    """

    forward_s: Floats
    inputs_s: Floats
    weights_s: Floats
    transfer_s: float = 0.0
    blocking: bool = False

    @staticmethod
    def uniform(
        shape: PipelineShape,
        forward_s: float,
        inputs_s: float,
        weights_s: float,
        *,
        transfer_s: float = 0.0,
        blocking: bool = False,
    ) -> StageCosts:
        """The same for all ranks; seconds are of a micro-batch in all chunks of a rank together."""
        forward, inputs, weights = (
            np.full(shape.stages, each / shape.chunks) for each in (forward_s, inputs_s, weights_s)
        )
        return StageCosts(forward, inputs, weights, transfer_s, blocking)
