"""Task graphs of FlexNet, the search of the TopoOpt artifact, are read (`.fbuf`, FlatBuffers), every offset checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, MIB, Bools, Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.topology import Topology
from topoopt.core.workload import PathTable, TaskGraph, TaskKind
from topoopt.files.reader_fields import FieldTable
from topoopt.files.untrusted import read_bytes

Positions = Ints

MOST_BEYOND = 16
"""Fields of a table that are looked for beyond those that are known."""

MAX_ROWS = 1 << 22
"""Most tables in one vector (the largest released graph has 2 ** 15)."""

MAX_ELEMENTS = 1 << 24
"""Most elements of one vector field, summed over its rows."""


class Buffer:
    """The bytes of one file, and how many bytes of vectors it may still claim."""

    def __init__(self, data: bytes) -> None:
        self.bytes = np.frombuffer(data, dtype=np.uint8)
        self._vector_bytes_left = len(data)

    def numbers(self, at: Positions, dtype: DTypeLike) -> NDArray[Any]:
        """Little-endian numbers of type `dtype` at the given positions.

        Raises:
            ValueError: one of them is not inside the file.
        """
        kind = np.dtype(dtype).newbyteorder("<")
        if len(at) and (at.min() < 0 or at.max() > len(self.bytes) - kind.itemsize):
            raise ValueError("an offset points outside the file")
        raw = np.empty((len(at), kind.itemsize), dtype=np.uint8)
        for byte in range(kind.itemsize):
            raw[:, byte] = self.bytes[at + byte]
        return raw.view(kind).reshape(len(at)).astype(np.dtype(dtype))

    def integers(self, at: Positions, dtype: DTypeLike) -> Positions:
        """As `numbers`, of an integer type of at most 32 bits, widened to int64."""
        return self.numbers(at, dtype).astype(np.int64)

    def claim(self, count: int) -> None:
        """Account for `count` bytes of vectors.

        Raises:
            ValueError: the vectors read so far are larger than the file, so they overlap.
        """
        self._vector_bytes_left -= count
        if self._vector_bytes_left < 0:
            raise ValueError("the vectors claim more bytes than the file has")


def ranges(start: Positions, length: Positions, step: int) -> Positions:
    """Concatenated start[i], start[i] + step, ... of `length[i]` terms each."""
    first = np.cumsum(length) - length
    within = np.arange(int(length.sum()), dtype=np.int64) - np.repeat(first, length)
    return np.repeat(start, length) + step * within


@dataclass(frozen=True, eq=False)
class BufferTables:
    """Rows of tables of one kind at byte positions `at` (int64[N])."""

    buffer: Buffer
    at: Positions

    def _field(self, slot: int) -> tuple[Bools, Positions]:
        vtable = self.at - self.buffer.integers(self.at, np.int32)
        size = self.buffer.integers(vtable, np.uint16)
        entry = 4 + 2 * slot
        within = size >= entry + 2
        offset = np.zeros(len(self.at), dtype=np.int64)
        offset[within] = self.buffer.integers(vtable[within] + entry, np.uint16)
        present = offset > 0
        return present, (self.at + offset)[present]

    def beyond(self, slots: int) -> list[int]:
        """Fields that some row has after the first `slots`; of far more than are looked at the last alone."""
        vtable = self.at - self.buffer.integers(self.at, np.int32)
        there = (int(self.buffer.integers(vtable, np.uint16).max(initial=4)) - 4) // 2
        looked = min(there, slots + MOST_BEYOND)
        occupied = [slot for slot in range(slots, looked) if self._field(slot)[0].any()]
        return [*occupied, there - 1] if there > looked else occupied

    def scalar(self, slot: int, dtype: DTypeLike) -> NDArray[Any]:
        """The field as an array of N numbers, 0 where absent."""
        present, where = self._field(slot)
        out = np.zeros(len(self.at), dtype=dtype)
        out[present] = self.buffer.numbers(where, dtype)
        return out

    def _vectors(self, slot: int, width: int) -> tuple[Positions, Positions]:
        present, where = self._field(slot)
        vector = where + self.buffer.integers(where, np.uint32)
        start = np.zeros(len(self.at), dtype=np.int64)
        length = np.zeros(len(self.at), dtype=np.int64)
        start[present] = vector + 4
        length[present] = self.buffer.integers(vector, np.uint32)
        if (start + length * width > len(self.buffer.bytes)).any():
            raise ValueError("a vector ends outside the file")
        if length.sum() > MAX_ELEMENTS:
            raise ValueError(f"more than {MAX_ELEMENTS} elements in one kind of vector")
        self.buffer.claim(int(length.sum()) * width)
        return start, length

    def vector(self, slot: int, dtype: DTypeLike) -> tuple[Positions, NDArray[Any]]:
        """A vector-of-numbers field: int64[N] lengths and the concatenated numbers."""
        width = np.dtype(dtype).itemsize
        start, length = self._vectors(slot, width)
        return length, self.buffer.numbers(ranges(start, length, width), dtype)

    def tables(self, slot: int) -> tuple[Positions, BufferTables]:
        """A vector-of-tables field: int64[N] lengths and the concatenated rows."""
        start, length = self._vectors(slot, 4)
        if length.sum() > MAX_ROWS:
            raise ValueError(f"more than {MAX_ROWS} rows in one kind of table")
        where = ranges(start, length, 4)
        return length, BufferTables(self.buffer, where + self.buffer.integers(where, np.uint32))

    def texts(self, slot: int) -> tuple[str, ...]:
        """A string field, empty where absent; bytes that are not UTF-8 are replaced."""
        start, length = self._vectors(slot, 1)
        return tuple(
            self.buffer.bytes[a : a + k].tobytes().decode("utf-8", errors="replace")
            for a, k in zip(start.tolist(), length.tolist(), strict=True)
        )


def root_table(data: bytes) -> BufferTables:
    """The root table of a file, as one row."""
    buffer = Buffer(data)
    return BufferTables(buffer, buffer.integers(np.zeros(1, dtype=np.int64), np.uint32))


SHOWN_PROBLEMS = 5
"""Problems of one sort listed in full; the rest are counted."""

MAX_DEGREE = 64


def report(problems: list[Problem], bad: Bools, path: str, message: str, values: NDArray[Any] | None = None) -> None:
    """Add a problem for the first few rows where `bad` holds; `path` has `{}` for the row."""
    rows = np.flatnonzero(bad)
    for row in rows[:SHOWN_PROBLEMS].tolist():
        value = None if values is None else str(values[row])
        problems.append(Problem(message, path=path.format(row), value=value))
    if len(rows) > SHOWN_PROBLEMS:
        problems.append(Problem(f"{message}: {len(rows) - SHOWN_PROBLEMS} more", path=path.format("...")))


def read_connections(rows: BufferTables, nodes: int, servers: int, problems: list[Problem]) -> Ints:
    """int64[c, 3] of (from, to, parallel links) over nodes 0..nodes-1; each joins two nodes in both directions."""
    before = len(problems)
    table = np.stack([rows.scalar(slot, np.uint32).astype(np.int64) for slot in range(3)], axis=1)
    report(problems, table[:, :2].max(axis=1, initial=0) >= nodes, "conn[{}]", f"joins a node outside 0..{nodes - 1}")
    report(problems, table[:, 0] == table[:, 1], "conn[{}]", "joins a node to itself")
    too_many = (table[:, 2] < 1) | (table[:, 2] > nodes)
    report(problems, too_many, "conn[{}].nconn", f"must be 1..{nodes}", table[:, 2])
    ends = np.sort(table[:, :2], axis=1)
    distinct = np.unique(ends, axis=0)
    if len(distinct) < len(ends):
        problems.append(Problem("the same two nodes are joined twice", path="conn"))
    if len(problems) == before:
        links = np.bincount(table[:, :2].ravel(), weights=np.repeat(table[:, 2], 2), minlength=nodes)[:servers]
        report(problems, links > MAX_DEGREE, "conn, server {}", f"a server has more than {MAX_DEGREE} links", links)
    return table


def colour_arcs(tails: list[int], heads: list[int], servers: int, degree: int) -> Int32s:
    """int32[degree, servers]: arcs as `degree` partial permutations (bipartite edge colouring, Koenig 1916).

    No node may send or receive more than `degree` of the arcs. Where an arc finds no colour free at both ends, the
    colours of an alternating path are swapped.
    """
    send = np.full((degree, servers), -1, dtype=np.int32)
    receive = np.full((degree, servers), -1, dtype=np.int32)
    for tail, head in zip(tails, heads, strict=True):
        out = int(np.flatnonzero(send[:, tail] < 0)[0])
        into = int(np.flatnonzero(receive[:, head] < 0)[0])
        if send[into, tail] < 0:
            out = into
        # Follow the path from `head` whose arcs have colours out, into, out, ... It cannot come back to `tail`.
        path = []
        at, colour, receiving = head, out, True
        while True:
            other = int(receive[colour, at] if receiving else send[colour, at])
            if other < 0:
                break
            path.append((other, at, colour) if receiving else (at, other, colour))
            at, colour, receiving = other, into if colour == out else out, not receiving
        for u, v, c in path:
            send[c, u] = receive[c, v] = -1
        for u, v, c in path:
            swapped = into if c == out else out
            send[swapped, u], receive[swapped, v] = v, u
        send[out, tail], receive[out, head] = head, tail
    return send


def topology_of(connections: Ints, servers: int) -> Topology:
    """The direct-connect topology of checked connections between servers."""
    links = np.repeat(connections[:, :2], connections[:, 2], axis=0)
    both = np.concatenate((links, links[:, ::-1]))
    topology = Topology.of_arcs(servers, both, links=LinkDirection.BIDIRECTIONAL, origin="task graph file")
    arcs = np.repeat(topology.arcs, topology.multiplicity, axis=0)
    return replace(topology, switches=colour_arcs(arcs[:, 0].tolist(), arcs[:, 1].tolist(), servers, topology.degree))


def _shares(chance: Floats, owner: Ints, routes: int) -> Floats:
    """Fraction of its pair's bytes on each path: the chances if they sum to 1, their steps if they climb to 1."""
    total = np.bincount(owner, weights=chance, minlength=routes)
    first = np.concatenate(([True], owner[1:] != owner[:-1])) if len(owner) else np.zeros(0, dtype=bool)
    last = np.concatenate((first[1:], [True])) if len(owner) else first
    step = np.where(first, chance, chance - np.concatenate(([0.0], chance[:-1]))) if len(owner) else chance
    climbs = np.bincount(owner[last], weights=np.abs(chance[last] - 1.0), minlength=routes) < 1e-4
    direct = np.abs(total - 1.0) < 1e-4
    share = np.where(direct[owner], chance, np.where(climbs[owner], step, np.nan))
    total = np.bincount(owner, weights=share, minlength=routes)
    return np.asarray(share / np.where(total[owner] > 0, total[owner], np.nan), dtype=np.float64)


