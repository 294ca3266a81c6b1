"""Strategies that spread a large language model over GPUs, and the pipelines of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import permutations
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le, Len

from topoopt.core.arrays import Floats
from topoopt.core.data import STRICT


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
        """Number of virtual stages: p ranks of v chunks each."""
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
            np.full(shape.stages, seconds / shape.chunks) for seconds in (forward_s, inputs_s, weights_s)
        )
        return StageCosts(forward, inputs, weights, transfer_s, blocking)


MAX_GPUS = 2**20
MAX_LAYERS = 10_000

Parts = Annotated[int, Ge(1), Le(MAX_GPUS)]


class Recompute(StrEnum):
    """What the backward pass computes again instead of keeping: nothing; scores of attention, or where tiles do not
    keep them outputs of norms and of functions between products; whole layers."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class ParallelDimension(StrEnum):
    """A way to divide the work, and with it the ranks."""

    TENSOR = "tensor"
    CONTEXT = "context"
    EXPERT = "expert"
    DATA = "data"
    PIPELINE = "pipeline"


RANK_ORDER = (ParallelDimension.TENSOR, ParallelDimension.CONTEXT, ParallelDimension.DATA, ParallelDimension.PIPELINE)
"""Which dimension changes fastest from rank to rank, first; experts fold over context and data."""

RANK_ORDERS = tuple(permutations(RANK_ORDER))
"""All orders, the usual one first."""

TENSOR_FIRST = tuple(order for order in RANK_ORDERS if order[0] is ParallelDimension.TENSOR)
"""Orders that are tried where an instance names none: what sends most stays nearest."""


@dataclass(frozen=True)
class ParallelStrategy:
    """One way to train: GPUs = tensor x context x pipeline x data.

    In layers of experts GPUs = expert_tensor x expert x (replicas of experts) x pipeline.

    Attributes:
        tensor: t, GPUs that share each matrix.
        sequence: what lies between the matrices is split over the tokens (sequence parallelism); false where t = 1.
        context: c, parts of each sequence.
        pipeline: p stages.
        chunks: v, runs of layers a stage has (1 but for interleaved schedules).
        data: D, replicas.
        expert: x, GPUs that share the experts of a layer.
        expert_tensor: y, GPUs that share each expert.
        zero: what replicas share out (ZeRO, arXiv:1910.02054): 0 nothing, 1 optimizer states, 2 and gradients, 3 and
            weights.
        micro_batch: b, sequences in a micro-batch.
        schedule: of the pipeline; 1f1b where p = 1.
        recompute: what is computed again in the backward pass.
        order: ranks count fastest along the first.
        stage_layers: layers of each chunk, in the order of the model, p*v numbers; empty: as even as can be.
    """

    __pydantic_config__ = STRICT

    tensor: Parts = 1
    sequence: bool = False
    context: Parts = 1
    pipeline: Parts = 1
    chunks: Parts = 1
    data: Parts = 1
    expert: Parts = 1
    expert_tensor: Parts = 1
    zero: Annotated[int, Ge(0), Le(3)] = 0
    micro_batch: Annotated[int, Ge(1), Le(1 << 30)] = 1
    schedule: PipelineSchedule = PipelineSchedule.ONE_F_ONE_B
    recompute: Recompute = Recompute.NONE
    order: Annotated[tuple[ParallelDimension, ...], Len(4, 4)] = RANK_ORDER
    stage_layers: Annotated[tuple[Annotated[int, Ge(0), Le(MAX_LAYERS)], ...], Len(0, 2 * MAX_LAYERS)] = ()

    @property
    def gpus(self) -> int:
        """Number of GPUs N, all servers together."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def copies(self) -> int:
        """Of the model along the ranks of a pipeline: DualPipe holds one each way (arXiv:2412.19437, 3.2.1)."""
        return 2 if self.schedule is PipelineSchedule.DUALPIPE else 1

    @property
    def replicas(self) -> int:
        """Ranks that hold the same weights, but for experts."""
        return self.copies * self.context * self.data

    @property
    def expert_replicas(self) -> int:
        return self.replicas * self.tensor // (self.expert * self.expert_tensor)


LayerDivision = Literal["even", "balanced"]
"""How layers go to the ranks of a pipeline.

`even`: as many on each, the ends up to one less, or as `short_ends` has them; `balanced`: so that the slowest rank
is as fast as memory lets it be; even where both ends are entered.
"""


@dataclass(frozen=True)
class StrategySpace:
    """Values each part of a strategy may take; None: all that the rules allow.

    Attributes:
        data: replicas, which the other parts leave.
        order: orders of the dimensions; None: all that begin with tensor.
        layers: how they are divided among the ranks of a pipeline.
        short_ends: how many layers fewer than the fullest rank between them the first and the last rank may have, each;
            empty: layers are spread as evenly as can be.
    """

    tensor: tuple[int, ...] | None = None
    sequence: tuple[bool, ...] | None = None
    context: tuple[int, ...] | None = None
    pipeline: tuple[int, ...] | None = None
    chunks: tuple[int, ...] | None = None
    data: tuple[int, ...] | None = None
    expert: tuple[int, ...] | None = None
    expert_tensor: tuple[int, ...] | None = (1,)
    zero: tuple[int, ...] | None = None
    micro_batch: tuple[int, ...] | None = None
    schedule: tuple[PipelineSchedule, ...] | None = None
    recompute: tuple[Recompute, ...] | None = None
    order: tuple[tuple[ParallelDimension, ...], ...] | None = None
    layers: LayerDivision = "even"
    short_ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class Overlap:
    """What is hidden behind computation."""

    __pydantic_config__ = STRICT

    tensor: Annotated[float, Ge(0), Le(1)] = 0.0
    """part of the time of tensor parallelism"""
    expert: Annotated[float, Ge(0), Le(1)] = 0.0
    """part of the time of the exchange between experts"""
    data: bool = True
    """reduction of gradients, gathering of weights"""
    pipeline: bool = True
    """transfers between stages"""
