"""Instance files of kind `co-optimisation`: their shape, the checks beyond it, and the way to the problem."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from topoopt.core.arrays import GIB
from topoopt.core.cluster import Cluster, LinkDirection, LinkSharing, LocalAllReduce
from topoopt.core.data import STRICT, FileName, SchemaVersion
from topoopt.core.job import DEFAULT_FABRICS, BaselineSettings, CoOptimisation
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.workload import GRADIENT_BYTES, Operator, OperatorInput, Split, Workload
from topoopt.files import codec
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.faults import MAX_LISTED, Fault, Path, nearest_text, value_text
from topoopt.files.fields import (
    MAX_OPERATORS,
    MAX_SAMPLES,
    MAX_SERVERS,
    AllReduceField,
    Bytes,
    Count,
    FileModel,
    FilePart,
    KindName,
    Label,
    LatencyUs,
    Listed,
    NameOf,
    PositiveCount,
    Rate,
    RobustSearchFile,
    TimeMs,
    Ways,
    is_none,
)
from topoopt.files.findings import Findings, fitting
from topoopt.files.job_document import FabricEntry, read_profile, topological_order
from topoopt.workloads.device import DEVICES, Profile, ProfileCosts
from topoopt.workloads.models import MODELS, build_workload, find_model
from topoopt.workloads.operators import CostModel, all_parameters, complete_sizes

_SIZES = "; ".join(
    f"{model.name}: " + ", ".join(f"{size.name} ({size.default})" for size in all_parameters(model))
    for model in MODELS.values()
)


class ClusterFields(FilePart):
    """Everything about the cluster but its memory."""

    core = Cluster

    servers: int = Field(ge=2, le=MAX_SERVERS, description="n")
    gpus_per_server: int = Field(ge=1, le=64)
    degree: int = Field(ge=1, le=64, description="d, optical interfaces of a server")
    link_gbps: Rate = Field(description="rate of one interface in each direction, Gbit/s")
    links: Annotated[LinkDirection, NameOf(LinkDirection)] = Field(
        LinkDirection.BIDIRECTIONAL,
        description="a link takes an interface at both ends, or its two fibres are patched apart",
    )
    hop_latency_us: LatencyUs = Field(1.0, description="latency of one hop, microseconds")
    ring_round_latency_us: LatencyUs = Field(2.1, description="fixed cost of one AllReduce ring round, microseconds")
    intra_server_gbps: Rate = Field(2400.0, description="rate between the GPUs of a server, Gbit/s")
    local_allreduce: Annotated[LocalAllReduce, NameOf(LocalAllReduce)] = Field(
        LocalAllReduce.RING, description="time model of the AllReduce in a server"
    )
    link_sharing: Annotated[LinkSharing, NameOf(LinkSharing)] = Field(
        LinkSharing.FIFO,
        description="flows take turns of a segment on a link, each request is served whole, or transfers go before "
        "AllReduces",
    )


class ClusterFile(ClusterFields):
    """The servers and their links."""

    gpu_memory_gib: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="memory of a GPU; null: unchecked; left out: that of the device of the operator times, if any",
    )


class OperatorTimes(FileModel):
    """Where operator times come from: exactly one of the two."""

    device: str | None = Field(None, description="analytic device model", json_schema_extra={"enum": [*DEVICES, None]})
    profile: str | None = Field(
        None, min_length=1, max_length=1000, description="measured profile, relative to the folder of this file"
    )


class ModelWorkload(FileModel):
    """A model with its sizes."""

    model: str = Field(description="model family", json_schema_extra={"enum": [*MODELS]})
    sizes: dict[str, int] = Field({}, description=f"sizes of the model, others keep their defaults. {_SIZES}")
    element_sizes: Literal["actual", "flexnet"] = Field(
        "actual", description="bytes of an activation element on the network; flexnet: 8 from embedding tables on"
    )
    operator_times: OperatorTimes


class SplitFile(FileModel):
    """One way to spread an operator, with its cost per part; the number of parts divides the servers."""

    sample_ways: Ways = Field(description="parts along the batch; divides samples")
    channel_ways: Ways = Field(1, description="parts along the output channels")
    reduce_ways: Ways = Field(1, description="parts along the input channels")
    forward_ms: TimeMs = Field(description="forward time of one part on one server, ms")
    backward_ms: TimeMs = Field(description="backward time of one part on one server, ms")
    server_memory_bytes: Bytes = Field(0, description="memory of one part over all GPUs of its server")


class InputFile(FileModel):
    """An input tensor."""

    operator: Label = Field(description="name of the operator that produces it")
    fraction: float = Field(1.0, gt=0, le=1, description="share of each sample's elements that is read")


class OperatorFile(FileModel):
    """One operator."""

    name: Label = Field(description="unique in the workload")
    kind: KindName = Field(description="class of the operator, for people: dense, embedding, conv, ...")
    output_elements: PositiveCount = Field(description="elements of the output tensor per sample")
    element_bytes: int = Field(4, ge=1, le=64, description="bytes of an output element on the network")
    weight_elements: Annotated[list[Count], Field(max_length=1000)] = Field(
        [], description="elements of every weight tensor"
    )
    inputs: Annotated[list[InputFile], Field(max_length=MAX_OPERATORS)] = Field([], description="input tensors")
    mixes_channels: bool = Field(True, description="whether an output channel needs all input channels")
    locally_reduced: bool = Field(True, description="whether gradients are first all-reduced inside the server")
    pinned_offset: int | None = Field(
        None, ge=0, lt=MAX_SERVERS, description="offset of every placement, less than servers / parts; null: free"
    )
    splits: Annotated[list[SplitFile], Field(min_length=1, max_length=1000)]


class GraphWorkload(FileModel):
    """An operator graph in full."""

    name: Label
    samples: int = Field(ge=1, le=MAX_SAMPLES, description="global batch")
    operators: Annotated[list[OperatorFile], Field(min_length=1, max_length=MAX_OPERATORS)] = Field(
        description="in any order; the graph has no cycle"
    )


def workload_shape(value: object) -> str:
    """Which of the two shapes of a workload is meant; the answer names the class."""
    if isinstance(value, GraphWorkload):
        return "GraphWorkload"
    keys = value.keys() if isinstance(value, dict) else ()
    return "GraphWorkload" if "model" not in keys and {"operators", "samples"} & set(keys) else "ModelWorkload"


WorkloadFile = Annotated[
    Annotated[ModelWorkload, Tag("ModelWorkload")] | Annotated[GraphWorkload, Tag("GraphWorkload")],
    Discriminator(workload_shape),
]


class BaselinesFile(FilePart):
    """Fabrics to compare with."""

    core = BaselineSettings

    fat_tree_gbps: Rate | None = Field(
        default=None, description="rate of a server on the fat-tree; null: that of equal cost"
    )
    fat_tree_oversubscription: float = Field(default=1.0, ge=1, le=1000)
    fabrics: Annotated[Listed[FabricEntry], Field(max_length=100)] | None = Field(
        default=None,
        exclude_if=is_none,
        description="fabrics the plan is compared with; null: " + ", ".join(c.name for c in DEFAULT_FABRICS),
    )

    def arguments(self) -> dict[str, Any]:
        """Fabrics that are null are those by default."""
        return {name: value for name, value in super().arguments().items() if value is not None}


class JobSearchFile(RobustSearchFile):
    """How hard to search, and what AllReduces may run on."""

    allreduce: AllReduceField = AllReduceChoice.RINGS
    # Not written where it is the default, so that the hash of an instance is the same as without.
    bound_programs: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        exclude_if=is_none,
        description="linear programs that the proof of the bound may take; null: some seconds' worth",
    )
    link_sharing: Listed[Annotated[LinkSharing, NameOf(LinkSharing)]] | None = Field(
        default=None,
        exclude_if=is_none,
        description="how the plan may have links shared, whatever `cluster.link_sharing` says: the best of these; "
        "null: as the cluster says",
    )

    @field_validator("link_sharing")
    @classmethod
    def _some_once(cls, value: tuple[LinkSharing, ...] | None) -> tuple[LinkSharing, ...] | None:
        if value is not None and len(set(value)) < max(1, len(value)):
            text = "a way to share links is listed twice" if value else "no way to share links is listed"
            raise PydanticCustomError("ways", text)
        return value

    def arguments(self) -> dict[str, Any]:
        """Null is none in particular."""
        return {name: value for name, value in super().arguments().items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class CoOptimisationInstance:
    """Find strategy, topology and routes of least iteration time."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["co-optimisation"] = "co-optimisation"
    name: FileName = "job"
    cluster: ClusterFile
    workload: WorkloadFile
    search: JobSearchFile = JobSearchFile()  # noqa: RUF009 - frozen
    baselines: BaselinesFile = BaselinesFile()  # noqa: RUF009 - frozen


