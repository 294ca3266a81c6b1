"""Operator graphs for placement: every operator whole on one device, forward passes mirrored by backward ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topoopt.core.errors import InputError, Problem
from topoopt.core.placement import GraphOperator, Tensor
from topoopt.core.workload import Workload
from topoopt.workloads.devices import DEVICES
from topoopt.workloads.models import build_workload
from topoopt.workloads.spec import CostModel

UNCHECKED_GIB = 1 << 40
"""Memory of a device when single operators are not to be checked against it: the placement does that."""


@dataclass(frozen=True)
class ForwardNode:
    """A forward operator and its backward half.

    Attributes:
        name: unique.
        forward_ms, backward_ms: times.
        memory_bytes: resident, of both halves.
        inputs: (producer by index, bytes read); every producer stands before.
    """

    name: str
    forward_ms: float
    backward_ms: float
    memory_bytes: int
    inputs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PlacementGraph:
    """Operators of one device class, and their tensors."""

    operators: tuple[GraphOperator, ...]
    tensors: tuple[Tensor, ...]


def graph_of(nodes: Sequence[ForwardNode], *, training: bool) -> PlacementGraph:
    """The graph of one pass, or of both.

    A node's output is one tensor for all consumers that read the same number of bytes. In training the backward half
    shares the device of the forward one, waits for it, and sends each producer's half the gradient of what was read.
    """
    n = len(nodes)
    labels = [node.name if training else None for node in nodes]
    operators = [
        GraphOperator(node.name, (node.forward_ms,), node.memory_bytes, label)
        for node, label in zip(nodes, labels, strict=True)
    ]
    readers: dict[tuple[int, int], list[int]] = {}
    for index, node in enumerate(nodes):
        for producer, size in dict.fromkeys(node.inputs):
            readers.setdefault((producer, size), []).append(index)
    tensors = [Tensor(producer, tuple(users), size) for (producer, size), users in readers.items()]
    if training:
        operators += [
            GraphOperator(f"{node.name}/backward", (node.backward_ms,), 0, label, backward=True)
            for node, label in zip(nodes, labels, strict=True)
        ]
        tensors += [Tensor(index, (n + index,), 0) for index in range(n)]  # the stash never leaves the device
        tensors += [
            Tensor(n + index, (n + producer,), size)
            for index, node in enumerate(nodes)
            for producer, size in dict.fromkeys(node.inputs)
        ]
    return PlacementGraph(tuple(operators), tuple(sorted(tensors, key=lambda tensor: tensor.producer)))


def nodes_of(workload: Workload) -> list[ForwardNode]:
    """Nodes of a job of which every operator runs whole on one device: the split of one part.

    Raises:
        InputError: operators that have no such split, all named.
    """
    nodes, problems = [], []
    for operator in workload.operators:
        whole = next((split for split in operator.splits if split.parts == 1), None)
        if whole is None:
            problems.append(Problem("the operator cannot run on one device", value=operator.name))
            continue
        inputs = []
        for edge in operator.inputs:
            producer = workload.operators[edge.producer]
            elements = workload.samples * producer.output_elements * edge.fraction
            inputs.append((edge.producer, round(elements * producer.element_bytes)))
        nodes.append(
            ForwardNode(operator.name, whole.forward_ms, whole.backward_ms, whole.server_memory_bytes, tuple(inputs))
        )
    if problems:
        raise InputError(problems)
    return nodes


def model_graph(model: str, sizes: dict[str, int], device: str, *, training: bool) -> PlacementGraph:
    """A model of the library on devices of one GPU each.

    Raises:
        InputError: unknown model, device or size, or a size out of range.
    """
    if device not in DEVICES:
        raise InputError([Problem("no such device", path="workload.device", value=device, allowed=", ".join(DEVICES))])
    from dataclasses import replace

    costs: CostModel = replace(DEVICES[device], memory_gib=UNCHECKED_GIB)
    workload = build_workload(model, sizes, servers=1, gpus_per_server=1, costs=costs)
    return graph_of(nodes_of(workload), training=training)
