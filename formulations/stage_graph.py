"""A throughput problem as blocks of operators that stay together, the form all solvers of it work on.

A block is a co-location class, or several of them that no acyclic order of stages can separate. Order edges say which
block may not be in a later stage than which other one; nets are the tensors between blocks.

Time of a transfer between two devices is a slope times its bytes, and something fixed. Devices are alike if exchanging
them changes nothing: same class, memory and pool, and either one server, or servers of one device each with links as
fast; where all transfers that somebody pays for cost the same, links tell no devices apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topoopt.core.arrays import Floats, Ints, bytes_per_ms
from topoopt.core.placement import PlacementProblem, Throughput

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Net:
    """A tensor (or several with the same ends) between blocks: bytes, number of tensors, pass it belongs to."""

    source: int
    targets: tuple[int, ...]
    size_bytes: int
    phase: int
    tensors: int = 1


@dataclass(frozen=True)
class DeviceGroup:
    """Devices that are alike: class, memory, and whether they are CPUs of the pool."""

    devices: tuple[int, ...]
    class_index: int
    memory_bytes: int | None
    host: bool


@dataclass(frozen=True, eq=False)
class TransferCosts:
    """Costs between devices of two groups, or between two devices of one group.

    Attributes
    ----------
    ms_per_byte, fixed_ms : float64[groups, groups], symmetric; inf where there are no two such devices.
    uniform : whether all transfers that somebody pays for cost the same.
    """

    ms_per_byte: Floats
    fixed_ms: Floats
    uniform: bool

    def between(self, net: Net) -> Floats:
        """float64[groups, groups]: ms of sending a net once."""
        sent = np.where(np.isfinite(self.ms_per_byte), self.ms_per_byte, 0.0) * net.size_bytes
        return np.asarray(sent + self.fixed_ms * net.tensors)

    def least(self, nets: Iterable[Net]) -> Floats:
        """float64[nets, groups]: ms that a device of a group pays at least for sending or receiving each net."""
        rows = [np.where(np.isfinite(cost := self.between(net)), cost, np.inf).min(axis=1) for net in nets]
        table = np.array(rows).reshape(len(rows), len(self.ms_per_byte))
        return np.where(np.isfinite(table), table, 0.0)

    def mean(self, nets: Iterable[Net]) -> Floats:
        """float64[nets, groups]: the same on average over the groups at the other end."""
        rows = [self.between(net) for net in nets]
        table = np.array(rows).reshape(len(rows), *self.ms_per_byte.shape)
        used = np.isfinite(table)
        return np.asarray(np.where(used, table, 0.0).sum(axis=2) / np.maximum(used.sum(axis=2), 1))


Position = tuple[bool, int | None, float]
"""Whether a device is a CPU of the pool; its server, or None and the rate of a server that it has for itself."""


def _places(problem: PlacementProblem) -> list[Position]:
    crowd, paying = [0] * len(problem.servers), [0] * len(problem.servers)
    for entry in problem.devices:
        crowd[entry.server] += 1
        paying[entry.server] += not entry.host
    costs: list[Position] = []
    for entry in problem.devices:
        share = problem.servers[entry.server].network_gbps / max(1, paying[entry.server])
        costs.append((entry.host, entry.server if crowd[entry.server] > 1 else None, share))
    return costs


def _costs(problem: PlacementProblem, places: list[Position], single: list[bool]) -> tuple[Floats, Floats]:
    """float64[places, places] ms per byte and fixed ms; inf for the two ends of a place of a single device."""
    host = np.array([cpu for cpu, _, _ in places])
    server = np.array([-1 if number is None else number for _, number, _ in places])
    share = np.array([gbps for _, _, gbps in places])
    limit = np.where(host, np.inf, share)  # CPUs of the pool set no limit, unless both ends are such
    across = np.minimum.outer(limit, limit)
    across = np.where(np.isfinite(across), across, np.minimum.outer(share, share))
    inside = np.array([0.0 if s < 0 else problem.servers[s].inside_gbps for s in server.tolist()])
    same = (server[:, None] == server[None, :]) & (server >= 0)
    with np.errstate(divide="ignore"):
        slope = 1.0 / (np.where(same, inside[:, None], across) * bytes_per_ms(1.0))
    fixed = np.where(same, problem.intra_latency_ms, problem.transfer_latency_ms)
    alone = np.flatnonzero(single)
    slope[alone, alone] = fixed[alone, alone] = np.inf
    return slope, fixed


def grouped_devices(problem: PlacementProblem) -> tuple[tuple[DeviceGroup, ...], TransferCosts]:
    """Devices that are alike, in order of their first member, and what transfers between the groups cost."""
    places = _places(problem)
    counts = Counter(places)
    kinds = list(counts)
    slope, fixed = _costs(problem, kinds, [count == 1 for count in counts.values()])
    host = np.array([cpu for cpu, _, _ in kinds])
    paid = np.isfinite(fixed) & ~(host[:, None] & host[None, :])
    pairs = {*zip(slope[paid].tolist(), fixed[paid].tolist(), strict=True)}
    uniform = len(pairs) <= 1
    groups_by_key: dict[tuple[object, ...], list[int]] = {}
    for index, entry in enumerate(problem.devices):
        key = (entry.class_index, entry.memory_bytes, entry.host, None if uniform else places[index])
        groups_by_key.setdefault(key, []).append(index)
    groups, own = [], []
    for members in groups_by_key.values():
        first = problem.devices[members[0]]
        groups.append(DeviceGroup(tuple(members), first.class_index, first.memory_bytes, first.host))
        own.append(kinds.index(places[members[0]]))
    if uniform:
        one_ms, one_fixed = pairs.pop() if pairs else (0.0, 0.0)
        size = (len(groups), len(groups))
        return tuple(groups), TransferCosts(np.full(size, one_ms), np.full(size, one_fixed), uniform)
    slope, fixed = slope[np.ix_(own, own)], fixed[np.ix_(own, own)]
    alone = [q for q, group in enumerate(groups) if len(group.devices) == 1]
    slope[alone, alone] = fixed[alone, alone] = np.inf
    return tuple(groups), TransferCosts(slope, fixed, uniform)


def merged_nets(nets: Iterable[Net], costs: TransferCosts) -> tuple[Net, ...]:
    """Nets without those within a block or without cost; where links are alike, equal ends and pass make one.

    Where they are not, a device pays for the slowest copy of each tensor, which may go different ways for two of them.
    """
    free = not (costs.fixed_ms[np.isfinite(costs.fixed_ms)] > 0).any()
    kept: list[Net] = []
    position: dict[tuple[int, tuple[int, ...], int], int] = {}
    for net in nets:
        targets = tuple(sorted({target for target in net.targets if target != net.source}))
        if not targets or (free and not net.size_bytes):
            continue
        key = (net.source, targets, net.phase)
        if costs.uniform and key in position:
            at = position[key]
            first = kept[at]
            kept[at] = Net(*key[:2], first.size_bytes + net.size_bytes, net.phase, first.tensors + net.tensors)
            continue
        position[key] = len(kept)
        kept.append(Net(net.source, targets, net.size_bytes, net.phase, net.tensors))
    return tuple(kept)


@dataclass(frozen=True, eq=False)
class StageGraph:
    """Blocks, their order and nets.

    Attributes
    ----------
    blocks : operators of each block.
    time_ms : float64[2, blocks, groups], forward and backward; inf where a block cannot run.
    memory_bytes : int64[blocks].
    order : int64[edges, 2], transitively reduced; empty where stages have no order.
    nets : between blocks.
    groups : of devices.
    costs : of transfers between devices of these groups.
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
        return len(self.blocks)

    @property
    def devices(self) -> int:
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
        index = int(block_of[tensor.producer])
        for user in tensor.consumers:
            other = int(block_of[user])
            if index == other:
                continue
            if not backward[user]:
                pairs.add((index, other))
            elif backward[tensor.producer] and not (has_forward[index] and has_forward[other]):
                pairs.add((other, index))
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
    ordered = settings.stages != "free"
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


def reduced_order(edges: set[tuple[int, int]], n: int) -> Ints:
    """Transitive reduction of an acyclic relation, sorted; the relation itself if it is large."""
    import networkx as nx

    if n <= 2000:  # blocks; the transitive reduction of more takes longer than it saves
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(sorted(edges))
        edges = set(nx.transitive_reduction(graph).edges)
    return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