_OPERATORS: Path = ("workload", "operators")


def _split_faults(split: SplitFile, path: Path, servers: int | None, samples: int | None, output: int) -> list[Fault]:
    faults = []
    parts = split.sample_ways * split.channel_ways * split.reduce_ways
    if servers is not None and servers % parts:
        ways = f"{split.sample_ways} x {split.channel_ways} x {split.reduce_ways} = {parts} parts"
        faults.append(Fault(path, "the split does not divide the servers", ways, f"parts that divide {servers}"))
    if samples is not None and samples % split.sample_ways:
        where = (*path, "sample_ways")
        message = "the split does not divide the samples"
        faults.append(Fault(where, message, str(split.sample_ways), f"a divisor of {samples}"))
    if split.channel_ways > output:
        where = (*path, "channel_ways")
        message = "more parts than output elements"
        faults.append(Fault(where, message, str(split.channel_ways), f"at most {output}"))
    return faults


def _operator_faults(
    operator: OperatorFile, path: Path, names: Mapping[str, int], servers: int | None, samples: int | None
) -> list[Fault]:
    faults = []
    seen: dict[tuple[int, int, int], int] = {}
    for position, split in enumerate(operator.splits):
        where = (*path, "splits", position)
        faults += _split_faults(split, where, servers, samples, operator.output_elements)
        ways = (split.sample_ways, split.channel_ways, split.reduce_ways)
        if ways in seen:
            faults.append(Fault(where, f"the same ways as splits[{seen[ways]}]", allowed="each split once"))
        seen.setdefault(ways, position)
    most = max(split.sample_ways * split.channel_ways * split.reduce_ways for split in operator.splits)
    if operator.pinned_offset is not None and servers is not None and operator.pinned_offset * most >= servers:
        where = (*path, "pinned_offset")
        allowed = f"less than servers / parts = {servers} / {most}"
        faults.append(Fault(where, "the offset is too large for a split", str(operator.pinned_offset), allowed))
    for position, source in enumerate(operator.inputs):
        if source.operator not in names:
            where = (*path, "inputs", position, "operator")
            allowed = nearest_text(source.operator, names)
            faults.append(Fault(where, "no operator of that name", value_text(source.operator), allowed))
    return faults


