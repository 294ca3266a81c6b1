"""The bytes of a task graph file (flatbuffer) of the FlexNet search, table by table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS
from topoopt.core.cluster import Cluster
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.formats.flexnet.numbering import Jumps
from topoopt.formats.hosts.planned_paths import PlannedPath

GPU, CHANNEL = 0, 14
TYPE = {TaskKind.FORWARD: 0, TaskKind.BACKWARD: 1, TaskKind.TRANSFER: 5, TaskKind.ALLREDUCE: 6}
INTER_GPU_BYTES_PER_MS, DRAM_BYTES_PER_MS = 20.0 * 1024**2, 32.0 * 1024**2
"""Constants of the format's machine model; nothing reads them."""


ANY_NODE = 2**64 - 1


class _Writer:
    """A file in the making: tables from the leaves up."""

    def __init__(self) -> None:
        self.builder: Any = flatbuffers.Builder(1 << 20)

    def numbers(self, values: Sequence[int], prepend: str, width: int) -> int:
        """A vector of numbers."""
        self.builder.StartVector(width, len(values), width)
        for value in reversed(values):
            getattr(self.builder, prepend)(value)
        return int(self.builder.EndVector())

    def offsets(self, tables: Sequence[int]) -> int:
        """A vector of tables."""
        return self.numbers(tables, "PrependUOffsetTRelative", 4)

    def table(self, slots: int, fill: Callable[[Any], None]) -> int:
        """A table whose slots `fill` sets."""
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
    alone = _alone(graph)
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


def _alone(graph: TaskGraph) -> dict[int, int]:
    """Server of each AllReduce that one server holds alone: the one whose backward task releases it."""
    owner = np.repeat(np.arange(graph.tasks), np.diff(graph.successor_ptr))
    reduce = (graph.kind[graph.successor] == TaskKind.ALLREDUCE) & (graph.group[graph.successor] < 0)
    return dict(zip(graph.successor[reduce].tolist(), graph.source[owner[reduce]].tolist(), strict=True))


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
    def one(nodes: tuple[int, ...]) -> int:
        vector = out.numbers(nodes, "PrependUint32", 4)

        def fill(b: Any) -> None:
            b.PrependUOffsetTRelativeSlot(0, vector, 0)
            b.PrependFloat32Slot(1, 1.0, 0.0)

        return out.table(2, fill)

    rows = out.offsets([] if path is None else [one(path)])

    def fill(b: Any) -> None:
        b.PrependUint32Slot(0, source, 0)
        b.PrependUint32Slot(1, target, 0)
        b.PrependUOffsetTRelativeSlot(2, rows, 0)

    return out.table(3, fill)


def _rings(out: _Writer, size: int, rows: tuple[tuple[int, ...], ...]) -> int:
    def one(jumps: tuple[int, ...]) -> int:
        vector = out.numbers(jumps, "PrependInt32", 4)
        return out.table(1, lambda b: b.PrependUOffsetTRelativeSlot(0, vector, 0))

    tables = out.offsets([one(jumps) for jumps in rows])

    def fill(b: Any) -> None:
        b.PrependUint64Slot(0, size, 0)
        b.PrependUOffsetTRelativeSlot(1, tables, 0)

    return out.table(2, fill)
