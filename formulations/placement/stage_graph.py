"""A throughput problem as blocks of operators that stay together, the form all solvers of it work on.

A block is a co-location class, or several of them that no acyclic order of stages can separate. Order edges say which
block may not be in a later stage than which other one; nets are the tensors between blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx
import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import PlacementProblem, StageShape, Throughput
from topoopt.core.units import bytes_per_ms


@dataclass(frozen=True, eq=False)
class Net:
    """A tensor (or several with the same ends) between blocks: cost of sending it once, and the pass it belongs to."""

    source: int
    targets: tuple[int, ...]
    cost_ms: float
    phase: int


@dataclass(frozen=True)
class DeviceGroup:
    """Devices that are alike: class, memory, and whether they are CPUs of the pool."""

    devices: tuple[int, ...]
    class_index: int
    memory_bytes: int | None
    host: bool


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
        uniform: whether a transfer costs the same between any two devices; if not, nets have the least cost.
    """

    blocks: tuple[tuple[int, ...], ...]
    time_ms: Floats
    memory_bytes: Ints
    order: Ints
    nets: tuple[Net, ...]
    groups: tuple[DeviceGroup, ...]
    uniform: bool

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


def device_groups(problem: PlacementProblem) -> tuple[DeviceGroup, ...]:
    """Devices by class, memory and pool, in order of their first member."""
    found: dict[tuple[int, int | None, bool], list[int]] = {}
    for index, entry in enumerate(problem.devices):
        found.setdefault((entry.class_index, entry.memory_bytes, entry.host), []).append(index)
    return tuple(DeviceGroup(tuple(devices), *key) for key, devices in found.items())


def transfer_rates(problem: PlacementProblem) -> tuple[float, float, bool]:
    """Least ms per byte and least fixed ms of a transfer somebody pays for, and whether all are alike."""
    devices = problem.devices
    inside, across = set(), set()
    shares = {}
    for index, entry in enumerate(devices):
        if not entry.host and (entry.server, entry.host) not in shares:
            shares[entry.server, entry.host] = problem.network_share_gbps(index)
    paying = [entry.server for entry in devices if not entry.host]
    for server in set(paying):
        if sum(entry.server == server for entry in devices) > 1:
            inside.add(problem.servers[server].inside_gbps)
        if any(entry.server != server for entry in devices):
            across.add(shares[server, False])
    rates = {(1.0 / bytes_per_ms(gbps), problem.intra_latency_ms) for gbps in inside}
    rates |= {(1.0 / bytes_per_ms(gbps), problem.transfer_latency_ms) for gbps in across}
    if not rates:
        return 0.0, 0.0, True
    return min(slope for slope, _ in rates), min(fixed for _, fixed in rates), len(rates) == 1


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


def merged_nets(nets: Iterable[Net]) -> tuple[Net, ...]:
    """Nets with equal ends and pass as one; those within a block or without cost left out."""
    costs: dict[tuple[int, tuple[int, ...], int], float] = {}
    for net in nets:
        targets = tuple(sorted({target for target in net.targets if target != net.source}))
        if targets and net.cost_ms > 0:
            key = (net.source, targets, net.phase)
            costs[key] = costs.get(key, 0.0) + net.cost_ms
    return tuple(Net(source, targets, cost, phase) for (source, targets, phase), cost in costs.items())


def stage_graph(problem: PlacementProblem) -> StageGraph:
    """Blocks of a problem: co-location classes (B2), and strongly connected sets of their order (B3)."""
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
    kinds = device_groups(problem)
    times = np.zeros((2, len(groups), len(kinds)))
    memory = np.zeros(len(groups), dtype=np.int64)
    for index, operator in enumerate(problem.operators):
        for q, kind in enumerate(kinds):
            times[int(operator.backward), block_of[index], q] += operator.times_ms[kind.class_index]
        memory[block_of[index]] += operator.memory_bytes
    slope, fixed, uniform = transfer_rates(problem)
    nets = [
        Net(
            int(block_of[tensor.producer]),
            tuple(block_of[list(tensor.consumers)].tolist()),
            tensor.size_bytes * slope + fixed,
            int(problem.operators[tensor.producer].backward),
        )
        for tensor in problem.tensors
    ]
    return StageGraph(groups, times, memory, order, merged_nets(nets), kinds, uniform)


REDUCED_UP_TO = 2000
"""Blocks; the transitive reduction of more takes longer than it saves."""


def reduced_order(edges: set[tuple[int, int]], n: int) -> Ints:
    """Transitive reduction of an acyclic relation, sorted; the relation itself if it is large."""
    if n <= REDUCED_UP_TO:
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(sorted(edges))
        edges = set(nx.transitive_reduction(graph).edges)
    return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
