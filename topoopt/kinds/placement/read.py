"""Instances of kind `placement`: what a user writes, and the problem that it states.

The graph is listed, or made of a model of the library or by a generator. `PlacementInstance` is the file and the
keyword API; `resolve` makes the problem of it, or reports all errors, also of names, cycles, costs and memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, Len
from pydantic import Field

from topoopt.core.data import MAX_SERVERS, STRICT, FileName, Gbps, Label, Pattern, SchemaVersion
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.placement import (
    MAX_DEVICES,
    MAX_LINKS,
    MAX_OPERATORS,
    MAX_TENSORS,
    Device,
    GraphOperator,
    Latency,
    Link,
    PlacementProblem,
    Server,
    Tensor,
    Throughput,
)
from topoopt.core.result import SearchSettings
from topoopt.files import codec
from topoopt.files.codec import Bytes
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import MAX_LISTED, Issue, Path, nearest_text, value_text
from topoopt.files.job_document import topological_order
from topoopt.files.reader_fields import Findings
from topoopt.workloads.models import (
    GRAPH_FAMILIES,
    MODELS,
    PlacementGraph,
    branchy_graph,
    graph_of,
    model_graph,
    nodes_of,
)
from topoopt.workloads.operators import DEVICES

MAX_MS = 1e9
US_PER_MS = 1000.0

SHOWN_NAMES = 8
"""Names of a cycle or a group written out; more are counted."""

JOB_CLASS = "server"
"""Device class of the servers of a job."""

ClassName = Annotated[str, Len(1, 50), Pattern(r"^[a-z][a-z0-9_-]*$")]
Cost = Annotated[float, Ge(0), Le(MAX_MS)]
LatencyUs = Annotated[float, Ge(0), Le(1e6)]
Seed = Annotated[int, Ge(0), Le(2**63 - 1)]


@dataclass(frozen=True, kw_only=True)
class DeviceStatement:
    """Something operators run on, one at a time."""

    __pydantic_config__ = STRICT

    name: FileName
    """unique in the file"""
    device_class: Annotated[ClassName, Field(alias="class")]
    """class of the device, as in times_ms of the operators"""
    memory_bytes: Bytes | None = None
    """null: not limited"""
    host: bool = False
    """CPU of the pool: pays for no transfer itself, the other end does (objective throughput)"""


@dataclass(frozen=True, kw_only=True)
class ServerStatement:
    """A host with its devices."""

    __pydantic_config__ = STRICT

    name: FileName
    """unique in the file"""
    links: Annotated[tuple[Link, ...], Len(0, MAX_LINKS)] = ()
    """to the network"""
    intra_gbps: Gbps | None = None
    """between its devices, each direction, Gbit/s; null: as its links together"""
    devices: Annotated[tuple[DeviceStatement, ...], Len(0, MAX_DEVICES)] = ()
    """what it can run on"""


@dataclass(frozen=True, kw_only=True)
class OperatorStatement:
    """One operator."""

    __pydantic_config__ = STRICT

    name: Label
    """unique in the file"""
    times_ms: Annotated[dict[str, Cost | None], Len(1, 64)]
    """time on each device class, ms; null where it cannot run"""
    memory_bytes: Bytes = 0
    """resident on its device: weights, optimizer state, activations"""
    colocation: Label | None = None
    """operators with the same label share a device"""
    backward: bool = False
    """whether it belongs to the backward pass"""


@dataclass(frozen=True, kw_only=True)
class TensorStatement:
    """What an operator makes for others; it is sent once to each device that needs it."""

    __pydantic_config__ = STRICT

    producer: Label
    """name of the operator that makes it"""
    consumers: Annotated[tuple[Label, ...], Len(1, MAX_OPERATORS)]
    """names of the operators that read it"""
    size_bytes: Bytes


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A model of the library as one graph of forward and backward operators, each on one device."""

    __pydantic_config__ = STRICT

    model: Annotated[str, Field(json_schema_extra={"enum": [*MODELS]})]
    """model family"""
    sizes: Annotated[dict[str, int], Field(json_schema_extra={"default": {}})] = field(default_factory=dict)
    """sizes of the model, others keep their defaults; batch: micro-batch"""
    device: Annotated[str, Field(json_schema_extra={"enum": [*DEVICES]})]
    """analytic device model of the operator times"""
    training: bool = True
    """false: forward operators only"""
    device_class: ClassName = "gpu"
    """name of the device class"""


