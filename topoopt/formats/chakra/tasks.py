"""Traces become workloads of the kind `hierarchical-bandwidth`: collectives, or the task graph of one rank."""

from __future__ import annotations

import heapq
import math
import os
from array import array
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.errors import InputError, Problem
from topoopt.formats.chakra import CommType, NodeType, TraceContent
from topoopt.formats.chakra.read import Resolver, attributes, host_operator, operations_of, read_comm_groups, read_rank
from topoopt.formats.chakra.stream import read_trace, trace_files

Coordinates = Ints
Spans = tuple[int, ...]
"""Ranks of a group in each dimension."""

COLLECTIVES = {
    CommType.ALL_REDUCE: ("all-reduce", 1.0),
    CommType.ALL_GATHER: ("all-gather", 1.0),
    CommType.REDUCE_SCATTER: ("reduce-scatter", 1.0),
    CommType.REDUCE_SCATTER_BLOCK: ("reduce-scatter", 1.0),
    CommType.ALL_TO_ALL: ("all-to-all", 1.0),
    CommType.BROADCAST: ("all-reduce", 0.5),  # a chain sends the buffer once, an all-reduce nearly twice
}


def coordinates(ranks: int, dims: tuple[int, ...]) -> Coordinates:
    """int64[n, D], coordinates of every rank, dimension 1 fastest."""
    places = np.unravel_index(np.arange(ranks), dims, order="F")
    return np.column_stack(places).astype(np.int64)


def spans_of(members: tuple[int, ...], places: Coordinates, dims: tuple[int, ...]) -> Spans | None:
    """Ranks of a group in each dimension, None if the group is no product of coordinates that divide the sizes."""
    own = places[list(members)]
    spans = tuple(len(np.unique(column)) for column in own.T)
    whole = math.prod(spans) == len(members)
    return spans if whole and all(size % span == 0 for span, size in zip(spans, dims, strict=True)) else None


def name_of_spans(spans: Spans) -> str:
    """Name of a communicator: `16x1x1`."""
    return "x".join(str(span) for span in spans)


def message_spans(source: int, target: int, places: Coordinates, dims: tuple[int, ...]) -> Spans:
    """Dimensions a message between two ranks passes, with their whole size."""
    differ = places[source] != places[target]
    return tuple(size if passes else 1 for size, passes in zip(dims, differ, strict=True))


def layers_workload(
    content: TraceContent, dims: tuple[int, ...], compute_ns: float
) -> tuple[dict[str, Any], list[str]]:
    """A workload without overlap (all compute, then every collective), as it stands in an instance, and notes.

    Raises:
        InputError: groups that are no product of coordinates.
    """
    places = coordinates(content.ranks, dims)
    volume: dict[tuple[Spans, str], Any] = defaultdict(lambda: np.zeros(content.ranks))
    notes, problems = ["without overlap: all compute of the busiest rank, then every collective"], []
    for use in content.uses:
        if use.collective is CommType.BARRIER or not use.size_bytes or len(use.members) == 1:
            continue
        spans = spans_of(use.members, places, dims)
        name, factor = COLLECTIVES[use.collective]
        if spans is None:
            shown = str(use.members[:12])[:-1] + (", ...)" if len(use.members) > 12 else ")")
            allowed = "groups that are products of coordinates; other sizes or another order of the dimensions"
            problems.append(
                Problem("a group that does not fit the dimensions", path="dims", value=shown, allowed=allowed)
            )
            continue
        volume[spans, name][list(use.members)] += factor * use.size_bytes * np.array(use.calls)
    if problems:
        raise InputError(
            [*problems[:20], *([Problem(f"{len(problems) - 20} further groups")] if len(problems) > 20 else [])]
        )
    if any(use.collective is CommType.BROADCAST for use in content.uses):
        notes.append("a broadcast counts as an all-reduce of half its bytes")
    for source, target in np.argwhere(content.sent_bytes > 0).tolist():
        spans = message_spans(source, target, places, dims)
        volume[spans, "point-to-point"][source] += content.sent_bytes[source, target]
    if content.sent_bytes.any():
        notes.append("messages between two ranks pass every dimension in which the ranks differ")
    if any(len(use.members) == 1 for use in content.uses):
        notes.append("collectives of a single rank are left out")
    collectives = [
        {"collective": name, "bytes": float(amounts.max()), "communicator": name_of_spans(spans)}
        for (spans, name), amounts in sorted(volume.items(), key=lambda item: item[0])
    ]
    layer = {"name": "iteration", "forward": {"compute_ns": compute_ns, "collectives": collectives}}
    workload = {
        "name": content.name[:200] or "trace",
        "communicators": {name_of_spans(spans): list(spans) for spans, _ in sorted(volume)},
        "layers": [layer],
    }
    return workload, notes


