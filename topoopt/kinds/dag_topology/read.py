"""Instances of kind `dag-topology`: what a user writes, and the problem that it states."""

from __future__ import annotations

import graphlib
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Len, Lt

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS
from topoopt.core.dag_topology import MAX_PODS, MAX_PORTS, MAX_STEPS, DagTask, DagTopologyProblem, DagTransfer
from topoopt.core.data import STRICT, FileName, Label, SchemaVersion
from topoopt.core.result import SearchSettings
from topoopt.files import codec
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import Issue
from topoopt.files.reader_fields import Findings

Pod = Annotated[int, Ge(0), Lt(MAX_PODS)]
Ports = Annotated[int, Ge(1), Le(MAX_PORTS)]
Size = Annotated[float, Gt(0), Le(1e18)]
Before = Annotated[tuple[Label, ...], Len(0, MAX_STEPS)]

ONCE = {"max_hops": 1}
"""What fields that are gone held by default: hashes stay those of instances that were written with them."""


@dataclass(frozen=True, kw_only=True)
class TransferStep:
    """A volume that moves from one pod to another."""

    __pydantic_config__ = STRICT

    name: Label
    source: Pod
    target: Pod
    volume: Size
    """bytes with circuit_gbps, or the unit of circuit_rate"""
    after: Before = ()
    """names of the transfers and tasks it waits for"""


@dataclass(frozen=True, kw_only=True)
class TaskStep:
    """Work that takes a fixed time."""

    __pydantic_config__ = STRICT

    name: Label
    duration: Annotated[float, Ge(0), Le(1e12)]
    """seconds with circuit_gbps, or the unit of circuit_rate"""
    after: Before = ()
    """names of the transfers and tasks it waits for"""


@dataclass(frozen=True, kw_only=True)
class DagTopologyInstance:
    """Circuits between pods, fixed for a job, from the graph of its computation and transfers."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["dag-topology"] = "dag-topology"
    name: FileName = "dag-topology"
    pods: Annotated[int, Ge(2), Le(MAX_PODS)]
    ports: Ports | tuple[Ports, ...]
    """circuits that may end at a pod: one number, or one for each pod"""
    circuit_gbps: Annotated[float, Gt(0), Le(1e9)] | None = None
    """Gbit/s of a circuit in each direction; volumes are bytes, times s"""
    circuit_rate: Size | None = None
    """volume a circuit carries in a unit of time, in each direction; instead of circuit_gbps"""
    transfers: Annotated[tuple[TransferStep, ...], Len(1, MAX_STEPS)]
    tasks: Annotated[tuple[TaskStep, ...], Len(0, MAX_STEPS)] = ()
    objective: Literal["makespan"] = "makespan"
    """when the last step ends"""
    slack_percent: Annotated[float, Ge(0), Le(1000)] = 0.0
    """how much longer the job may take where that saves circuits"""
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


Step = TransferStep | TaskStep
Path = tuple[str, int]


def resolve(document: Document) -> DagTopologyProblem:
    """Return the problem that an instance states.

    Raises:
        InputError: all errors of the file, as far as one error does not hide another.
    """
    findings = Findings()
    instance = findings.shaped(DagTopologyInstance, document)
    ports = [instance.ports] * instance.pods if isinstance(instance.ports, int) else [*instance.ports]
    if len(ports) != instance.pods:
        allowed = f"{instance.pods}, one for each pod"
        findings.add([Issue(("ports",), "wrong number of entries", str(len(ports)), allowed)])
    if (instance.circuit_gbps is None) == (instance.circuit_rate is None):
        what = "both circuit_gbps and circuit_rate" if instance.circuit_rate is not None else "missing"
        findings.add([Issue(("circuit_gbps",), what, allowed="one of circuit_gbps and circuit_rate")])
    steps: list[tuple[Path, Step]] = [
        *((("transfers", k), step) for k, step in enumerate(instance.transfers)),
        *((("tasks", k), step) for k, step in enumerate(instance.tasks)),
    ]
    for k, move in enumerate(instance.transfers):
        for name, pod in (("source", move.source), ("target", move.target)):
            if pod >= instance.pods:
                findings.add([Issue(("transfers", k, name), "no such pod", str(pod), f"0 to {instance.pods - 1}")])
        if move.source == move.target:
            findings.add([Issue(("transfers", k, "target"), "the pod that sends", str(move.target), "another pod")])
    findings.add(_graph_errors(steps))
    findings.refuse(document)
    number = {step.name: k for k, (_, step) in enumerate(steps)}
    gbps, rate = instance.circuit_gbps, instance.circuit_rate
    return DagTopologyProblem(
        name=instance.name,
        pods=instance.pods,
        ports=tuple(ports),
        rate=rate if gbps is None else gbps * BYTES_PER_MS_PER_GBPS * 1e3,  # type: ignore[arg-type]
        transfers=tuple(
            DagTransfer(m.name, m.source, m.target, m.volume, tuple(number[name] for name in m.after))
            for m in instance.transfers
        ),
        tasks=tuple(DagTask(c.name, c.duration, tuple(number[name] for name in c.after)) for c in instance.tasks),
        slack_percent=instance.slack_percent,
        volume_unit="" if gbps is None else "bytes",
        time_unit="" if gbps is None else "s",
        search=instance.search,
        sha256=canonical_sha256({**codec.plain(instance), **ONCE}),
    )


def _graph_errors(steps: list[tuple[Path, Step]]) -> list[Issue]:
    """Names that stand twice or nowhere, and what waits for itself."""
    count = Counter(step.name for _, step in steps)
    errors, seen = [], set()
    for path, step in steps:
        if step.name in seen:
            errors.append(Issue((*path, "name"), "stands twice", step.name, "a name of its own for each step"))
        seen.add(step.name)
        for k, before in enumerate(step.after):
            if before not in count:
                errors.append(Issue((*path, "after", k), "no such transfer or task", before))
        if len(set(step.after)) < len(step.after):
            errors.append(Issue((*path, "after"), "a name more than once"))
    if errors:
        return errors
    try:
        tuple(graphlib.TopologicalSorter({step.name: step.after for _, step in steps}).static_order())
    except graphlib.CycleError as error:
        circle = [str(name) for name in reversed(error.args[1])]
        path = next(path for path, step in steps if step.name == circle[0])
        shown = " → ".join(circle[:12]) + (" → …" if len(circle) > 12 else "")
        errors.append(Issue((*path, "after"), "waits for itself", shown, "steps without circles"))
    return errors
