"""A plan is written as a task graph of FlexNet (FlatBuffers), which the public packet simulator replays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS
from topoopt.core.cluster import Cluster, ComputeOrder, LinkDirection, LinkSharing
from topoopt.core.errors import InputError
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, TaskGraph, TaskKind
from topoopt.formats.flexnet import MAX_TASK_BYTES
from topoopt.formats.hosts import PlannedPath, planned_paths
from topoopt.formats.table import Export, Exporter, ExportOptions, plain_name, refuse

Jumps = dict[int, tuple[tuple[int, ...], ...]]
"""By group size the jumps of each ring from a member to the next, hop by hop, modulo the number of servers."""


def ring_jumps(groups: Sequence[GroupRings], number: Sequence[int]) -> Jumps:
    """Jumps of the rings by group size.

    Args:
        groups: rings of all groups.
        number: what each server is called.

    Raises:
        InputError: a ring whose members do not all jump alike, or groups of one size with different rings.
    """
    by_group: Jumps = {}
    for group in groups:
        jumps = []
        for ring in group.rings:
            hops = {
                tuple((number[b] - number[a]) % len(number) for a, b in itertools.pairwise(path)) for path in ring.paths
            }
            if len(hops) != 1:
                raise refuse(
                    f"a ring of {len(group.members)} servers is not the same jump from every server, as the format has "
                    "rings, nor is it by the other orders of the servers tried",
                    path="plan.rings",
                    allowed="rings i -> i + p of servers in some order: --method fixed-topology mostly has them",
                )
            jumps.append(hops.pop())
        if by_group.setdefault(len(group.members), tuple(sorted(jumps))) != tuple(sorted(jumps)):
            raise refuse(f"groups of {len(group.members)} servers use different rings", path="plan.rings")
    return by_group


def numbers_and_jumps(groups: Sequence[GroupRings], servers: int) -> tuple[tuple[int, ...], Jumps]:
    """Numbers of the servers, their own if these will do, by which every ring is a jump; and the jumps.

    If rings of all servers are jumps by any numbers, they are by those of the first ring's order: numbers multiplied by
    a number prime to n, or shifted, leave every jump a jump.

    Raises:
        InputError: no numbers tried will do.
    """
    own = tuple(range(servers))
    refused: InputError | None = None
    for number in itertools.chain([own], _along_rings(groups, servers)):
        try:
            return number, ring_jumps(groups, number)
        except InputError as error:
            refused = refused or error
    raise refused or refuse("no rings", path="plan.rings")


def _along_rings(groups: Sequence[GroupRings], servers: int) -> Iterator[tuple[int, ...]]:
    """Numbers by which the k-th rings of the largest groups, which share no server, are jumps of n / group size."""
    size = max((len(group.members) for group in groups), default=0)
    largest = [group for group in groups if len(group.members) == size]
    covered = [server for group in largest for server in group.members]
    if not largest or servers % size or len(set(covered)) < len(covered):
        return
    stride = servers // size
    for k in range(min(len(group.rings) for group in largest)):
        number = [-1] * servers
        for index, group in enumerate(largest):
            for step, server in enumerate(group.rings[k].order):
                number[server] = index + stride * step
        left = iter(sorted(set(range(servers)) - set(number)))
        yield tuple(next(left) if at < 0 else at for at in number)


def renumbered_graph(graph: TaskGraph, number: Sequence[int]) -> TaskGraph:
    """The same tasks on servers called otherwise."""
    names = np.array([*number, -1], dtype=np.int32)  # the last one for tasks without a server, which have -1
    groups = tuple(tuple(sorted(number[member] for member in members)) for members in graph.groups)
    return replace(graph, source=names[graph.source], target=names[graph.target], groups=groups)


def renumbered_topology(topology: Topology, number: Sequence[int]) -> Topology:
    """The same links between servers called otherwise."""
    arcs = np.repeat(np.array(number)[topology.arcs], topology.multiplicity, axis=0)
    return Topology.of_arcs(
        topology.servers, arcs, degree=topology.degree, links=topology.links, origin=topology.origin
    )


def renumbered_path(path: PlannedPath, number: Sequence[int]) -> PlannedPath:
    """The same path between servers called otherwise."""
    nodes = tuple(number[node] for node in path.nodes)
    return replace(path, source=nodes[0], target=nodes[-1], nodes=nodes)


GPU, CHANNEL = 0, 14
TYPE = {TaskKind.FORWARD: 0, TaskKind.BACKWARD: 1, TaskKind.TRANSFER: 5, TaskKind.ALLREDUCE: 6}
INTER_GPU_BYTES_PER_MS, DRAM_BYTES_PER_MS = 20.0 * 1024**2, 32.0 * 1024**2
"""Constants of the format's machine model; nothing reads them."""