def read_routes(
    rows: BufferTables, connections: Ints, nodes: int, servers: int, problems: list[Problem]
) -> PathTable | None:
    """Paths of all ordered server pairs that have any; None if the file has none or they are wrong."""
    before = len(problems)
    source, target = (rows.scalar(slot, np.uint32).astype(np.int64) for slot in range(2))
    paths, path_rows = rows.tables(2)
    hops, raw = path_rows.vector(0, np.uint32)
    node = raw.astype(np.int64)
    chance = path_rows.scalar(1, np.float32).astype(np.float64)
    report(problems, (source >= servers) | (target >= servers), "routes[{}]", f"ends outside 0..{servers - 1}")
    report(problems, hops < 2, "paths[{}]", "a path needs two nodes or more")
    report(problems, hops > nodes, "paths[{}]", "a path longer than the number of nodes")
    report(problems, node >= nodes, "hopnode[{}]", f"no node of 0..{nodes - 1}", node)
    key = source * nodes + target
    if len(np.unique(key)) < len(key):
        problems.append(Problem("two entries for the same pair of servers", path="routes"))
    if len(problems) > before or len(hops) == 0:
        return None
    owner = np.repeat(np.arange(len(source)), paths)
    end = np.cumsum(hops)
    wrong = (node[end - hops] != source[owner]) | (node[end - 1] != target[owner])
    report(problems, wrong, "paths[{}]", "does not lead from the source to the target of its route")
    joined = np.zeros((nodes, nodes), dtype=bool)
    joined[connections[:, 0], connections[:, 1]] = joined[connections[:, 1], connections[:, 0]] = True
    inside = np.ones(len(node), dtype=bool)
    inside[end - 1] = False
    at = np.flatnonzero(inside)
    missing = ~joined[node[at], node[at + 1]]
    report(problems, missing, "hopnode[{}]", "a path crosses two nodes that are not connected")
    share = _shares(chance, owner, len(source))
    report(problems, ~(share >= 0), "paths[{}].chance", "chances of a route must sum to 1, or climb to 1", chance)
    if len(problems) > before:
        return None
    order = np.argsort(key, kind="stable")
    order = order[paths[order] > 0]
    first_path = np.cumsum(paths) - paths
    picked = ranges(first_path[order], paths[order], 1)
    return PathTable(
        nodes_total=nodes,
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        pair_ptr=np.concatenate(([0], np.cumsum(paths[order]))),
        share=share[picked],
        path_ptr=np.concatenate(([0], np.cumsum(hops[picked]))),
        node=node[ranges((end - hops)[picked], hops[picked], 1)].astype(np.int32),
    )


