"""Language models have published sizes, exact counts of parameters and operations, and training iterations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Len

from topoopt.core.arrays import GIB
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
from topoopt.core.parallelism import Experts, LanguageModel, LatentAttention


def _megatron(name: str, layers: int, hidden: int, heads: int, vocabulary: int = 51200) -> LanguageModel:
    """GPT as Megatron-LM trains it: f = 4h, biases, tied head, 2048 learned positions (arXiv:2104.04473)."""
    return LanguageModel(
        name, layers, hidden, 4 * hidden, heads, heads, hidden // heads, vocabulary,
        positions=2048, gated=False, biases=True, tied=True,
    )  # fmt: skip


_ALL = (
    _megatron("gpt3-175b", 96, 12288, 96),
    LanguageModel("llama3-70b", 80, 8192, 28672, 64, 8, 128, 128256),
    LanguageModel("llama3-405b", 126, 16384, 53248, 128, 8, 128, 128256),
    LanguageModel("mixtral-8x22b", 56, 6144, 16384, 48, 8, 128, 32768, experts=Experts(8, 2, 16384)),
    LanguageModel(
        "deepseek-v3",
        61,
        7168,
        18432,
        128,
        128,
        192,
        129280,
        experts=Experts(256, 8, 2048, shared=1, dense_layers=3, node_limit=4, balanced=True),
        latent=LatentAttention(1536, 512, 128, 64, 128),
        mtp_layers=1,
    ),
    LanguageModel(
        "qwen3-235b",
        94,
        4096,
        12288,
        64,
        4,
        128,
        151936,
        query_key_norms=True,
        experts=Experts(128, 8, 1536),
    ),
    # Sizes of arXiv:2104.04473, table 1.
    _megatron("megatron-1.7b", 24, 2304, 24),
    _megatron("megatron-39b", 48, 8192, 64),
    _megatron("megatron-76b", 60, 10240, 80),
    _megatron("megatron-310b", 96, 16384, 128),
    _megatron("megatron-1t", 128, 25600, 160),
    # Sizes of arXiv:2205.05198, table 3.
    _megatron("megatron-22b", 48, 6144, 64),
    _megatron("megatron-530b", 105, 20480, 128),
    replace(_megatron("megascale-175b", 96, 12288, 128, 64000), head_size=96),  # arXiv:2402.15627, table 1
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
        return self.attention + self.dense + self.expert * self.experts + self.small


def attention_weights(model: LanguageModel) -> int:
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
    expert = matrices * h * experts.hidden
    gates = h * experts.count + (h if experts.shared_gate else 0)
    return LayerWeights(attention, experts.shared * expert + gates, expert, experts.count, small, whole + gates, biases)


def expert_layers(model: LanguageModel) -> int:
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
