"""Seconds of every stage of a pipeline, for strategies with any numbers of layers."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.native import pipeline
from topoopt.simulate.llm_training.stage_parts import StageParts
from topoopt.simulate.llm_training.strategies import StrategyColumns


def parts_of_stages(
    problem: LlmTrainingProblem, parts: StageParts, layers: Ints
) -> tuple[Floats, Floats, Bools, Ints, int, int, bool]:
    """Parts and layers as `native.pipeline` takes them.

    Args:
        layers: int64[R, stages].
    """
    model = problem.model
    dense = model.layers if model.experts is None else model.experts.dense_layers
    count, kinds, spans = parts.seconds.shape
    seconds, own = parts.seconds.reshape(count, kinds * spans), np.ascontiguousarray(layers)
    return seconds, parts.exchange, parts.hidden, own, dense, model.mtp_layers, model.experts is not None


def stage_tables(problem: LlmTrainingProblem, parts: StageParts, layers: Ints) -> Floats:
    """float64[7, stages, R] of strategies of as many stages: spans of `stage_parts` up to STEP, and layers.

    Args:
        layers: int64[R, stages].
    """
    tables = pipeline.stage_tables(*parts_of_stages(problem, parts, layers))
    return tables.reshape(parts.seconds.shape[2], *layers.T.shape)


def stages_of(problem: LlmTrainingProblem, columns: StrategyColumns) -> Ints:
    """int64[R, most stages], layers of every stage of strategies."""
    if columns.stages is not None:
        return columns.stages
    shape = columns.pipeline, columns.chunks, columns.first_layers, columns.last_layers
    p, v, first, last = (part.astype(np.int64) for part in shape)
    return pipeline.even_stages(problem.model.layers, p, v, first, last)
