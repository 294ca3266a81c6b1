"""Decoder-only transformers on hierarchical networks: one iteration, per NPU, for given degrees of parallelism.

Per token and block, with width h and sequence length s, a forward pass takes 2 (4 h^2 + 8 k h^2) + 4 s h operations
(k experts a token, 1 when dense); the two gradients take as many each. Tensor parallelism all-reduces the activations
twice forward and twice backward in every block (Shoeybi et al., Megatron-LM, 2019); expert parallelism exchanges them
twice each way (Lepikhin et al., GShard, 2020); a pipeline of p stages and m micro-batches takes m + p - 1 slots each
way and passes activations on after every slot (Huang et al., GPipe, 2019); gradients are all-reduced once, over the
replicas that hold the same weights. Embeddings, norms and biases are left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topoopt.core.hierarchy import (
    Collective,
    CollectiveCall,
    Communicator,
    HierarchicalWorkload,
    Layer,
    LayerPhase,
    Loop,
)

PARALLELISMS = ("tensor", "expert", "data", "pipeline")
"""Kinds of parallelism, in the order in which `inner-first` lays them on dimensions. `data` counts replicas of the
experts; `expert` x `data` ranks hold the same dense weights."""

TENSOR, EXPERT, DENSE_DATA, EXPERT_DATA, PIPELINE = range(5)

Factors = tuple[int, int, int, int]
Mapping = tuple[Factors, ...]


@dataclass(frozen=True)
class Transformer:
    """Sizes of a model, and of the batch of one iteration (sequences over all NPUs)."""

    blocks: int
    hidden: int
    sequence: int
    batch: int
    experts: int = 1
    experts_per_token: int = 1
    element_bytes: int = 2

    @property
    def dense_parameters(self) -> int:
        """Parameters of a block that are not split by expert parallelism."""
        return 4 * self.hidden**2 + (8 * self.hidden**2 if self.experts == 1 else 0)

    @property
    def expert_parameters(self) -> int:
        """Parameters of all experts of a block."""
        return 0 if self.experts == 1 else self.experts * 8 * self.hidden**2


@dataclass(frozen=True)
class Npu:
    """An accelerator: sustained 10^12 operations/s, memory (None: not checked), bytes that a parameter takes."""

    tflops: float
    memory_bytes: float | None = None
    bytes_per_parameter: float = 16.0


@dataclass(frozen=True)
class DegreeChoices:
    """Degrees to choose from (None: all that fit), micro-batches, and whether parallelisms go inner-first."""

    tensor: tuple[int, ...] | None = None
    pipeline: tuple[int, ...] | None = None
    expert: tuple[int, ...] | None = None
    microbatches: int = 1
    inner_first: bool = False


def degrees_of(mapping: Mapping) -> Factors:
    """(tensor, expert, data, pipeline) degrees of a mapping."""
    tensor, expert, data, pipeline = (math.prod(factors[k] for factors in mapping) for k in range(4))
    return tensor, expert, data, pipeline


def mappings(model: Transformer, npu: Npu, choices: DegreeChoices, sizes: Sequence[int]) -> Iterator[Mapping]:
    """Every way to lay the parallelisms on the dimensions that fits model, memory and choices."""
    found = _inner_first(sizes) if choices.inner_first else itertools.product(*(_splits(size) for size in sizes))
    return (mapping for mapping in found if _fits(model, npu, choices, degrees_of(mapping)))


def _divisors(number: int) -> list[int]:
    low = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return sorted({*low, *(number // k for k in low)})


def _splits(size: int) -> list[Factors]:
    """All ordered factorisations in four."""
    return [
        (tensor, expert, size // (tensor * expert * pipeline), pipeline)
        for tensor in _divisors(size)
        for expert in _divisors(size // tensor)
        for pipeline in _divisors(size // (tensor * expert))
    ]


def _inner_first(sizes: Sequence[int]) -> Iterator[Mapping]:
    """One mapping for each set of degrees that fill the dimensions from the inside without a rest."""
    for degrees in _splits(math.prod(sizes)):
        left, parts = list(sizes), [[1, 1, 1, 1] for _ in sizes]
        if all(_lay(degree, kind, left, parts) for kind, degree in enumerate(degrees)):
            yield tuple((a, b, c, d) for a, b, c, d in parts)


def _lay(degree: int, kind: int, left: list[int], parts: list[list[int]]) -> bool:
    """Lay one parallelism on what is left of the dimensions, from the inside; whether it leaves no hole."""
    for place in range(len(left)):
        part = math.gcd(degree, left[place])
        parts[place][kind], left[place], degree = part, left[place] // part, degree // part
        if left[place] > 1:
            break
    return degree == 1


def _fits(model: Transformer, npu: Npu, choices: DegreeChoices, degrees: Factors) -> bool:
    tensor, expert, data, pipeline = degrees
    asked = ((choices.tensor, tensor), (choices.expert, expert), (choices.pipeline, pipeline))
    if any(allowed is not None and degree not in allowed for allowed, degree in asked):
        return False
    if model.hidden % tensor or model.blocks % pipeline or model.experts % expert:
        return False
    if model.batch % (expert * data * choices.microbatches):
        return False
    held = model.dense_parameters / tensor + model.expert_parameters / (tensor * expert)
    needed = held * (model.blocks // pipeline) * npu.bytes_per_parameter
    return npu.memory_bytes is None or needed <= npu.memory_bytes


def transformer_workload(
    model: Transformer, npu: Npu, mapping: Mapping, *, name: str, loop: Loop, weight: float, microbatches: int
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


def _communicators(mapping: Mapping) -> tuple[Communicator, ...]:
    columns = list(zip(*mapping, strict=True))
    both = tuple(expert * data for _, expert, data, _ in mapping)
    return (
        Communicator("tensor", tuple(columns[0])),
        Communicator("expert", tuple(columns[1])),
        Communicator("data", both),
        Communicator("expert data", tuple(columns[2])),
        Communicator("pipeline", tuple(columns[3])),
    )