MAX_NODES = 4_000_000

SpansOf = Callable[[Any, dict[str, Any]], Spans | None]
"""(node, its attributes) -> ranks of its group in each dimension; None: nothing goes over the network."""


class _Nodes:
    def __init__(self) -> None:
        self.index: dict[int, int] = {}
        self.ns = array("d")
        self.ptr, self.after = array("q", [0]), array("Q")
        self.communication: dict[int, dict[str, Any]] = {}
        self.spans: set[Spans] = set()


def _read(file: FilePath, spans_of: SpansOf, peak_tflops: float | None, control: bool) -> _Nodes:
    nodes = _Nodes()
    stream = read_trace(file)
    next(stream, None)
    for node in stream:
        if node.id in nodes.index:
            raise InputError([Problem("two nodes with one id", str(file), path=f"node {node.id}")])
        if len(nodes.index) >= MAX_NODES:
            raise InputError([Problem("too many nodes for a graph", str(file), allowed=f"at most {MAX_NODES}")])
        index = nodes.index[node.id] = len(nodes.index)
        nodes.ns.append(_time_ns(node, peak_tflops))
        nodes.after.extend(node.data_deps)
        nodes.after.extend(node.ctrl_deps if control else ())
        nodes.ptr.append(len(nodes.after))
        if node.type in (NodeType.COMM_COLL, NodeType.COMM_SEND):
            _add_communication(nodes, index, node, spans_of)
    return nodes


def _time_ns(node: Any, peak_tflops: float | None) -> float:
    if node.type != NodeType.COMP or host_operator(node):
        return 0.0
    if node.duration_micros or peak_tflops is None:
        return float(node.duration_micros) * 1000.0
    return operations_of(node) / peak_tflops / 1000.0


def _add_communication(nodes: _Nodes, index: int, node: Any, spans_of: SpansOf) -> None:
    values = attributes(node)
    size = values.get("comm_size")
    if not size or values.get("is_cpu_op"):
        return
    sends = node.type == NodeType.COMM_SEND
    kind = None if sends else CommType(values["comm_type"])
    spans = None if kind is CommType.BARRIER else spans_of(node, values)
    if spans is None:
        return
    name, factor = ("point-to-point", 1.0) if kind is None else COLLECTIVES[kind]
    nodes.spans.add(spans)
    nodes.communication[index] = {"collective": name, "bytes": factor * size, "communicator": name_of_spans(spans)}


def _order(nodes: _Nodes, file: FilePath) -> tuple[list[int], list[list[int]]]:
    """Places in topological order, and the places every node waits for; a node that is not there is not waited for."""
    n = len(nodes.ns)
    before: list[list[int]] = []
    users: list[list[int]] = [[] for _ in range(n)]
    for index in range(n):
        wanted = set(nodes.after[nodes.ptr[index] : nodes.ptr[index + 1]])
        own = sorted(nodes.index[number] for number in wanted if number in nodes.index)
        before.append(own)
        for source in own:
            users[source].append(index)
    waiting = [len(own) for own in before]
    ready = [index for index in range(n) if not waiting[index]]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    if len(order) < n:
        ids = {index: number for number, index in nodes.index.items()}
        stuck = ids[next(index for index in range(n) if waiting[index])]
        allowed = "a graph without cycles; --dependencies data leaves those of control out"
        raise InputError([Problem("the dependencies form a cycle", str(file), path=f"node {stuck}", allowed=allowed)])
    last = None
    for index in (index for index in order if nodes.ns[index] > 0):
        if last is not None and last not in before[index]:
            before[index].append(last)
        last = index
    return order, before


