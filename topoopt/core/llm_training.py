"""A large language model as kinds of layers: what a layer mixes tokens with, and what it does to each token alone.
Training a large language model on a cluster of GPUs: the problem, and what one iteration costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from annotated_types import Ge, Le

from topoopt.core.arrays import Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.data import STRICT, Names
from topoopt.core.parallelism import Overlap, StrategySpace
from topoopt.core.result import AllReduceChoice, ProblemBase, SearchSettings
from topoopt.core.switching import SwitchSettings

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


STRATEGIES = 256
"""Strategies that get circuits where an instance names no number."""


@dataclass(frozen=True)
class PodSettings:
    """Pods as an instance has them.

    Attributes:
        gpus: of a pod, all of one stage of the pipeline.
        ports: circuits that may end at a pod.
        circuit_gbps: of a circuit, in each direction.
        strategies: that get circuits, at most.
        slack_percent: how much longer than the least time an iteration may take, where that saves circuits.
    """

    gpus: int
    ports: int
    circuit_gbps: float
    strategies: int = STRATEGIES
    slack_percent: float = 0.0

    def holds(self, tensor: int, context: int, of_stage: int) -> bool:
        """Whether whole tensor and context groups fill pods, and pods the GPUs of a stage."""
        return self.gpus % (tensor * context) == 0 and of_stage % self.gpus == 0


END_SLOTS = 2
"""Runs of layers that may be empty, as the embedding or the head stands there."""


@dataclass(frozen=True)
class TrainingBatch:
    """What one iteration trains on."""

    __pydantic_config__ = STRICT

    sequences: Annotated[int, Ge(1), Le(2**30)]
    length: Annotated[int, Ge(1), Le(2**26)]
    """tokens of a sequence"""

    @property
    def tokens(self) -> int:
        """Tokens of one iteration: B sequences of s tokens."""
        return self.sequences * self.length


@dataclass(frozen=True)
class NumberFormats:
    """Bytes of numbers in training.

    Attributes:
        fp8: products of matrices are of 8-bit numbers; all else stays at 16 bits and more.
        fp8_dispatch: tokens go to experts in 8 bits; they come back in 16.
        gradient_bytes: of a gradient that is kept and reduced.
        moment_bytes: of one of the two moments of the optimizer.
        weight_bytes: of a weight as it is kept, with `master_bytes` of the copy that the optimizer has beside it: 2 and
            4, or 4 and 0 where weights are kept in 32 bits and turned into 16 as they are gathered.
        fp4: products of matrices are of 4-bit numbers.
        flash: attention works in tiles that stay on the chip: scores are neither stored nor moved, and the upper half
            of them is not computed (FlashAttention, arXiv:2307.08691).
    """

    fp8: bool = False
    fp8_dispatch: bool = False
    gradient_bytes: int = 4
    moment_bytes: int = 4
    flash: bool = True
    weight_bytes: int = 2
    master_bytes: int = 4
    fp4: bool = False


@dataclass(frozen=True)
class ReachedRates:
    """How much of its peaks a device reaches under a software, in the formats of an instance."""

    # The efficiency of a product of matrices is `products` x / (x + half_gflops), x its operations.
    products: float
    """of the peak of 16-bit products of matrices"""
    low_products: float
    """of the peak in the format of computing"""
    half_gflops: float
    """10^9 operations of a 16-bit product at which half of that is reached"""
    low_half_gflops: float
    """the same in the format of computing"""
    grouped: float
    """products of routed experts over others"""
    attention: float
    """of the peak of 16-bit products, in the core of attention, both passes"""
    half_keys: float
    """tokens of a sequence at which half of that is reached"""
    memory: float
    """of the rate of memory"""
    between: float
    """bytes between products over those that fused kernels move"""
    expert_between: float
    """bytes of gates and permutations of tokens over the least"""
    state_between: float
    """bytes of a state-space layer over 80 a channel"""
    quantised: float
    """bytes that 8- and 4-bit formats move beside, over a reading and a writing of 16 bits"""
    layer_us: float
    """of a layer without experts and a micro-batch, both passes"""
    expert_us: float
    """of the experts of a layer and a micro-batch, both passes"""
    computing: float
    """on all computing"""
    scale_up: float
    """of the rate inside a server, in groups of 8 and more"""
    scale_up_4: float
    """in groups of 4 to 7"""
    scale_up_2: float
    """in groups of 2 and 3"""
    network: float
    """of the rate of interfaces"""
    tensor: float
    """of these rates in transfers of tensor parallelism"""
    context: float
    """share of transfers between context ranks that attention does not hide"""
    hop: float
    """seconds that a stage takes to hand a micro-batch over, over those of its bytes at the rate of interfaces"""
    data: float
    """of these rates in reducing gradients and gathering weights behind passes, ZeRO 0 to 2"""
    gather: float
    """the same of ZeRO 3"""
    again: float
    """share of the products that selective recomputation computes again"""
    iteration_ms: float
    """of an iteration"""
    replica_ms: float
    """of a replica whose weights are gathered after those of the others"""
    growth: float
    """of the time with each doubling beyond 8 devices"""
    software: float
    """on all times"""


@dataclass(frozen=True)
class TrainingDevice:
    """An accelerator.

    Attributes:
        matrix_tflops: peak of products of 16-bit matrices, dense.
        fp8_tflops, fp4_tflops: of 8-bit and 4-bit matrices; None: it has none.
        memory_gbytes_per_s: rate of its memory.
        reached: how much of that training reaches.
        like: device whose efficiencies it has.
        memory_gib: that a job may take; None: not stated.
        scale_up_gbytes_per_s: to others of its scale-up domain, in one direction; None: not stated.
        domain: devices of a scale-up domain.
        network_gbps: of the interfaces beside, of a device; None: not stated.
    """

    name: str
    matrix_tflops: float
    fp8_tflops: float | None
    memory_gbytes_per_s: float
    reached: ReachedRates
    fp4_tflops: float | None = None
    memory_gib: float | None = None
    scale_up_gbytes_per_s: float | None = None
    domain: int = 8
    network_gbps: float | None = None
    like: str = ""


@dataclass(frozen=True)
class GpuCluster:
    """n servers of g GPUs, with optical interfaces of the server or of each GPU.

    Attributes:
        device: name of the GPU in the table of devices.
        gpu_memory_bytes: of one GPU; None: not checked.
        headroom_bytes: of it that is kept free, for context, buffers of communication and fragments.
        intra_server_gbps: rate of one GPU inside its server, each direction.
        degree: interfaces of a server.
        per_gpu: each GPU owns as many of them as any other (rails); else GPUs share all of them.
        link_gbps: rate of an interface, each direction.
        optical_interfaces: of a server, those on the optical switch of a region, on the fabric that has one.
        links: how interfaces are patched.
        hop_latency_us, message_latency_us: of one hop; fixed cost of one message or round of a collective.
        slowdown: how much longer an iteration takes for GPUs that lag behind; 1: none do.
    """

    servers: int
    gpus_per_server: int
    device: str
    gpu_memory_bytes: int | None
    headroom_bytes: int
    intra_server_gbps: float
    degree: int
    per_gpu: bool
    link_gbps: float
    links: LinkDirection = LinkDirection.BIDIRECTIONAL
    hop_latency_us: float = 1.0
    message_latency_us: float = 2.1
    slowdown: float = 1.0
    optical_interfaces: int = 0

    @property
    def gpus(self) -> int:
        """Number of GPUs N, all servers together."""
        return self.servers * self.gpus_per_server

    @property
    def gpu_gbps(self) -> float:
        """Rate of the interfaces of a server that falls to each of its GPUs when all send."""
        return self.degree * self.link_gbps / self.gpus_per_server


RankMap = Literal["in-order", "best"]
"""Where the blocks of ranks stand on given links: on the servers in order, or where they serve best."""


InterfaceSplit = Literal["even", "best"]
"""How interfaces are shared out among families, where links are made: evenly, or as serves best."""


@dataclass(frozen=True)
class LlmSearchSettings(SearchSettings):
    """How hard to search."""

    topology: Literal["auto", "dag"] = "auto"
    """auto: as the fabrics have it; dag: circuits between pods, chosen by what an iteration needs when"""
    allreduce: Annotated[AllReduceChoice, Names(AllReduceChoice)] = AllReduceChoice.RINGS
    """what AllReduces run on: rings, trees, bfb (breadth-first broadcasts), or the best by size"""
    rank_map: Annotated[RankMap, Names(get_args(RankMap))] = "best"
    """where ranks stand on given links: best, or in-order, as servers follow"""
    degree_split: Annotated[InterfaceSplit, Names(get_args(InterfaceSplit))] = "best"
    """interfaces of each family where links are made: best, or even"""
    proof: bool = True
    """search until the best is proven"""
    top: Annotated[int, Ge(1), Le(1000)] = 10
    """next best strategies that are reported"""

    OMITTED: ClassVar[Mapping[str, Any]] = {
        "topology": "auto",
        "allreduce": AllReduceChoice.RINGS,
        "rank_map": "best",
        "degree_split": "best",
    }


@dataclass(frozen=True, eq=False, repr=False)
class LlmTrainingProblem(ProblemBase):
    """An instance of kind `llm-training`.

    Attributes:
        device: the GPU, with what it reaches under the software, in these formats.
        software: by its name in the table of software.
        fabrics: names of networks to plan for, the first one first.
        top: how many of the next best strategies to report.
        prove: search until the best is proven.
        rank_map, degree_split: what of a network is searched.
        switching: how circuits of the rails are set anew inside a step; None: they are not.
        pods: of GPUs, between which circuits are chosen; None: there are none.
    """

    name: str
    model: LanguageModel
    batch: TrainingBatch
    cluster: GpuCluster
    formats: NumberFormats
    space: StrategySpace
    overlap: Overlap
    device: TrainingDevice
    fabrics: tuple[str, ...]
    top: int
    prove: bool
    search: LlmSearchSettings
    sha256: str
    rank_map: RankMap = "best"
    degree_split: InterfaceSplit = "best"
    notes: tuple[str, ...] = ()
    switching: SwitchSettings | None = None
    pods: PodSettings | None = None
    software: str = "megatron-bridge"
    kind: str = field(default="llm-training", init=False)

    @property
    def usable_bytes(self) -> int | None:
        """Memory of a GPU that training may take; None: not checked."""
        memory = self.cluster.gpu_memory_bytes
        return None if memory is None else memory - self.cluster.headroom_bytes


@dataclass(frozen=True)
class StepBreakdown:
    """Seconds of an iteration, exposed: they add up to `iteration_time_s`."""

    forward: float
    backward: float
    recompute: float
    bubble: float
    tensor: float
    context: float
    expert: float
    pipeline: float
    data: float
    optimizer: float

    @property
    def total(self) -> float:
        return float(sum(getattr(self, part.name) for part in fields(self)))


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes on the fullest GPU at the moment that it holds most.

    Attributes:
        activations: that layers keep for the backward pass.
        logits: with their loss, where the last stage holds most then; else 0.
        working: of the layer that is being computed, where it holds most then; else 0.
        gathered: weights and gradients that ZeRO 3 has whole for a moment.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float = 0.0
    working: float = 0.0
    gathered: float = 0.0

    @property
    def total(self) -> float:
        return float(sum(getattr(self, part.name) for part in fields(self)))

    @property
    def largest(self) -> str:
        """The part that takes most."""
        return max((part.name for part in fields(self)), key=lambda name: float(getattr(self, name)))


@dataclass(frozen=True)
class StepEstimate:
    """What one iteration of a strategy takes.

    Attributes:
        breakdown: of its time.
        memory: of the fullest GPU.
        model_flops: of the iteration over all GPUs: forward and backward once, attention counted causally.
        peak_flops: of one GPU, operations a second, that model flops are held against.
        detail: bytes that a GPU sends, by name.
    """

    breakdown: StepBreakdown
    memory: TrainingMemory
    model_flops: float
    peak_flops: float
    detail: tuple[tuple[str, float], ...] = ()

    @property
    def iteration_time_s(self) -> float:
        return self.breakdown.total
