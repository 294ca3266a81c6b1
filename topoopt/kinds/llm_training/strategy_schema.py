"""Part of a solution file: a strategy."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from topoopt.core.parallelism import ParallelDimension, ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.files.file_part import FilePart, Listed, NameOf
from topoopt.kinds.llm_training.model_schema import MOST_LAYERS
from topoopt.kinds.llm_training.schema import MOST_GPUS

Parts = Annotated[int, Field(ge=1, le=MOST_GPUS)]
Dimension = Annotated[ParallelDimension, NameOf(ParallelDimension)]


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