def task_documents(
    file: FilePath, spans_of: SpansOf, *, peak_tflops: float | None = None, control: bool = True
) -> tuple[list[dict[str, Any]], set[Spans]]:
    """Tasks as they stand in an instance, and the communicators they use.

    Args:
        file: trace of one rank.
        spans_of: where a collective runs.
        peak_tflops: rate of compute nodes that state operations instead of a time.
        control: whether control dependencies count beside those of data.

    Raises:
        InputError: not a readable trace, ids used twice, circular dependencies.
    """
    nodes = _read(file, spans_of, peak_tflops, control)
    order, before = _order(nodes, file)
    uses = [0] * len(order)
    for own in before:
        for source in own:
            uses[source] += 1
    tasks: list[dict[str, Any]] = []
    task_of = [0] * len(order)
    for index in order:
        own = before[index]
        ns, sent = nodes.ns[index], nodes.communication.get(index)
        # A node that alone waits for one other, and for nothing else, goes on where that one ended.
        last = tasks[task_of[own[0]]] if len(own) == 1 and uses[own[0]] == 1 else None
        if last is not None and not (ns and last["collectives"]):
            last["compute_ns"] += ns
            last["collectives"] += [sent] if sent else []
            task_of[index] = task_of[own[0]]
            continue
        task_of[index] = len(tasks)
        after = sorted({task_of[source] for source in own})
        tasks.append(
            {"name": f"task {len(tasks)}", "compute_ns": ns, "collectives": [sent] if sent else [], "after": after}
        )
    return tasks, nodes.spans


def tasks_workload(
    path: str | os.PathLike[str],
    name: str,
    dims: tuple[int, ...],
    ranks: int,
    *,
    comm_groups: FilePath | None = None,
    peak_tflops: float | None = None,
    control: bool = True,
) -> tuple[dict[str, Any], list[str]]:
    """The workload of the first rank as it stands in an instance, and what was assumed.

    Raises:
        InputError: everything wrong with the trace, groups that are no product of coordinates.
    """
    rank, file = next(iter(trace_files(path).items()))
    trace = read_rank(file, rank, ranks)
    resolver = Resolver(ranks, {} if comm_groups is None else read_comm_groups(comm_groups, ranks), dims)
    places = coordinates(ranks, dims)

    def spans_of_node(node: Any, values: dict[str, Any]) -> Spans | None:
        if node.type == NodeType.COMM_SEND:
            return message_spans(rank, values["comm_dst"], places, dims)
        group, involved = values.get("pg_name"), tuple(bool(flag) for flag in values.get("involved_dim") or ())
        members = resolver.members(trace, None if group is None else str(group), involved, str(file))
        if resolver.problems:
            raise InputError(resolver.problems)
        spans = spans_of(members, places, dims) if len(members) > 1 else None
        if spans is None and len(members) > 1:
            allowed = "groups that are products of coordinates; other sizes or another order of the dimensions"
            shown = f"{members[:8]} of {len(members)}"
            raise InputError(
                [
                    Problem(
                        "a group that does not fit the dimensions", str(file), None, f"node {node.id}", shown, allowed
                    )
                ]
            )
        return spans

    tasks, used = task_documents(file, spans_of_node, peak_tflops=peak_tflops, control=control)
    notes = [f"the graph is that of rank {rank}; waiting for other ranks is not in it", *resolver.notes()]
    notes.append("the rank computes one node at a time, in topological order")
    if trace.host_us:
        notes.append(f"host operators ({trace.host_us / 1000:.6g} ms) take no time in the graph")
    workload = {
        "name": name[:200] or "trace",
        "communicators": {name_of_spans(spans): list(spans) for spans in sorted(used)},
        "tasks": tasks,
    }
    return workload, notes