def read_ring_jumps(
    rows: BufferTables, servers: int, problems: list[Problem]
) -> dict[int, tuple[tuple[int, ...], ...]]:
    """For each group size, the ring descriptors: jumps from a member to the next, hop by hop, modulo `servers`."""
    sizes = rows.scalar(0, np.uint64)
    counts, descriptors = rows.tables(1)
    lengths, jumps = descriptors.vector(0, np.int32)
    report(problems, (sizes < 2) | (sizes > servers), "rings[{}].ringsz", f"must be 2..{servers}", sizes)
    report(problems, (lengths < 1) | (lengths > servers), "ringpaths[{}]", f"must have 1..{servers} jumps")
    report(problems, (jumps % servers) == 0, "jumps[{}]", f"a multiple of {servers} leads nowhere", jumps)
    if len(set(sizes.tolist())) < len(sizes):
        problems.append(Problem("two entries for the same group size", path="rings"))
    flat = jumps.tolist()
    start = (np.cumsum(lengths) - lengths).tolist()
    all_descriptors = [tuple(flat[a : a + k]) for a, k in zip(start, lengths.tolist(), strict=True)]
    out: dict[int, tuple[tuple[int, ...], ...]] = {}
    at = 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        out[size] = tuple(all_descriptors[at : at + count])
        at += count
    return out


