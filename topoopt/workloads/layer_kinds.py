"""What a kind of layer has and does: matrices, small weights, operations of its mixer, what it keeps and passes on.

Sizes on a tensor rank are float64 arrays over numbers of ranks t, or numbers where t is one. Counts are those that
transformers 5.24.0 makes of a configuration, held against published checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.language_models import (
    Attention,
    DeltaAttention,
    Experts,
    LatentAttention,
    LayerKind,
    LightningAttention,
    Mixer,
    Mlp,
    StateSpace,
)

Matrix = tuple[Floats | float, Floats | float]
"""Inputs and outputs of a product of matrices, on a tensor rank."""

DELTA_CHUNK = 64
"""Tokens that kernels of the gated delta rule take together (arXiv:2412.06464, section 3.3)."""


def _keys(mixer: Attention, t: Floats) -> Floats:
    """Width of keys on a rank, which has one head at least."""
    return np.maximum(mixer.kv_heads / t, 1.0) * mixer.head_size


def mixer_matrices(mixer: Mixer | None, h: int, t: Floats) -> list[Matrix]:
    """Products of a token in a mixer; projections to low ranks and indexers are whole on every rank."""
    match mixer:
        case Attention():
            width = mixer.queries / t
            return [(h, width * (1 + mixer.gated) + 2 * _keys(mixer, t)), (width, h)]
        case LatentAttention():
            heads, low = mixer.heads / t, mixer.query_rank
            down: list[Matrix] = [(h, float(low + mixer.key_value_rank + mixer.rotary_size))]
            if mixer.index_heads:
                down += [(low or h, float(mixer.index_heads * mixer.index_size))]
                down += [(h, float(mixer.index_size + mixer.index_heads))]
            return [
                (mixer.key_value_rank, heads * (mixer.plain_size + mixer.value_size)),
                (low or h, heads * mixer.key_size),
                *down,
                (heads * mixer.value_size, h),
            ]
        case DeltaAttention():
            return [(h, 2 * (mixer.keys + mixer.values + mixer.value_heads) / t), (mixer.values / t, h)]
        case LightningAttention():
            return [(h, 4 * mixer.queries / t), (mixer.queries / t, h)]
        case StateSpace(step_rank=0):
            entered = 2 * mixer.inner + 2 * mixer.groups * mixer.state + mixer.heads
            return [(h, entered / t), (mixer.inner / t, h)]
        case StateSpace():
            inner, rank = mixer.inner / t, mixer.step_rank
            return [(h, 2 * inner), (inner, rank + 2.0 * mixer.state), (rank, inner), (inner, h)]
        case None:
            return []


def mlp_matrices(hidden: int, h: int, t: Floats, *, gated: bool) -> list[Matrix]:
    """Products of a token in an MLP of an inner width; none where that is 0."""
    return [(h, (1 + gated) * (hidden / t)), (hidden / t, h)] if hidden else []


def expert_matrices(experts: Experts, h: int, y: Floats) -> list[Matrix]:
    """Products of a token in one routed expert, on one of y ranks that share it."""
    return mlp_matrices(experts.hidden, experts.latent or h, y, gated=experts.gated)


def router_matrices(experts: Experts, h: int) -> list[Matrix]:
    """Products that every rank has whole: the router, the gate of shared experts, projections to a latent width."""
    latent: list[Matrix] = [(h, float(experts.latent)), (float(experts.latent), h)] if experts.latent else []
    return [(h, float(experts.count + experts.shared_gate)), *latent]


def all_matrices(kind: LayerKind, h: int, t: Floats) -> list[Matrix]:
    """Products that every token of a layer meets on a tensor rank: all but those of routed experts."""
    mixer, mlp = mixer_matrices(kind.mixer, h, t), kind.mlp
    if mlp is None:
        return mixer
    if isinstance(mlp, Mlp):
        return mixer + mlp_matrices(mlp.hidden, h, t, gated=mlp.gated)
    return mixer + mlp_matrices(mlp.shared_hidden, h, t, gated=mlp.gated) + router_matrices(mlp, h)


def matrix_weights(kind: LayerKind, h: int, t: Floats) -> Floats:
    """Weights of these matrices."""
    return np.asarray(sum((inputs * outputs for inputs, outputs in all_matrices(kind, h, t)), 0.0 * t))


def expert_matrix_weights(experts: Experts, h: int) -> int:
    """Weights of the matrices of one routed expert."""
    return (2 + experts.gated) * (experts.latent or h) * experts.hidden


def expert_weights(experts: Experts, h: int) -> int:
    """Weights of one routed expert, biases included."""
    biases = (1 + experts.gated) * experts.hidden + (experts.latent or h) if experts.biases else 0
    return expert_matrix_weights(experts, h) + biases


def _mixer_vectors(mixer: Mixer | None, h: int, t: Floats) -> Floats:
    match mixer:
        case Attention():
            keys, queries, none = _keys(mixer, t), mixer.queries / t, 0.0 * t
            biases = (1 + mixer.gated) * queries + 2 * keys if mixer.biases else none
            norms: Mapping[str, Floats] = {
                "none": none,
                "head": none + 2.0 * mixer.head_size,
                "row": queries + keys,
            }
            return biases + norms[mixer.norms] + float(mixer.output_biases * h) + mixer.sinks * (mixer.heads / t)
        case LatentAttention():
            return 0.0 * t + float(mixer.query_rank + mixer.key_value_rank + 2 * mixer.index_size)
        case DeltaAttention():
            cut = (2 * mixer.keys + mixer.values) * mixer.kernel + 2 * mixer.value_heads
            return cut / t + float(mixer.value_size)
        case LightningAttention():
            return mixer.queries / t
        case StateSpace():
            inner, wide = mixer.inner, mixer.convolved * (mixer.kernel + mixer.convolution_biases)
            if mixer.step_rank:
                cut = inner * (mixer.state + 2) + wide + mixer.biases * 2 * inner
                return cut / t + float(mixer.step_rank + 2 * mixer.state + mixer.biases * h)
            entered = 2 * inner + 2 * mixer.groups * mixer.state + mixer.heads
            return (inner + wide + 3 * mixer.heads + mixer.biases * entered) / t + float(mixer.biases * h)
        case None:
            return 0.0 * t


def vectors(kind: LayerKind, h: int, t: Floats) -> Floats:
    """Norms, biases, convolutions and other small weights of a layer on a tensor rank.

    Biases in front of a product are cut with its columns; those behind a sum over ranks, and norms, are whole.
    """
    small, mlp = kind.norms * float(h) + _mixer_vectors(kind.mixer, h, t), kind.mlp
    if isinstance(mlp, Mlp):
        return small + ((1 + mlp.gated) * mlp.hidden / t + h if mlp.biases else 0.0)
    if mlp is None:
        return small
    shared = ((1 + mlp.gated) * mlp.shared_hidden / t + h) * (mlp.biases and mlp.shared_hidden > 0)
    return small + shared + float((mlp.router_biases + mlp.balanced) * mlp.count)


def layer_weights(kind: LayerKind, h: int, t: Floats) -> Floats:
    """Weights of a layer on a tensor rank, but for routed experts."""
    return matrix_weights(kind, h, t) + vectors(kind, h, t)


def keys_attended(mixer: Mixer | None, length: int, *, causal: bool = True) -> float:
    """Keys that a token of a sequence attends to in the mean.

    Half of all where attention is causal, fewer behind a window, whose first tokens have none before them, and half of
    a part where the sequence is cut into parts. None in a mixer without scores.
    """
    if isinstance(mixer, Attention):
        if mixer.chunk is not None and mixer.chunk < length:
            return mixer.chunk / 2.0 if causal else float(mixer.chunk)
        limit = mixer.window
    elif isinstance(mixer, LatentAttention):
        limit = mixer.index_keys
    else:
        return 0.0
    window = length if limit is None else min(limit, length)
    return window - window * window / (2.0 * length) if causal else float(window)


def score_widths(mixer: Mixer | None) -> float:
    """Widths of a key and a value of all heads together: products of a token with each key that it attends to."""
    match mixer:
        case Attention():
            return float(mixer.heads * 2 * mixer.head_size)
        case LatentAttention():
            return float(mixer.heads * (mixer.key_size + mixer.value_size))
        case _:
            return 0.0


def state_operations(mixer: Mixer | None, length: int) -> float:
    """Operations of a token forward beside matrices and scores: convolutions, states, the scores of an indexer.

    The gated delta rule and Mamba-2 as Megatron-LM counts them; Mamba as Mamba-2; of lightning attention a token is
    added to a state of each head and reads it.
    """
    match mixer:
        case DeltaAttention():
            convolved = mixer.kernel * (2 * mixer.keys + mixer.values)
            return 2.0 * (convolved + 4 * mixer.values * mixer.value_size)
        case LightningAttention():
            return 4.0 * mixer.queries * mixer.head_size
        case StateSpace():
            return 7.0 * mixer.inner * mixer.state
        case LatentAttention() if mixer.index_heads:
            return float(mixer.index_heads * mixer.index_size * length)
        case _:
            return 0.0


def core_operations(mixer: Mixer | None, length: int, *, causal: bool = True) -> float:
    """Operations of a token forward in a mixer beside its matrices."""
    scores = 2.0 * keys_attended(mixer, length, causal=causal) * score_widths(mixer)
    return scores + state_operations(mixer, length)


def passed_elements(mixer: Mixer | None, t: Floats) -> tuple[Floats, Floats]:
    """Elements on a tensor rank that context parallelism passes round: of a token, and of a sequence."""
    none = np.zeros_like(t)
    match mixer:
        case Attention():
            return 2.0 * _keys(mixer, t), none
        case LatentAttention():
            return none + float(mixer.key_value_rank + mixer.rotary_size), none
        case DeltaAttention():
            return none, mixer.keys * mixer.value_size * (mixer.value_heads // mixer.key_heads) / t
        case LightningAttention():
            return none, mixer.queries * mixer.head_size / t
        case StateSpace():
            return none, mixer.inner * mixer.state / t
        case None:
            return none, none


def mixer_kept(mixer: Mixer | None, t: Floats) -> tuple[Floats, float]:
    """Elements of a token that a mixer keeps for its backward pass: on a tensor rank, and on all of them together.

    Queries, keys, values and the output of attention; of latent attention also what is compressed. Of linear attention
    and state spaces what goes into and comes out of convolution and states, which kernels compute again.
    """
    match mixer:
        case Attention():
            return mixer.queries * (2 + 2 * mixer.gated) / t + 2.0 * _keys(mixer, t), 0.0
        case LatentAttention():
            low = float(mixer.query_rank + mixer.key_value_rank + mixer.rotary_size)
            cut = mixer.heads * 2 * (mixer.key_size + mixer.value_size)
            return cut / t, 2.0 * low + mixer.index_size
        case DeltaAttention():
            convolved, gated = 2 * mixer.keys + mixer.values, 3 * mixer.values
            return (2 * convolved + gated + mixer.value_heads * (2 + DELTA_CHUNK)) / t, 0.0
        case LightningAttention():
            return 6 * mixer.queries / t, 0.0
        case StateSpace():
            return (2 * mixer.convolved + 4 * mixer.inner + mixer.heads + mixer.step_rank) / t, 0.0
        case None:
            return np.zeros_like(t), 0.0
