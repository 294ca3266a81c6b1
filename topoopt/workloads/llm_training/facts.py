"""Parameters and operations of a language model, exactly.

A token's operations in the forward pass are two for each weight it meets in a matrix, and those of the core of
attention: 2 a (d of keys + d of values) for each key, of which there are s, s/2 in the mean where attention is causal,
and w - w^2/(2s) behind a window of w keys. The backward pass has twice as many. Norms, biases, activation functions and
the embedding are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.parallelism import LanguageModel

BACKWARD = 2
"""Operations of the backward pass over those of the forward pass."""


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one layer of transformers.

    Attributes:
        attention: matrices of attention.
        dense: matrices of the MLP, shared experts and the router: what every token meets.
        expert: matrices of one routed expert.
        experts: routed experts; 0 in a dense layer.
        small: biases and norms.
        whole: of `attention` and `dense`, matrices that every tensor rank has whole: the router, the gate of shared
            experts, projections to low ranks.
        split_biases: of `small`, biases that tensor ranks share out like the columns they belong to.
    """

    attention: int
    dense: int
    expert: int
    experts: int
    small: int
    whole: int
    split_biases: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.attention + self.dense + self.expert * self.experts + self.small


def attention_weights(model: LanguageModel) -> int:
    """Matrices of attention in one layer."""
    h, a, d = model.hidden, model.heads, model.head_size
    latent = model.latent
    if latent is None:
        return 2 * h * a * d + 2 * h * model.kv_heads * d
    key = latent.plain_size + latent.rotary_size
    query = h * latent.query_rank + latent.query_rank * a * key if latent.query_rank else h * a * key
    shared = h * (latent.key_value_rank + latent.rotary_size)
    expanded = latent.key_value_rank * a * (latent.plain_size + latent.value_size)
    return query + shared + expanded + a * latent.value_size * h


def _split_biases(model: LanguageModel, *, expert_layer: bool) -> int:
    """Biases of queries, keys and values, and of the first product of an MLP."""
    count = 0 if expert_layer or not model.biases else model.ffn_hidden
    if model.biases or model.attention_biases:
        count += (model.heads + 2 * model.kv_heads) * model.head_size
    return count


def _small(model: LanguageModel, *, expert_layer: bool) -> int:
    """Norms of a layer, and biases where the model has them."""
    h = model.hidden
    count = 2 * h + _split_biases(model, expert_layer=expert_layer)
    if model.biases:
        count += 2 * h + h + (0 if expert_layer else h)
    if model.query_key_norms:
        count += 2 * model.head_size
    if model.latent is not None:
        count += model.latent.query_rank + model.latent.key_value_rank
    if expert_layer and model.experts is not None and model.experts.balanced:
        count += model.experts.count
    return count


def layer_weights(model: LanguageModel, *, expert_layer: bool) -> LayerWeights:
    """Weights of a layer, of experts or dense."""
    h, matrices = model.hidden, 3 if model.gated else 2
    attention = attention_weights(model)
    small = _small(model, expert_layer=expert_layer)
    biases = _split_biases(model, expert_layer=expert_layer)
    latent, experts = model.latent, model.experts
    whole = 0 if latent is None else h * (latent.query_rank + latent.key_value_rank + latent.rotary_size)
    if experts is None or not expert_layer:
        return LayerWeights(attention, matrices * h * model.ffn_hidden, 0, 0, small, whole, biases)
    one = matrices * h * experts.hidden
    gates = h * experts.count + (h if experts.shared_gate else 0)
    return LayerWeights(attention, experts.shared * one + gates, one, experts.count, small, whole + gates, biases)


def expert_layers(model: LanguageModel) -> int:
    """Layers with experts."""
    return 0 if model.experts is None else model.layers - model.experts.dense_layers


def end_weights(model: LanguageModel) -> tuple[int, int]:
    """Weights of the first stage and of the last besides layers: embedding; head and final norm.

    A tied head is the embedding, and counts there alone.
    """
    positions, norm = whole_ends(model)
    vocabulary = model.vocabulary * model.hidden
    return positions + vocabulary, norm + (0 if model.tied else vocabulary)


def whole_ends(model: LanguageModel) -> tuple[int, int]:
    """Of the weights of the ends, what every tensor rank has whole: learned positions; the final norm."""
    return model.positions * model.hidden, (2 if model.biases else 1) * model.hidden


def parameters(model: LanguageModel) -> int:
    """Weights of the whole model, as counted without layers that predict further tokens."""
    experts = expert_layers(model)
    layers = experts * layer_weights(model, expert_layer=True).total if experts else 0
    dense = (model.layers - experts) * layer_weights(model, expert_layer=False).total
    return layers + dense + sum(end_weights(model))


def active_parameters(model: LanguageModel) -> int:
    """Weights that one token meets: all but those of experts it does not go to."""
    if model.experts is None:
        return parameters(model)
    idle = model.experts.count - model.experts.per_token
    return parameters(model) - expert_layers(model) * idle * layer_weights(model, expert_layer=True).expert


def keys_attended(model: LanguageModel, length: int, *, causal: bool = True) -> float:
    """Keys that a token of a sequence attends to in the mean: half of all where attention is causal, fewer behind a
    window, whose first tokens have none before them."""
    window = length if model.attention_window is None else min(model.attention_window, length)
    return window - window * window / (2.0 * length) if causal else float(window)


def core_operations(model: LanguageModel, length: int, *, causal: bool = True) -> float:
    """Operations of the core of attention of a token in one layer, forward, in a sequence of `length` tokens."""
    latent = model.latent
    both = 2 * model.head_size if latent is None else latent.plain_size + latent.rotary_size + latent.value_size
    return 2.0 * keys_attended(model, length, causal=causal) * model.heads * both


def token_operations(model: LanguageModel, length: int, *, causal: bool = True) -> float:
    """Operations of a token, forward and backward once.

    Layers that predict further tokens count: each is a layer, a projection of 2h to h, and a head.
    """
    core = core_operations(model, length, causal=causal)

    def layer(*, expert_layer: bool) -> float:
        weights = layer_weights(model, expert_layer=expert_layer)
        met = 0 if model.experts is None or not expert_layer else model.experts.per_token * weights.expert
        return 2 * (weights.attention + weights.dense + met) + core

    experts = expert_layers(model)
    head = 2 * model.hidden * model.vocabulary
    further = layer(expert_layer=model.experts is not None) + 4 * model.hidden**2 + head if model.mtp_layers else 0.0
    forward = (model.layers - experts) * layer(expert_layer=False) + head + model.mtp_layers * further
    if experts:
        forward += experts * layer(expert_layer=True)
    return (1 + BACKWARD) * forward
