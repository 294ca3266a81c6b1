"""Instance files of kind `co-optimisation`: their shape, the checks beyond it, and the way to the problem."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Annotated, Literal, TypeVar, get_args

from annotated_types import Ge, Gt, Le, Len
from pydantic import Discriminator, Field, Tag, ValidationError

from topoopt.core.arrays import GIB
from topoopt.core.cluster import Cluster, ComputeOrder, LinkDirection, LinkSharing, LocalAllReduce
from topoopt.core.data import MAX_SERVERS, STRICT, FileName, Gbps, Label, Names, SchemaVersion, Server
from topoopt.core.job import BaselineSettings, CoOptimisation
from topoopt.core.result import JobSearchSettings
from topoopt.core.workload import GRADIENT_BYTES, Operator, OperatorInput, Split, Workload
from topoopt.files import codec
from topoopt.files.codec import (
    MAX_OPERATORS,
    MAX_SAMPLES,
    Bytes,
    Count,
    KindName,
    LatencyUs,
    PartCount,
    PositiveCount,
    TimeMs,
)
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import MAX_LISTED, Issue, Path, nearest_text, value_text
from topoopt.files.job_document import read_profile, topological_order
from topoopt.files.reader_fields import Findings
from topoopt.page.text import counted
from topoopt.workloads.models import MODELS, build_workload, find_model
from topoopt.workloads.operators import DEVICES, CostModel, Profile, ProfileCosts, all_parameters, complete_sizes

_SIZES = "; ".join(
    f"{model.name}: " + ", ".join(f"{size.name} ({size.default})" for size in all_parameters(model))
    for model in MODELS.values()
)


@dataclass(frozen=True, kw_only=True)
class ClusterFile:
    """The servers and their links."""

    __pydantic_config__ = STRICT

    servers: Annotated[int, Ge(2), Le(MAX_SERVERS)]
    """n"""
    gpus_per_server: Annotated[int, Ge(1), Le(64)]
    degree: Annotated[int, Ge(1), Le(64)]
    """d, optical interfaces of a server"""
    link_gbps: Gbps
    """rate of one interface in each direction, Gbit/s"""
    links: Annotated[LinkDirection, Names(LinkDirection)] = LinkDirection.BIDIRECTIONAL
    """a link takes an interface at both ends, or its two fibres are patched apart"""
    hop_latency_us: LatencyUs = 1.0
    """latency of one hop, microseconds"""
    ring_round_latency_us: LatencyUs = 2.1
    """fixed cost of one AllReduce ring round, microseconds"""
    intra_server_gbps: Gbps = 2400.0
    """rate between the GPUs of a server, Gbit/s"""
    local_allreduce: Annotated[LocalAllReduce, Names(get_args(LocalAllReduce))] = "ring"
    """time model of the AllReduce in a server"""
    link_sharing: Annotated[LinkSharing, Names(LinkSharing)] = LinkSharing.FIFO
    """flows take turns of a segment on a link, each request is served whole, or transfers go before AllReduces"""
    compute_order: Annotated[ComputeOrder, Names(ComputeOrder)] = ComputeOrder.ARRIVAL
    """a server computes what became ready first, or what has the longest path of compute to the end"""
    gpu_memory_gib: Annotated[float, Gt(0), Le(1e6)] | None = None
    """memory of a GPU; null: unchecked; left out: that of the device of the operator times, if any"""


@dataclass(frozen=True, kw_only=True)
class OperatorTimes:
    """Where operator times come from: exactly one of the two."""

    __pydantic_config__ = STRICT

    device: Annotated[str | None, Field(json_schema_extra={"enum": [*DEVICES, None]})] = None
    """analytic device model"""
    profile: Annotated[str, Len(1, 1000)] | None = None
    """measured profile, relative to the folder of this file"""


@dataclass(frozen=True, kw_only=True)
class ModelWorkload:
    """A model with its sizes."""

    __pydantic_config__ = STRICT

    model: Annotated[str, Field(json_schema_extra={"enum": [*MODELS]})]
    """model family"""
    sizes: Annotated[
        dict[str, int],
        Field(
            description=f"sizes of the model, others keep their defaults. {_SIZES}", json_schema_extra={"default": {}}
        ),
    ] = field(default_factory=dict)
    element_sizes: Literal["actual", "flexnet"] = "actual"
    """bytes of an activation element on the network; flexnet: 8 from embedding tables on"""
    operator_times: OperatorTimes


@dataclass(frozen=True, kw_only=True)
class SplitFile:
    """One way to spread an operator, with its cost per part; the number of parts divides the servers."""

    __pydantic_config__ = STRICT

    sample_ways: PartCount
    """parts along the batch; divides samples"""
    channel_ways: PartCount = 1
    """parts along the output channels"""
    reduce_ways: PartCount = 1
    """parts along the input channels"""
    forward_ms: TimeMs
    """forward time of one part on one server, ms"""
    backward_ms: TimeMs
    """backward time of one part on one server, ms"""
    server_memory_bytes: Bytes = 0
    """memory of one part over all GPUs of its server"""


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """An input tensor."""

    __pydantic_config__ = STRICT

    operator: Label
    """name of the operator that produces it"""
    fraction: Annotated[float, Gt(0), Le(1)] = 1.0
    """share of each sample's elements that is read"""


