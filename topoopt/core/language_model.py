"""A large language model as the shape of its layers: what decides its parameters, operations and traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LatentAttention:
    """Attention through low-rank projections (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    Attributes:
        query_rank: width that queries are compressed to; 0: they are not.
        key_value_rank: width that keys and values are compressed to, together.
        plain_size, rotary_size: parts of a key of one head without and with rotary position.
        value_size: of a value of one head.
    """

    query_rank: int
    key_value_rank: int
    plain_size: int
    rotary_size: int
    value_size: int


@dataclass(frozen=True)
class Experts:
    """The mixture of experts that stands in a layer instead of one MLP.

    Attributes:
        count: routed experts of a layer.
        per_token: routed experts that a token goes to.
        hidden: inner width of an expert.
        shared: experts that all tokens go to, as wide as a routed one.
        dense_layers: first layers that keep one MLP of `ffn_hidden`.
        node_limit: servers that the experts of a token may lie on; None: any.
        balanced: a weight for each expert corrects the router (arXiv:2412.19437, section 2.1.2).
        shared_gate: a row of h weights scales what the shared experts add (Qwen2-MoE).
    """

    count: int
    per_token: int
    hidden: int
    shared: int = 0
    dense_layers: int = 0
    node_limit: int | None = None
    balanced: bool = False
    shared_gate: bool = False


@dataclass(frozen=True)
class LanguageModel:
    """A decoder of equal layers, with an embedding before and a head behind.

    Attributes:
        layers: L.
        hidden: width h.
        ffn_hidden: inner width f of the MLP.
        heads, kv_heads: a query heads; k heads of keys and values (grouped-query attention where k < a).
        head_size: d of one head.
        vocabulary: V rows of the embedding, padded as it is trained.
        positions: rows of a learned position embedding; 0: rotary, no weights.
        gated: the MLP has three matrices (SwiGLU) instead of two.
        biases: linear layers and norms have biases.
        tied: the head is the embedding.
        query_key_norms: queries and keys are normed, a head at a time.
        attention_biases: only the projections of queries, keys and values have biases.
        experts: None for a dense model.
        latent: None for plain or grouped attention.
        mtp_layers: further layers that predict the tokens after the next one, each with a projection of 2h to h.
        attention_window: keys that a token attends to at most, in every layer; None: all before it.
    """

    name: str
    layers: int
    hidden: int
    ffn_hidden: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    positions: int = 0
    gated: bool = True
    biases: bool = False
    tied: bool = False
    query_key_norms: bool = False
    attention_biases: bool = False
    experts: Experts | None = None
    latent: LatentAttention | None = None
    mtp_layers: int = 0
    attention_window: int | None = None
