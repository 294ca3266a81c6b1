"""Part of a solution file: a strategy."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from topoopt.core.calculon import ExecutionChoices, TensorTransfers
from topoopt.core.parallelism import ParallelDimension, ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.files.file_part import FilePart, Listed, NameOf, is_none
from topoopt.kinds.llm_training.model_schema import MOST_LAYERS
from topoopt.kinds.llm_training.schema import MOST_GPUS

Parts = Annotated[int, Field(ge=1, le=MOST_GPUS)]
Dimension = Annotated[ParallelDimension, NameOf(ParallelDimension)]


class ExecutionPart(FilePart):
    """What the Calculon model tells apart beside the parts of a strategy."""

    core = ExecutionChoices

    transfers: Annotated[TensorTransfers, NameOf(TensorTransfers)] = Field(description="of tensor parallelism")
    redo: bool = Field(description="activations stay split and are gathered again")
    data_overlap: bool = Field(description="gradients are reduced during the backward pass")


class StrategyPart(FilePart):
    """How the model is spread over the GPUs."""

    core = ParallelStrategy

    tensor: Parts
    sequence: bool
    context: Parts
    pipeline: Parts
    chunks: Parts
    data: Parts
    expert: Parts
    expert_tensor: Parts
    zero: Annotated[int, Field(ge=0, le=3)]
    micro_batch: Annotated[int, Field(ge=1, le=1 << 30)]
    schedule: Annotated[PipelineSchedule, NameOf(PipelineSchedule)]
    recompute: Annotated[Recompute, NameOf(Recompute)]
    order: Annotated[Listed[Dimension], Field(min_length=4, max_length=4)]
    stage_layers: Annotated[Listed[Annotated[int, Field(ge=0, le=MOST_LAYERS)]], Field(max_length=2 * MOST_LAYERS)]
    execution: ExecutionPart | None = Field(
        default=None, exclude_if=is_none, description="with time_model: calculon, what only it tells apart"
    )