@dataclass(frozen=True, kw_only=True)
class OperatorFile:
    """One operator."""

    __pydantic_config__ = STRICT

    name: Label
    """unique in the workload"""
    kind: KindName
    """class of the operator, for people: dense, embedding, conv, ..."""
    output_elements: PositiveCount
    """elements of the output tensor per sample"""
    element_bytes: Annotated[int, Ge(1), Le(64)] = 4
    """bytes of an output element on the network"""
    weight_elements: Annotated[tuple[Count, ...], Len(0, 1000)] = ()
    """elements of every weight tensor"""
    inputs: Annotated[tuple[InputFile, ...], Len(0, MAX_OPERATORS)] = ()
    """input tensors"""
    mixes_channels: bool = True
    """whether an output channel needs all input channels"""
    locally_reduced: bool = True
    """whether gradients are first all-reduced inside the server"""
    pinned_offset: Server | None = None
    """offset of every placement, less than servers / parts; null: free"""
    splits: Annotated[tuple[SplitFile, ...], Len(1, 1000)]


@dataclass(frozen=True, kw_only=True)
class GraphWorkload:
    """An operator graph in full."""

    __pydantic_config__ = STRICT

    name: Label
    samples: Annotated[int, Ge(1), Le(MAX_SAMPLES)]
    """global batch"""
    operators: Annotated[tuple[OperatorFile, ...], Len(1, MAX_OPERATORS)]
    """in any order; the graph has no cycle"""


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