_ANEW = "replay takes it; an import searches the network anew"
FIELDS: FieldTable = {
    "ngpupernode": ("noted", "GPUs of a server; an import counts one, two where AllReduces take time inside"),
    "nnode": ("used", "servers"),
    "nswitch": ("noted", _ANEW),
    "intergpubw": ("noted", "of the machine model of the search"),
    "drambw": ("noted", "of the machine model of the search"),
    "netbw": ("noted", "rate of an interface; the setting link_gbps says it"),
    "conn": ("noted", _ANEW),
    "ops[].opid": ("noted", "operators are named in their order"),
    "ops[].type": ("noted", "kind of operator"),
    "ops[].name": ("used", "name of the operator"),
    "tasks[].type": ("used", "forward, backward, transfer, AllReduce"),
    "tasks[].taskid": ("used", "what others refer to"),
    "tasks[].deviceid": ("used", "where it runs"),
    "tasks[].runtime": ("used", "ms"),
    "tasks[].xfersize": ("used", "bytes"),
    "tasks[].nexttasks": ("used", "tasks after it; of an AllReduce its servers"),
    "devices[].type": ("used", "GPU or channel"),
    "devices[].deviceid": ("used", "what tasks refer to"),
    "devices[].nodeid": ("noted", "deviceproperty says it"),
    "devices[].deviceproperty": ("used", "server, or ends of a channel"),
    "devices[].bandwidth": ("noted", "of the machine model of the search"),
    "routes": ("noted", _ANEW),
    "rings": ("noted", _ANEW),
    "any other": ("noted", "fields of other versions of the schema, by their number"),
}
"""By the names of the schema of the search."""

