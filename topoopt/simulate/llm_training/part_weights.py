"""Weights that the parts of a stage have."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools
from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.workloads.llm_training.facts import LayerWeights, end_weights, layer_weights, whole_ends

DENSE, ROUTED, EMBEDDING, HEAD, CHUNK = range(5)
"""Kinds of parts: a layer with one MLP, one with experts, what the first and what the last stage has, what each stage
costs anyway."""


Weights = tuple[Column, Column]
"""All but experts, and experts."""


def matrices_on_rank(model: LanguageModel, own: LayerWeights, t: Column) -> Column:
    """Weights of the matrices of a layer on a tensor rank, but for routed experts: those that all ranks have whole, and
    a part of the others. No rank has less than one head of keys and values."""
    copied = 0.0 if model.latent is not None else 2.0 * model.hidden * model.head_size * _copied_heads(model, t)
    return (own.attention + own.dense - own.whole + copied) / t + own.whole


def _copied_heads(model: LanguageModel, t: Column) -> Column:
    return np.maximum(t - model.kv_heads, 0.0)


def _layer_on_rank(model: LanguageModel, own: LayerWeights, t: Column) -> Column:
    """The same with norms, whole, and biases."""
    has = model.latent is None and (model.biases or model.attention_biases)
    copied = 2.0 * model.head_size * _copied_heads(model, t) if has else 0.0
    return matrices_on_rank(model, own, t) + (own.split_biases + copied) / t + own.small - own.split_biases


def part_weights(problem: LlmTrainingProblem, columns: StrategyColumns) -> list[Weights]:
    """Parameters on a rank by kind of part but CHUNK."""
    model, t = problem.model, columns.tensor
    plain, zero = layer_weights(model, expert_layer=False), np.zeros_like(t)
    ends, whole = end_weights(model), whole_ends(model)
    embedding, head = ((all_of - own) / t + own for all_of, own in zip(ends, whole, strict=True))
    dense = _layer_on_rank(model, plain, t)
    routed, experts = dense, zero
    if model.experts is not None:
        own = layer_weights(model, expert_layer=True)
        routed = _layer_on_rank(model, own, t)
        experts = own.expert * own.experts / (columns.expert * columns.expert_tensor)
    # The last stage has a copy of a tied embedding, but for one stage alone.
    copied = np.where(columns.pipeline > 1, model.vocabulary * model.hidden / t, 0.0) if model.tied else zero
    return [(dense, zero), (routed, experts), (embedding, zero), (head + copied, zero)]


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