@dataclass(frozen=True, kw_only=True)
class CoOptimisationInstance:
    """Find strategy, topology and routes of least iteration time."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["co-optimisation"] = "co-optimisation"
    name: FileName = "co-optimisation"
    cluster: ClusterFile
    workload: WorkloadFile
    search: JobSearchSettings = JobSearchSettings()  # noqa: RUF009 - frozen
    baselines: BaselineSettings = BaselineSettings()  # noqa: RUF009 - frozen


_OPERATORS: Path = ("workload", "operators")


def _split_issues(split: SplitFile, path: Path, servers: int | None, samples: int | None, output: int) -> list[Issue]:
    issues = []
    parts = split.sample_ways * split.channel_ways * split.reduce_ways
    if servers is not None and servers % parts:
        product = f"{split.sample_ways} x {split.channel_ways} x {split.reduce_ways} = {parts} parts"
        issues.append(Issue(path, "the split does not divide the servers", product, f"parts that divide {servers}"))
    if samples is not None and samples % split.sample_ways:
        where = (*path, "sample_ways")
        message = "the split does not divide the samples"
        issues.append(Issue(where, message, str(split.sample_ways), f"a divisor of {samples}"))
    if split.channel_ways > output:
        where = (*path, "channel_ways")
        message = "more parts than output elements"
        issues.append(Issue(where, message, str(split.channel_ways), f"at most {output}"))
    return issues


def _operator_issues(
    operator: OperatorFile, path: Path, names: Mapping[str, int], servers: int | None, samples: int | None
) -> list[Issue]:
    issues = []
    seen: dict[tuple[int, int, int], int] = {}
    for position, split in enumerate(operator.splits):
        where = (*path, "splits", position)
        issues += _split_issues(split, where, servers, samples, operator.output_elements)
        shape = (split.sample_ways, split.channel_ways, split.reduce_ways)
        if shape in seen:
            issues.append(Issue(where, f"the same ways as splits[{seen[shape]}]", allowed="each split once"))
        seen.setdefault(shape, position)
    most = max(split.sample_ways * split.channel_ways * split.reduce_ways for split in operator.splits)
    if operator.pinned_offset is not None and servers is not None and operator.pinned_offset * most >= servers:
        where = (*path, "pinned_offset")
        allowed = f"less than servers / parts = {servers} / {most}"
        issues.append(Issue(where, "the offset is too large for a split", str(operator.pinned_offset), allowed))
    for position, source in enumerate(operator.inputs):
        if source.operator not in names:
            where = (*path, "inputs", position, "operator")
            allowed = nearest_text(source.operator, names)
            issues.append(Issue(where, "no operator of that name", value_text(source.operator), allowed))
    return issues


def _valid_operators(raw: object) -> list[tuple[int, OperatorFile]]:
    """The operators that follow the schema, with their positions; the others are reported elsewhere."""
    operators = []
    for index, entry in enumerate(raw if isinstance(raw, list) else []):
        try:
            operators.append((index, codec.adapter(OperatorFile).validate_json(json.dumps(entry))))
        except ValidationError:
            continue
    return operators


def graph_issues(raw: Mapping[str, object], servers: int | None) -> list[Issue]:
    """What is wrong with a workload in full beyond its schema, so far as the parts that follow it tell.

    Operators are looked at until there is more to say than is shown.
    """
    entries = raw.get("operators")
    listed = entries if isinstance(entries, list) else []
    names: dict[str, int] = {}
    issues = []
    for index, entry in enumerate(listed):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if name in names:
            where = (*_OPERATORS, index, "name")
            message = f"the name of operators[{names[name]}] again"
            issues.append(Issue(where, message, value_text(name), "each name once"))
        names.setdefault(name, index)
    samples = raw.get("samples")
    batch = samples if isinstance(samples, int) and not isinstance(samples, bool) and samples > 0 else None
    producers: list[list[int]] = [[] for _ in listed]
    for index, operator in _valid_operators(listed):
        if len(issues) <= MAX_LISTED:
            issues += _operator_issues(operator, (*_OPERATORS, index), names, servers, batch)
        producers[index] = [names[source.operator] for source in operator.inputs if source.operator in names]
    _, cycle = topological_order(producers)
    if cycle:
        first = cycle.index(min(cycle))
        turn = cycle[first:] + cycle[: first + 1]
        text = " -> ".join(value_text(listed[index]["name"]) for index in turn[:20])
        text += " -> ..." if len(turn) > 20 else ""
        where = (*_OPERATORS, min(cycle), "inputs")
        issues.append(Issue(where, f"the operators form a cycle: {text}", allowed="a graph without cycles"))
    return issues


def to_workload(file: GraphWorkload) -> tuple[Workload, list[int]]:
    """A checked graph as a `Workload`, and for each of its operators the position in the file."""
    names = {operator.name: index for index, operator in enumerate(file.operators)}
    order, _ = topological_order([[names[source.operator] for source in op.inputs] for op in file.operators])
    rank = {index: position for position, index in enumerate(order)}
    operators = []
    for entry in (file.operators[index] for index in order):
        inputs = tuple(OperatorInput(rank[names[edge.operator]], edge.fraction) for edge in entry.inputs)
        splits = tuple(Split(**vars(split)) for split in entry.splits)
        operators.append(Operator(**{**vars(entry), "inputs": inputs, "splits": splits}))
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
        blocks = split.channel_ways * split.reduce_ways
        largest[blocks] = max(largest.get(blocks, 0), split.sample_ways)
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
    cached: dict[tuple[Cuts, Cuts], int] = {}
    total = 0
    for index, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            pair = (cuts[edge.producer], cuts[index])
            if pair not in cached:
                cached[pair] = _transfers(*pair)
            total += cached[pair]
            if total > MAX_TRANSFERS:
                return total
    return total


def size_issues(workload: Workload, at: Callable[[int], Path]) -> list[Issue]:
    """Faults of a workload that is too large; `at` gives the path of an operator in the file."""
    issues = []
    if len(workload.operators) > MAX_OPERATORS:
        message = "too many operators"
        issues.append(Issue(("workload",), message, str(len(workload.operators)), f"at most {MAX_OPERATORS}"))
        return issues
    tensors = 0
    for index, operator in enumerate(workload.operators):
        output_bytes = workload.samples * operator.output_elements * operator.element_bytes
        tensors += output_bytes * max(1, len(operator.inputs))
        if output_bytes > MAX_TENSOR_BYTES:
            message = "the output tensor is too large (samples x output_elements x element_bytes)"
            issues.append(Issue(at(index), message, f"{output_bytes} bytes", f"at most {MAX_TENSOR_BYTES} bytes"))
    weights = GRADIENT_BYTES * sum(sum(operator.weight_elements) for operator in workload.operators)
    for what, total in (("output tensors", tensors), ("weights", weights)):
        if total > MAX_TOTAL_BYTES:
            message = f"all {what} together are too large"
            issues.append(Issue(("workload",), message, f"{total} bytes", f"at most {MAX_TOTAL_BYTES} bytes"))
    parts = sum(max(split.parts for split in operator.splits) for operator in workload.operators)
    if parts > MAX_COMPUTE_TASKS:
        message = "too many operator parts in the finest splits"
        issues.append(Issue(("workload",), message, str(parts), f"at most {MAX_COMPUTE_TASKS}"))
    transfers = _all_transfers(workload)
    if transfers > MAX_TRANSFERS:
        message = "too many transfers in the worst pairs of splits"
        allowed = f"at most {MAX_TRANSFERS}: fewer operators, servers or channel splits"
        issues.append(Issue(("workload",), message, f"at least {transfers}", allowed))
    return issues


def memory_issues(workload: Workload, cluster: Cluster, at: Callable[[int], Path]) -> list[Issue]:
    """At most one reason why no strategy of a workload fits the memory of the cluster."""
    server = cluster.server_memory_bytes
    if server is None:
        return []
    smallest = [min(split.server_memory_bytes for split in operator.splits) for operator in workload.operators]
    large = [index for index, size in enumerate(smallest) if size > server]
    if large:
        index = max(large, key=lambda index: smallest[index])
        others = f" (like {counted(len(large) - 1, 'more operator')})" if len(large) > 1 else ""
        message = f"operator {workload.operators[index].name} does not fit the memory of a server in any split{others}"
        allowed = f"at most {server} bytes, the memory of a server"
        return [Issue(at(index), message, f"{smallest[index]} bytes", allowed)]
    total = sum(min(split.server_memory_bytes * split.parts for split in op.splits) for op in workload.operators)
    if total <= server * cluster.servers:
        return []
    message = "the workload does not fit the memory of the cluster even in its smallest splits"
    allowed = f"at most {server * cluster.servers} bytes: {cluster.servers} servers of {server}"
    return [Issue(("workload",), message, f"{total} bytes", allowed)]


Section = TypeVar("Section")

UNCHECKED_GIB = 1 << 40
"""Memory of a GPU when it is not to be checked."""

_TIMES: Path = ("workload", "operator_times")
_PROFILE: Path = (*_TIMES, "profile")


def _declared_servers(raw: object) -> int | None:
    servers = raw.get("servers") if isinstance(raw, dict) else None
    right = isinstance(servers, int) and not isinstance(servers, bool) and 2 <= servers <= MAX_SERVERS
    return servers if right else None


def _check_model(raw: Mapping[str, object], findings: Findings) -> None:
    name, sizes = raw.get("model"), raw.get("sizes", {})
    if not isinstance(name, str):
        return
    try_name = findings.attempt(lambda: find_model(name), ("workload", "model"))
    if try_name is not None and isinstance(sizes, dict):
        findings.attempt(lambda: complete_sizes(try_name, sizes), ("workload", "sizes"))


def _check_times(times: OperatorTimes, folder: FilePath, findings: Findings) -> Profile | None:
    """Exactly one known source of operator times; the profile, if it is one."""
    if (times.device is None) == (times.profile is None):
        findings.add([Issue(_TIMES, "exactly one source of operator times", allowed="either device or profile")])
        return None
    if times.device is not None and times.device not in DEVICES:
        where = (*_TIMES, "device")
        findings.add([Issue(where, "no such device", value_text(times.device), nearest_text(times.device, DEVICES))])
    if times.profile is None:
        return None
    file = folder / times.profile
    try:
        regular = file.is_file()
    except (OSError, ValueError):
        regular = False
    if not regular:
        allowed = "a profile file, relative to the folder of the instance file"
        findings.add([Issue(_PROFILE, "no such file", value_text(times.profile), allowed)])
        return None
    return findings.attempt(lambda: read_profile(file), _PROFILE)


def _cluster(file: ClusterFile, device: str | None) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster; its GPU memory is that of the device where the file does not speak of it."""
    values = vars(file).copy()
    memory_gib = values.pop("gpu_memory_gib")
    notes: tuple[str, ...] = ()
    if device is not None:
        memory_gib = float(DEVICES[device].memory_gib)
        notes = (f"memory of a GPU taken as {memory_gib:g} GiB, that of {device}",)
    memory = None if memory_gib is None else int(memory_gib * GIB)
    return Cluster(**values, gpu_memory_bytes=memory), notes


