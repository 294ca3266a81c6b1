"""From a task graph back to a workload: operators with one split each, pinned to the servers they ran on.

A FlexNet file does not say which operator a task belongs to. It is recovered from the order of tasks (an operator's
parts stand together, ascending by server) and from the AllReduces (released by all backward parts of one operator).
Tensor sizes follow from the transfers; where a tensor never left its server its size is unknown and of no effect,
because the operators cannot move.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import GRADIENT_BYTES, Operator, OperatorInput, Split, TaskGraph, TaskKind, Workload
from topoopt.formats.flexnet.read_taskgraph import FlexnetFile

UNKNOWN_TENSOR_BYTES = 1


@dataclass
class _Recovered:
    """An operator in the making: forward tasks of its parts, weights, producers, bytes of its output per sample."""

    parts: list[int]
    payloads: list[int] = field(default_factory=list)
    local_ms: float = 0.0
    producers: set[int] = field(default_factory=set)
    sample_bytes: set[int] = field(default_factory=set)


def local_allreduce_gbps(graph: TaskGraph) -> float | None:
    """Rate inside a server of two GPUs at which the reference's formula gives the file's local AllReduce times.

    None if the file has no local times.

    Raises:
        InputError: no single rate explains them.
    """
    reduced = (graph.kind == TaskKind.ALLREDUCE) & (graph.duration_ms > 0) & (graph.bytes > 0)
    if not reduced.any():
        return None
    largest = int(np.argmax(np.where(reduced, graph.bytes, 0)))
    rate = float(graph.bytes[largest]) / float(graph.duration_ms[largest])
    expected = graph.bytes[reduced] / rate
    if not np.allclose(expected, graph.duration_ms[reduced], rtol=1e-3, atol=1e-5):
        raise InputError("the AllReduce times inside servers follow no single rate")
    return rate / 125_000.0


def workload_of_taskgraph(file: FlexnetFile, name: str = "task-graph") -> Workload:
    """Workload with the file's strategy pinned.

    Raises:
        InputError: the tasks are not those of operators split evenly over evenly spaced servers.
    """
    graph = file.graph
    predecessors: list[list[int]] = [[] for _ in range(graph.tasks)]
    for task in range(graph.tasks):
        for successor in graph.successor[graph.successor_ptr[task] : graph.successor_ptr[task + 1]]:
            predecessors[int(successor)].append(task)
    operators, operator_of = _group_parts(graph, predecessors)
    _add_weights(graph, predecessors, operators, operator_of)
    samples = int(np.lcm.reduce([len(operator.parts) for operator in operators]))
    problems = _add_inputs(graph, predecessors, operators, operator_of, samples)
    order = _topological(operators)
    position = {index: place for place, index in enumerate(order)}
    built = []
    for place, index in enumerate(order):
        found = operators[index]
        label = file.operator_names[index] if index < len(file.operator_names) else f"operator{index}"
        if len(found.sample_bytes) > 1:
            problems.append(
                Problem(
                    "transfers of one tensor disagree on its size", path=label, value=str(sorted(found.sample_bytes))
                )
            )
        built.append(_operator(graph, found, f"{label}#{place}", position, problems))
    if problems:
        raise InputError(problems)
    return Workload(name, samples, tuple(built))


def _group_parts(graph: TaskGraph, predecessors: list[list[int]]) -> tuple[list[_Recovered], dict[int, int]]:
    """Forward tasks of each operator, and the operator of every compute task."""
    owner: dict[int, int] = {}  # backward task -> first AllReduce that waits for it
    for waiting in np.flatnonzero(graph.kind == TaskKind.ALLREDUCE).tolist():
        for before in predecessors[waiting]:
            owner.setdefault(before, waiting)
    backward_of: dict[int, int] = {}
    for backward in np.flatnonzero(graph.kind == TaskKind.BACKWARD).tolist():
        for before in predecessors[backward]:
            if graph.kind[before] == TaskKind.FORWARD and graph.source[before] == graph.source[backward]:
                backward_of.setdefault(before, backward)
    operators: list[_Recovered] = []
    operator_of: dict[int, int] = {}
    last_owner: int | None = None
    for task in np.flatnonzero(graph.kind == TaskKind.FORWARD).tolist():
        own = owner.get(backward_of.get(task, -1))
        last = operators[-1].parts[-1] if operators else -1
        same = (
            bool(operators)
            and own == last_owner
            and graph.source[task] > graph.source[last]
            and graph.duration_ms[task] == graph.duration_ms[last]
        )
        if not same:
            operators.append(_Recovered([]))
        operators[-1].parts.append(task)
        last_owner = own
        operator_of[task] = len(operators) - 1
        if task in backward_of:
            operator_of[backward_of[task]] = len(operators) - 1
    return operators, operator_of


def _add_weights(
    graph: TaskGraph, predecessors: list[list[int]], operators: list[_Recovered], operator_of: dict[int, int]
) -> None:
    for task in np.flatnonzero(graph.kind == TaskKind.ALLREDUCE).tolist():
        users = {operator_of[before] for before in predecessors[task] if before in operator_of}
        for index in users:
            operators[index].payloads.append(int(graph.bytes[task]))
            operators[index].local_ms += float(graph.duration_ms[task])


def _add_inputs(
    graph: TaskGraph,
    predecessors: list[list[int]],
    operators: list[_Recovered],
    operator_of: dict[int, int],
    samples: int,
) -> list[Problem]:
    problems = []
    part_of = {task: part for operator in operators for part, task in enumerate(operator.parts)}
    for index, operator in enumerate(operators):
        rows = samples // len(operator.parts)
        for part, task in enumerate(operator.parts):
            for before in predecessors[task]:
                transfer = graph.kind[before] == TaskKind.TRANSFER
                source = predecessors[before][0] if transfer and predecessors[before] else before
                if source not in part_of:
                    continue
                producer = operator_of[source]
                operator.producers.add(producer)
                if not transfer:
                    continue
                own = samples // len(operators[producer].parts)
                first = part_of[source] * own
                overlap = min(first + own, (part + 1) * rows) - max(first, part * rows)
                if overlap <= 0 or graph.bytes[before] % overlap:
                    problems.append(Problem("a transfer is not that of an even split", path=f"operator {index}"))
                    continue
                operators[producer].sample_bytes.add(int(graph.bytes[before]) // overlap)
    return problems[:20]


def _topological(operators: list[_Recovered]) -> list[int]:
    """Operators in an order in which producers come first, otherwise as in the file."""
    order: list[int] = []
    placed: set[int] = set()
    waiting = list(range(len(operators)))
    while waiting:
        ready = [index for index in waiting if operators[index].producers <= placed]
        if not ready:
            raise InputError("the operators of the task graph form a cycle")
        order.extend(ready)
        placed.update(ready)
        waiting = [index for index in waiting if index not in placed]
    return order


def _kind_of(name: str) -> str:
    """What a name begins with, as kinds are written: `dense` of Dense_8_8, `output-5` of output#5."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.partition("_")[0].lower()).lstrip("-0123456789")
    return plain[:50] or "operator"


