"""Instance files of kind `placement` to the domain object: all checks, then the build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import TypeAdapter

from topoopt.core.placement import Device, GraphOperator, PlacementProblem, Server, Tensor
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings, fitting
from topoopt.kinds.placement.faults import operator_faults, server_faults, tensor_faults
from topoopt.kinds.placement.schema import (
    GeneratorFile,
    GraphOperatorFile,
    JobFile,
    LatencyFile,
    PlacementFile,
    PlacementServerFile,
    TensorFile,
    ThroughputFile,
)
from topoopt.workloads.branchy import branchy_graph
from topoopt.workloads.placement_graph import PlacementGraph, model_graph

_SERVERS: TypeAdapter[list[PlacementServerFile]] = TypeAdapter(list[PlacementServerFile])
_OPERATORS: TypeAdapter[list[GraphOperatorFile]] = TypeAdapter(list[GraphOperatorFile])
_SOURCES: dict[str, TypeAdapter[JobFile | GeneratorFile]] = {
    "workload": TypeAdapter(JobFile),
    "generator": TypeAdapter(GeneratorFile),
}
_TENSORS: TypeAdapter[list[TensorFile]] = TypeAdapter(list[TensorFile])

Section = TypeVar("Section")
US_PER_MS = 1000.0


def _shape_faults(raw: Mapping[str, object]) -> list[Fault]:
    """One graph, and options of the chosen objective only."""
    faults = []
    given = [key for key in ("operators", "workload", "generator") if raw.get(key) is not None]
    allowed = "one of operators (with tensors), workload and generator"
    if len(given) != 1:
        message = "no graph" if not given else f"more than one graph: {', '.join(given)}"
        faults.append(Fault((given[-1],) if given else (), message, allowed=allowed))
    elif raw.get("tensors") is not None and given != ["operators"]:
        faults.append(Fault(("tensors",), "tensors without operators", allowed=allowed))
    for key, other in (("throughput", "latency"), ("latency", "throughput")):
        if raw.get("objective") == other and raw.get(key) is not None:
            faults.append(Fault((key,), f"options of objective {key}, but the objective is {other}"))
    options = raw.get("throughput")
    if (
        isinstance(options, dict)
        and options.get("stages") != "interleaved"
        and options.get("stages_per_device", 1) != 1
    ):
        where = ("throughput", "stages_per_device")
        faults.append(Fault(where, "only interleaved stages are several a device", allowed="stages: interleaved"))
    return faults


def _plain_graph(file: JobFile | GeneratorFile, findings: Findings) -> PlacementGraph | None:
    if isinstance(file, JobFile):
        return findings.attempt(
            lambda: model_graph(file.model, file.sizes, file.device, training=file.training), ("workload",)
        )
    return findings.attempt(
        lambda: branchy_graph(file.family, file.layers, file.branches, file.seed, training=file.training),
        ("generator",),
    )


def _other_classes(servers: list[PlacementServerFile], known: str) -> str:
    """Device classes a graph of one class has no times for."""
    classes = dict.fromkeys(device.device_class for server in servers for device in server.devices)
    return ", ".join(name for name in classes if name != known)


def _written(graph: PlacementGraph, device_class: str) -> tuple[list[GraphOperatorFile], list[TensorFile]]:
    """A graph as it could stand in the file, so that it passes the same checks."""
    names = [operator.name for operator in graph.operators]
    operators = [
        GraphOperatorFile(
            name=operator.name,
            times_ms={device_class: operator.times_ms[0]},
            memory_bytes=operator.memory_bytes,
            colocation=operator.colocation,
            backward=operator.backward,
        )
        for operator in graph.operators
    ]
    tensors = [
        TensorFile(
            producer=names[tensor.producer],
            consumers=[names[user] for user in tensor.consumers],
            size_bytes=tensor.size_bytes,
        )
        for tensor in graph.tensors
    ]
    return operators, tensors


def _hardware(files: list[PlacementServerFile]) -> tuple[tuple[str, ...], tuple[Server, ...], tuple[Device, ...]]:
    classes = tuple(dict.fromkeys(device.device_class for file in files for device in file.devices))
    servers = tuple(Server(file.name, tuple(link.build() for link in file.links), file.intra_gbps) for file in files)
    devices = tuple(
        Device(entry.name, index, classes.index(entry.device_class), entry.memory_bytes, entry.host)
        for index, file in enumerate(files)
        for entry in file.devices
    )
    return classes, servers, devices


def _built(file: PlacementFile, operators: list[GraphOperatorFile], tensors: list[TensorFile]) -> PlacementProblem:
    classes, servers, devices = _hardware(file.servers)
    index = {operator.name: i for i, operator in enumerate(operators)}
    never = float("inf")

    def times(operator: GraphOperatorFile) -> tuple[float, ...]:
        stated = [operator.times_ms[name] for name in classes]
        return tuple(never if time is None else time for time in stated)

    hyperedges = [
        Tensor(index[tensor.producer], tuple(sorted(index[name] for name in tensor.consumers)), tensor.size_bytes)
        for tensor in tensors
    ]
    return PlacementProblem(
        name=file.name,
        classes=classes,
        operators=tuple(
            GraphOperator(entry.name, times(entry), entry.memory_bytes, entry.colocation, entry.backward)
            for entry in operators
        ),
        tensors=tuple(sorted(hyperedges, key=lambda tensor: tensor.producer)),
        servers=servers,
        devices=devices,
        objective=(file.throughput or ThroughputFile()).build()
        if file.objective == "throughput"
        else (file.latency or LatencyFile()).build(),
        transfer_latency_ms=file.transfer_latency_us / US_PER_MS,
        intra_latency_ms=file.intra_latency_us / US_PER_MS,
        search=file.search.build(),
        sha256=canonical_sha256(file.model_dump(mode="json", by_alias=True)),
    )


def read_placement(document: Document) -> PlacementProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    raw = document.data if isinstance(document.data, dict) else {}
    findings = Findings()
    file = findings.shape(PlacementFile, document)
    findings.add(_shape_faults(raw))
    servers = fitting(_SERVERS, raw.get("servers"))
    if servers is not None:
        findings.add(server_faults(servers))
    operators = fitting(_OPERATORS, raw["operators"]) if raw.get("operators") is not None else None
    tensors = fitting(_TENSORS, raw.get("tensors") or [])
    for key, source in _SOURCES.items():
        plain = fitting(source, raw[key]) if raw.get(key) is not None else None
        graph = _plain_graph(plain, findings) if plain is not None and operators is None else None
        if plain is not None and graph is not None:
            others = _other_classes(servers or [], plain.device_class)
            findings.add(
                [Fault((key, "device_class"), "no times for other classes", others, "one class")] * bool(others)
            )
            operators, tensors = _written(graph, plain.device_class) if not others else (None, tensors)
    if operators is not None:
        findings.add(operator_faults(operators, servers or []))
        if tensors is not None:
            findings.add(tensor_faults(tensors, operators))
    findings.refuse(document)
    if file is None or operators is None or tensors is None:
        raise AssertionError("an instance file was neither built nor refused")
    return _built(file, operators, tensors)