@dataclass(frozen=True, kw_only=True)
class GeneratorSource:
    """A generated graph with branches; the same numbers give the same graph."""

    __pydantic_config__ = STRICT

    family: Annotated[str, Field(json_schema_extra={"enum": [*GRAPH_FAMILIES]})]
    layers: Annotated[int, Ge(1), Le(1000)] = 4
    """depth"""
    branches: Annotated[int, Ge(1), Le(1000)] = 4
    """experts, towers or branches side by side"""
    training: bool = True
    """false: forward operators only"""
    seed: Seed = 0
    """of the generator; nothing to do with the seed of the search"""
    device_class: ClassName = "gpu"
    """name of the device class"""


Servers = Annotated[tuple[ServerStatement, ...], Len(1, MAX_SERVERS)]
Operators = Annotated[tuple[OperatorStatement, ...], Len(1, MAX_OPERATORS)]
Tensors = Annotated[tuple[TensorStatement, ...], Len(0, MAX_TENSORS)]


@dataclass(frozen=True, kw_only=True)
class PlacementInstance:
    """Place the operators of a graph on devices."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["placement"] = "placement"
    name: FileName = "placement"
    objective: Literal["throughput", "latency"]
    """least load of the busiest device of a pipeline, or least time of one step"""
    throughput: Throughput | None = None
    """only with objective throughput"""
    latency: Latency | None = None
    """only with objective latency"""
    transfer_latency_us: LatencyUs = 0.0
    """fixed time of a transfer between servers, microseconds"""
    intra_latency_us: LatencyUs = 0.0
    """the same between devices of a server, microseconds"""
    servers: Servers
    operators: Operators | None = None
    """the graph in full; its tensors form no cycle"""
    tensors: Tensors | None = None
    """of the operators"""
    workload: ModelSource | None = None
    """a model in place of operators and tensors"""
    generator: GeneratorSource | None = None
    """a generated graph in place of operators and tensors"""
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


SOURCES: Mapping[str, Any] = {"workload": ModelSource, "generator": GeneratorSource}


def resolve(document: Document) -> PlacementProblem:
    """Return the problem that an instance states.

    Raises:
        InputError: All errors of the file, as far as one error does not hide another.
    """
    raw = document.data if isinstance(document.data, dict) else {}
    findings = Findings()
    instance = findings.shape(PlacementInstance, document)
    findings.add(_combination_errors(raw))
    servers = _section(Servers, raw.get("servers"), instance and instance.servers)
    if servers is not None:
        findings.add(_server_errors(servers))
    operators = tensors = None
    if raw.get("operators") is not None:
        operators = _section(Operators, raw["operators"], instance and instance.operators)
    tensors = _section(Tensors, raw.get("tensors") or [], (instance and instance.tensors) or None)
    for key, shape in SOURCES.items():
        source = _section(shape, raw[key], instance and getattr(instance, key)) if raw.get(key) is not None else None
        graph = _graph(source, findings) if source is not None and operators is None else None
        if source is not None and graph is not None:
            classes = dict.fromkeys(device.device_class for server in (servers or ()) for device in server.devices)
            others = ", ".join(name for name in classes if name != source.device_class)
            if others:
                findings.add([Issue((key, "device_class"), "no times for other classes", others, "one class")])
            else:
                operators, tensors = _statements(graph, source.device_class)
    if operators is not None:
        findings.add(_operator_errors(operators, servers or ()))
        if tensors is not None:
            findings.add(_tensor_errors(tensors, operators))
    findings.refuse(document)
    if instance is None or operators is None or tensors is None:
        raise AssertionError("an instance file was neither built nor refused")
    return _problem(instance, operators, tensors)


def _section(shape: Any, raw: object, value: Any) -> Any:
    """Return a section of a document that may have errors elsewhere; None if it has errors itself."""
    return codec.read(shape, raw)[0] if value is None else value


def _combination_errors(raw: Mapping[str, object]) -> list[Issue]:
    errors = []
    given = [key for key in ("operators", "workload", "generator") if raw.get(key) is not None]
    allowed = "one of operators (with tensors), workload and generator"
    if len(given) != 1:
        message = "no graph" if not given else f"more than one graph: {', '.join(given)}"
        errors.append(Issue((given[-1],) if given else (), message, allowed=allowed))
    elif raw.get("tensors") is not None and given != ["operators"]:
        errors.append(Issue(("tensors",), "tensors without operators", allowed=allowed))
    for key, other in (("throughput", "latency"), ("latency", "throughput")):
        if raw.get("objective") == other and raw.get(key) is not None:
            errors.append(Issue((key,), f"options of objective {key}, but the objective is {other}"))
    options = raw.get("throughput")
    if (
        isinstance(options, dict)
        and options.get("stages") != "interleaved"
        and options.get("stages_per_device", 1) != 1
    ):
        where = ("throughput", "stages_per_device")
        errors.append(Issue(where, "only interleaved stages are several a device", allowed="stages: interleaved"))
    return errors


def _graph(source: ModelSource | GeneratorSource, findings: Findings) -> PlacementGraph | None:
    if isinstance(source, ModelSource):
        return findings.attempt(
            lambda: model_graph(source.model, source.sizes, source.device, training=source.training), ("workload",)
        )
    return findings.attempt(
        lambda: branchy_graph(source.family, source.layers, source.branches, source.seed, training=source.training),
        ("generator",),
    )


def _statements(graph: PlacementGraph, device_class: str) -> tuple[Operators, Tensors]:
    """Return a graph as it could stand in the file, so that it passes the same checks."""
    named, sized = graph
    names = [operator.name for operator in named]
    operators = tuple(
        OperatorStatement(
            name=operator.name,
            times_ms={device_class: operator.times_ms[0]},
            memory_bytes=operator.memory_bytes,
            colocation=operator.colocation,
            backward=operator.backward,
        )
        for operator in named
    )
    tensors = tuple(
        TensorStatement(
            producer=names[tensor.producer],
            consumers=tuple(names[user] for user in tensor.consumers),
            size_bytes=tensor.size_bytes,
        )
        for tensor in sized
    )
    return operators, tensors


def _hardware(
    statements: Sequence[ServerStatement],
) -> tuple[tuple[str, ...], tuple[Server, ...], tuple[Device, ...]]:
    classes = tuple(dict.fromkeys(device.device_class for server in statements for device in server.devices))
    servers = tuple(Server(server.name, server.links, server.intra_gbps) for server in statements)
    devices = tuple(
        Device(device.name, index, classes.index(device.device_class), device.memory_bytes, device.host)
        for index, server in enumerate(statements)
        for device in server.devices
    )
    return classes, servers, devices


def _problem(
    instance: PlacementInstance, operators: Sequence[OperatorStatement], tensors: Sequence[TensorStatement]
) -> PlacementProblem:
    classes, servers, devices = _hardware(instance.servers)
    index = {operator.name: i for i, operator in enumerate(operators)}
    never = float("inf")

    def times(operator: OperatorStatement) -> tuple[float, ...]:
        listed = [operator.times_ms[name] for name in classes]
        return tuple(never if time is None else time for time in listed)

    hyperedges = [
        Tensor(index[tensor.producer], tuple(sorted(index[name] for name in tensor.consumers)), tensor.size_bytes)
        for tensor in tensors
    ]
    throughput, latency = instance.throughput or Throughput(), instance.latency or Latency()
    return PlacementProblem(
        name=instance.name,
        classes=classes,
        operators=tuple(
            GraphOperator(entry.name, times(entry), entry.memory_bytes, entry.colocation, entry.backward)
            for entry in operators
        ),
        tensors=tuple(sorted(hyperedges, key=lambda tensor: tensor.producer)),
        servers=servers,
        devices=devices,
        objective=throughput if instance.objective == "throughput" else latency,
        transfer_latency_ms=instance.transfer_latency_us / US_PER_MS,
        intra_latency_ms=instance.intra_latency_us / US_PER_MS,
        search=instance.search,
        sha256=canonical_sha256(codec.plain(instance)),
    )


# Errors of servers, operators and tensors.


def _repeated(names: Iterable[tuple[Path, str]], what: str) -> list[Issue]:
    first: dict[str, Path] = {}
    errors = []
    for path, name in names:
        if name in first:
            errors.append(Issue((*path, "name"), f"the name of another {what}", value_text(name), "each name once"))
        first.setdefault(name, path)
    return errors


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(value_text(name) for name in names[:SHOWN_NAMES])
    return text if len(names) <= SHOWN_NAMES else f"{text} and {len(names) - SHOWN_NAMES} more"


def _server_errors(servers: Sequence[ServerStatement]) -> list[Issue]:
    at: list[tuple[Path, str]] = [(("servers", i), server.name) for i, server in enumerate(servers)]
    errors = _repeated(at, "server")
    errors += _repeated(
        (
            (("servers", i, "devices", j), device.name)
            for i, server in enumerate(servers)
            for j, device in enumerate(server.devices)
        ),
        "device",
    )
    for i, server in enumerate(servers):
        errors += _repeated(((("servers", i, "links", j), link.name) for j, link in enumerate(server.links)), "link")
        if len(servers) > 1 and not server.links:
            errors.append(Issue(("servers", i, "links"), "no link to the other servers", allowed="at least one"))
        elif not server.links and len(server.devices) > 1 and server.intra_gbps is None:
            allowed = "intra_gbps or links"
            errors.append(Issue(("servers", i), "no rate between the devices of the server", allowed=allowed))
    if not any(server.devices for server in servers):
        errors.append(Issue(("servers",), "no device at all", allowed="at least one server with devices"))
    return errors


def _runs_on(operator: OperatorStatement, device: DeviceStatement) -> bool:
    return operator.times_ms.get(device.device_class) is not None


def _operator_errors(operators: Sequence[OperatorStatement], servers: Sequence[ServerStatement]) -> list[Issue]:
    errors = _repeated(((("operators", i), operator.name) for i, operator in enumerate(operators)), "operator")
    devices = [device for server in servers for device in server.devices]
    classes = list(dict.fromkeys(device.device_class for device in devices))
    if not devices:
        return errors
    groups: dict[str, list[int]] = {}
    for i, operator in enumerate(operators):
        if len(errors) >= MAX_LISTED:
            return errors
        path: Path = ("operators", i)
        missing = [name for name in classes if name not in operator.times_ms]
        if missing:
            allowed = f"a time, or null where it cannot run, for each of {', '.join(classes)}"
            errors.append(Issue((*path, "times_ms"), "no time for a device class", ", ".join(missing), allowed))
            continue
        able = [device for device in devices if _runs_on(operator, device)]
        if not able:
            errors.append(Issue(path, "the operator runs on no device", value_text(operator.name)))
        elif all(device.memory_bytes is not None and operator.memory_bytes > device.memory_bytes for device in able):
            most = max(device.memory_bytes or 0 for device in able)
            text = f"{operator.memory_bytes} bytes of {value_text(operator.name)}"
            allowed = f"at most {most}, the memory of the largest device it runs on"
            errors.append(Issue((*path, "memory_bytes"), "the operator fits no device", text, allowed))
        elif operator.colocation is not None:
            groups.setdefault(operator.colocation, []).append(i)
    for label, members in groups.items():
        errors += _group_errors(label, [operators[i] for i in members], ("operators", members[0]), devices)
    return errors


def _group_errors(
    label: str, members: Sequence[OperatorStatement], path: Path, devices: Sequence[DeviceStatement]
) -> list[Issue]:
    where = (*path, "colocation")
    names = _listed([operator.name for operator in members])
    able = [device for device in devices if all(_runs_on(operator, device) for operator in members)]
    if not able:
        text = f"no device runs all operators of a co-located group: {names}"
        return [Issue(where, text, value_text(label))]
    total = sum(operator.memory_bytes for operator in members)
    if all(device.memory_bytes is not None and total > device.memory_bytes for device in able):
        most = max(device.memory_bytes or 0 for device in able)
        text = f"a co-located group fits no device, {total} bytes: {names}"
        return [Issue(where, text, value_text(label), f"at most {most} bytes together")]
    return []


def _tensor_errors(tensors: Sequence[TensorStatement], operators: Sequence[OperatorStatement]) -> list[Issue]:
    index = {operator.name: i for i, operator in enumerate(operators)}
    errors: list[Issue] = []
    inputs: list[list[int]] = [[] for _ in operators]
    for i, tensor in enumerate(tensors):
        if len(errors) >= MAX_LISTED:
            return errors
        for key, name in (("producer", tensor.producer), *(("consumers", name) for name in tensor.consumers)):
            if name not in index:
                allowed = nearest_text(name, index)
                errors.append(Issue(("tensors", i, key), "no operator of that name", value_text(name), allowed))
            elif key == "consumers" and tensor.producer in index:
                inputs[index[name]].append(index[tensor.producer])
        if len(set(tensor.consumers)) < len(tensor.consumers):
            errors.append(Issue(("tensors", i, "consumers"), "a consumer more than once", allowed="each once"))
    if not errors:
        _, cycle = topological_order(inputs)
        if cycle:
            names = _listed([operators[i].name for i in cycle])
            errors.append(Issue(("tensors",), f"the graph has a cycle of {len(cycle)} operators", names, "no cycle"))
    return errors


# Jobs as instances.


def job_document(problem: CoOptimisation, *, objective: str, name: str, training: bool) -> dict[str, Any]:
    """Return an instance document of the job of a co-optimisation instance, a server being one device.

    Times are those of an operator whole on one server, on the whole batch.

    Raises:
        InputError: Operators cannot run whole on one server, or are larger than its memory.
    """
    cluster = problem.cluster
    try:
        operators, tensors = graph_of(nodes_of(problem.workload), training=training)
    except InputError as error:
        hint = "an instance with a smaller batch, or more memory a GPU"
        problems = [Problem(p.message, problem.source or None, value=p.value, allowed=hint) for p in error.problems]
        raise InputError(problems) from None
    names = [operator.name for operator in operators]
    return {
        "schema_version": 1,
        "kind": "placement",
        "name": name,
        "objective": objective,
        "transfer_latency_us": cluster.hop_latency_us,
        "servers": [
            {
                "name": f"server{i}",
                "links": [{"name": f"eth{j}", "gbps": cluster.link_gbps} for j in range(cluster.degree)],
                "devices": [{"name": f"device{i}", "class": JOB_CLASS, "memory_bytes": cluster.server_memory_bytes}],
            }
            for i in range(cluster.servers)
        ],
        "operators": [
            {
                "name": operator.name,
                "times_ms": {JOB_CLASS: operator.times_ms[0]},
                "memory_bytes": operator.memory_bytes,
                "colocation": operator.colocation,
                "backward": operator.backward,
            }
            for operator in operators
        ],
        "tensors": [
            {
                "producer": names[tensor.producer],
                "consumers": [names[user] for user in tensor.consumers],
                "size_bytes": tensor.size_bytes,
            }
            for tensor in tensors
        ],
    }