def _operator(
    graph: TaskGraph, found: _Recovered, name: str, position: dict[int, int], problems: list[Problem]
) -> Operator:
    servers = [int(graph.source[task]) for task in found.parts]
    parts = len(servers)
    stride = graph.servers // parts
    if graph.servers % parts or servers != list(range(servers[0], graph.servers, stride)):
        problems.append(Problem("the parts are not on evenly spaced servers", path=name, value=str(servers)))
    first = found.parts[0]
    backward = [
        float(graph.duration_ms[task])
        for task in graph.successor[graph.successor_ptr[first] : graph.successor_ptr[first + 1]]
        if graph.kind[task] == TaskKind.BACKWARD
    ]
    return Operator(
        name=name,
        kind=_kind_of(name),
        output_elements=min(found.sample_bytes, default=UNKNOWN_TENSOR_BYTES),
        element_bytes=1,
        weight_elements=tuple(payload // GRADIENT_BYTES for payload in found.payloads),
        inputs=tuple(OperatorInput(producer) for producer in sorted(position[p] for p in found.producers)),
        splits=(Split(parts, float(graph.duration_ms[first]), backward[0] if backward else 0.0, 0),),
        locally_reduced=found.local_ms > 0,
        pinned_offset=servers[0] % stride if graph.servers % parts == 0 else 0,
    )
