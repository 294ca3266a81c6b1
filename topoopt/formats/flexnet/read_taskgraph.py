"""Reader of the task graphs (`.fbuf`, FlatBuffers) exported by the FlexNet search of the TopoOpt artifact.

A file holds one training iteration (compute tasks, transfers, AllReduces) and the network it was planned for. Files
are untrusted: sizes, offsets, ids and numbers are checked, and everything wrong is listed in one `InputError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, MIB, Int32s, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.routing import PathTable
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.files.reader_fields import FieldTable
from topoopt.files.untrusted import read_bytes
from topoopt.formats.flexnet.buffer import BufferTables, MalformedBufferError, root_table
from topoopt.formats.flexnet.links import read_connections, read_ring_jumps, read_routes, report, topology_of

_ANEW = "replay takes it; an import searches the network anew"
FIELDS: FieldTable = {
    "ngpupernode": ("noted", "GPUs of a server; an import counts one, two where AllReduces take time inside"),
    "nnode": ("used", "servers"),
    "nswitch": ("noted", _ANEW),
    "intergpubw": ("noted", "of the machine model of the search"),
    "drambw": ("noted", "of the machine model of the search"),
    "netbw": ("noted", "rate of an interface; --link-gbps says it"),
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
    except MalformedBufferError as error:
        problems.append(Problem(f"not a FlexNet task graph: {error}"))
        file = None
    if file is None or problems:
        raise InputError([Problem(p.message, name, None, p.path, p.value, p.allowed) for p in problems])
    return file


def _decode(data: bytes, problems: list[Problem]) -> FlexnetFile | None:
    if len(data) < 8:
        raise MalformedBufferError("the file is too short")
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
    """Row of each wanted id, -1 where there is none; ids are process addresses, unique but otherwise meaningless."""
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
    found = device >= 0
    wanted = np.where(compute, _GPU_DEVICE, _CHANNEL_DEVICE)
    wrong_type, out_of_range = np.zeros(len(found), dtype=bool), np.zeros(len(found), dtype=bool)
    wrong_type[found] = device_type[device[found]] != wanted[found]
    limit = np.where(compute, servers, nodes * nodes).astype(np.uint64)
    out_of_range[found] = device_property[device[found]] >= limit[found]
    report(problems, wrong_type, "tasks[{}].deviceid", "a device of the wrong type for this task")
    report(problems, out_of_range, "tasks[{}].deviceid", "its device stands for no server or channel")
    task_ids = tasks.scalar(1, np.uint64).astype(np.uint64)
    owner = np.repeat(np.arange(len(fanout)), fanout)
    edge = ~allreduce[owner]
    successor = _index_of(task_ids, following[edge].astype(np.uint64), "tasks", problems)
    report(problems, successor < 0, "nexttasks[{}]", "no such task", following[edge])
    if len(problems) > before:
        return None
    place = np.full(len(found), -1, dtype=np.int64)
    place[found] = device_property[device[found]].astype(np.int64)
    source = np.where(transfer, place // nodes, place)
    target = np.where(transfer, place % nodes, -1)
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
        operator=np.full(len(found), -1, dtype=np.int32),
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
    """Whether all tasks can be ordered so that each stands before its successors."""
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