def _valid_operators(raw: object) -> list[tuple[int, OperatorFile]]:
    """The operators that follow the schema, with their positions; the others are reported elsewhere."""
    found = []
    for index, entry in enumerate(raw if isinstance(raw, list) else []):
        try:
            found.append((index, OperatorFile.model_validate(entry)))
        except ValidationError:
            continue
    return found


def graph_faults(raw: Mapping[str, object], servers: int | None) -> list[Fault]:
    """What is wrong with a workload in full beyond its schema, so far as the parts that follow it tell.

    Operators are looked at until there is more to say than is shown.

    Args:
        raw: the workload as it stands in the file, already bounded in size by the schema.
        servers: n, None when it is not known.
    """
    entries = raw.get("operators")
    listed = entries if isinstance(entries, list) else []
    names: dict[str, int] = {}
    faults = []
    for index, entry in enumerate(listed):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if name in names:
            where = (*_OPERATORS, index, "name")
            message = f"the name of operators[{names[name]}] again"
            faults.append(Fault(where, message, value_text(name), "each name once"))
        names.setdefault(name, index)
    samples = raw.get("samples")
    batch = samples if isinstance(samples, int) and not isinstance(samples, bool) and samples > 0 else None
    producers: list[list[int]] = [[] for _ in listed]
    for index, operator in _valid_operators(listed):
        if len(faults) <= MAX_LISTED:
            faults += _operator_faults(operator, (*_OPERATORS, index), names, servers, batch)
        producers[index] = [names[source.operator] for source in operator.inputs if source.operator in names]
    _, cycle = topological_order(producers)
    if cycle:
        first = cycle.index(min(cycle))
        turn = cycle[first:] + cycle[: first + 1]
        text = " -> ".join(value_text(listed[index]["name"]) for index in turn[:20])
        text += " -> ..." if len(turn) > 20 else ""
        where = (*_OPERATORS, min(cycle), "inputs")
        faults.append(Fault(where, f"the operators form a cycle: {text}", allowed="a graph without cycles"))
    return faults


