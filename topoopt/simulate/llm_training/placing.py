"""How many ranks of a group stand on one server, by the order in which ranks are numbered.

g ranks that follow each other stand on one server. A dimension of n ranks before which others take a stride s has
g / s of them there, one at least and n at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.parallelism import RANK_ORDERS
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns

WHOLE = 1.0 - 1e-9
"""A part of a group that is all of it but for rounding."""


@dataclass(frozen=True, eq=False)
class RanksBeside:
    """Ranks of a group on one server, one value a strategy.

    Attributes:
        tensor, context, data, pipeline: along one dimension.
        expert: of those that share out the experts of a layer.
        replicas: of those that hold the same experts.
    """

    tensor: Column
    context: Column
    data: Column
    pipeline: Column
    expert: Column
    replicas: Column


def ranks_beside(columns: StrategyColumns, gpus_per_server: int) -> RanksBeside:
    """Of strategies, by their orders."""
    sizes = {D.TENSOR: columns.tensor, D.CONTEXT: columns.context, D.DATA: columns.data, D.PIPELINE: columns.pipeline}
    beside = {dimension: np.ones_like(columns.tensor) for dimension in sizes}
    for code in np.unique(columns.order).tolist():
        chosen, stride = columns.order == code, np.ones_like(columns.tensor)
        for dimension in RANK_ORDERS[int(code)]:
            here = np.minimum(np.maximum(gpus_per_server / stride, 1.0), sizes[dimension])
            beside[dimension] = np.where(chosen, here, beside[dimension])
            stride = stride * sizes[dimension]
    # Experts are shared out along tensor first, then context, then data.
    left, expert = columns.expert * columns.expert_tensor, np.ones_like(columns.tensor)
    for dimension in (D.TENSOR, D.CONTEXT, D.DATA):
        part = np.minimum(np.maximum(left, 1.0), sizes[dimension])
        expert = expert * np.minimum(part, beside[dimension])
        left = left / sizes[dimension]
    of_stage = beside[D.TENSOR] * beside[D.CONTEXT] * beside[D.DATA]
    return RanksBeside(
        beside[D.TENSOR], beside[D.CONTEXT], beside[D.DATA], beside[D.PIPELINE], expert, of_stage / expert
    )