ANY_NODE = 2**64 - 1


class _Writer:
    def __init__(self) -> None:
        self.builder: Any = flatbuffers.Builder(1 << 20)

    def numbers(self, values: Sequence[int], prepend: str, width: int) -> int:
        self.builder.StartVector(width, len(values), width)
        for value in reversed(values):
            getattr(self.builder, prepend)(value)
        return int(self.builder.EndVector())

    def offsets(self, tables: Sequence[int]) -> int:
        return self.numbers(tables, "PrependUOffsetTRelative", 4)

    def table(self, slots: int, fill: Callable[[Any], None]) -> int:
        self.builder.StartObject(slots)
        fill(self.builder)
        return int(self.builder.EndObject())


def encode(cluster: Cluster, graph: TaskGraph, topology: Topology, paths: Sequence[PlannedPath], jumps: Jumps) -> bytes:
    """The bytes of the file; at most one path a pair."""
    n, out = cluster.servers, _Writer()
    joined = [
        (tail, head, count)
        for (tail, head), count in zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True)
        if tail > head
    ]
    connections = out.offsets([_connection(out, row) for row in joined])
    devices, device_of = _devices(out, graph, n)
    owner = np.repeat(np.arange(graph.tasks), np.diff(graph.successor_ptr))
    reduce = (graph.kind[graph.successor] == TaskKind.ALLREDUCE) & (graph.group[graph.successor] < 0)
    alone = dict(zip(graph.successor[reduce].tolist(), graph.source[owner[reduce]].tolist(), strict=True))
    tasks = out.offsets([_task(out, graph, task, device_of, alone) for task in range(graph.tasks)])
    path_of = {(path.source, path.target): path.nodes for path in paths}
    routes = out.offsets([_route(out, i, j, path_of.get((i, j))) for i in range(n) for j in range(n)])
    rings = out.offsets([_rings(out, size, rows) for size, rows in sorted(jumps.items())])
    operators = out.offsets([_operator(out, number, name) for number, name in enumerate(graph.operator_names)])
    rate = cluster.link_gbps * BYTES_PER_MS_PER_GBPS

    def fill(b: Any) -> None:
        b.PrependUint32Slot(0, 1, 0)
        b.PrependUint32Slot(1, n, 0)
        b.PrependUint32Slot(2, 0, 0)
        b.PrependFloat32Slot(3, INTER_GPU_BYTES_PER_MS, 0.0)
        b.PrependFloat32Slot(4, DRAM_BYTES_PER_MS, 0.0)
        b.PrependFloat32Slot(5, rate, 0.0)
        for slot, vector in ((6, connections), (7, operators), (8, tasks), (9, devices), (10, routes), (11, rings)):
            b.PrependUOffsetTRelativeSlot(slot, vector, 0)

    out.builder.Finish(out.table(12, fill))
    return bytes(out.builder.Output())


def _connection(out: _Writer, row: tuple[int, int, int]) -> int:
    def fill(b: Any) -> None:
        for slot, value in enumerate(row):
            b.PrependUint32Slot(slot, value, 0)

    return out.table(3, fill)


def _operator(out: _Writer, number: int, name: str) -> int:
    text = out.builder.CreateString(name)

    def fill(b: Any) -> None:
        b.PrependUint64Slot(0, number + 1, 0)
        b.PrependUOffsetTRelativeSlot(2, text, 0)

    return out.table(3, fill)