def _costs(times: OperatorTimes, profile: Profile | None, cluster: Cluster) -> CostModel:
    if profile is not None:
        return ProfileCosts(profile)
    device = DEVICES[str(times.device)]
    memory = cluster.gpu_memory_bytes
    # The device leaves out splits beyond its memory: it must know the memory the user states, not the catalogue's.
    return dataclasses.replace(device, memory_gib=UNCHECKED_GIB if memory is None else math.ceil(memory / GIB))


def _identity(file: CoOptimisationInstance, profile: Profile | None, *, memory_given: bool) -> str:
    """Hash of the instance with defaults written out; a profile counts by its content, not by its name."""
    document = codec.plain(file)
    if not memory_given:
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


def _section(shape: type[Section], raw: object) -> Section | None:
    """A section of a document that has errors elsewhere, in its shape; None if it has some itself."""
    section: Section | None = codec.read(shape, raw)[0]
    return section


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
    cluster_file = file.cluster if file else _section(ClusterFile, raw.get("cluster"))
    raw_workload = raw.get("workload")
    workload_file: GraphWorkload | ModelWorkload | None = None
    profile: Profile | None = None
    if isinstance(raw_workload, dict) and workload_shape(raw_workload) == "GraphWorkload":
        listed = raw_workload.get("operators")
        if isinstance(listed, list) and len(listed) <= MAX_OPERATORS:
            servers = cluster_file.servers if cluster_file else _declared_servers(raw.get("cluster"))
            findings.add(graph_issues(raw_workload, servers))
        workload_file = file.workload if file else _section(GraphWorkload, raw_workload)
    elif isinstance(raw_workload, dict):
        _check_model(raw_workload, findings)
        times = _section(OperatorTimes, raw_workload.get("operator_times"))
        if times is not None:
            profile = _check_times(times, FilePath(document.file).parent, findings)
        workload_file = file.workload if file else _section(ModelWorkload, raw_workload)
    instance = None
    if cluster_file and workload_file and not document.issues and findings.clear_of("cluster", "workload"):
        memory_given = "gpu_memory_gib" in raw["cluster"]
        device = workload_file.operator_times.device if isinstance(workload_file, ModelWorkload) else None
        cluster, notes = _cluster(cluster_file, None if memory_given else device)
        workload = _build(workload_file, cluster, profile, findings)
        if workload and file:
            instance = CoOptimisation(
                name=file.name,
                cluster=cluster,
                workload=workload,
                search=file.search,
                baselines=file.baselines,
                source=document.file,
                sha256=_identity(file, profile, memory_given=memory_given),
                notes=notes,
            )
    return findings.settled(document, instance)


def _build(
    file: GraphWorkload | ModelWorkload, cluster: Cluster, profile: Profile | None, findings: Findings
) -> Workload | None:
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

    findings.add(size_issues(workload, at))
    findings.infeasible += memory_issues(workload, cluster, at)
    return workload
