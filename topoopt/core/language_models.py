"""A large language model as kinds of layers: what a layer mixes tokens with, and what it does to each token alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from topoopt.core.arrays import Ints
from topoopt.core.data import STRICT

Width = Annotated[int, Ge(1), Le(2**24)]
Count = Annotated[int, Ge(0), Le(2**24)]

HeadNorms = Literal["none", "head", "row"]
"""Of queries and keys: none, a head at a time with the same weights, or all heads in one row."""


@dataclass(frozen=True)
class Attention:
    """Attention of heads of queries to heads of keys and values (arXiv:2305.13245)."""

    __pydantic_config__ = STRICT

    heads: Width
    """of queries, a"""
    kv_heads: Width
    """of keys and values, k"""
    head_size: Width
    """d of a query, a key, a value"""
    window: Width | None = None
    """keys that a token attends to at most; null: all before it"""
    chunk: Width | None = None
    """tokens of a part of the sequence, in which a token attends to those before it; null: no parts"""
    biases: bool = False
    """of the projections of queries, keys and values"""
    output_biases: bool = False
    """of the projection behind"""
    norms: HeadNorms = "none"
    """of queries and keys"""
    gated: bool = False
    """outputs are scaled by a second projection as wide as queries"""
    sinks: bool = False
    """a weight a head beside the scores (arXiv:2309.17453)"""

    @property
    def queries(self) -> int:
        """a d, the width of all queries."""
        return self.heads * self.head_size


@dataclass(frozen=True)
class LatentAttention:
    """Attention through low-rank projections."""

    # DeepSeek-V2, arXiv:2405.04434, section 2.1. Sizes of a key and a value are those of one head.
    __pydantic_config__ = STRICT

    heads: Width
    query_rank: Count
    """0: queries are not compressed"""
    key_value_rank: Width
    plain_size: Width
    """part of a key without rotary position"""
    rotary_size: Width
    """part of a key with rotary position"""
    value_size: Width
    index_heads: Count = 0
    """of an indexer that chooses keys (DeepSeek-V3.2); 0: none"""
    index_size: Count = 0
    """of a head of the indexer"""
    index_keys: Width | None = None
    """keys that the indexer leaves a token; null: all"""

    @property
    def key_size(self) -> int:
        """Of a key: the parts without and with rotary position."""
        return self.plain_size + self.rotary_size


@dataclass(frozen=True)
class DeltaAttention:
    """Linear attention by the gated delta rule (arXiv:2412.06464), behind a convolution."""

    __pydantic_config__ = STRICT

    key_heads: Width
    key_size: Width
    value_heads: Width
    value_size: Width
    kernel: Width
    """tokens that the convolution sees"""

    @property
    def keys(self) -> int:
        """Width of all queries, and of all keys."""
        return self.key_heads * self.key_size

    @property
    def values(self) -> int:
        """Width of all values."""
        return self.value_heads * self.value_size


@dataclass(frozen=True)
class LightningAttention:
    """Linear attention with a decay a head and a gate (arXiv:2401.04658, arXiv:2501.08313)."""

    __pydantic_config__ = STRICT

    heads: Width
    head_size: Width

    @property
    def queries(self) -> int:
        """a d, the width of queries, of keys and of values."""
        return self.heads * self.head_size


@dataclass(frozen=True)
class StateSpace:
    """A state-space mixer: Mamba-2 (arXiv:2405.21060), or Mamba (arXiv:2312.00752) where steps have a rank."""

    __pydantic_config__ = STRICT

    inner: Width
    """width D of what goes through the states"""
    state: Width
    """N of a state"""
    kernel: Width
    """tokens that the convolution sees"""
    groups: Width = 1
    """of heads with common inputs and outputs of states"""
    heads: Count = 0
    """of Mamba-2"""
    step_rank: Count = 0
    """rank of the steps of Mamba; 0: Mamba-2"""
    convolution_biases: bool = True
    biases: bool = False
    """of the projections before and behind"""

    @property
    def convolved(self) -> int:
        """Width of what the convolution sees."""
        return self.inner if self.step_rank else self.inner + 2 * self.groups * self.state


Mixer = Attention | LatentAttention | DeltaAttention | LightningAttention | StateSpace


@dataclass(frozen=True)
class Mlp:
    """Two matrices with a function between, or three where a second product gates it (arXiv:2002.05202)."""

    __pydantic_config__ = STRICT

    hidden: Width
    """inner width f"""
    gated: bool = True
    biases: bool = False


@dataclass(frozen=True)
class Experts:
    """A mixture of experts, of which each token goes to some."""

    __pydantic_config__ = STRICT

    count: Annotated[int, Ge(1), Le(65_536)]
    """routed experts E"""
    per_token: Annotated[int, Ge(1), Le(1024)]
    """routed experts K that a token goes to"""
    hidden: Width
    """inner width m of a routed expert"""
    shared_hidden: Count = 0
    """inner width of what all tokens go to, all shared experts together"""
    node_limit: Width | None = None
    """servers that the experts of a token lie on at most; null: any"""
    gated: bool = True
    biases: bool = False
    """of the products of experts"""
    router_biases: bool = False
    balanced: bool = False
    """a number an expert corrects the router; no gradient reaches it (arXiv:2412.19437, section 2.1.2)"""
    shared_gate: bool = False
    """a row of h weights scales what shared experts add (Qwen2-MoE)"""
    latent: Count = 0
    """width that tokens are projected to before experts and back from behind; 0: they are not"""


@dataclass(frozen=True)
class LayerKind:
    """A layer: a mixer, an MLP or experts, and norms.

    Attributes:
        mixer: None: the layer has none.
        mlp: None: the layer has none.
        norms: vectors of width h of its norms, weights and biases: 2 of two RMSNorms, 4 of two LayerNorms with biases.
    """

    mixer: Mixer | None
    mlp: Mlp | Experts | None
    norms: int = 2

    @property
    def experts(self) -> Experts | None:
        """The experts, where the layer has any."""
        return self.mlp if isinstance(self.mlp, Experts) else None


@dataclass(frozen=True)
class LanguageModel:
    """A decoder: an embedding, layers of some kinds, a norm and a head.

    Attributes:
        hidden: width h.
        vocabulary: V rows of the embedding, padded as it is trained.
        kinds: of layers, each different.
        order: the kind of each layer, as an index.
        tied: the head is the embedding.
        positions: rows of a learned position embedding; 0: none.
        embedding_norms, final_norms: vectors of width h of the norms behind the embedding and before the head.
        head_biases: a number for each row of the head.
        mtp_layers: further layers like the last one, which predict the tokens after the next one, each with a
            projection of 2h to h and three norms; they use embedding and head of the model (arXiv:2412.19437, 2.2).
    """

    name: str
    hidden: int
    vocabulary: int
    kinds: tuple[LayerKind, ...]
    order: tuple[int, ...]
    tied: bool = False
    positions: int = 0
    embedding_norms: int = 0
    final_norms: int = 1
    head_biases: bool = False
    mtp_layers: int = 0

    @property
    def layers(self) -> int:
        """Number of layers L, without those that predict further tokens."""
        return len(self.order)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Layers of each kind."""
        return tuple(self.order.count(kind) for kind in range(len(self.kinds)))

    @cached_property
    def before(self) -> Ints:
        """int64[L + 1, kinds]: how many layers of each kind stand before a layer."""
        table = np.zeros((self.layers + 1, len(self.kinds)), dtype=np.int64)
        table[np.arange(1, self.layers + 1), self.order] = 1
        return np.cumsum(table, axis=0)

    @property
    def experts(self) -> Experts | None:
        """The experts of the last kind that has any; all kinds divide theirs alike."""
        return next((kind.experts for kind in reversed(self.kinds) if kind.experts), None)

    @property
    def heads(self) -> tuple[int, ...]:
        """Numbers of heads that tensor parallelism cuts, of all mixers."""
        return tuple(dict.fromkeys(count for kind in self.kinds for count in _heads(kind.mixer)))

    @property
    def kv_heads(self) -> tuple[int, ...]:
        """Numbers of heads of keys and values, which may be fewer than the ranks that cut queries."""
        mixers = (kind.mixer for kind in self.kinds)
        return tuple(dict.fromkeys(mixer.kv_heads for mixer in mixers if isinstance(mixer, Attention)))

    @property
    def inner(self) -> tuple[int, ...]:
        """Inner widths that tensor parallelism cuts, of MLPs and of shared experts."""
        parts = (kind.mlp for kind in self.kinds)
        widths = (part.hidden if isinstance(part, Mlp) else part.shared_hidden for part in parts if part)
        return tuple(dict.fromkeys(width for width in widths if width))

    def of_layers(self, layers: int) -> LanguageModel:
        """The first layers of the model alone."""
        return replace(self, order=self.order[:layers])


def _heads(mixer: Mixer | None) -> Iterator[int]:
    match mixer:
        case Attention() | LatentAttention() | LightningAttention():
            yield mixer.heads
        case DeltaAttention():
            yield from (mixer.key_heads, mixer.value_heads)
        case StateSpace():
            yield mixer.heads or mixer.inner
        case None:
            return
