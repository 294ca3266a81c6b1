"""Kinds of layers by the checker's own model: what a rank holds of a layer, and what a token costs in it.

A layer is added up mixer by mixer: each function has all that one of them is about, its weights, the products of a
token, its scores, what it keeps and what it passes on. Sizes on one of t ranks are float64[R].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import (
    Attention,
    DeltaAttention,
    Experts,
    LatentAttention,
    LayerKind,
    LightningAttention,
    Mlp,
    StateSpace,
)

Size = Floats | float
Product = tuple[Size, Size]
"""Rows and columns of a matrix."""


@dataclass(frozen=True, eq=False)
class Mixing:
    """A mixer on a rank.

    Attributes
    ----------
    products : matrices that a token meets.
    small : weights beside matrices.
    pairs : products of a token with each key that it attends to, on all ranks together.
    heads : that scores are written for where they are written, on all ranks together.
    indexed : operations of a token in the scores of an indexer, for each token of a sequence, on all ranks together.
    around : elements of queries, keys and values, on all ranks together.
    channels : that go through states, on all ranks together.
    kept, kept_whole : elements that wait for the backward pass, on the rank, and on all ranks together.
    passed, passed_once : elements that go round context ranks, of a token and of a sequence.
    """

    products: Sequence[Product]
    small: Size
    pairs: float = 0.0
    heads: int = 0
    indexed: float = 0.0
    around: float = 0.0
    channels: float = 0.0
    kept: Size = 0.0
    kept_whole: float = 0.0
    passed: Size = 0.0
    passed_once: Size = 0.0


def _attention(own: Attention, h: int, t: Floats) -> Mixing:
    a, k, d, gates = own.heads / t, np.maximum(1.0, own.kv_heads / t), own.head_size, int(own.gated)
    wide = (a + a * gates + 2 * k) * d
    small = own.biases * wide + own.output_biases * h + own.sinks * a
    small = small + {"none": 0.0, "head": 2.0 * d, "row": (a + k) * d}[own.norms]
    return Mixing(
        [(h, wide), (a * d, h)],
        small,
        pairs=2.0 * d * own.heads,
        heads=own.heads,
        around=1.0 * d * (own.heads * (1 + gates) + 2 * own.kv_heads),
        kept=2 * (a + k + a * gates) * d,
        passed=2 * k * d,
    )


def _latent(own: LatentAttention, h: int, t: Floats) -> Mixing:
    low, kv, key, value = own.query_rank, own.key_value_rank, own.plain_size + own.rotary_size, own.value_size
    a, index = own.heads / t, own.index_heads * own.index_size
    products: list[Product] = [
        (h, 1.0 * (low + kv + own.rotary_size)),
        (low or h, a * key),
        (kv, a * (own.plain_size + value)),
        (a * value, h),
    ]
    if index:
        products += [(low or h, 1.0 * index), (h, 1.0 * (own.index_size + own.index_heads))]
    return Mixing(
        products,
        1.0 * (low + kv + 2 * own.index_size),
        pairs=1.0 * own.heads * (key + value),
        heads=own.heads,
        indexed=1.0 * index,
        around=1.0 * own.heads * (2 * key + value),
        kept=2 * a * (key + value),
        kept_whole=2.0 * (low + kv + own.rotary_size) + own.index_size,
        passed=np.full_like(t, 1.0 * (kv + own.rotary_size)),
    )


def _delta(own: DeltaAttention, h: int, t: Floats) -> Mixing:
    q, v, heads = own.key_heads * own.key_size, own.value_heads * own.value_size, own.value_heads
    wide, chunk = 2 * q + v, 64
    return Mixing(
        [(h, 2 * (q + v + heads) / t), (v / t, h)],
        (wide * own.kernel + 2 * heads) / t + own.value_size,
        channels=1.0 * v,
        kept=(2 * wide + 3 * v + heads * (2 + chunk)) / t,
        passed_once=heads // own.key_heads * q * own.value_size / t,
    )


def _lightning(own: LightningAttention, h: int, t: Floats) -> Mixing:
    wide = own.heads * own.head_size
    return Mixing(
        [(h, 4 * wide / t), (wide / t, h)],
        wide / t,
        channels=1.0 * wide,
        kept=6 * wide / t,
        passed_once=wide * own.head_size / t,
    )


def _state_space(own: StateSpace, h: int, t: Floats) -> Mixing:
    d, n, rank = own.inner, own.state, own.step_rank
    convolved = d if rank else d + 2 * own.groups * n
    filters = convolved * (own.kernel + own.convolution_biases)
    if rank:  # Mamba
        products: list[Product] = [(h, 2 * d / t), (d / t, rank + 2.0 * n), (rank, d / t), (d / t, h)]
        small = (filters + d * n + 2 * d + 2 * d * own.biases) / t + rank + 2 * n + h * own.biases
    else:
        enters = 2 * d + 2 * own.groups * n + own.heads
        products = [(h, enters / t), (d / t, h)]
        small = (filters + 3 * own.heads + d + enters * own.biases) / t + h * own.biases
    return Mixing(
        products,
        small,
        channels=1.0 * d,
        kept=(2 * convolved + 4 * d + own.heads + rank) / t,
        passed_once=d * n / t,
    )


def mixing_of(kind: LayerKind, h: int, t: Floats) -> Mixing:
    """Return what the mixer of a layer has and does on one of t ranks."""
    match kind.mixer:
        case Attention() as own:
            return _attention(own, h, t)
        case LatentAttention() as own:
            return _latent(own, h, t)
        case DeltaAttention() as own:
            return _delta(own, h, t)
        case LightningAttention() as own:
            return _lightning(own, h, t)
        case StateSpace() as own:
            return _state_space(own, h, t)
        case None:
            return Mixing([], 0.0)


def mean_keys(kind: LayerKind, length: int) -> float:
    """Return the mean number of keys that a token attends to.

    Behind a window always as many as it has, once they are there; in parts of a sequence half a part.
    """
    own, most = kind.mixer, length
    if isinstance(own, Attention):
        if own.chunk and own.chunk < length:
            return own.chunk / 2.0
        most = min(length, own.window or length)
    elif isinstance(own, LatentAttention):
        most = min(length, own.index_keys or length)
    return (most * most / 2.0 + (length - most) * float(most)) / length


def experts_of(kind: LayerKind) -> Experts | None:
    """Return the experts of a layer."""
    return kind.mlp if isinstance(kind.mlp, Experts) else None


def parts_of(kind: LayerKind) -> int:
    """Return how many parts of a layer sum up over tensor ranks: mixer, MLP or experts."""
    return sum(part is not None for part in (kind.mixer, kind.mlp))


@dataclass(frozen=True, eq=False)
class RankLayer:
    """Weights of a layer on a rank, float64[R]; `experts`: of all routed experts together, on all ranks.

    Attributes
    ----------
    matrices : without routed experts.
    all_but_experts : the same with norms, biases and other small weights.
    """

    matrices: Floats
    all_but_experts: Floats
    experts: int


def layer_on_rank(kind: LayerKind, h: int, t: Floats) -> RankLayer:
    """Return the weights of a layer on one of t ranks.

    Nothing cuts norms, routers, gates, biases behind a sum over ranks, projections to low ranks.
    """
    mixing, mlp, routed = mixing_of(kind, h, t), kind.mlp, 0
    matrices = sum((inputs * outputs for inputs, outputs in mixing.products), np.zeros_like(t))
    small = mixing.small + np.full_like(t, float(kind.norms * h))
    if isinstance(mlp, Mlp):
        rows = 2 + mlp.gated
        matrices = matrices + rows * h * mlp.hidden / t
        small = small + mlp.biases * ((rows - 1) * mlp.hidden / t + h)
    elif mlp is not None:
        rows, width, shared = 2 + mlp.gated, mlp.latent or h, mlp.shared_hidden
        matrices = matrices + rows * h * shared / t + h * (mlp.count + mlp.shared_gate) + 2 * h * mlp.latent
        small = small + mlp.count * (mlp.router_biases + mlp.balanced)
        small = small + (mlp.biases and shared > 0) * ((rows - 1) * shared / t + h)
        routed = mlp.count * (rows * width * mlp.hidden + mlp.biases * ((rows - 1) * mlp.hidden + width))
    return RankLayer(np.asarray(matrices), np.asarray(matrices + small), routed)


def kept_elements(kind: LayerKind, h: int, t: Floats, split: Floats, once: Floats) -> Floats:
    """Return the bytes of a token that a layer keeps for its backward pass, scores apart.

    Parts keep what goes into their norm and out of it; layers as GPT has them also two masks of dropout. Where `once`
    is 0 outputs of norms and of functions are computed again.
    """
    mixing, mlp = mixing_of(kind, h, t), kind.mlp
    size = ((2.0 + 2.0 * once) * h * parts_of(kind) + 2.0 * mixing.kept_whole) / split + 2.0 * mixing.kept
    if isinstance(mlp, Mlp):
        dropped = 2.0 * h / split if mlp.biases and not mlp.gated else 0.0
        return np.asarray(size + dropped + (2.0 * once + 2.0 * (1 + mlp.gated)) * mlp.hidden / t)
    if mlp is not None:
        inner = (2.0 * once + 2.0 * (1 + mlp.gated)) * (mlp.shared_hidden + mlp.hidden * mlp.per_token)
        rows = 2.0 * (mlp.latent or h) * (1.0 + mlp.per_token)
        size = size + (inner + rows + 4.0 * mlp.count) / t
    return np.asarray(size)