MAX_FILE_BYTES = 256 * MIB
MAX_NODES = 4096
"""Most servers and switches: simulators keep tables of all pairs."""
MAX_TASK_BYTES = 1 << 40
"""Most bytes of one transfer or AllReduce (1 TiB; simulators work through them in segments)."""

_FORWARD, _BACKWARD, _NOMINAL_TRANSFER, _ALLREDUCE = 0, 1, 5, 6
_KIND_OF_TYPE = {
    _FORWARD: TaskKind.FORWARD,
    _BACKWARD: TaskKind.BACKWARD,
    _NOMINAL_TRANSFER: TaskKind.TRANSFER,
    _ALLREDUCE: TaskKind.ALLREDUCE,
}
_GPU_DEVICE, _CHANNEL_DEVICE = 0, 14


@dataclass(frozen=True, eq=False)
class FlexnetFile:
    """Contents of one file.

    Attributes:
        graph: the iteration; operators of tasks are unknown (-1), the format does not tell them.
        servers: n.
        switches: number of switch nodes; they are nodes n, n+1, ...
        gpus_per_server: devices per server in the graph (1 in all released files: a server is one device).
        link_gbps: rate of one interface, Gbit/s.
        connections: int64[c, 3] of (from, to, parallel links), undirected.
        routes: node paths of ordered server pairs, None if the file has none.
        ring_jumps: for each group size, ring descriptors: jumps from a member to the next, hop by hop, modulo n.
        topology: the direct-connect topology, None if the network has switches or no links.
        operator_names: names of the operators of the model, as stored.
        unknown: fields that are not in the schema, as `tasks[], field 6`.
    """

    graph: TaskGraph
    servers: int
    switches: int
    gpus_per_server: int
    link_gbps: float
    connections: Ints
    routes: PathTable | None
    ring_jumps: dict[int, tuple[tuple[int, ...], ...]]
    topology: Topology | None
    operator_names: tuple[str, ...]
    unknown: tuple[str, ...]


def read_flexnet_taskgraph(path: str | Path) -> FlexnetFile:
    """Read a task graph file.

    Raises:
        InputError: the file is missing, too large, not a task graph, or contradicts itself; all problems are listed.
    """
    name = str(path)
    data = read_bytes(name, MAX_FILE_BYTES, "a FlexNet task graph")
    problems: list[Problem] = []
    try:
        with np.errstate(invalid="ignore", over="ignore"):  # NaN and the like are reported, not warned about
            file = _decode(data, problems)
    except ValueError as error:
        problems.append(Problem(f"not a FlexNet task graph: {error}"))
        file = None
    if file is None or problems:
        raise InputError([Problem(p.message, name, None, p.path, p.value, p.allowed) for p in problems])
    return file


