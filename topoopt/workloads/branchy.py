"""Generated graphs with branches: where placement on several devices pays off, unlike in near-chains.

Times, sizes and memory are drawn from the seed, in the range of layers of a large model on a current GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.workloads.placement_graph import ForwardNode, PlacementGraph, graph_of

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
        """A whole number from 1 to `most`."""
        return int(self._rng.integers(1, most + 1))

    def pick(self, members: list[int], count: int) -> list[int]:
        """Some of the members, ascending."""
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
