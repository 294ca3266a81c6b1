"""Operator graphs for placement come from models, or are generated with branches; no operator is split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.placement import GraphOperator, Tensor
from topoopt.core.workload import Workload
from topoopt.workloads.device import DEVICES
from topoopt.workloads.models import build_workload
from topoopt.workloads.operators import CostModel

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


PlacementGraph = tuple[tuple[GraphOperator, ...], tuple[Tensor, ...]]
"""Operators of one device class, and their tensors."""


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
    return tuple(operators), tuple(sorted(tensors, key=lambda tensor: tensor.producer))


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


MAX_NODES = 10_000
"""Forward operators of a generated graph."""

BACKWARD_FACTOR = 2.0
"""A backward pass takes about twice the time of the forward one (gradients of inputs and of weights)."""


class _BranchyBuilder:
    """Appends nodes with drawn times and sizes."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.nodes: list[ForwardNode] = []
        self._bytes: list[int] = []

    def add(self, name: str, inputs: list[int], *, work: float = 1.0, scale: float = 1.0) -> int:
        """A node of about `work` ms, whose output has about `scale` x 8 MiB, and three times that in memory."""
        forward = round(float(work * self._rng.uniform(0.5, 1.5)), 6)
        size = round(float(scale * 8 * MIB * 2.0 ** self._rng.uniform(-1, 1)))
        sources = tuple((index, self._bytes[index]) for index in inputs)
        self.nodes.append(ForwardNode(name, forward, round(BACKWARD_FACTOR * forward, 6), 3 * size, sources))
        self._bytes.append(size)
        return len(self.nodes) - 1

    def draw(self, most: int) -> int:
        return int(self._rng.integers(1, most + 1))

    def pick(self, members: list[int], count: int) -> list[int]:
        return sorted(int(i) for i in self._rng.choice(members, size=min(count, len(members)), replace=False))


def _moe(build: _BranchyBuilder, layers: int, branches: int) -> None:
    state = build.add("tokens", [], work=0.2)
    for layer in range(layers):
        attention = build.add(f"layer{layer}_attention", [state], work=2.0)
        router = build.add(f"layer{layer}_router", [attention], work=0.1, scale=0.01)
        bank = [
            build.add(f"layer{layer}_expert{e}", [attention, router], scale=1.0 / branches) for e in range(branches)
        ]
        state = build.add(f"layer{layer}_combine", [attention, *bank], work=0.2)
    build.add("output", [state])


def _towers(build: _BranchyBuilder, layers: int, branches: int) -> None:
    tops = []
    for tower in range(branches):
        state = build.add(f"tower{tower}_input", [], work=0.2)
        for layer in range(layers):
            state = build.add(f"tower{tower}_layer{layer}", [state])
        tops.append(state)
    state = build.add("interaction", tops, work=0.5)
    for layer in range(max(1, layers // 2)):
        state = build.add(f"top{layer}", [state])


def _inception(build: _BranchyBuilder, layers: int, branches: int) -> None:
    state = build.add("stem", [])
    for layer in range(layers):
        ends = []
        for branch in range(branches):
            end = state
            for depth in range(build.draw(3)):
                end = build.add(f"block{layer}_branch{branch}_{depth}", [end], scale=1.0 / branches)
            ends.append(end)
        state = build.add(f"block{layer}_concat", ends, work=0.1)


def _layered(build: _BranchyBuilder, layers: int, branches: int) -> None:
    before = [build.add(f"layer0_{index}", []) for index in range(branches)]
    for layer in range(1, layers):
        now = []
        for index in range(branches):
            sources = build.pick(before, build.draw(3))
            now.append(build.add(f"layer{layer}_{index}", sources))
        before = now


GRAPH_FAMILIES: Mapping[str, Callable[[_BranchyBuilder, int, int], None]] = {
    "moe": _moe,
    "towers": _towers,
    "inception": _inception,
    "layered": _layered,
}
"""Mixture of experts, towers joined at the top, blocks of unequal branches, and random layers."""

_NODES_PER_BRANCH = {"inception": 3}


def branchy_graph(family: str, layers: int, branches: int, seed: int, *, training: bool) -> PlacementGraph:
    """A generated graph; equal arguments, equal graph.

    Raises:
        InputError: no such family, or too many nodes.
    """
    if family not in GRAPH_FAMILIES:
        allowed = ", ".join(GRAPH_FAMILIES)
        raise InputError([Problem("no such family of graphs", path="generator.family", value=family, allowed=allowed)])
    if layers * (branches * _NODES_PER_BRANCH.get(family, 1) + 3) > MAX_NODES:
        value = f"{layers} layers of {branches} branches"
        allowed = f"at most {MAX_NODES} operators"
        raise InputError([Problem("the graph is too large", path="generator", value=value, allowed=allowed)])
    build = _BranchyBuilder(seed)
    GRAPH_FAMILIES[family](build, layers, branches)
    return graph_of(build.nodes, training=training)