def _decode(data: bytes, problems: list[Problem]) -> FlexnetFile | None:
    if len(data) < 8:
        raise ValueError("the file is too short")
    root = root_table(data)
    gpus, servers, switches = (int(root.scalar(slot, np.uint32)[0]) for slot in range(3))
    rate = float(root.scalar(5, np.float32)[0])
    if not 1 <= servers <= MAX_NODES or not 0 <= switches <= MAX_NODES - servers:
        value, allowed = f"{servers} + {switches}", f"at least one server, at most {MAX_NODES} nodes"
        problems.append(Problem("unusable number of servers and switches", path="nnode", value=value, allowed=allowed))
        return None
    if not (np.isfinite(rate) and rate > 0):
        problems.append(Problem("bandwidth must be positive", path="netbw", value=str(rate)))
    nodes = servers + switches
    before = len(problems)
    connections = read_connections(root.tables(6)[1], nodes, servers, problems)
    linked = len(problems) == before
    routes = read_routes(root.tables(10)[1], connections, nodes, servers, problems) if linked else None
    ring_jumps = read_ring_jumps(root.tables(11)[1], servers, problems)
    tasks, devices = root.tables(8)[1], root.tables(9)[1]
    graph = _graph(tasks, devices, servers, nodes, problems)
    operators = root.tables(7)[1]
    names = operators.texts(2)
    if graph is None or problems:
        return None
    return FlexnetFile(
        graph=graph,
        servers=servers,
        switches=switches,
        gpus_per_server=gpus,
        link_gbps=rate / BYTES_PER_MS_PER_GBPS,
        connections=connections,
        routes=routes,
        ring_jumps=ring_jumps,
        topology=topology_of(connections, servers) if switches == 0 and len(connections) else None,
        operator_names=names,
        unknown=tuple(
            f"{name}field {slot}"
            for name, rows, slots in (
                ("", root, 12),
                ("ops[], ", operators, 3),
                ("tasks[], ", tasks, 6),
                ("devices[], ", devices, 5),
            )
            for slot in rows.beyond(slots)
        ),
    )


def _index_of(ids: NDArray[np.uint64], wanted: NDArray[np.uint64], what: str, problems: list[Problem]) -> Ints:
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    if (ordered[1:] == ordered[:-1]).any():
        problems.append(Problem("two rows have the same id", path=what))
    if not len(ids):
        return np.full(len(wanted), -1, dtype=np.int64)
    slot = np.minimum(np.searchsorted(ordered, wanted), len(ids) - 1)
    return np.where(ordered[slot] == wanted, order[slot], -1)