def to_workload(file: GraphWorkload) -> tuple[Workload, list[int]]:
    """A checked graph as a `Workload`, and for each of its operators the position in the file."""
    names = {operator.name: index for index, operator in enumerate(file.operators)}
    order, _ = topological_order([[names[source.operator] for source in op.inputs] for op in file.operators])
    rank = {index: place for place, index in enumerate(order)}
    operators = []
    for index in order:
        entry = file.operators[index]
        operators.append(
            Operator(
                name=entry.name,
                kind=entry.kind,
                output_elements=entry.output_elements,
                element_bytes=entry.element_bytes,
                weight_elements=tuple(entry.weight_elements),
                inputs=tuple(OperatorInput(rank[names[edge.operator]], edge.fraction) for edge in entry.inputs),
                splits=tuple(Split(**split.model_dump()) for split in entry.splits),
                mixes_channels=entry.mixes_channels,
                locally_reduced=entry.locally_reduced,
                pinned_offset=entry.pinned_offset,
            )
        )
    return Workload(file.name, file.samples, tuple(operators)), order


MAX_COMPUTE_TASKS = 4_000_000
"""Forward parts of all operators when each is split as finely as it may be."""

MAX_TRANSFERS = 1 << 28
"""Forward transfers of all tensors when producers and consumers are split as badly as they may be."""

MAX_TENSOR_BYTES = 10**15
MAX_TOTAL_BYTES = 10**16
"""Of all weights, and of all tensors: sums of traffic stay far inside 64-bit integers."""


Cuts = tuple[tuple[int, int], ...]
"""Pairs (channel_ways x reduce_ways, largest sample_ways that goes with it)."""


def _cuts(splits: tuple[Split, ...]) -> Cuts:
    largest: dict[int, int] = {}
    for split in splits:
        ways = split.channel_ways * split.reduce_ways
        largest[ways] = max(largest.get(ways, 0), split.sample_ways)
    return tuple(sorted(largest.items()))


def _transfers(producer: Cuts, consumer: Cuts) -> int:
    """Upper bound on the transfers of one tensor over all pairs of splits.

    Cutting one batch into s and t ranges leaves at most s + t - 1 common pieces; along the channels every part of the
    producer may meet every part of the consumer; in no case are there more than pairs of parts.
    """
    return max(min(s + t - 1, s * t) * c * e for c, s in producer for e, t in consumer)


def _all_transfers(workload: Workload) -> int:
    """Upper bound over all tensors; stops counting beyond the limit."""
    cuts = [_cuts(operator.splits) for operator in workload.operators]
    known: dict[tuple[Cuts, Cuts], int] = {}
    total = 0
    for index, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            pair = (cuts[edge.producer], cuts[index])
            if pair not in known:
                known[pair] = _transfers(*pair)
            total += known[pair]
            if total > MAX_TRANSFERS:
                return total
    return total


def size_faults(workload: Workload, at: Callable[[int], Path]) -> list[Fault]:
    """Faults of a workload that is too large; `at` gives the path of an operator in the file."""
    faults = []
    if len(workload.operators) > MAX_OPERATORS:
        message = "too many operators"
        faults.append(Fault(("workload",), message, str(len(workload.operators)), f"at most {MAX_OPERATORS}"))
        return faults
    tensors = 0
    for index, operator in enumerate(workload.operators):
        output_bytes = workload.samples * operator.output_elements * operator.element_bytes
        tensors += output_bytes * max(1, len(operator.inputs))
        if output_bytes > MAX_TENSOR_BYTES:
            message = "the output tensor is too large (samples x output_elements x element_bytes)"
            faults.append(Fault(at(index), message, f"{output_bytes} bytes", f"at most {MAX_TENSOR_BYTES} bytes"))
    weights = GRADIENT_BYTES * sum(sum(operator.weight_elements) for operator in workload.operators)
    for what, total in (("output tensors", tensors), ("weights", weights)):
        if total > MAX_TOTAL_BYTES:
            message = f"all {what} together are too large"
            faults.append(Fault(("workload",), message, f"{total} bytes", f"at most {MAX_TOTAL_BYTES} bytes"))
    parts = sum(max(split.parts for split in operator.splits) for operator in workload.operators)
    if parts > MAX_COMPUTE_TASKS:
        message = "too many operator parts in the finest splits"
        faults.append(Fault(("workload",), message, str(parts), f"at most {MAX_COMPUTE_TASKS}"))
    transfers = _all_transfers(workload)
    if transfers > MAX_TRANSFERS:
        message = "too many transfers in the worst pairs of splits"
        allowed = f"at most {MAX_TRANSFERS}: fewer operators, servers or channel splits"
        faults.append(Fault(("workload",), message, f"at least {transfers}", allowed))
    return faults


