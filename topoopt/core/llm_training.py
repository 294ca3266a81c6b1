"""Training a large language model on a cluster of GPUs: the problem, and what one iteration costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, get_args

from annotated_types import Ge, Le

from topoopt.core.cluster import LinkDirection
from topoopt.core.data import STRICT, Names
from topoopt.core.language_models import LanguageModel
from topoopt.core.parallelism import Overlap, StrategySpace
from topoopt.core.search_settings import AllReduceChoice, ProblemBase, SearchSettings
from topoopt.core.switching import SwitchSettings

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
