"""A throughput problem as blocks of operators that stay together, the form all solvers of it work on.

A block is a co-location class, or several of them that no acyclic order of stages can separate. Order edges say which
block may not be in a later stage than which other one; nets are the tensors between blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.placement.transfer_costs import DeviceGroup, Net, TransferCosts, grouped_devices, merged_nets
from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import PlacementProblem, StageShape, Throughput

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False)
class StageGraph:
    """Blocks, their order and nets.

    Attributes:
        blocks: operators of each block.
        time_ms: float64[2, blocks, groups], forward and backward; inf where a block cannot run.
        memory_bytes: int64[blocks].
        order: int64[edges, 2], transitively reduced; empty where stages have no order.
        nets: between blocks.
        groups: of devices.
        costs: of transfers between devices of these groups.
    """

    blocks: tuple[tuple[int, ...], ...]
    time_ms: Floats
    memory_bytes: Ints
    order: Ints
    nets: tuple[Net, ...]
    groups: tuple[DeviceGroup, ...]
    costs: TransferCosts

    @property
    def size(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return sum(len(group.devices) for group in self.groups)


def device_slots(graph: StageGraph) -> tuple[int, ...]:
    """Group of each device, in file order."""
    group_of = {device: q for q, group in enumerate(graph.groups) for device in group.devices}
    return tuple(group_of[device] for device in range(graph.devices))


def order_pairs(problem: PlacementProblem, block_of: Ints) -> set[tuple[int, int]]:
    """Order edges between blocks: forward tensors, and backward ones reversed at blocks without forward operators."""
    backward = np.array([operator.backward for operator in problem.operators])
    has_forward = np.zeros(int(block_of.max()) + 1, dtype=bool)
    has_forward[block_of[~backward]] = True
    pairs = set()
    for tensor in problem.tensors:
        one = int(block_of[tensor.producer])
        for user in tensor.consumers:
            other = int(block_of[user])
            if one == other:
                continue
            if not backward[user]:
                pairs.add((one, other))
            elif backward[tensor.producer] and not (has_forward[one] and has_forward[other]):
                pairs.add((other, one))
    return pairs


def _numbering(groups: Iterable[tuple[int, ...]], n: int) -> Ints:
    block_of = np.empty(n, dtype=np.int64)
    for index, members in enumerate(groups):
        block_of[list(members)] = index
    return block_of


def stage_graph(problem: PlacementProblem) -> StageGraph:
    """Blocks of a problem: co-location classes (B2), and strongly connected sets of their order (B3)."""
    import networkx as nx

    settings = problem.objective
    assert isinstance(settings, Throughput)
    groups = problem.colocated()
    n = len(problem.operators)
    block_of = _numbering(groups, n)
    ordered = settings.stages is not StageShape.FREE
    if ordered:
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(len(groups)))
        # the orphans are those of the classes, before any are merged
        pairs = order_pairs(problem, block_of)
        graph.add_edges_from(sorted(pairs))
        parts = sorted(sorted(part) for part in nx.strongly_connected_components(graph))
        groups = tuple(tuple(sorted(i for c in part for i in groups[c])) for part in parts)
        part_of = _numbering([tuple(part) for part in parts], graph.number_of_nodes())
        block_of = part_of[block_of]
        edges = {(int(part_of[a]), int(part_of[b])) for a, b in pairs} - {(b, b) for b in range(len(groups))}
        order = reduced_order(edges, len(groups))
    else:
        order = np.empty((0, 2), dtype=np.int64)
    kinds, costs = grouped_devices(problem)
    times = np.zeros((2, len(groups), len(kinds)))
    memory = np.zeros(len(groups), dtype=np.int64)
    for index, operator in enumerate(problem.operators):
        for q, kind in enumerate(kinds):
            times[int(operator.backward), block_of[index], q] += operator.times_ms[kind.class_index]
        memory[block_of[index]] += operator.memory_bytes
    nets = [
        Net(
            int(block_of[tensor.producer]),
            tuple(block_of[list(tensor.consumers)].tolist()),
            tensor.size_bytes,
            int(problem.operators[tensor.producer].backward),
        )
        for tensor in problem.tensors
    ]
    return StageGraph(groups, times, memory, order, merged_nets(nets, costs), kinds, costs)


REDUCED_UP_TO = 2000
"""Blocks; the transitive reduction of more takes longer than it saves."""


def reduced_order(edges: set[tuple[int, int]], n: int) -> Ints:
    """Transitive reduction of an acyclic relation, sorted; the relation itself if it is large."""
    import networkx as nx

    if n <= REDUCED_UP_TO:
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(sorted(edges))
        edges = set(nx.transitive_reduction(graph).edges)
    return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
