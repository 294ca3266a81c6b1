"""Exact reductions of a stage graph: merges that keep an optimal solution.

* B1: a block without work whose only neighbour is one consumer (or one producer) joins it: that removes cost and adds
  none. Valid where all blocks together fit every device, so that memory never decides.
* B4, dominated cut: u has a single order successor v, and cutting the tensors that go from u to v alone costs at least
  the work of u and all its other tensors together. Moving u to the stage of v then lowers or keeps both loads: the new
  stage gains p(u) + other - comm <= 0, the old one loses p(u) + comm and gains at most other. The same mirrored for a
  single predecessor (only if the tensor goes to u alone). Valid for identical devices without a CPU pool, memory never
  deciding, communication added to compute, forward and backward in one maximum, and contiguous stages.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from formulations.placement.stage_graph import StageGraph, reduced_order
from formulations.placement.transfer_costs import Net, merged_nets
from topoopt.core.placement import Communication, Schedule, StageShape, Throughput


def contracted(graph: StageGraph, pairs: list[tuple[int, int]]) -> StageGraph:
    """The graph with each first block joined to the second one; no block stands in two pairs."""
    joins = dict(pairs)
    kept = [block for block in range(graph.size) if block not in joins]
    new = np.empty(graph.size, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    for block, into in joins.items():
        new[block] = new[into]
    members: list[list[int]] = [[] for _ in kept]
    for block, operators in enumerate(graph.blocks):
        members[new[block]] += operators
    times = np.zeros((2, len(kept), len(graph.groups)))
    memory = np.zeros(len(kept), dtype=np.int64)
    for block in range(graph.size):
        times[:, new[block]] += graph.time_ms[:, block]
        memory[new[block]] += graph.memory_bytes[block]
    nets = [
        replace(net, source=int(new[net.source]), targets=tuple(int(new[target]) for target in net.targets))
        for net in graph.nets
    ]
    order = {(int(new[a]), int(new[b])) for a, b in graph.order.tolist()} - {(b, b) for b in range(len(kept))}
    return replace(
        graph,
        blocks=tuple(tuple(sorted(operators)) for operators in members),
        time_ms=times,
        memory_bytes=memory,
        order=reduced_order(order, len(kept)),
        nets=merged_nets(nets, graph.costs),
    )


def memory_never_decides(graph: StageGraph) -> bool:
    """Whether every device holds all blocks together."""
    total = int(graph.memory_bytes.sum())
    return all(group.memory_bytes is None or total <= group.memory_bytes for group in graph.groups)


class _Around:
    """Neighbours of every block, in nets and in the order."""

    def __init__(self, graph: StageGraph) -> None:
        self.nets: dict[int, list[Net]] = defaultdict(list)
        self.before: dict[int, list[int]] = defaultdict(list)
        self.after: dict[int, list[int]] = defaultdict(list)
        for net in graph.nets:
            for block in (net.source, *net.targets):
                self.nets[block].append(net)
        for a, b in graph.order.tolist():
            self.before[b].append(a)
            self.after[a].append(b)


def _idle_target(graph: StageGraph, around: _Around, block: int) -> int | None:
    """Where B1 lets a block go."""
    if graph.time_ms[:, block].any():
        return None
    out = [net for net in around.nets[block] if net.source == block]
    into = [net for net in around.nets[block] if net.source != block]
    consumers = {target for net in out for target in net.targets}
    producers = {net.source for net in into}
    ordered = {*around.before[block], *around.after[block]}
    if len(consumers) == 1 and not producers and not around.before[block] and ordered <= consumers:
        return next(iter(consumers))
    if len(producers) == 1 and not consumers and not around.after[block] and ordered <= producers:
        return next(iter(producers))
    return None


def _dominated_target(graph: StageGraph, around: _Around, block: int) -> int | None:
    """Where B4 lets a block go; all devices and links are alike."""
    work = float(graph.time_ms[:, block, 0].sum())
    cost = graph.costs.least(around.nets[block])[:, 0].tolist()
    total = sum(cost)
    for neighbours in (around.after[block], around.before[block]):
        if len(neighbours) != 1:
            continue
        other = neighbours[0]
        ends = {(block, (other,)), (other, (block,))}  # backward tensors run the other way
        pairs = zip(around.nets[block], cost, strict=True)
        shared = sum(ms for net, ms in pairs if (net.source, net.targets) in ends)
        if shared >= work + (total - shared) and shared > 0:
            return other
    return None


def reduced(graph: StageGraph, settings: Throughput) -> StageGraph:
    """The graph after B1 and B4, as far as they are exact for it."""
    if not memory_never_decides(graph) or settings.stages is StageShape.FREE:
        return graph
    alike = len(graph.groups) == 1 and not graph.groups[0].host and graph.costs.uniform
    dominated = (
        alike
        and settings.schedule is Schedule.ONE_F_ONE_B
        and settings.communication is Communication.ADDED
        and settings.stages is StageShape.CONTIGUOUS
    )
    while True:
        around = _Around(graph)
        pairs: list[tuple[int, int]] = []
        used: set[int] = set()
        for block in range(graph.size):
            target = _idle_target(graph, around, block)
            if target is None and dominated:
                target = _dominated_target(graph, around, block)
            if target is not None and not {block, target} & used:
                used |= {block, target}
                pairs.append((block, target))
        if not pairs:
            return graph
        graph = contracted(graph, pairs)
