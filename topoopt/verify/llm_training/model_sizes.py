"""Weights and operations of a language model, counted by the checker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.language_model import LanguageModel


@dataclass(frozen=True)
class ModelSizes:
    """Weights of a layer and of the ends.

    Attributes:
        attention: matrices of attention.
        mlp: matrices of the MLP of a dense layer.
        met: of a layer of experts, what every token meets besides attention.
        expert: matrices of one routed expert.
        small_dense, small_expert: norms and biases of a dense layer, and of one of experts.
        embedding, head: of the first stage and of the last besides layers.
        dense_layers, expert_layers: how many there are.
        core: products of the core of attention of a token with one key.
    """

    attention: int
    mlp: int
    met: int
    expert: int
    small_dense: int
    small_expert: int
    embedding: int
    head: int
    dense_layers: int
    expert_layers: int
    core: int


def sizes_of(model: LanguageModel) -> ModelSizes:
    """Of any model."""
    h, a, d, e, latent = model.hidden, model.heads, model.head_size, model.experts, model.latent
    if latent is None:
        attention, core = h * d * (2 * a + 2 * model.kv_heads), 2 * a * d
    else:
        query_key = latent.plain_size + latent.rotary_size
        low = latent.query_rank
        attention = a * low * query_key + h * low if low else h * a * query_key
        attention += h * (latent.key_value_rank + latent.rotary_size) + h * a * latent.value_size
        attention += latent.key_value_rank * a * (latent.plain_size + latent.value_size)
        core = a * (query_key + latent.value_size)
    rows = 2 + model.gated
    norms = 2 * h + (2 * model.head_size if model.query_key_norms else 0)
    if latent is not None:
        norms += latent.query_rank + latent.key_value_rank
    if model.biases or model.attention_biases:
        norms += (a + 2 * model.kv_heads) * d
    if model.biases:
        norms += 3 * h
    small_dense = norms + (model.ffn_hidden + h if model.biases else 0)
    small_expert = norms + (e.count if e is not None and e.balanced else 0)
    met = expert = 0
    if e is not None:
        expert = rows * h * e.hidden
        met = h * e.count + e.shared * expert + (h if e.shared_gate else 0)
    head = (1 + model.biases) * h + (0 if model.tied else h * model.vocabulary)
    dense = model.layers if e is None else e.dense_layers
    return ModelSizes(
        attention, rows * h * model.ffn_hidden, met, expert, small_dense, small_expert,
        h * (model.vocabulary + model.positions), head, dense, model.layers - dense, core,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class RankSizes:
    """Weights on one rank of those that share each matrix; experts are shared out apart.

    Attributes:
        dense, routed: matrices of a layer, but for routed experts.
        dense_layer, routed_layer: the same with norms and biases.
        embedding, vocabulary, final_norm: of the ends; `vocabulary` without positions.
    """

    dense: Floats
    routed: Floats
    dense_layer: Floats
    routed_layer: Floats
    embedding: Floats
    vocabulary: Floats
    final_norm: int


def on_tensor_ranks(model: LanguageModel, t: Floats) -> RankSizes:
    """Columns and rows of matrices are cut into t parts, heads of keys and values into no more than there are.

    Nothing cuts norms, routers, the gate of shared experts, biases behind a sum over ranks, projections to low ranks
    and learned positions.
    """
    s, h, e = sizes_of(model), model.hidden, model.experts
    heads, keys = model.heads * model.head_size, 2 * model.kv_heads * model.head_size
    if model.latent is None:
        low, of_keys = 0, h * keys
    else:
        low, of_keys = h * (model.latent.query_rank + model.latent.key_value_rank + model.latent.rotary_size), 0
    parts = np.minimum(t, model.kv_heads)
    attention = (s.attention - low - of_keys) / t + of_keys / parts + low
    routing = 0 if e is None else h * e.count + (h if e.shared_gate else 0)
    dense, routed = attention + s.mlp / t, attention + (s.met - routing) / t + routing
    has = model.biases or model.attention_biases
    biases = heads / t + keys / (parts if model.latent is None else t) if has else np.zeros_like(t)
    inner = model.ffn_hidden if model.biases else 0
    cut = heads + keys if has else 0
    return RankSizes(
        dense,
        routed,
        dense + s.small_dense - inner - cut + inner / t + biases,
        routed + s.small_expert - cut + biases,
        h * model.vocabulary / t + h * model.positions,
        h * model.vocabulary / t,
        (1 + model.biases) * h,
    )


def mean_keys(model: LanguageModel, length: int) -> float:
    """That a token attends to: the first w of a sequence one to w, behind a window all others w; half of each first."""
    w = float(min(length, model.attention_window or length))
    return (w * w / 2.0 + (length - w) * w) / length


def model_flops(model: LanguageModel, length: int) -> float:
    """Operations of a token, forward and backward once, attention causal."""
    s = sizes_of(model)
    core = 2.0 * mean_keys(model, length) * s.core
    dense = 2 * (s.attention + s.mlp) + core
    per_token = 0 if model.experts is None else model.experts.per_token
    routed = 2 * (s.attention + s.met + per_token * s.expert) + core
    head = 2 * model.hidden * model.vocabulary
    last = dense if model.experts is None else routed
    further = model.mtp_layers * (last + 4 * model.hidden**2 + head)
    return 3.0 * (s.dense_layers * dense + s.expert_layers * routed + head + further)