def memory_faults(workload: Workload, cluster: Cluster, at: Callable[[int], Path]) -> list[Fault]:
    """Faults of a workload that cannot fit the memory of the cluster in any strategy."""
    server = cluster.server_memory_bytes
    if server is None:
        return []
    faults = []
    memory = f"{server} bytes, the memory of a server"
    total = 0
    for index, operator in enumerate(workload.operators):
        smallest = min(split.server_memory_bytes for split in operator.splits)
        total += min(split.server_memory_bytes * split.parts for split in operator.splits)
        if smallest > server:
            message = f"operator {operator.name} does not fit the memory of a server in any split"
            faults.append(Fault(at(index), message, f"{smallest} bytes", f"at most {memory}"))
    if total > server * cluster.servers:
        message = "the workload does not fit the memory of the cluster even in its smallest splits"
        allowed = f"at most {server * cluster.servers} bytes: {cluster.servers} servers of {server}"
        faults.append(Fault(("workload",), message, f"{total} bytes", allowed))
    return faults


UNCHECKED_GIB = 1 << 40
"""Memory of a GPU when it is not to be checked."""

_TIMES: Path = ("workload", "operator_times")
_PROFILE: Path = (*_TIMES, "profile")


def _known_servers(raw: object) -> int | None:
    """n, if only that much of the cluster is right."""
    servers = raw.get("servers") if isinstance(raw, dict) else None
    right = isinstance(servers, int) and not isinstance(servers, bool) and 2 <= servers <= MAX_SERVERS
    return servers if right else None


def _check_model(raw: Mapping[str, object], findings: Findings) -> None:
    """Model name and sizes, also when the rest of the workload is wrong."""
    name, sizes = raw.get("model"), raw.get("sizes", {})
    if not isinstance(name, str):
        return
    try_name = findings.attempt(lambda: find_model(name), ("workload", "model"))
    if try_name is not None and isinstance(sizes, dict):
        findings.attempt(lambda: complete_sizes(try_name, sizes), ("workload", "sizes"))


def _check_times(times: OperatorTimes, folder: FilePath, findings: Findings) -> Profile | None:
    """Exactly one known source of operator times; the profile, if it is one."""
    if (times.device is None) == (times.profile is None):
        findings.add([Fault(_TIMES, "exactly one source of operator times", allowed="either device or profile")])
        return None
    if times.device is not None and times.device not in DEVICES:
        where = (*_TIMES, "device")
        findings.add([Fault(where, "no such device", value_text(times.device), nearest_text(times.device, DEVICES))])
    if times.profile is None:
        return None
    file = folder / times.profile
    try:
        regular = file.is_file()
    except (OSError, ValueError):
        regular = False
    if not regular:
        allowed = "a profile file, relative to the folder of the instance file"
        findings.add([Fault(_PROFILE, "no such file", value_text(times.profile), allowed)])
        return None
    return findings.attempt(lambda: read_profile(file), _PROFILE)


