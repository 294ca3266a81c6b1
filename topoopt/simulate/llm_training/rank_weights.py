"""Weights that a rank holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.language_model import LanguageModel
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.workloads.llm_training.facts import end_weights, layer_weights


@dataclass(frozen=True, eq=False)
class RankWeights:
    """Parameters on the first, an inner and the last rank of a pipeline, one value a strategy.

    Attributes:
        dense: shared by data x context replicas.
        experts: routed experts, shared by the replicas of experts.
    """

    dense: tuple[Column, Column, Column]
    experts: tuple[Column, Column, Column]


def rank_weights(model: LanguageModel, columns: StrategyColumns) -> RankWeights:
    """Weights of the ranks; where none stands between the first and the last, those of the first stand there."""
    t, alone, inside = columns.tensor, columns.pipeline == 1, columns.pipeline > 2
    plain = layer_weights(model, expert_layer=False)
    dense_layer = (plain.attention + plain.dense) / t + plain.small
    embedding, head = end_weights(model)
    ends = [embedding / t, np.zeros_like(t), head / t]
    if model.tied:
        # The last stage has a copy of the embedding, but for one stage alone.
        ends[2] = ends[2] + np.where(alone, 0.0, model.vocabulary * model.hidden / t)
    ends[0], ends[2] = ends[0] + np.where(alone, ends[2], 0.0), ends[2] + np.where(alone, ends[0], 0.0)
    loads = (columns.first_layers, columns.inner_layers, columns.last_layers)
    if model.experts is None:
        dense = [load * dense_layer + end for load, end in zip(loads, ends, strict=True)]
        zero = np.zeros_like(t)
        return RankWeights((dense[0], np.where(inside, dense[1], dense[0]), dense[2]), (zero, zero, zero))
    of_experts = layer_weights(model, expert_layer=True)
    shared_layer = (of_experts.attention + of_experts.dense) / t + of_experts.small
    routed = of_experts.expert * of_experts.experts / (columns.expert * columns.expert_tensor)
    further = np.full_like(t, float(model.mtp_layers))
    plain_layers = np.minimum(model.experts.dense_layers, loads[0])
    counts = [loads[0] - plain_layers + np.where(alone, further, 0.0), loads[1], loads[2] + further]
    dense = [count * shared_layer + end for count, end in zip(counts, ends, strict=True)]
    dense[0] = dense[0] + plain_layers * dense_layer
    counts[2] = np.where(alone, counts[0], counts[2])
    dense[2] = np.where(alone, dense[0], dense[2])
    dense[1], counts[1] = np.where(inside, dense[1], dense[0]), np.where(inside, counts[1], counts[0])
    return RankWeights((dense[0], dense[1], dense[2]), (counts[0] * routed, counts[1] * routed, counts[2] * routed))
