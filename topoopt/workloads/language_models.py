"""What a kind of layer has and does: matrices, small weights, operations of its mixer, what it keeps and passes on.
Language models have published sizes, exact counts of parameters and operations, and training iterations.
Accelerators that language models are trained on: peaks, memory, and how much of both training reaches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Len

from topoopt.core.arrays import GIB, Floats
from topoopt.core.data import STRICT
from topoopt.core.hierarchy import (
    Collective,
    CollectiveCall,
    Communicator,
    HierarchicalWorkload,
    Layer,
    LayerPhase,
    Loop,
)
from topoopt.core.llm_training import (
    Attention,
    DeltaAttention,
    Experts,
    LanguageModel,
    LatentAttention,
    LayerKind,
    LightningAttention,
    Mixer,
    Mlp,
    NumberFormats,
    StateSpace,
    TrainingDevice,
)
from topoopt.workloads.step_efficiencies import DEFAULT_SOFTWARE, reached_rates

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


def uniform(
    name: str,
    layers: int,
    hidden: int,
    mixer: Mixer,
    mlp: Mlp | Experts,
    vocabulary: int,
    *,
    dense: tuple[int, Mlp] | None = None,
    norms: int = 2,
    **ends: Any,
) -> LanguageModel:
    """A model whose layers are alike, but for the MLP of the first ones.

    Args:
        dense: how many first layers have another MLP, and which.
        norms: vectors of width h of the norms of a layer.
        ends: other fields of the model.
    """
    kinds, count = [LayerKind(mixer, mlp, norms)], 0
    if dense is not None and dense[0]:
        kinds.insert(0, LayerKind(mixer, dense[1], norms))
        count = dense[0]
    order = (0,) * count + (len(kinds) - 1,) * (layers - count)
    return LanguageModel(name, hidden, vocabulary, tuple(kinds), order, **ends)


def _megatron(name: str, layers: int, hidden: int, heads: int, vocabulary: int = 51200, size: int = 0) -> LanguageModel:
    """GPT as Megatron-LM trains it: f = 4h, biases, tied head, 2048 learned positions (arXiv:2104.04473)."""
    mixer = Attention(heads, heads, size or hidden // heads, biases=True, output_biases=True)
    mlp = Mlp(4 * hidden, gated=False, biases=True)
    return uniform(name, layers, hidden, mixer, mlp, vocabulary, norms=4, positions=2048, final_norms=2, tied=True)


_ALL = (
    _megatron("gpt3-175b", 96, 12288, 96),
    uniform("llama3-70b", 80, 8192, Attention(64, 8, 128), Mlp(28672), 128256),
    uniform("llama3-405b", 126, 16384, Attention(128, 8, 128), Mlp(53248), 128256),
    uniform("mixtral-8x22b", 56, 6144, Attention(48, 8, 128), Experts(8, 2, 16384), 32768),
    uniform(
        "deepseek-v3",
        61,
        7168,
        LatentAttention(128, 1536, 512, 128, 64, 128),
        Experts(256, 8, 2048, 2048, node_limit=4, balanced=True),
        129280,
        dense=(3, Mlp(18432)),
        mtp_layers=1,
    ),
    uniform("qwen3-235b", 94, 4096, Attention(64, 4, 128, norms="head"), Experts(128, 8, 1536), 151936),
    # Sizes of arXiv:2104.04473, table 1.
    _megatron("megatron-1.7b", 24, 2304, 24),
    _megatron("megatron-39b", 48, 8192, 64),
    _megatron("megatron-76b", 60, 10240, 80),
    _megatron("megatron-310b", 96, 16384, 128),
    _megatron("megatron-1t", 128, 25600, 160),
    # Sizes of arXiv:2205.05198, table 3.
    _megatron("megatron-22b", 48, 6144, 64),
    _megatron("megatron-530b", 105, 20480, 128),
    _megatron("megascale-175b", 96, 12288, 128, 64000, 96),  # arXiv:2402.15627, table 1
    _megatron("megatron-14.6b", 46, 5120, 40),  # arXiv:2401.10241, table 3
    # Sizes of the Megatron-Core scaling study, vocabulary 131072.
    _megatron("megatron-core-16b", 32, 6144, 48, 131072),
    _megatron("megatron-core-70b", 84, 8192, 64, 131072),
    _megatron("megatron-core-177b", 96, 12288, 96, 131072),
    _megatron("megatron-core-462b", 112, 18432, 144, 131072),
)

LANGUAGE_MODELS: Mapping[str, LanguageModel] = MappingProxyType({model.name: model for model in _ALL})

BACKWARD = 2
"""Operations of the backward pass over those of the forward pass."""


def end_weights(model: LanguageModel) -> tuple[int, int]:
    """Weights of the first stage and of the last besides layers: embedding; head and final norm.

    A tied head is the embedding, and counts there alone.
    """
    first, last = whole_ends(model)
    vocabulary = model.vocabulary * model.hidden
    return first + vocabulary, last + (0 if model.tied else vocabulary) + model.head_biases * model.vocabulary


def whole_ends(model: LanguageModel) -> tuple[int, int]:
    """Of the weights of the ends, what every tensor rank has whole: learned positions and norms."""
    return (model.positions + model.embedding_norms) * model.hidden, model.final_norms * model.hidden


def kind_parameters(model: LanguageModel, kind: LayerKind) -> int:
    """Weights of one layer."""
    experts = 0 if kind.experts is None else kind.experts.count * expert_weights(kind.experts, model.hidden)
    return int(layer_weights(kind, model.hidden, np.ones(1))[0]) + experts


def parameters(model: LanguageModel) -> int:
    """Weights of the whole model, as counted without layers that predict further tokens."""
    layers = sum(count * kind_parameters(model, kind) for count, kind in zip(model.counts, model.kinds, strict=True))
    return layers + sum(end_weights(model))


def routed_parameters(model: LanguageModel) -> int:
    """Of these, weights of routed experts."""
    return sum(
        count * kind.experts.count * expert_weights(kind.experts, model.hidden)
        for count, kind in zip(model.counts, model.kinds, strict=True)
        if kind.experts is not None
    )


def active_parameters(model: LanguageModel) -> int:
    """Weights that one token meets: all but those of experts it does not go to."""
    idle = sum(
        count * (kind.experts.count - kind.experts.per_token) * expert_weights(kind.experts, model.hidden)
        for count, kind in zip(model.counts, model.kinds, strict=True)
        if kind.experts is not None
    )
    return parameters(model) - idle


def further_parameters(model: LanguageModel) -> int:
    """Weights of the layers that predict further tokens: each a layer, a projection of 2h to h, and three norms."""
    h = model.hidden
    return model.mtp_layers * (kind_parameters(model, model.kinds[model.order[-1]]) + 2 * h * h + 3 * h)


def layer_operations(model: LanguageModel, kind: LayerKind, length: int, *, causal: bool = True) -> float:
    """Operations of a token in one layer, forward."""
    h, experts = model.hidden, kind.experts
    met = 0 if experts is None else experts.per_token * expert_matrix_weights(experts, h)
    return 2 * (float(matrix_weights(kind, h, np.ones(1))[0]) + met) + core_operations(
        kind.mixer, length, causal=causal
    )


def token_operations(model: LanguageModel, length: int, *, causal: bool = True) -> float:
    """Operations of a token, forward and backward once.

    Layers that predict further tokens count: each is a layer, a projection of 2h to h, and a head.
    """
    layers = [layer_operations(model, kind, length, causal=causal) for kind in model.kinds]
    head = 2 * model.hidden * model.vocabulary
    further = layers[model.order[-1]] + 4 * model.hidden**2 + head
    forward = sum(count * layer for count, layer in zip(model.counts, layers, strict=True)) + head
    return (1 + BACKWARD) * (forward + model.mtp_layers * further)


PARALLELISMS = ("tensor", "expert", "data", "pipeline")
"""Kinds of parallelism, in the order in which `inner-first` lays them on dimensions. `data` counts replicas of the
experts; `expert` x `data` ranks hold the same dense weights."""

TENSOR, EXPERT, DENSE_DATA, EXPERT_DATA, PIPELINE = range(5)

Factors = tuple[int, int, int, int]
DegreeMapping = tuple[Factors, ...]


MAX_RANKS = 2**24
Size = Annotated[int, Ge(1), Le(10**9)]
Degrees = Annotated[tuple[Annotated[int, Ge(1), Le(MAX_RANKS)], ...], Len(1, 64)]


@dataclass(frozen=True)
class Transformer:
    """Sizes of a decoder-only transformer."""

    __pydantic_config__ = STRICT

    blocks: Size
    """transformer blocks"""
    hidden: Size
    """width"""
    sequence: Size
    """tokens of a sequence"""
    batch: Size
    """sequences of one iteration, over all NPUs"""
    experts: Size = 1
    """experts of every feed-forward part; 1: dense"""
    experts_per_token: Size = 1
    """experts that see a token"""
    element_bytes: Annotated[int, Ge(1), Le(16)] = 2
    """bytes of an activation or gradient element"""

    @property
    def dense_parameters(self) -> int:
        """Parameters of a block that are not split by expert parallelism."""
        return 4 * self.hidden**2 + (8 * self.hidden**2 if self.experts == 1 else 0)

    @property
    def expert_parameters(self) -> int:
        return 0 if self.experts == 1 else self.experts * 8 * self.hidden**2


@dataclass(frozen=True)
class Npu:
    """One accelerator."""

    __pydantic_config__ = STRICT

    tflops: Annotated[float, Gt(0), Le(1e9)]
    """sustained 10^12 floating-point operations a second"""
    memory_gib: Annotated[float, Gt(0), Le(1e6)] | None = None
    """null: memory is not checked"""
    bytes_per_parameter: Annotated[float, Gt(0), Le(1000)] = 16.0
    """memory of a parameter with gradient and optimizer state"""

    @property
    def memory_bytes(self) -> float | None:
        return None if self.memory_gib is None else self.memory_gib * GIB


@dataclass(frozen=True)
class Strategies:
    """Degrees of parallelism to choose from; null: every one that fits. Data parallelism takes the rest."""

    __pydantic_config__ = STRICT

    tensor: Degrees | None = None
    pipeline: Degrees | None = None
    expert: Degrees | None = None
    microbatches: Annotated[int, Ge(1), Le(10**6)] = 1
    """of each pipeline, in an iteration"""
    mapping: Literal["any", "inner-first"] = "any"
    """any: every split of every dimension; inner-first: tensor on the innermost, then expert, data, pipeline"""

    @property
    def inner_first(self) -> bool:
        return self.mapping == "inner-first"


def degrees_of(mapping: DegreeMapping) -> Factors:
    """(tensor, expert, data, pipeline) degrees of a mapping."""
    tensor, expert, data, pipeline = (math.prod(factors[k] for factors in mapping) for k in range(4))
    return tensor, expert, data, pipeline


def mappings(model: Transformer, npu: Npu, choices: Strategies, sizes: Sequence[int]) -> Iterator[DegreeMapping]:
    """Every way to lay the parallelisms on the dimensions that fits model, memory and choices."""
    candidates = _inner_first(sizes) if choices.inner_first else itertools.product(*(_splits(size) for size in sizes))
    return (mapping for mapping in candidates if _fits(model, npu, choices, degrees_of(mapping)))


def _divisors(number: int) -> list[int]:
    low = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return sorted({*low, *(number // k for k in low)})


def _splits(size: int) -> list[Factors]:
    return [
        (tensor, expert, size // (tensor * expert * pipeline), pipeline)
        for tensor in _divisors(size)
        for expert in _divisors(size // tensor)
        for pipeline in _divisors(size // (tensor * expert))
    ]


def _inner_first(sizes: Sequence[int]) -> Iterator[DegreeMapping]:
    """One mapping for each set of degrees that fill the dimensions from the inside without a rest."""
    for degrees in _splits(math.prod(sizes)):
        left, parts = list(sizes), [[1, 1, 1, 1] for _ in sizes]
        if all(_lay(degree, kind, left, parts) for kind, degree in enumerate(degrees)):
            yield tuple((a, b, c, d) for a, b, c, d in parts)


def _lay(degree: int, kind: int, left: list[int], parts: list[list[int]]) -> bool:
    """Lay one parallelism on what is left of the dimensions, from the inside; whether it leaves no hole."""
    for index in range(len(left)):
        part = math.gcd(degree, left[index])
        parts[index][kind], left[index], degree = part, left[index] // part, degree // part
        if left[index] > 1:
            break
    return degree == 1


def _fits(model: Transformer, npu: Npu, choices: Strategies, degrees: Factors) -> bool:
    tensor, expert, data, pipeline = degrees
    requested = ((choices.tensor, tensor), (choices.expert, expert), (choices.pipeline, pipeline))
    if any(allowed is not None and degree not in allowed for allowed, degree in requested):
        return False
    if model.hidden % tensor or model.blocks % pipeline or model.experts % expert:
        return False
    if model.batch % (expert * data * choices.microbatches):
        return False
    held = model.dense_parameters / tensor + model.expert_parameters / (tensor * expert)
    needed = held * (model.blocks // pipeline) * npu.bytes_per_parameter
    return npu.memory_bytes is None or needed <= npu.memory_bytes


def transformer_workload(
    model: Transformer, npu: Npu, mapping: DegreeMapping, *, name: str, loop: Loop, weight: float, microbatches: int
) -> HierarchicalWorkload:
    """One iteration of a model under a mapping that fits."""
    tensor, expert, data, pipeline = degrees_of(mapping)
    h, tokens = model.hidden, model.sequence * model.batch / (expert * data * microbatches)
    operations = tokens * (2 * (4 + 8 * model.experts_per_token) * h**2 + 4 * model.sequence * h)
    compute_ns = operations / tensor / (npu.tflops * 1e3)
    activations = tokens * h * model.element_bytes

    def use(
        kind: Collective, size_bytes: float, communicator: int, times: int, ranks: int
    ) -> tuple[CollectiveCall, ...]:
        return (CollectiveCall(kind, size_bytes, communicator),) * times if ranks > 1 else ()

    routed = activations * model.experts_per_token / tensor
    passing = (
        *use(Collective.ALL_REDUCE, activations, TENSOR, 2, tensor),
        *use(Collective.ALL_TO_ALL, routed, EXPERT, 2, expert),
    )
    dense, experts = model.dense_parameters / tensor, model.expert_parameters / (tensor * expert)
    reducing = use(Collective.ALL_REDUCE, dense * model.element_bytes, DENSE_DATA, 1, expert * data)
    if experts:
        reducing += use(Collective.ALL_REDUCE, experts * model.element_bytes, EXPERT_DATA, 1, data)
    compute = LayerPhase(compute_ns, passing)
    slots, own = microbatches + pipeline - 1, model.blocks // pipeline
    layers = [Layer("block, last micro-batch", compute, compute, LayerPhase(compute_ns, reducing), own)]
    if slots > 1:
        layers.append(Layer("block", compute, compute, LayerPhase(compute_ns), own * (slots - 1)))
    if pipeline > 1:
        handed = LayerPhase(0.0, (CollectiveCall(Collective.POINT_TO_POINT, activations, PIPELINE),))
        layers.append(Layer("stage boundary", handed, handed, LayerPhase(), slots))
    return HierarchicalWorkload(
        name=name,
        loop=loop,
        communicators=_communicators(mapping),
        layers=tuple(layers),
        weight=weight,
        strategy=(("tensor", tensor), ("expert", expert), ("data", expert * data), ("pipeline", pipeline)),
    )


def _communicators(mapping: DegreeMapping) -> tuple[Communicator, ...]:
    columns = list(zip(*mapping, strict=True))
    both = tuple(expert * data for _, expert, data, _ in mapping)
    return (
        Communicator("tensor", tuple(columns[0])),
        Communicator("expert", tuple(columns[1])),
        Communicator("data", both),
        Communicator("expert data", tuple(columns[2])),
        Communicator("pipeline", tuple(columns[3])),
    )


# Dense peaks in TFLOP/s (16 bits, 8 bits, 4 bits), GiB, GB/s of memory, GB/s of scale-up in one direction, GPUs of a
# scale-up domain, and Gbit/s of the network a GPU. None: it has none, or none is published.
# Figures of vendors' data sheets; memory of NVIDIA's is what their tools report as usable, others' as sold.
_ROWS: Mapping[str, tuple[float, float | None, float | None, float, float, float, int, float | None]] = {
    "a100": (312.0, None, None, 80, 2039, 300, 8, 200),
    "a100-40": (312.0, None, None, 40, 1555, 300, 8, 200),
    "h100": (989.4, 1978.9, None, 80, 3352, 450, 8, 400),
    "h100-pcie": (756, 1513, None, 80, 2000, 64, 8, 400),
    "h100-nvl": (835, 1671, None, 94, 3900, 300, 2, 400),
    "h100-96": (989.4, 1978.9, None, 96, 2400, 450, 8, 400),
    "h800": (989.4, 1978.9, None, 80, 3352, 200, 8, 400),
    "h200": (989.4, 1978.9, None, 141, 4800, 450, 8, 400),
    "h20": (148, 296, None, 96, 4000, 450, 8, 400),
    "b100": (1750, 3500, 7000, 192, 8000, 900, 8, 400),
    "b200": (2250, 4500, 9000, 180, 7700, 900, 8, 400),
    "gb200": (2500, 5000, 10000, 185, 8000, 900, 72, 400),
    "b300": (2250, 4500, 13500, 268.5, 7700, 900, 8, 800),
    "gb300": (2500, 5000, 15000, 277.5, 8000, 900, 72, 800),
    "mi250x": (383, None, None, 128, 3277, 100, 8, 200),
    "mi300x": (1307.4, 2614.9, None, 192, 5300, 448, 8, 400),
    "mi325x": (1307.4, 2614.9, None, 256, 6000, 448, 8, 400),
    "mi355x": (2516.6, 5033.2, 10066.4, 288, 8000, 537.6, 8, 400),
    "tpu-v4": (275, None, None, 32, 1200, 282, 4096, None),
    "tpu-v5e": (197, None, None, 16, 819, 200, 256, 25),
    "tpu-v5p": (459, 459, None, 95, 2765, 600, 8960, 50),
    "tpu-v6e": (918, 918, None, 32, 1638, 400, 256, None),
    "tpu-v7x": (2307, 4614, None, 192, 7380, 600, 9216, None),
    "trainium2": (667, 1299, None, 96, 2900, 640, 64, 200),
    "trainium3": (671, 2517, 2517, 144, 4900, 1280, 144, None),
    "gaudi3": (1835, 1835, None, 128, 3670, 525, 8, 600),
}


def _device(name: str) -> TrainingDevice:
    matrix, eight, four, memory, memory_rate, scale_up, domain, network = _ROWS[name]
    reached = reached_rates(name, DEFAULT_SOFTWARE, NumberFormats())
    return TrainingDevice(name, matrix, eight, memory_rate, reached, four, memory, scale_up, domain, network, name)


TRAINING_DEVICES: Mapping[str, TrainingDevice] = MappingProxyType({name: _device(name) for name in _ROWS})
"""Devices by name, with what they reach in 16 bits with dense models."""
