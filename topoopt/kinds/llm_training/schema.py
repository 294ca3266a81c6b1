"""Shape of the section `model` of instance files of kind `llm-training`. Shape of instance files of kind
`llm-training`; `description` says what a field means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from topoopt.core.data import STRICT, FileName, Names, SchemaVersion
from topoopt.core.llm_training import (
    STRATEGIES,
    Attention,
    DeltaAttention,
    Experts,
    LatentAttention,
    LightningAttention,
    LlmSearchSettings,
    Mlp,
    StateSpace,
    TrainingBatch,
    TrainingDevice,
    Width,
)
from topoopt.core.parallelism import LayerDivision
from topoopt.core.switching import PORTS
from topoopt.files.codec import FileModel, LatencyUs, Rate, is_none
from topoopt.workloads.language_models import TRAINING_DEVICES
from topoopt.workloads.step_efficiencies import SOFTWARE, STEP_EFFICIENCIES

MOST_LAYERS = 10_000
MOST_EXPERTS = 65_536
MOST_PER_TOKEN = 1024


class LatentSection(FileModel):
    """Sizes of latent attention, whose heads are those of the model."""

    query_rank: int = Field(ge=0, le=2**24, description="0: queries are not compressed")
    key_value_rank: Width
    plain_size: Width = Field(description="part of a key without rotary position")
    rotary_size: Width = Field(description="part of a key with rotary position")
    value_size: Width


class ExpertsSection(FileModel):
    """Experts that stand in a layer instead of one MLP."""

    count: int = Field(ge=1, le=MOST_EXPERTS, description="routed experts of a layer")
    per_token: int = Field(ge=1, le=MOST_PER_TOKEN, description="routed experts that a token goes to")
    hidden: Width = Field(description="inner width of an expert")
    shared: int = Field(default=0, ge=0, le=1000, description="experts of the same width that all tokens go to")
    dense_layers: int = Field(default=0, ge=0, le=MOST_LAYERS, description="first layers without experts")
    node_limit: int | None = Field(default=None, ge=1, description="servers that the experts of a token lie on at most")


class ModelSection(FileModel):
    """A model by its sizes: layers alike, but for first ones without experts."""

    layers: int = Field(ge=1, le=MOST_LAYERS)
    hidden: Width
    ffn_hidden: Width = Field(description="inner width of the MLP")
    heads: Width
    kv_heads: Width | None = Field(default=None, description="heads of keys and values; default: as heads")
    head_size: Width | None = Field(default=None, description="default: hidden / heads")
    vocabulary: Width
    positions: int = Field(default=0, ge=0, le=2**24, description="learned positions; 0: rotary")
    gated: bool = Field(default=True, description="the MLP has three matrices")
    biases: bool = Field(default=False, description="matrices and norms have biases")
    attention_biases: bool = Field(default=False, description="projections of queries, keys and values have biases")
    query_key_norms: bool = False
    tied: bool = Field(default=False, description="the head is the embedding")
    experts: ExpertsSection | None = None
    latent: LatentSection | None = None
    mtp_layers: int = Field(default=0, ge=0, le=16, description="layers that predict further tokens")
    attention_window: Width | None = Field(
        default=None, exclude_if=is_none, description="keys that a token attends to at most; null: all before it"
    )


class LayerKindSection(FileModel):
    """A kind of layer: one mixer at most, and an MLP or experts at most."""

    count: int = Field(ge=1, le=MOST_LAYERS, description="layers of this kind")
    attention: Attention | None = None
    latent_attention: LatentAttention | None = None
    delta_attention: DeltaAttention | None = None
    lightning_attention: LightningAttention | None = None
    state_space: StateSpace | None = None
    mlp: Mlp | None = None
    experts: Experts | None = None
    norms: int = Field(default=2, ge=0, le=64, description="vectors of the width of its norms, biases of norms too")


class KindsSection(FileModel):
    """A model by the kinds of its layers."""

    hidden: Width
    vocabulary: Width
    kinds: dict[Annotated[str, Field(min_length=1, max_length=50)], LayerKindSection] = Field(
        min_length=1, max_length=64, description="kinds of layers by names of your own, in the order of the model"
    )
    pattern: list[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_LAYERS,
        description="names of kinds as layers follow, each alone or as `3*name`, repeated until all layers stand; "
        "default: kind after kind",
    )
    tied: bool = Field(default=False, description="the head is the embedding")
    positions: int = Field(default=0, ge=0, le=2**24, description="learned positions; 0: none")
    embedding_norms: int = Field(default=0, ge=0, le=64, description="vectors of norms behind the embedding")
    final_norms: int = Field(default=1, ge=0, le=64, description="vectors of norms before the head")
    head_biases: bool = False
    mtp_layers: int = Field(default=0, ge=0, le=16, description="layers that predict further tokens, as the last one")


class HuggingFaceModel(FileModel):
    """A model by its `config.json`."""

    huggingface: str = Field(min_length=1, max_length=4096, description="file, relative to that of the instance")


def model_shape(value: object) -> str:
    """Which shape of a model is meant: a name, a file, kinds of layers or sizes; the answer names the type."""
    if isinstance(value, HuggingFaceModel) or (isinstance(value, dict) and "huggingface" in value):
        return "HuggingFaceModel"
    if isinstance(value, KindsSection) or (isinstance(value, dict) and "kinds" in value):
        return "KindsSection"
    return "ModelSection" if isinstance(value, ModelSection | dict) else "str"


ModelField = Annotated[
    Annotated[str, Tag("str")]
    | Annotated[HuggingFaceModel, Tag("HuggingFaceModel")]
    | Annotated[KindsSection, Tag("KindsSection")]
    | Annotated[ModelSection, Tag("ModelSection")],
    Discriminator(model_shape),
]


MOST_GPUS = 2**20
MOST_IN_DOMAIN = 2**14
MOST_PODS = 1024
MOST_POD_PORTS = 4096
MOST_STRATEGIES = 1000
Parts = Annotated[int, Field(ge=1, le=MOST_GPUS)]


Tflops = Annotated[float, Field(gt=0, le=1e6)]
Memory = Annotated[float, Field(gt=0, le=1e6)]


class DeviceSection(FileModel):
    """A device by its figures."""

    name: str = Field(default="custom", min_length=1, max_length=50)
    peak_tflops: Tflops = Field(description="dense peak of products of 16-bit matrices, 10^12 operations a second")
    fp8_tflops: Tflops | None = Field(default=None, description="of 8-bit matrices; null: it has none")
    fp4_tflops: Tflops | None = Field(default=None, description="of 4-bit matrices; null: it has none")
    memory_gib: Memory | None = Field(default=None, description="that a job may take")
    memory_gbytes_per_s: Memory = Field(description="rate of its memory, 10^9 bytes a second")
    scale_up_gbytes_per_s: Memory | None = Field(
        default=None, description="to others of its scale-up domain, in one direction"
    )
    domain: int | None = Field(default=None, ge=1, le=MOST_IN_DOMAIN, description="devices of a scale-up domain")
    network_gbps: Rate | None = Field(default=None, description="of the interfaces beside, of a device")
    like: str = Field(default="h100", max_length=50, description="device whose efficiencies it has")

    @property
    def device(self) -> TrainingDevice:
        """The same as the time model takes it; of a device that is in the table."""
        return TrainingDevice(
            self.name,
            self.peak_tflops,
            self.fp8_tflops,
            self.memory_gbytes_per_s,
            TRAINING_DEVICES[self.like].reached,
            self.fp4_tflops,
            self.memory_gib,
            self.scale_up_gbytes_per_s,
            self.domain or 8,
            self.network_gbps,
            self.like,
        )


def device_shape(value: object) -> str:
    """Which shape of a device is meant: a name or figures; the answer names the type."""
    return "DeviceSection" if isinstance(value, DeviceSection | dict) else "str"


DeviceField = Annotated[
    Annotated[str, Field(min_length=1, max_length=50), Tag("str")] | Annotated[DeviceSection, Tag("DeviceSection")],
    Discriminator(device_shape),
]


def device_of(section: str | DeviceSection) -> TrainingDevice | None:
    """The device of a cluster; None where no such name is in the table."""
    if isinstance(section, str):
        return TRAINING_DEVICES.get(section)
    return section.device if section.like in TRAINING_DEVICES else None


class GpuClusterSection(FileModel):
    """Servers of GPUs with optical interfaces."""

    servers: int = Field(ge=1, le=2**17)
    gpus_per_server: int = Field(
        ge=1, le=MOST_IN_DOMAIN, description="of a scale-up domain; default: as the device has them"
    )
    device: DeviceField = Field(description="a name in the table of devices, or figures")
    gpu_memory_gib: float | None = Field(
        default=80.0, gt=0, le=1e6, description="null: not checked; default: as the device has it"
    )
    headroom_gib: float = Field(default=0.0, ge=0, le=1e6, description="kept free for context, buffers, fragments")
    intra_server_gbps: Rate = Field(
        description="of one GPU inside its server, each direction; default: as the device has it"
    )
    degree: int = Field(ge=1, le=MOST_IN_DOMAIN, description="interfaces of a server; default: one for each GPU")
    interfaces: Literal["per-server", "per-gpu"] = Field(
        default="per-server", description="per-gpu: each GPU owns as many as any other"
    )
    link_gbps: Rate = Field(description="of an interface, each direction; default: as the device has it")
    optical_interfaces: int | None = Field(
        default=None,
        ge=1,
        le=1023,
        exclude_if=is_none,
        description="of a server, those on the optical switch of its region, for the fabric regional-circuits",
    )
    links: Literal["bidirectional", "unidirectional"] = "bidirectional"
    hop_latency_us: LatencyUs = 1.0
    message_latency_us: LatencyUs = 2.1
    slowdown: float = Field(default=1.0, ge=1.0, le=100.0, description="for GPUs that lag behind")

    @model_validator(mode="before")
    @classmethod
    def _of_device(cls, data: Any) -> Any:
        """What a file leaves out is as the device has it."""
        if not isinstance(data, dict):
            return data
        section = data.get("device")
        # An unknown name is refused as such, not for what would be missing beside it.
        device = TRAINING_DEVICES.get(section, TRAINING_DEVICES["h100"]) if isinstance(section, str) else None
        if isinstance(section, dict):
            try:
                own = DeviceSection.model_validate(section)
                device = own.device if own.like in TRAINING_DEVICES else own.model_copy(update={"like": "h100"}).device
            except ValidationError:
                return data
        if device is None:
            return data
        scale_up = device.scale_up_gbytes_per_s
        usual = {
            "gpus_per_server": device.domain,
            "gpu_memory_gib": device.memory_gib,
            "intra_server_gbps": None if scale_up is None else 8.0 * scale_up,
            "degree": data.get("gpus_per_server", device.domain),
            "link_gbps": device.network_gbps,
        }
        return {**{key: value for key, value in usual.items() if value is not None}, **data}


class FormatsSection(FileModel):
    """Numbers in training."""

    compute: Literal["bf16", "fp16", "fp8", "fp4"] = "bf16"
    dispatch: Literal["16-bit", "fp8"] = Field(default="16-bit", description="tokens on their way to experts")
    gradients: Literal["fp32", "16-bit"] = "fp32"
    moments: Literal["fp32", "16-bit"] = "fp32"
    weights: Literal["16-bit", "fp32"] = Field(
        default="16-bit",
        exclude_if=lambda value: bool(value == "16-bit"),
        description="as they are kept; 16-bit: the optimizer has a copy of 32 bits; fp32: 16 bits as they are gathered",
    )
    attention: Literal["tiled", "plain"] = Field(
        default="tiled", description="tiled: scores stay on the chip; plain: they are stored and moved"
    )


Whole = Literal["auto"] | Parts | Annotated[list[Parts], Field(min_length=1, max_length=64)]
Zero = Annotated[int, Field(ge=0, le=3)]
Schedules = Literal["gpipe", "1f1b", "interleaved", "zb-h1", "zb-2p", "dualpipe", "dualpipe-v"]
Recomputes = Literal["none", "selective", "full"]
Dimension = Literal["tensor", "context", "data", "pipeline"]
Hidden = Annotated[float, Field(ge=0, le=1)] | None
Fewer = Annotated[int, Field(ge=0, le=MOST_LAYERS)]
Order = Annotated[list[Dimension], Field(min_length=4, max_length=4)]


LayerDivisionField = Annotated[
    LayerDivision,
    Names(get_args(LayerDivision)),
    Field(
        exclude_if=lambda value: bool(value == "even"),
        description="layers of stages: even, or balanced, so that the slowest rank is as fast as memory lets it be",
    ),
]


class StrategySection(FileModel):
    """Values that each part of a strategy may take: a value pins it."""

    tensor: Whole = Field(default="auto", description="GPUs that share each matrix")
    sequence: Literal["auto"] | bool = Field(default="auto", description="what lies between matrices is split")
    context: Whole = Field(default="auto", description="parts of each sequence")
    pipeline: Whole = Field(default="auto", description="stages")
    chunks: Whole = Field(default="auto", description="runs of layers of a stage")
    data: Whole = Field(default="auto", description="replicas; auto: what the others leave")
    expert: Whole = Field(default="auto", description="GPUs that share the experts of a layer")
    expert_tensor: Whole = Field(default=1, description="GPUs that share each expert")
    zero: Literal["auto"] | Zero | Annotated[list[Zero], Field(min_length=1, max_length=4)] = "auto"
    micro_batch: Whole = Field(default="auto", description="sequences of a micro-batch")
    schedule: Literal["auto"] | Schedules | Annotated[list[Schedules], Field(min_length=1, max_length=7)] = "auto"
    recompute: Literal["auto"] | Recomputes | Annotated[list[Recomputes], Field(min_length=1, max_length=3)] = "auto"
    layers: LayerDivisionField = "even"
    short_ends: Literal["even"] | Fewer | Annotated[list[Fewer], Field(min_length=1, max_length=64)] = Field(
        default="even", description="layers that the first and the last stage may have fewer than those between"
    )
    order: Literal["auto"] | Order = Field(
        default="auto", description="ranks count fastest along the first; auto: all orders that begin with tensor"
    )


class OverlapSection(FileModel):
    """What is hidden behind computing; null: as the software hides it."""

    tensor: Hidden = Field(default=None, description="part of the time of tensor parallelism")
    expert: Hidden = Field(default=None, description="part of the time of the exchange between experts")
    data: bool | None = Field(default=None, description="reduction of gradients, gathering of weights")
    pipeline: bool | None = Field(default=None, description="transfers between stages")


class SwitchingSection(FileModel):
    """Circuits of the rails that are set anew inside a step."""

    delay: str = Field(max_length=50, description="to set circuits: 10ms, 25us, or an optical device")
    provisioned: bool = Field(default=True, description="circuits are asked for once those they cut are idle")
    ports: int = Field(default=PORTS, ge=1, le=8, description="of a GPU on its rail")
    port_gbps: Rate | None = Field(default=None, description="of a circuit; default: all that a GPU has")


class PodsSection(FileModel):
    """Pods of GPUs of one stage, which share the ports of circuits."""

    gpus: int | None = Field(default=None, ge=1, le=MOST_GPUS, description="of a pod; default: those of a server")
    ports: int | None = Field(
        default=None, ge=1, le=MOST_POD_PORTS, description="circuits that may end at a pod; default: its interfaces"
    )
    circuit_gbps: Rate | None = Field(
        default=None, description="of a circuit, in each direction; default: of an interface"
    )
    strategies: int = Field(
        default=STRATEGIES, ge=1, le=MOST_STRATEGIES, description="that get circuits of their own, at most"
    )


@dataclass(frozen=True, kw_only=True)
class LlmTrainingInstance:
    """Training a large language model on a cluster."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["llm-training"] = "llm-training"
    name: FileName = "training"
    model: Annotated[ModelField, Field(description="a name, a file, sizes, or kinds of layers")]
    batch: TrainingBatch
    cluster: GpuClusterSection
    formats: FormatsSection = FormatsSection()  # noqa: RUF009 - frozen
    strategy: StrategySection = StrategySection()  # noqa: RUF009 - frozen
    software: Annotated[
        str | None,
        Names(SOFTWARE),
        Field(
            exclude_if=is_none,
            description="what trains, with the class of its release; default: torchtitan where ZeRO 3 alone is pinned, "
            "else megatron-bridge",
        ),
    ] = None
    overlap: OverlapSection = OverlapSection()  # noqa: RUF009 - frozen
    efficiencies: Annotated[
        dict[Annotated[str, Names(STEP_EFFICIENCIES)], Annotated[float, Field(gt=0, le=1e6)]] | None,
        Field(exclude_if=is_none, description="numbers of the time model by name, as `topoopt llm calibrate` has them"),
    ] = None
    fabrics: Annotated[
        Annotated[list[str], Field(min_length=1, max_length=16)] | None,
        Field(
            description="networks that the strategy is searched for, each anew; the first is planned for, the others "
            "stand beside it. Default: direct-connect, with switching: photonic-rails, with search.topology: dag "
            "pod-circuits, and ideal-switch"
        ),
    ] = None
    switching: SwitchingSection | None = None
    """rails through optical circuit switches"""
    pods: Annotated[PodsSection | None, Field(exclude_if=is_none, description="with search.topology: dag")] = None
    slack_percent: Annotated[
        float,
        Field(
            ge=0,
            le=1000,
            exclude_if=lambda value: bool(value == 0.0),
            description="with search.topology: dag, how much longer an iteration may take where that saves circuits",
        ),
    ] = 0.0
    search: LlmSearchSettings = LlmSearchSettings()  # noqa: RUF009 - frozen
