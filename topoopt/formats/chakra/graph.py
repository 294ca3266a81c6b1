"""The dependency graph of one rank's trace as tasks of the kind `hierarchical-bandwidth`.

Dependencies may point forward in the file, so nodes are put in topological order first (of those that are ready, the
first in the file). An NPU computes one node at a time, in this order, as in ASTRA-sim. A chain of nodes that wait for
nothing else becomes one task; host operators take no time.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.formats.chakra.content import CommType, NodeType
from topoopt.formats.chakra.hierarchy import COLLECTIVES, name_of_spans
from topoopt.formats.chakra.rank import attributes, host_operator, operations_of
from topoopt.formats.chakra.stream import read_trace

MAX_NODES = 4_000_000

Spans = tuple[int, ...]
SpansOf = Callable[[Any, dict[str, Any]], Spans | None]
"""(node, its attributes) -> ranks of its group in each dimension; None: nothing goes over the network."""


class _Nodes:
    """Columns of all nodes in the order of the file."""

    def __init__(self) -> None:
        self.place: dict[int, int] = {}
        self.ns = array("d")
        self.ptr, self.after = array("q", [0]), array("Q")
        self.communication: dict[int, dict[str, Any]] = {}
        self.spans: set[Spans] = set()


def _read(file: FilePath, spans_of: SpansOf, peak_tflops: float | None, control: bool) -> _Nodes:
    nodes = _Nodes()
    stream = read_trace(file)
    next(stream, None)
    for node in stream:
        if node.id in nodes.place:
            raise InputError([Problem("two nodes with one id", str(file), path=f"node {node.id}")])
        if len(nodes.place) >= MAX_NODES:
            raise InputError([Problem("too many nodes for a graph", str(file), allowed=f"at most {MAX_NODES}")])
        place = nodes.place[node.id] = len(nodes.place)
        nodes.ns.append(_time_ns(node, peak_tflops))
        nodes.after.extend(node.data_deps)
        nodes.after.extend(node.ctrl_deps if control else ())
        nodes.ptr.append(len(nodes.after))
        if node.type in (NodeType.COMM_COLL, NodeType.COMM_SEND):
            _add_communication(nodes, place, node, spans_of)
    return nodes


def _time_ns(node: Any, peak_tflops: float | None) -> float:
    if node.type != NodeType.COMP or host_operator(node):
        return 0.0
    if node.duration_micros or peak_tflops is None:
        return float(node.duration_micros) * 1000.0
    return operations_of(node) / peak_tflops / 1000.0


def _add_communication(nodes: _Nodes, place: int, node: Any, spans_of: SpansOf) -> None:
    found = attributes(node)
    size = found.get("comm_size")
    if not size or found.get("is_cpu_op"):
        return
    sends = node.type == NodeType.COMM_SEND
    kind = None if sends else CommType(found["comm_type"])
    spans = None if kind is CommType.BARRIER else spans_of(node, found)
    if spans is None:
        return
    name, factor = ("point-to-point", 1.0) if kind is None else COLLECTIVES[kind]
    nodes.spans.add(spans)
    nodes.communication[place] = {"collective": name, "bytes": factor * size, "communicator": name_of_spans(spans)}


def _order(nodes: _Nodes, file: FilePath) -> tuple[list[int], list[list[int]]]:
    """Places in topological order, and the places every node waits for; a node that is not there is not waited for.

    Raises:
        InputError: a cycle.
    """
    n = len(nodes.ns)
    before: list[list[int]] = []
    users: list[list[int]] = [[] for _ in range(n)]
    for place in range(n):
        wanted = set(nodes.after[nodes.ptr[place] : nodes.ptr[place + 1]])
        own = sorted(nodes.place[number] for number in wanted if number in nodes.place)
        before.append(own)
        for source in own:
            users[source].append(place)
    waiting = [len(own) for own in before]
    ready = [place for place in range(n) if not waiting[place]]
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for user in users[place]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    if len(order) < n:
        ids = {place: number for number, place in nodes.place.items()}
        stuck = ids[next(place for place in range(n) if waiting[place])]
        allowed = "a graph without cycles; --dependencies data leaves those of control out"
        raise InputError([Problem("the dependencies form a cycle", str(file), path=f"node {stuck}", allowed=allowed)])
    last = None
    for place in (place for place in order if nodes.ns[place] > 0):
        if last is not None and last not in before[place]:
            before[place].append(last)
        last = place
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
    for place in order:
        own = before[place]
        ns, sent = nodes.ns[place], nodes.communication.get(place)
        # A node that alone waits for one other, and for nothing else, goes on where that one ended.
        last = tasks[task_of[own[0]]] if len(own) == 1 and uses[own[0]] == 1 else None
        if last is not None and not (ns and last["collectives"]):
            last["compute_ns"] += ns
            last["collectives"] += [sent] if sent else []
            task_of[place] = task_of[own[0]]
            continue
        task_of[place] = len(tasks)
        after = sorted({task_of[source] for source in own})
        tasks.append(
            {"name": f"task {len(tasks)}", "compute_ns": ns, "collectives": [sent] if sent else [], "after": after}
        )
    return tasks, nodes.spans
