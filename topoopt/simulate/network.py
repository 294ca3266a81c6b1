"""A fabric is directed links with rates, paths of pairs and rings of groups; traffic is counted and stepped over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Int32s, Ints, offsets
from topoopt.core.cluster import Cluster, ComputeOrder, LinkSharing
from topoopt.core.collective import GroupSchedule
from topoopt.core.errors import InputError
from topoopt.core.topology import Topology
from topoopt.core.workload import (
    GRADIENT_BYTES,
    AllReduceDemand,
    Demand,
    GroupRings,
    PathTable,
    Strategy,
    TaskGraph,
    TaskKind,
    TrafficFigures,
    Workload,
    ring_pair_bytes,
    strided_groups,
)
from topoopt.native import graph, jobs

UNLIMITED = np.iinfo(np.int64).max


class ScheduleArrays(NamedTuple):
    """S schedules in flat arrays.

    Attributes:
        group_ptr: int64[G+1]; schedules of group g are group_ptr[g]..group_ptr[g+1].
        from_bytes, below_bytes: int64[S], payloads that they are for.
        step_ptr: int64[S+1], steps of a schedule; hop_ptr: int64[...+1], hops of a step.
        load_ptr: int64[...+1], loads of a hop; link: int32[...]; share: float64[...], of the payload.
    """

    group_ptr: Ints
    from_bytes: Ints
    below_bytes: Ints
    step_ptr: Ints
    hop_ptr: Ints
    load_ptr: Ints
    link: Int32s
    share: Floats


def schedule_arrays(
    groups: Sequence[tuple[int, ...]], schedules: Sequence[GroupSchedule], link_id: Int32s
) -> ScheduleArrays:
    """Flatten schedules.

    Args:
        groups: members, in any order, of every group.
        schedules: of these groups.
        link_id: int32[V, V], number of the link of two nodes, -1: none.

    Raises:
        ValueError: a message goes over a link that does not exist.
    """
    ordered = [[schedule for schedule in schedules if schedule.members == tuple(sorted(group))] for group in groups]
    flat = [schedule for own in ordered for schedule in own]
    steps: list[int] = []
    hops: list[int] = []
    links: list[Int32s] = [np.zeros(0, dtype=np.int32)]
    shares: list[Floats] = [np.zeros(0)]
    for schedule in flat:
        by_hop = _units(schedule, link_id)
        whole, parts = schedule.schedule.steps, schedule.schedule.blocks.total * schedule.pieces
        before = np.concatenate((np.zeros_like(by_hop[:, :1]), np.cumsum(by_hop, axis=1)), axis=1)
        for step in range(schedule.steps):
            own = before[:, min(step + 1, whole)] - before[:, max(step - schedule.pieces + 1, 0)]
            used = [np.flatnonzero(units) for units in own]
            hops.append(sum(len(at) > 0 for at in used))
            links += [at.astype(np.int32) for at in used if len(at)]
            shares += [own[hop, at] / parts for hop, at in enumerate(used) if len(at)]
        steps.append(schedule.steps)
    below = [UNLIMITED if schedule.below_bytes is None else schedule.below_bytes for schedule in flat]
    return ScheduleArrays(
        group_ptr=offsets([len(own) for own in ordered]),
        from_bytes=np.array([schedule.from_bytes for schedule in flat], dtype=np.int64),
        below_bytes=np.array(below, dtype=np.int64),
        step_ptr=offsets(steps),
        hop_ptr=offsets(hops),
        load_ptr=offsets([len(own) for own in links[1:]]),
        link=np.concatenate(links),
        share=np.concatenate(shares),
    )


def _units(group_schedule: GroupSchedule, link_id: Int32s) -> Ints:
    """int64[hops, steps, links], units of the blocks over each link at each hop of their routes."""
    schedule, sends = group_schedule.schedule, group_schedule.schedule.sends
    longest = max((len(route) - 1 for route in schedule.routes), default=0)
    table = np.full((len(schedule.routes), longest), -1, dtype=np.int64)
    for index, route in enumerate(schedule.routes):
        own = [int(link_id[hop]) for hop in pairwise(route)]
        if min(own) < 0:
            raise ValueError("a message goes over a link that does not exist")
        table[index, : len(own)] = own
    size = schedule.blocks.units[sends.block]
    units = np.zeros((longest, schedule.steps, int(link_id.max()) + 1), dtype=np.int64)
    for hop in range(longest):
        link = table[sends.route, hop]
        used = link >= 0
        np.add.at(units[hop], (sends.step[used], link[used]), size[used])
    return units


def hop_matrix(topology: Topology) -> Int32s:
    """int32[n, n]: hops from i to j over the arcs; -1 where there is no path."""
    n, arcs = topology.servers, topology.arcs
    first = offsets(np.bincount(arcs[:, 0], minlength=n))
    head = arcs[np.argsort(arcs[:, 0], kind="stable"), 1].astype(np.int32)
    return graph.hop_distances(first, head, n).astype(np.int32)


TRIES_PER_SERVER = 400
SEEDS = range(1, 4)


def joined_cycles(factors: Ints, *, seed: int = 1) -> tuple[tuple[int, ...], ...] | None:
    """One Hamiltonian cycle for each factor, together over the same links; None when not found.

    Args:
        factors: int64[m, n, 2], the two neighbours of each server in each factor (twice the same for parallel links).
        seed: of the search.
    """
    cycles = graph.join_cycles(factors, factors.shape[1] * TRIES_PER_SERVER, seed)
    return None if cycles is None else tuple(map(tuple, cycles.tolist()))


def most_cycles(factors: Ints) -> tuple[tuple[int, ...], ...]:
    """Hamiltonian cycles over the links of all factors, else of all but one; none where neither is found.

    Not all can be used always: on a prism over an odd cycle with doubled rungs each of two cycles would cross each rung
    once, and so end on the wrong side.
    """
    fewer = [np.delete(factors, index, axis=0) for index in range(len(factors)) if len(factors) > 1]
    for chosen in (factors, *fewer):
        for seed in SEEDS:
            cycles = joined_cycles(chosen, seed=seed)
            if cycles is not None:
                return cycles
    return ()


def model_parallel_arc_bytes(demand: Demand, topology: Topology, routes: PathTable) -> Floats:
    """float64[m]: bytes each arc carries for others and for itself.

    Raises:
        ValueError: a pair with demand has no route.
    """
    matrix = demand.model_parallel_bytes
    routed = np.zeros(matrix.shape, dtype=bool)
    routed[routes.source, routes.target] = np.diff(routes.pair_ptr) > 0
    if (matrix[~routed] > 0).any():
        raise ValueError("a pair of servers with demand has no route")
    carried = _path_bytes(demand, routes)
    hops = np.diff(routes.path_ptr) - 1
    inner = np.ones(max(len(routes.node) - 1, 0), dtype=bool)
    inner[routes.path_ptr[1:-1] - 1] = False
    arcs = topology.arc_ids()[routes.node[:-1], routes.node[1:]][inner]
    return np.bincount(arcs, weights=np.repeat(carried, hops), minlength=len(topology.arcs)).astype(np.float64)


def _path_bytes(demand: Demand, routes: PathTable) -> Floats:
    pair = np.repeat(np.arange(len(routes.source)), np.diff(routes.pair_ptr))
    sent: Floats = demand.model_parallel_bytes[routes.source, routes.target][pair] * routes.share
    return sent


def allreduce_arc_bytes(demand: Demand, topology: Topology, rings: Sequence[GroupRings]) -> Floats:
    """float64[m]: every member of a group of k sends 2 (k-1)/k of the payload, split over its rings.

    Raises:
        KeyError: a group has no rings.
    """
    arcs = topology.arc_ids()
    total = np.zeros(len(topology.arcs))
    rings_of = {group.members: group.rings for group in rings}
    for wanted in demand.allreduce:
        if wanted.wire_bytes_per_member == 0:
            continue
        for ring in rings_of[wanted.members]:
            tail = np.concatenate([path[:-1] for path in ring.paths])
            head = np.concatenate([path[1:] for path in ring.paths])
            np.add.at(total, arcs[tail, head], wanted.wire_bytes_per_member * ring.share)
    return total


def traffic_figures(
    name: str, plan: str, demand: Demand, topology: Topology, routes: PathTable, rings: Sequence[GroupRings]
) -> TrafficFigures:
    """Bandwidth tax, path lengths and link loads of a demand on a network."""
    hops = np.diff(routes.path_ptr) - 1
    sent = np.bincount(hops, weights=_path_bytes(demand, routes))
    pairs = np.bincount(hops, weights=routes.share)
    parallel = topology.multiplicity

    def per_link(arc_bytes: Floats) -> Floats:
        return np.repeat(arc_bytes / parallel, parallel)

    return TrafficFigures(
        name=name,
        plan=plan,
        servers=topology.servers,
        degree=topology.degree,
        allreduce_bytes=demand.allreduce_wire_bytes,
        model_parallel_bytes=float(demand.model_parallel_bytes.sum()),
        allreduce_link_bytes=per_link(allreduce_arc_bytes(demand, topology, rings)),
        model_parallel_link_bytes=per_link(model_parallel_arc_bytes(demand, topology, routes)),
        byte_hops=sent / sent.sum() if sent.sum() > 0 else np.zeros(0),
        pair_hops=pairs / pairs.sum() if pairs.sum() > 0 else np.zeros(0),
        pair_bytes=ring_pair_bytes(demand, rings, topology.servers) + demand.model_parallel_bytes,
    )


HOP_BITS = 10
"""Hops of a path are counted in so many bits."""

STEP_BITS = 16
"""Segments of a transfer, rounds of a ring and steps of a schedule are counted in so many bits."""


@dataclass(frozen=True, eq=False)
class Network:
    """Links, routes and rings, compiled from a `Fabric` by `compile_network`.

    Attributes:
        servers: n.
        link_ends: int32[L, 2], tail and head node of each directed link (servers are nodes 0..n-1, switches follow).
        link_rate: float64[L], bytes per ms (parallel links merged).
        hop_latency_ms: latency of one hop.
        ring_round_latency_ms: fixed cost of one ring round on the fabric.
        pair_ptr: int64[n*n+1]; paths of ordered pair (i, j) are pair_ptr[i*n+j]..pair_ptr[i*n+j+1].
        path_share: float64[P]; path_ptr: int64[P+1]; path_link: int32[...], link ids along each path.
        groups: member tuples, in the order of `group_ptr`.
        group_size: int32[G].
        group_ptr: int64[G+1]; rings of group g are group_ptr[g]..group_ptr[g+1].
        ring_share: float64[R]; ring_size: int32[R]; ring_ptr: int64[R+1]; the member paths of ring r are
            ring_ptr[r]..ring_ptr[r+1] in member_ptr.
        member_ptr: int64[...+1]; member_link: int32[...], link ids of the path of one ring member to the next.
        schedules: of AllReduces that are not on rings.
        link_sharing: how flows share a link.
        compute_order: in which order servers compute.
    """

    servers: int
    link_ends: Int32s
    link_rate: Floats
    hop_latency_ms: float
    ring_round_latency_ms: float
    pair_ptr: Ints
    path_share: Floats
    path_ptr: Ints
    path_link: Int32s
    groups: tuple[tuple[int, ...], ...]
    group_size: Int32s
    group_ptr: Ints
    ring_share: Floats
    ring_ptr: Ints
    member_ptr: Ints
    member_link: Int32s
    schedules: ScheduleArrays
    link_sharing: LinkSharing = LinkSharing.FIFO
    compute_order: ComputeOrder = ComputeOrder.ARRIVAL

    @property
    def links(self) -> int:
        return len(self.link_rate)

    def require_rings(self, model: str) -> None:
        """Refuse schedules other than rings, and another order of compute, for a time model that has none.

        Raises:
            InputError: there are some.
        """
        if self.compute_order is not ComputeOrder.ARRIVAL:
            raise InputError(f"time model {model} computes in order of arrival only; take rounds or hop")
        if len(self.schedules.from_bytes):
            raise InputError(f"time model {model} knows AllReduces on rings only; take rounds or hop")


class NetworkArrays(NamedTuple):
    """A network as simulations see it; fields as in `Network`; `cut`: segments of transfers go between
    the pieces of what AllReduces send at once; `turns`: after a turn of each of these; `ranked`: servers compute what
    has the longest path of compute to the end first."""

    servers: int
    hop_latency: float
    round_latency: float
    link_rate: Floats
    pair_ptr: Ints
    path_share: Floats
    path_ptr: Ints
    path_link: Int32s
    group_size: Int32s
    group_ptr: Ints
    ring_share: Floats
    ring_ptr: Ints
    member_ptr: Ints
    member_link: Int32s
    schedules: ScheduleArrays
    cut: bool
    turns: bool
    ranked: bool


def network_arrays(network: Network) -> NetworkArrays:
    """The arrays of a network, checked for the ranges that simulations rely on."""
    longest = int(np.diff(network.path_ptr).max(initial=0))
    longest = max(longest, int(np.diff(network.member_ptr).max(initial=0)))
    longest = max(longest, int(np.diff(network.schedules.hop_ptr).max(initial=0)))
    if longest >= (1 << HOP_BITS) - 1:  # the last number has a meaning of its own
        raise ValueError(f"a path has {longest} hops, more than the simulator's {(1 << HOP_BITS) - 2}")
    steps = int(np.diff(network.schedules.step_ptr).max(initial=0))
    if steps >= 1 << STEP_BITS:
        raise ValueError(f"a schedule has {steps} steps, more than the simulator's {(1 << STEP_BITS) - 1}")
    return NetworkArrays._make(
        (
            network.servers,
            float(network.hop_latency_ms),
            float(network.ring_round_latency_ms),
            *(getattr(network, name) for name in NetworkArrays._fields[3:-3]),
            network.link_sharing is not LinkSharing.FIFO,
            network.link_sharing is LinkSharing.FAIR,
            network.compute_order is ComputeOrder.LONGEST_PATH_FIRST,
        )
    )


def _ids_of(nodes: Int32s, table: Int32s, starts: Ints) -> Int32s:
    if len(nodes) < 2:
        return np.zeros(0, dtype=np.int32)
    keep = np.ones(len(nodes) - 1, dtype=bool)
    inner = starts[(starts > 0) & (starts < len(nodes))]
    keep[inner - 1] = False
    ids = table[nodes[:-1], nodes[1:]][keep]
    if (ids < 0).any():
        raise ValueError("a path uses a link that does not exist")
    return ids


def compile_network(
    *,
    servers: int,
    link_ends: Int32s,
    link_rate: Floats,
    hop_latency_ms: float,
    ring_round_latency_ms: float,
    routes: PathTable,
    rings: tuple[GroupRings, ...],
    schedules: Sequence[GroupSchedule] = (),
    link_sharing: LinkSharing = LinkSharing.FIFO,
    compute_order: ComputeOrder = ComputeOrder.ARRIVAL,
) -> Network:
    """Flatten routes, rings and schedules to link ids.

    Raises:
        ValueError: a path uses a link that does not exist.
    """
    nodes_total = max(routes.nodes_total, servers, int(link_ends.max(initial=-1)) + 1)
    table = np.full((nodes_total, nodes_total), -1, dtype=np.int32)
    table[link_ends[:, 0], link_ends[:, 1]] = np.arange(len(link_ends), dtype=np.int32)

    pair_ptr = np.zeros(servers * servers + 1, dtype=np.int64)
    pair_ptr[1 + routes.source.astype(np.int64) * servers + routes.target] = np.diff(routes.pair_ptr)
    np.cumsum(pair_ptr, out=pair_ptr)
    hops = np.maximum(np.diff(routes.path_ptr) - 1, 0)
    path_ptr = offsets(hops)

    member_paths = [path for group in rings for ring in group.rings for path in ring.paths]
    member_hops = np.array([max(len(path) - 1, 0) for path in member_paths], dtype=np.int64)
    member_nodes = np.array([v for path in member_paths for v in path], dtype=np.int32)
    member_starts = offsets([len(path) for path in member_paths])
    on_rings = {tuple(sorted(group.members)) for group in rings}
    others = dict.fromkeys(schedule.members for schedule in schedules if schedule.members not in on_rings)
    groups = (*(group.members for group in rings), *others)
    ring_sizes = [len(ring.paths) for group in rings for ring in group.rings]
    return Network(
        servers=servers,
        link_ends=link_ends,
        link_rate=link_rate,
        hop_latency_ms=hop_latency_ms,
        ring_round_latency_ms=ring_round_latency_ms,
        pair_ptr=pair_ptr,
        path_share=routes.share,
        path_ptr=path_ptr,
        path_link=_ids_of(routes.node, table, routes.path_ptr),
        groups=groups,
        group_size=np.array([len(members) for members in groups], dtype=np.int32),
        group_ptr=np.concatenate(
            ([0], np.cumsum([*(len(group.rings) for group in rings), *(0 for _ in others)]))
        ).astype(np.int64),
        ring_share=np.array([ring.share for group in rings for ring in group.rings], dtype=np.float64),
        ring_ptr=offsets(ring_sizes),
        member_ptr=offsets(member_hops),
        member_link=_ids_of(member_nodes, table, member_starts),
        schedules=schedule_arrays(groups, schedules, table),
        link_sharing=link_sharing,
        compute_order=compute_order,
    )


class WorkloadArrays(NamedTuple):
    """A workload on n servers in flat arrays; operators o, splits by `split_ptr`, input edges e by `edge_ptr`."""

    servers: int
    samples: int
    split_ptr: Ints
    sample_ways: Ints
    channel_ways: Ints
    reduce_ways: Ints
    forward_ms: Floats
    backward_ms: Floats
    memory: Floats
    edge_ptr: Ints
    producer: Ints
    fraction: Floats
    channels: Ints
    element_bytes: Ints
    mixes: Bools
    weight_ptr: Ints
    weight_bytes: Ints
    local_ms: Floats
    group_base: Ints
    pinned: Ints


def workload_arrays(cluster: Cluster, workload: Workload) -> WorkloadArrays:
    """Flatten a workload.

    `pinned` holds the offset of operators that may not move, -1 for the others. `local_ms` is laid out per operator as
    splits x weights: entry (split, w) is the time of the AllReduce inside a server of the part's shard of weight w.
    """
    n = cluster.servers
    group_base = np.full(n + 1, -1, dtype=np.int64)
    for index, members in enumerate(strided_groups(n)):
        if members[0] == 0:
            group_base[len(members)] = index
    operators = workload.operators
    splits = [split for operator in operators for split in operator.splits]
    local = [
        cluster.local_allreduce_ms(GRADIENT_BYTES * elements // (split.channel_ways * split.reduce_ways))
        if operator.locally_reduced
        else 0.0
        for operator in operators
        for split in operator.splits
        for elements in operator.weight_elements
    ]

    return WorkloadArrays(
        servers=n,
        samples=workload.samples,
        split_ptr=offsets([len(operator.splits) for operator in operators]),
        sample_ways=np.array([split.sample_ways for split in splits], dtype=np.int64),
        channel_ways=np.array([split.channel_ways for split in splits], dtype=np.int64),
        reduce_ways=np.array([split.reduce_ways for split in splits], dtype=np.int64),
        forward_ms=np.array([split.forward_ms for split in splits], dtype=np.float64),
        backward_ms=np.array([split.backward_ms for split in splits], dtype=np.float64),
        memory=np.array([split.server_memory_bytes for split in splits], dtype=np.float64),
        edge_ptr=offsets([len(operator.inputs) for operator in operators]),
        producer=np.array([edge.producer for operator in operators for edge in operator.inputs], dtype=np.int64),
        fraction=np.array([edge.fraction for operator in operators for edge in operator.inputs], dtype=np.float64),
        channels=np.array([operator.output_elements for operator in operators], dtype=np.int64),
        element_bytes=np.array([operator.element_bytes for operator in operators], dtype=np.int64),
        mixes=np.array([operator.mixes_channels for operator in operators], dtype=np.bool_),
        weight_ptr=offsets([len(operator.weight_elements) for operator in operators]),
        weight_bytes=np.array(
            [GRADIENT_BYTES * elements for operator in operators for elements in operator.weight_elements],
            dtype=np.int64,
        ),
        local_ms=np.array(local, dtype=np.float64),
        group_base=group_base,
        pinned=np.array([-1 if op.pinned_offset is None else op.pinned_offset for op in operators], dtype=np.int64),
    )


FORWARD, BACKWARD, TRANSFER, ALLREDUCE = 0, 1, 2, 3


class GraphArrays(NamedTuple):
    """A task graph as simulations see it; fields as in `topoopt.core.workload.TaskGraph`."""

    kind: NDArray[np.int8]
    source: Int32s
    target: Int32s
    group: Int32s
    duration: Floats
    size: Ints
    operator: Int32s
    successor_ptr: Ints
    successor: Int32s


def strategy_arrays(strategy: Strategy) -> tuple[Ints, Ints]:
    return (
        np.array([placement.split for placement in strategy.placements], dtype=np.int64),
        np.array([placement.offset for placement in strategy.placements], dtype=np.int64),
    )


def build_task_graph(cluster: Cluster, workload: Workload, strategy: Strategy) -> TaskGraph:
    """Task graph of one iteration; AllReduce groups are all cosets, in the order of `strided_groups(n)`."""
    arrays = GraphArrays(*jobs.lower(workload_arrays(cluster, workload), *strategy_arrays(strategy)))
    return TaskGraph(
        servers=cluster.servers,
        kind=arrays.kind,
        source=arrays.source,
        target=arrays.target,
        group=arrays.group,
        duration_ms=arrays.duration,
        bytes=arrays.size,
        operator=arrays.operator,
        successor_ptr=arrays.successor_ptr,
        successor=arrays.successor,
        groups=strided_groups(cluster.servers),
        operator_names=tuple(operator.name for operator in workload.operators),
    )


def _require_covered(graph: TaskGraph, network: Network, group: Int32s) -> None:
    bare = np.append(np.diff(network.group_ptr) == 0, False)
    left = np.flatnonzero(bare[group] & (group >= 0))
    own = network.schedules
    for s, g in enumerate(np.repeat(np.arange(len(network.groups)), np.diff(own.group_ptr))):
        size = graph.bytes[left]
        left = left[(group[left] != g) | (size < own.from_bytes[s]) | (size >= own.below_bytes[s])]
    if len(left):
        raise ValueError("an AllReduce has neither rings nor a schedule for its payload")


def graph_arrays(graph: TaskGraph, network: Network) -> GraphArrays:
    """The arrays of a task graph, its groups renumbered to those of the network.

    Raises:
        ValueError: an AllReduce group has no rings in the network.
    """
    if graph.groups == network.groups:
        group = graph.group
    else:
        index = {members: position for position, members in enumerate(network.groups)}
        table = np.array([index.get(members, -2) for members in graph.groups] + [-1], dtype=np.int32)
        group = table[graph.group]
        if (group == -2).any():
            raise ValueError("the network has no rings for some AllReduce group")
    if len(network.schedules.from_bytes):
        _require_covered(graph, network, group)
    return GraphArrays(
        graph.kind,
        graph.source,
        graph.target,
        group,
        graph.duration_ms,
        graph.bytes,
        graph.operator,
        graph.successor_ptr,
        graph.successor,
    )


def demand_of(graph: TaskGraph) -> Demand:
    """Demand of one iteration (forward and backward transfers added up)."""
    n = graph.servers
    sent = graph.kind == TaskKind.TRANSFER
    slot = graph.source[sent].astype(np.int64) * n + graph.target[sent]
    matrix = np.zeros((n, n), dtype=np.float64)
    np.add.at(matrix.reshape(-1), slot, graph.bytes[sent].astype(np.float64))
    reduced = (graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0)
    payload = np.bincount(
        graph.group[reduced], weights=graph.bytes[reduced].astype(np.float64), minlength=len(graph.groups)
    )
    return Demand(
        model_parallel_bytes=matrix,
        allreduce=tuple(
            AllReduceDemand(members, float(payload[index]))
            for index, members in enumerate(graph.groups)
            if payload[index] > 0
        ),
    )
