"""A time that the order of the passes of a strategy does not go below, for many strategies a second.

How the bound of each schedule is found: `native/src/order_bound.hpp`. The weights of the first stage are gathered
before the passes, the gradients of the last layer reduced behind them. With a single stage the bound is the time.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.native import pipeline
from topoopt.simulate.llm_training.stage_parts import StageParts
from topoopt.simulate.llm_training.stage_table import parts_of_stages, stages_of
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns


def order_bounds(problem: LlmTrainingProblem, columns: StrategyColumns, parts: StageParts) -> Column:
    """Seconds, one value a strategy; layers as `columns` has them."""
    m = problem.batch.sequences / columns.data / columns.micro_batch
    shape = np.stack([columns.schedule, columns.pipeline, columns.chunks, m, columns.zero], axis=1).astype(
        np.int64, order="C"
    )
    bounds = pipeline.order_bounds(
        *parts_of_stages(problem, parts, stages_of(problem, columns)),
        shape,
        parts.hop,
        problem.overlap.data,
        not problem.overlap.pipeline,
    )
    return bounds + parts.iteration