def _devices(out: _Writer, graph: TaskGraph, n: int) -> tuple[int, dict[tuple[int, int], int]]:
    """Devices in use, and the number of that of (server, -1) or (source, target)."""
    compute = graph.kind <= TaskKind.BACKWARD
    wire = graph.kind == TaskKind.TRANSFER
    keys = [(server, -1) for server in sorted(set(graph.source[compute].tolist()))]
    keys += sorted(set(zip(graph.source[wire].tolist(), graph.target[wire].tolist(), strict=True)))
    number = {key: index + 1 for index, key in enumerate(keys)}

    def row(key: tuple[int, int]) -> int:
        server = key[1] < 0

        def fill(b: Any) -> None:
            b.PrependInt16Slot(0, GPU if server else CHANNEL, 0)
            b.PrependUint64Slot(1, number[key], 0)
            b.PrependUint64Slot(2, key[0] if server else ANY_NODE, 0)
            b.PrependUint64Slot(3, key[0] if server else key[0] * n + key[1], 0)

        return out.table(5, fill)

    return out.offsets([row(key) for key in keys]), number


def _task(
    out: _Writer, graph: TaskGraph, task: int, device_of: dict[tuple[int, int], int], alone: dict[int, int]
) -> int:
    kind = TaskKind(int(graph.kind[task]))
    source, target = int(graph.source[task]), int(graph.target[task])
    if kind is TaskKind.ALLREDUCE:
        group = int(graph.group[task])
        after, device = list(graph.groups[group]) if group >= 0 else [alone[task]], 0
    else:
        span = slice(int(graph.successor_ptr[task]), int(graph.successor_ptr[task + 1]))
        after = [following + 1 for following in graph.successor[span].tolist()]
        device = device_of[source, target if kind is TaskKind.TRANSFER else -1]
    vector = out.numbers(after, "PrependUint64", 8)

    def fill(b: Any) -> None:
        b.PrependInt16Slot(0, TYPE[kind], 0)
        b.PrependUint64Slot(1, task + 1, 0)
        b.PrependUint64Slot(2, device, 0)
        b.PrependFloat32Slot(3, float(graph.duration_ms[task]), 0.0)
        b.PrependUint64Slot(4, int(graph.bytes[task]), 0)
        b.PrependUOffsetTRelativeSlot(5, vector, 0)

    return out.table(6, fill)


def _route(out: _Writer, source: int, target: int, path: tuple[int, ...] | None) -> int:
    def entry(nodes: tuple[int, ...]) -> int:
        vector = out.numbers(nodes, "PrependUint32", 4)

        def fill(b: Any) -> None:
            b.PrependUOffsetTRelativeSlot(0, vector, 0)
            b.PrependFloat32Slot(1, 1.0, 0.0)

        return out.table(2, fill)

    rows = out.offsets([] if path is None else [entry(path)])

    def fill(b: Any) -> None:
        b.PrependUint32Slot(0, source, 0)
        b.PrependUint32Slot(1, target, 0)
        b.PrependUOffsetTRelativeSlot(2, rows, 0)

    return out.table(3, fill)


def _rings(out: _Writer, size: int, rows: tuple[tuple[int, ...], ...]) -> int:
    def entry(jumps: tuple[int, ...]) -> int:
        vector = out.numbers(jumps, "PrependInt32", 4)
        return out.table(1, lambda b: b.PrependUOffsetTRelativeSlot(0, vector, 0))

    tables = out.offsets([entry(jumps) for jumps in rows])

    def fill(b: Any) -> None:
        b.PrependUint64Slot(0, size, 0)
        b.PrependUOffsetTRelativeSlot(1, tables, 0)

    return out.table(2, fill)