def _graph(
    tasks: BufferTables, devices: BufferTables, servers: int, nodes: int, problems: list[Problem]
) -> TaskGraph | None:
    before = len(problems)
    kind_code = tasks.scalar(0, np.int16).astype(np.int64)
    duration = tasks.scalar(3, np.float32).astype(np.float64)
    size = tasks.scalar(4, np.uint64)
    fanout, following = tasks.vector(5, np.uint64)
    report(problems, ~np.isin(kind_code, list(_KIND_OF_TYPE)), "tasks[{}].type", "unknown type of task", kind_code)
    compute = kind_code <= _BACKWARD
    transfer = kind_code == _NOMINAL_TRANSFER
    allreduce = kind_code == _ALLREDUCE
    timed = compute | allreduce
    report(problems, timed & ~((duration >= 0) & np.isfinite(duration)), "tasks[{}].runtime", "not a time", duration)
    report(problems, ~compute & (size > MAX_TASK_BYTES), "tasks[{}].xfersize", "too many bytes", size)
    device_type = devices.scalar(0, np.int16).astype(np.int64)
    device_property = devices.scalar(3, np.uint64)
    ids = devices.scalar(1, np.uint64).astype(np.uint64)
    device = _index_of(ids, tasks.scalar(2, np.uint64).astype(np.uint64), "devices", problems)
    device[allreduce] = -1
    report(problems, (compute | transfer) & (device < 0), "tasks[{}].deviceid", "no such device")
    measured = device >= 0
    wanted = np.where(compute, _GPU_DEVICE, _CHANNEL_DEVICE)
    wrong_type, out_of_range = np.zeros(len(measured), dtype=bool), np.zeros(len(measured), dtype=bool)
    wrong_type[measured] = device_type[device[measured]] != wanted[measured]
    limit = np.where(compute, servers, nodes * nodes).astype(np.uint64)
    out_of_range[measured] = device_property[device[measured]] >= limit[measured]
    report(problems, wrong_type, "tasks[{}].deviceid", "a device of the wrong type for this task")
    report(problems, out_of_range, "tasks[{}].deviceid", "its device stands for no server or channel")
    task_ids = tasks.scalar(1, np.uint64).astype(np.uint64)
    owner = np.repeat(np.arange(len(fanout)), fanout)
    edge = ~allreduce[owner]
    successor = _index_of(task_ids, following[edge].astype(np.uint64), "tasks", problems)
    report(problems, successor < 0, "nexttasks[{}]", "no such task", following[edge])
    if len(problems) > before:
        return None
    index = np.full(len(measured), -1, dtype=np.int64)
    index[measured] = device_property[device[measured]].astype(np.int64)
    source = np.where(transfer, index // nodes, index)
    target = np.where(transfer, index % nodes, -1)
    switch_end = transfer & ((source >= servers) | (target >= servers))
    report(problems, switch_end, "tasks[{}]", "transfer to or from a switch")
    counts = np.bincount(owner[edge], minlength=len(fanout))
    pointer = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    if not _acyclic(pointer, successor):
        problems.append(Problem("the tasks wait for each other in a circle", path="tasks"))
    group, groups = _groups(np.flatnonzero(allreduce), fanout, following, servers, problems)
    if len(problems) > before:
        return None
    kinds = np.array([_KIND_OF_TYPE.get(code, 0) for code in range(max(_KIND_OF_TYPE) + 1)], dtype=np.int8)
    return TaskGraph(
        servers=servers,
        kind=kinds[kind_code],
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        group=group,
        duration_ms=np.where(timed, duration, 0.0),
        bytes=np.where(compute, 0, size.astype(np.int64)),
        operator=np.full(len(measured), -1, dtype=np.int32),
        successor_ptr=pointer,
        successor=successor.astype(np.int32),
        groups=groups,
    )


def _groups(
    rows: Ints, fanout: Ints, following: NDArray[Any], servers: int, problems: list[Problem]
) -> tuple[Int32s, tuple[tuple[int, ...], ...]]:
    """Group index of each task (-1 for none) and the distinct groups: an AllReduce lists its servers as successors."""
    group = np.full(len(fanout), -1, dtype=np.int32)
    first = np.cumsum(fanout) - fanout
    index: dict[tuple[int, ...], int] = {}
    for row in rows.tolist():
        members = tuple(following[first[row] : first[row] + fanout[row]].tolist())
        if not members or len(set(members)) < len(members) or max(members) >= servers:
            allowed = f"distinct servers of 0..{servers - 1}"
            problems.append(Problem("not a group of servers", path=f"tasks[{row}].nexttasks", allowed=allowed))
        elif len(members) > 1:
            group[row] = index.setdefault(members, len(index))
    return group, tuple(index)


def _acyclic(pointer: Ints, successor: Ints) -> bool:
    waiting = np.bincount(successor, minlength=len(pointer) - 1).tolist()
    start, following = pointer.tolist(), successor.tolist()
    stack = [task for task, count in enumerate(waiting) if count == 0]
    done = 0
    while stack:
        task = stack.pop()
        done += 1
        for then in following[start[task] : start[task + 1]]:
            waiting[then] -= 1
            if waiting[then] == 0:
                stack.append(then)
    return done == len(waiting)