def _cluster(file: ClusterFile, device: str | None) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster, its GPU memory filled in from the device when the file does not speak of it."""
    memory_gib = file.gpu_memory_gib
    notes: tuple[str, ...] = ()
    if device is not None and "gpu_memory_gib" not in file.model_fields_set:
        memory_gib = float(DEVICES[device].memory_gib)
        notes = (f"memory of a GPU taken as {memory_gib:g} GiB, that of {device}",)
    memory = None if memory_gib is None else int(memory_gib * GIB)
    return dataclasses.replace(file.build(), gpu_memory_bytes=memory), notes


def _costs(times: OperatorTimes, profile: Profile | None, cluster: Cluster) -> CostModel:
    if profile is not None:
        return ProfileCosts(profile)
    device = DEVICES[str(times.device)]
    memory = cluster.gpu_memory_bytes
    # The device leaves out splits beyond its memory: it must know the memory the user states, not the catalogue's.
    return dataclasses.replace(device, memory_gib=UNCHECKED_GIB if memory is None else math.ceil(memory / GIB))


def _identity(file: CoOptimisationInstance, profile: Profile | None) -> str:
    """Hash of the instance with defaults written out; a profile counts by its content, not by its name."""
    document: dict[str, Any] = codec.plain(file)
    if "gpu_memory_gib" not in file.cluster.model_fields_set:
        del document["cluster"]["gpu_memory_gib"]
    if profile is not None:
        document["workload"]["operator_times"]["profile"] = {
            "servers": profile.servers,
            "samples": profile.samples,
            "operators": {
                key: {str(parts): dataclasses.asdict(entry) for parts, entry in table.items()}
                for key, table in profile.operators.items()
            },
        }
    return canonical_sha256(document)


def read_co_optimisation(document: Document) -> CoOptimisation:
    """Check and build.

    Args:
        document: its data are a mapping of this kind.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    raw = document.data if isinstance(document.data, dict) else {}
    findings = Findings()
    file = findings.shape(CoOptimisationInstance, document)
    cluster_file = file.cluster if file else fitting(ClusterFile, raw.get("cluster"))
    raw_workload = raw.get("workload")
    workload_file: GraphWorkload | ModelWorkload | None = None
    profile: Profile | None = None
    if isinstance(raw_workload, dict) and workload_shape(raw_workload) == "GraphWorkload":
        listed = raw_workload.get("operators")
        if isinstance(listed, list) and len(listed) <= MAX_OPERATORS:
            servers = cluster_file.servers if cluster_file else _known_servers(raw.get("cluster"))
            findings.add(graph_faults(raw_workload, servers))
        workload_file = file.workload if file else fitting(GraphWorkload, raw_workload)
    elif isinstance(raw_workload, dict):
        _check_model(raw_workload, findings)
        times = fitting(OperatorTimes, raw_workload.get("operator_times"))
        if times is not None:
            profile = _check_times(times, FilePath(document.file).parent, findings)
        workload_file = file.workload if file else fitting(ModelWorkload, raw_workload)
    instance = None
    if cluster_file and workload_file and not document.faults and findings.clear_of("cluster", "workload"):
        device = workload_file.operator_times.device if isinstance(workload_file, ModelWorkload) else None
        cluster, notes = _cluster(cluster_file, device)
        workload = _build(workload_file, cluster, profile, findings)
        if workload and file:
            instance = CoOptimisation(
                name=file.name,
                cluster=cluster,
                workload=workload,
                search=file.search.build(),
                baselines=file.baselines.build(),
                source=document.file,
                sha256=_identity(file, profile),
                notes=notes,
            )
    return findings.settled(document, instance)


def _build(
    file: GraphWorkload | ModelWorkload, cluster: Cluster, profile: Profile | None, findings: Findings
) -> Workload | None:
    """The workload, its size and memory checked."""
    if isinstance(file, GraphWorkload):
        workload, positions = to_workload(file)

        def at(index: int) -> Path:
            return ("workload", "operators", positions[index])
    else:
        model = file
        built = findings.attempt(
            lambda: build_workload(
                model.model,
                model.sizes,
                servers=cluster.servers,
                gpus_per_server=cluster.gpus_per_server,
                costs=_costs(model.operator_times, profile, cluster),
                element_sizes=model.element_sizes,
            ),
            ("workload",) if profile is None else _PROFILE,
            source=profile.source if profile else None,
        )
        if built is None:
            return None
        workload = built

        def at(index: int) -> Path:
            return ("workload", "sizes")

    sizes = size_faults(workload, at)
    findings.add(sizes)
    findings.add(memory_faults(workload, cluster, at))
    return workload