MAX_SERVERS = 1024


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The file.

    Raises:
        InputError: no instance given, one-way links, rings that the format cannot say, too many servers.
    """
    graph, plan = options.task_graph, solution.plan
    if graph is None:
        raise refuse("a task graph needs the operators of the job", path="instance", allowed="the solved instance")
    plan.require_rings("FlexNet task graphs")
    if plan.topology.links is not LinkDirection.BIDIRECTIONAL:
        raise refuse("the format joins servers in both directions", path="plan.topology.links", value="unidirectional")
    if graph.servers > MAX_SERVERS:
        raise refuse("too many servers: routes of all pairs", value=graph.servers, allowed=f"at most {MAX_SERVERS}")
    if int(graph.bytes.max(initial=0)) > MAX_TASK_BYTES:
        raise refuse("a task of too many bytes", value=int(graph.bytes.max()), allowed=f"at most {MAX_TASK_BYTES}")
    used = {graph.groups[index] for index in graph.group.tolist() if index >= 0}
    number, jumps = numbers_and_jumps([group for group in plan.rings if group.members in used], graph.servers)
    planned = planned_paths(plan)
    widest = {(path.source, path.target): path for path in reversed(planned)}  # by share, the largest first
    paths = [renumbered_path(path, number) for path in widest.values()]
    shares = {len(group.members): {round(ring.share, 9) for ring in group.rings} for group in plan.rings}
    notes = [*EXPORTER.limits]
    cluster = solution.figures.cluster
    sharing = cluster.link_sharing
    if sharing is not LinkSharing.FIFO:
        notes.append(
            f"the plan has links shared {sharing}, which the format does not say: topoopt.replay takes as long with "
            f"link_sharing={sharing}, a packet simulator with one class of traffic may not"
        )
    if cluster.compute_order is not ComputeOrder.ARRIVAL:
        notes.append(f"the plan has servers compute {cluster.compute_order}; the simulator computes by arrival")
    if any(len(members) > 1 for members in shares.values()):
        notes.append("rings of unequal shares: the simulator gives all rings of a group size the same share")
    split = len({(path.source, path.target) for path in planned if 0 < path.share < 1 - 1e-9})
    if split:
        notes.append(f"{split} pairs send over several paths; each has the one of the largest share")
    if any(size < graph.servers for size in jumps):
        notes.append("the simulator as released misroutes rings of fewer servers than all: it takes the place of a "
                     "member in its group for the number of its server")  # fmt: skip
    if number != tuple(range(graph.servers)):
        called = ", ".join(f"{server} is {at}" for server, at in enumerate(number))
        notes.append(f"servers are numbered along a ring, so that rings are jumps: {called}")
    renamed, topology = renumbered_graph(graph, number), renumbered_topology(plan.topology, number)
    content = comparable(renamed, topology, jumps, {(path.source, path.target): path.nodes for path in paths})
    file = f"{plain_name(solution.name)}.fbuf"
    return Export(((file, encode(cluster, renamed, topology, paths, jumps)),), content, tuple(notes))


def comparable(
    graph: TaskGraph, topology: Topology, jumps: Jumps, paths: dict[tuple[int, int], tuple[int, ...]]
) -> dict[str, object]:
    """What a reader must find: tasks, links, paths, rings. Times are as exact as the format's 32 bits."""
    arcs = zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True)
    return {
        "kinds": tuple(graph.kind.tolist()),
        "sources": tuple(graph.source.tolist()),
        "targets": tuple(graph.target.tolist()),
        "bytes": tuple(graph.bytes.tolist()),
        "ms": tuple(graph.duration_ms.astype(np.float32).tolist()),
        "groups": tuple(graph.groups[index] if index >= 0 else () for index in graph.group.tolist()),
        "edges": frozenset(
            (task, after)
            for task in range(graph.tasks)
            if graph.kind[task] != TaskKind.ALLREDUCE
            for after in graph.successor[graph.successor_ptr[task] : graph.successor_ptr[task + 1]].tolist()
        ),
        "links": frozenset((tail, head, count) for (tail, head), count in arcs),
        "paths": tuple(sorted(paths.items())),
        "rings": {size: tuple(sorted(rows)) for size, rows in jumps.items()},
    }


EXPORTER = Exporter(
    kinds=("co-optimisation",),
    makes="one .fbuf file: tasks, topology, routes and rings",
    limits=(
        "one path a pair, that of the largest share: the packet simulator of the TopoOpt artifact draws one of those "
        "listed at random, whatever their shares; rings have equal shares",
        "rings must be the same jump from every server of a group, by some order of the servers; others are refused",
        "pairs without traffic get a shortest path; times are 32-bit numbers",
    ),
    folder=False,
    build=build,
    for_instances=("co-optimisation",),
)
