"""Weights that the parts of a stage have."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.workloads.llm_training.facts import end_weights, layer_weights

DENSE, ROUTED, EMBEDDING, HEAD, CHUNK = range(5)
"""Kinds of parts: a layer with one MLP, one with experts, what the first and what the last stage has, what each stage
costs anyway."""


Weights = tuple[Column, Column]
"""All but experts, and experts."""


def part_weights(problem: LlmTrainingProblem, columns: StrategyColumns) -> list[Weights]:
    """Parameters on a rank by kind of part but CHUNK."""
    model, t = problem.model, columns.tensor
    plain, zero = layer_weights(model, expert_layer=False), np.zeros_like(t)
    embedding, head = end_weights(model)
    dense = (plain.attention + plain.dense) / t + plain.small
    routed, experts = dense, zero
    if model.experts is not None:
        own = layer_weights(model, expert_layer=True)
        routed = (own.attention + own.dense) / t + own.small
        experts = own.expert * own.experts / (columns.expert * columns.expert_tensor)
    # The last stage has a copy of a tied embedding, but for one stage alone.
    copied = np.where(columns.pipeline > 1, model.vocabulary * model.hidden / t, 0.0) if model.tied else zero
    return [(dense, zero), (routed, experts), (embedding / t, zero), (head / t + copied, zero)]


def rank_weights(
    problem: LlmTrainingProblem, parts: list[Weights], layers: Column, first: Bools, last: Bools
) -> Weights:
    """Parameters on a rank with so many layers, by those of its parts; layers without experts are the first rank's."""
    model = problem.model
    plain = layers if model.experts is None else np.where(first, np.minimum(model.experts.dense_layers, layers), 0.0)
    further = np.where(last, float(model.mtp_layers), 0.0)
    counts = plain, layers - plain + further, first, last
    found = [sum(count * own[kind] for count, own in zip(counts, parts, strict=True)) for kind in range(2)]
    return np.asarray(found[0]), np.asarray(found[1])
