"""Traces become workloads of the kind `hierarchical-bandwidth`: collectives, or the task graph of one rank. Execution
traces become instances of three kinds: traffic of a topology, a hierarchical workload, or a job.
"""

from __future__ import annotations

import math
import os
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path as FilePath
from typing import Annotated, Any

import numpy as np
import typer

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.workload import GRADIENT_BYTES, Operator, OperatorInput, Split, Workload
from topoopt.files.job_document import topological_order
from topoopt.formats.astrasim import BLOCKS, dimension_documents, npu_bandwidths, read_network
from topoopt.formats.chakra import CollectiveUse, CommType, NodeType, TraceContent, read_trace, trace_files
from topoopt.formats.chakra.read import (
    Resolver,
    attributes,
    host_operator,
    operations_of,
    read_chakra,
    read_comm_groups,
    read_rank,
)
from topoopt.formats.table import (
    DegreeOption,
    Imported,
    Importer,
    LinkOption,
    LinksOption,
    NameOption,
    QueuesOption,
    hierarchical_document,
    job_of_workload,
    name_of,
    require_choice,
    require_positive,
)

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
    needed = [set(nodes.after[nodes.ptr[index] : nodes.ptr[index + 1]]) for index in range(n)]
    before = [sorted(nodes.index[number] for number in numbers if number in nodes.index) for numbers in needed]
    order, cycle = topological_order(before)
    if cycle:
        ids = {index: number for number, index in nodes.index.items()}
        stuck = ids[min(set(range(n)).difference(order))]
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
        raise_any(resolver.problems)
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


BITS_PER_MS_OF_GBPS = 1e6


def compute_ns(content: TraceContent, peak_tflops: float | None) -> tuple[Floats, tuple[str, ...]]:
    """float64[n], compute time of every rank in nanoseconds, and what was assumed.

    Args:
        content: the traces.
        peak_tflops: rate at which compute nodes run that state operations instead of a time, 10^12 a second.
    """
    recorded_ns = content.compute_us.astype(np.float64) * 1000.0
    if not content.operations.any():
        return recorded_ns, ()
    total = f"{content.operations.max():.6g} operations on the busiest rank"
    if peak_tflops is None:
        return recorded_ns, (f"compute nodes without a time ({total}) are not counted: --peak-tflops tells their rate",)
    added: Floats = recorded_ns + content.operations / peak_tflops / 1000.0
    return added, (f"{total} at {peak_tflops:g} TFLOP/s",)


def servers_of(content: TraceContent, ranks_per_server: int) -> int:
    """Number of servers when consecutive ranks share one.

    Raises:
        InputError: the ranks do not fill whole servers, or fit in one.
    """
    n, rest = divmod(content.ranks, ranks_per_server)
    if rest or n < 2:
        allowed = f"a divisor of {content.ranks} less than it"
        raise InputError(
            [
                Problem(
                    "wrong number of ranks in a server",
                    path="--gpus-per-server",
                    value=str(ranks_per_server),
                    allowed=allowed,
                )
            ]
        )
    return n


def between_servers(matrix: Floats, servers: int) -> Floats:
    """float64[servers, servers]: bytes between ranks added up by server, without what stays inside."""
    size = len(matrix) // servers
    folded: Floats = matrix.reshape(servers, size, servers, size).sum(axis=(1, 3))
    np.fill_diagonal(folded, 0.0)
    return folded


def topology_document(name: str, traffic_bytes: Floats, *, degree: int, links: str, link_gbps: float) -> dict[str, Any]:
    """Instance of kind `topology`.

    Demand is in Gbit/s if the iteration took a millisecond (bytes x 8 / 10^6), so theta is the time in milliseconds
    that the busiest link needs for the traffic of one iteration.
    """
    return {
        "schema_version": 1,
        "kind": "topology",
        "name": name,
        "servers": len(traffic_bytes),
        "degree": degree,
        "links": links,
        "link_gbps": link_gbps,
        "demand": {"unit": "gbps", "matrix": (traffic_bytes * 8 / BITS_PER_MS_OF_GBPS).tolist()},
    }


ORDER_NOTE = "the order of the trace is not kept: the demand is that of a whole iteration"
THETA_NOTE = "theta is the time in ms the busiest link needs for one iteration (demand: Gbit/s if it took 1 ms)"


class Algorithm(StrEnum):
    """How a collective is run."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halving-doubling"


SUPPORTED = (
    CommType.ALL_REDUCE,
    CommType.ALL_GATHER,
    CommType.REDUCE_SCATTER,
    CommType.REDUCE_SCATTER_BLOCK,
    CommType.ALL_TO_ALL,
    CommType.BROADCAST,
    CommType.BARRIER,
)


def refuse_unsupported(uses: Iterable[CollectiveUse], file: str) -> None:
    """Raise InputError for collectives whose bytes are not defined here."""
    other = sorted({use.collective for use in uses} - set(SUPPORTED))
    if other:
        named = ", ".join(kind.name for kind in other)
        allowed = ", ".join(kind.name for kind in SUPPORTED)
        raise InputError([Problem("these collectives are not supported", file, None, None, named, allowed)])


def _ring(kind: CommType, s: float, p: int) -> float:
    if kind is CommType.ALL_TO_ALL:
        return (p - 1) / 2 * s
    return {CommType.ALL_REDUCE: 2 * (p - 1) * s / p, CommType.ALL_GATHER: (p - 1) * s}.get(kind, (p - 1) * s / p)


def block(kind: CommType, size_bytes: float, p: int, algorithm: Algorithm) -> Floats:
    """float64[p, p]: bytes from member to member of one call.

    Raises:
        InputError: halving-doubling among a number of ranks that is no power of two.
    """
    out, here = np.zeros((p, p)), np.arange(p)
    if p == 1 or kind is CommType.BARRIER:
        return out
    if kind is CommType.BROADCAST:  # the root is the first member
        if algorithm is Algorithm.DIRECT:
            out[0, 1:] = size_bytes
        else:
            out[here[:-1], here[1:]] = size_bytes
        return out
    if algorithm is Algorithm.RING:
        out[here, (here + 1) % p] = _ring(kind, size_bytes, p)
    elif algorithm is Algorithm.DIRECT or kind is CommType.ALL_TO_ALL:
        out[:] = {CommType.ALL_REDUCE: 2 * size_bytes / p, CommType.ALL_GATHER: size_bytes}.get(kind, size_bytes / p)
    else:
        if p & (p - 1):
            message = "halving-doubling needs groups of a power of two"
            raise InputError([Problem(message, path="--algorithm", value=f"a group of {p}", allowed="ring, direct")])
        whole = {CommType.ALL_REDUCE: 2 * size_bytes, CommType.ALL_GATHER: size_bytes * p}.get(kind, size_bytes)
        for k in range(p.bit_length() - 1):
            out[here, here ^ (1 << k)] = whole / 2 ** (k + 1)
    np.fill_diagonal(out, 0.0)
    return out


def traffic_matrix(
    content: TraceContent, algorithm: Algorithm = Algorithm.RING, all_to_all: Algorithm = Algorithm.DIRECT
) -> Floats:
    """float64[n, n]: bytes of one iteration from rank to rank; every rank's own calls count what it sends.

    Raises:
        InputError: as `block`.
    """
    demand = content.sent_bytes.astype(np.float64)
    for use in content.uses:
        chosen = all_to_all if use.collective is CommType.ALL_TO_ALL else algorithm
        members = np.array(use.members)
        sent = block(use.collective, float(use.size_bytes), len(members), chosen)
        demand[np.ix_(members, members)] += sent * np.array(use.calls)[:, None]
    return demand


MAX_TENSORS = 200
"""All-reduces of one group kept apart; more are added up."""

Servers = tuple[int, ...]


class _Traffic:
    def __init__(self) -> None:
        self.reduced: dict[Servers, list[float]] = defaultdict(list)
        self.exchanged: dict[Servers, float] = defaultdict(float)
        self.local = self.converted = False
        self.problems: list[Problem] = []

    def add(self, use: CollectiveUse, n: int, per_server: int) -> None:
        servers, ranks = np.unique(np.array(use.members) // per_server, return_counts=True)
        k, calls = len(servers), max(use.calls)
        if use.collective is CommType.BARRIER or not use.size_bytes or not calls:
            return
        if k == 1:
            self.local = self.local or len(use.members) > 1
            return
        shown = str(use.members[:12])[:-1] + (", ...)" if len(use.members) > 12 else ")")
        if ranks.min() != ranks.max():
            self.problems.append(
                Problem("a group with unequal parts in its servers", value=shown, allowed="equal parts")
            )
        elif n % k or servers.tolist() != list(range(int(servers[0]), n, n // k)):
            allowed = "groups of evenly spaced servers (--gpus-per-server puts ranks together), or --as topology"
            self.problems.append(Problem("a group this kind has no split for", value=shown, allowed=allowed))
        else:
            self._count(use, tuple(servers.tolist()), int(ranks[0]), calls)

    def _count(self, use: CollectiveUse, servers: Servers, ranks: int, calls: int) -> None:
        size = float(use.size_bytes)
        if use.collective is CommType.ALL_TO_ALL:
            self.exchanged[servers] += calls * size * ranks
            return
        self.converted = self.converted or use.collective is not CommType.ALL_REDUCE
        payload = {CommType.ALL_REDUCE: size, CommType.ALL_GATHER: size * len(use.members) / 2}
        self.reduced[servers] += [payload.get(use.collective, size / 2)] * calls


def _split(degree: int, ms: float, channels: int = 1) -> tuple[Split, ...]:
    return (Split(degree, ms, 0.0, 0, channel_ways=channels),)


def workload_of_trace(
    content: TraceContent, ranks_per_server: int, compute_ms: float
) -> tuple[Workload, tuple[str, ...]]:
    """Workload whose operators sit where the trace has them, and what was assumed to make it.

    Args:
        content: the traces.
        ranks_per_server: consecutive ranks that share a server.
        compute_ms: compute time of an iteration on one server.

    Raises:
        InputError: groups that are not evenly spaced servers, one-way messages between ranks.
    """
    n = servers_of(content, ranks_per_server)
    traffic = _Traffic()
    for use in content.uses:
        traffic.add(use, n, ranks_per_server)
    sent = between_servers(content.sent_bytes.astype(np.float64), n)
    if not np.array_equal(sent, sent.T):
        i, j = (int(end) for end in np.argwhere(sent != sent.T)[0])
        message = "messages one way only: this kind sends as much back in the backward pass"
        shown = f"{sent[i, j]:.0f} bytes from server {i} to {j}, {sent[j, i]:.0f} back"
        traffic.problems.append(Problem(message, value=shown, allowed="--as topology"))
    if traffic.problems:
        hidden = len(traffic.problems) - 20
        more = [Problem(f"{hidden} further groups")] if hidden > 0 else []
        raise InputError([*traffic.problems[:20], *more])
    operators, notes = _operators(traffic, sent, n, compute_ms)
    return Workload(content.name[:200] or "trace", _samples(traffic, n), operators), notes


def _samples(traffic: _Traffic, n: int) -> int:
    return math.lcm(n, *(len(group) for group in (*traffic.reduced, *traffic.exchanged)))


def _shares(traffic: _Traffic) -> dict[tuple[str, int], float]:
    """Share of the compute time of every class of operators: as its share of the bytes."""
    volume: dict[tuple[str, int], float] = defaultdict(float)
    for group, payloads in traffic.reduced.items():
        volume["reduce", len(group)] += sum(payloads) * len(group)
    for group, size in traffic.exchanged.items():
        volume["exchange", len(group)] += size * len(group)
    whole = sum(volume.values())
    return {key: amount / whole for key, amount in volume.items()}


def _operators(
    traffic: _Traffic, sent: Floats, n: int, compute_ms: float
) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    samples, shares = _samples(traffic, n), _shares(traffic)
    notes = ["compute is placed before the communication of its group; the order of the trace is not kept"]
    made: list[Operator] = []
    if not shares:
        made.append(
            Operator("compute", "compute", 1, 1, (), (), _split(n, compute_ms), locally_reduced=False, pinned_offset=0)
        )
    elif len(shares) > 1:
        notes.append("compute is divided over the kinds of groups in proportion to their bytes")
    for group, apart in sorted(traffic.reduced.items()):
        if len(apart) > MAX_TENSORS:
            notes.append(f"{len(apart)} all-reduces of one group are added up to one")
        payloads = [sum(apart)] if len(apart) > MAX_TENSORS else apart
        weights = tuple(math.ceil(payload / GRADIENT_BYTES) for payload in payloads)
        time = _split(len(group), shares["reduce", len(group)] * compute_ms)
        name = f"all-reduce {len(group)} from {group[0]}"
        made.append(Operator(name, "reduce", 1, 1, weights, (), time, locally_reduced=False, pinned_offset=group[0]))
    for group, size in sorted(traffic.exchanged.items()):
        k = len(group)
        # Each of the k x k cells of samples x channels goes one way forward and is mirrored backward.
        channels = k * math.ceil(size / (2 * samples))
        time = _split(k, shares["exchange", k] * compute_ms)
        name = f"all-to-all {k} from {group[0]}"
        made.append(Operator(f"{name}: sent", "exchange", channels, 1, (), (), time, pinned_offset=group[0]))
        edge = (OperatorInput(len(made) - 1),)
        halves = _split(1, 0.0, k)
        made.append(
            Operator(
                f"{name}: received",
                "exchange",
                channels,
                1,
                (),
                edge,
                halves,
                mixes_channels=False,
                pinned_offset=group[0],
            )
        )
    for i, j in np.argwhere(np.triu(sent) > 0).tolist():
        size = math.ceil(sent[i, j] / samples)
        made.append(Operator(f"messages {i}-{j}: sent", "message", size, 1, (), (), _split(1, 0.0), pinned_offset=i))
        edge = (OperatorInput(len(made) - 1),)
        made.append(
            Operator(f"messages {i}-{j}: received", "message", size, 1, (), edge, _split(1, 0.0), pinned_offset=j)
        )
    if traffic.local:
        notes.append("collectives inside one server are left out")
    if traffic.converted:
        notes.append("all-gathers, reduce-scatters and broadcasts count as all-reduces that send as many bytes")
    return tuple(made), tuple(notes)


SHOWN_COLLECTIVES = 1000
GROUPS_FILE = "comm_groups.json"


def parse_dims(text: str) -> list[dict[str, Any]]:
    """Dimensions of `ring:16,fully-connected:8,switch:32` as they stand in an instance.

    Raises:
        InputError: another shape of text.
    """
    dimensions, problems = [], []
    for number, part in enumerate(text.split(","), 1):
        block, _, size = part.strip().partition(":")
        if block in BLOCKS.values() and re.fullmatch(r"[0-9]{1,8}", size):
            dimensions.append({"name": f"dim{number}", "block": block, "size": int(size)})
        else:
            allowed = f"BLOCK:SIZE parted by commas, BLOCK one of {', '.join(BLOCKS.values())}"
            problems.append(Problem("not a dimension", None, None, "--dims", ascii(part[:40]), allowed))
    raise_any(problems)
    return dimensions


def _shape(
    dims: str | None, network: FilePath | None, total: float | None, queues: int
) -> tuple[list[dict[str, Any]], float, list[str]]:
    """Dimensions and total bandwidth of a hierarchical instance, and what of the network is not used."""
    if (dims is None) == (network is None):
        raise InputError(
            [Problem("this kind needs the dimensions", path="--dims", allowed="--dims or --network, one of them")]
        )
    if network is not None:
        content = read_network(network)
        left_out = [f"{network}: latencies are left out: this kind has none"] if any(content.latency_ns) else []
        return dimension_documents(content), total or sum(npu_bandwidths(content, queues)), left_out
    if total is None:
        raise InputError([Problem("missing", path="--total-gbytes-per-s", allowed="GB/s per NPU over all dimensions")])
    return parse_dims(dims or ""), total, []


Made = tuple[dict[str, Any], Sequence[str], dict[str, Any]]
"""An instance, what was assumed to make it, and figures of its own."""


def _layers(name: str, content: TraceContent, ns: float, dimensions: list[dict[str, Any]], total: float) -> Made:
    workload, notes = layers_workload(content, tuple(dimension["size"] for dimension in dimensions), ns)
    return hierarchical_document(name, dimensions, total, workload), notes, {}


def _topology(
    name: str,
    content: TraceContent,
    ns: float,
    ranks_per_server: int,
    interfaces: dict[str, Any],
    algorithms: tuple[Algorithm, Algorithm],
) -> Made:
    servers = servers_of(content, ranks_per_server)
    demand = between_servers(traffic_matrix(content, *algorithms), servers)
    left_out = f"this kind has no compute: {ns / 1e6:.6g} ms of the busiest rank are left out"
    notes = [*([left_out] if ns else []), ORDER_NOTE, THETA_NOTE]
    return topology_document(name, demand, **interfaces), notes, {"traffic_bytes": float(demand.sum())}


def _workload(name: str, content: TraceContent, ns: float, ranks_per_server: int, interfaces: dict[str, Any]) -> Made:
    workload, notes = workload_of_trace(content, ranks_per_server, ns / 1e6)
    servers = servers_of(content, ranks_per_server)
    cluster = {"servers": servers, "gpus_per_server": ranks_per_server, **interfaces, "gpu_memory_gib": None}
    return job_of_workload(name, cluster, workload), notes, {}


def _groups_beside(path: FilePath, given: FilePath | None) -> tuple[FilePath | None, list[str]]:
    """The file of process groups: as given, else that of the folder of the traces, if it is there."""
    beside = (path if path.is_dir() else path.parent) / GROUPS_FILE
    if given is not None or not beside.is_file():
        return given, []
    return beside, [f"process groups from {beside}"]


def _summary(content: TraceContent, ns: float) -> dict[str, Any]:
    shown = [
        {
            "collective": use.collective.name.lower().replace("_", "-"),
            "members": list(use.members),
            "bytes": use.size_bytes,
            "calls": max(use.calls),
        }
        for use in content.uses[:SHOWN_COLLECTIVES]
    ]
    return {
        "ranks": content.ranks,
        "nodes": content.nodes,
        "compute_ns": ns,
        "collectives": shown,
        "collectives_total": len(content.uses),
        "point_to_point_bytes": int(content.sent_bytes.sum()),
    }


def import_traces(
    path: Annotated[FilePath, typer.Argument(help="Folder or prefix of PREFIX.RANK.et files, or one .et file.")],
    kind: Annotated[str, typer.Option("--as", help="co-optimisation, topology or hierarchical-bandwidth.")],
    ranks: Annotated[int | None, typer.Option(help="Number of ranks, for the trace of a single one.")] = None,
    comm_groups: Annotated[
        FilePath | None, typer.Option(help="JSON file of process groups; default: comm_groups.json beside the traces.")
    ] = None,
    peak_tflops: Annotated[float | None, typer.Option(help="Rate of compute nodes that state operations only.")] = None,
    algorithm: Annotated[str, typer.Option(help="topology: ring, direct or halving-doubling.")] = "ring",
    all_to_all: Annotated[str, typer.Option(help="topology: direct, or ring (relayed).")] = "direct",
    gpus_per_server: Annotated[int, typer.Option(min=1, max=4096, help="Consecutive ranks that share a server.")] = 1,
    degree: DegreeOption = 4,
    link_gbps: LinkOption = 100.0,
    links: LinksOption = "bidirectional",
    dims: Annotated[str | None, typer.Option(help="hierarchical: BLOCK:SIZE,... innermost first.")] = None,
    network: Annotated[
        FilePath | None, typer.Option(help="hierarchical: ASTRA-sim network yml in place of dims.")
    ] = None,
    total_gbytes_per_s: Annotated[float | None, typer.Option(help="hierarchical: GB/s per NPU in all.")] = None,
    loop: Annotated[str, typer.Option(help="hierarchical: no-overlap or dag.")] = "no-overlap",
    dependencies: Annotated[str, typer.Option(help="dag: all, or data (control dependencies left out).")] = "all",
    ring_queues: QueuesOption = 1,
    name: NameOption = None,
) -> Imported:
    """Chakra execution traces, one file a rank: traffic, collectives and compute of a job."""
    require_choice("--as", kind, ("co-optimisation", "topology", "hierarchical-bandwidth"))
    require_choice("--algorithm", algorithm, tuple(Algorithm))
    require_choice("--all-to-all", all_to_all, ("direct", "ring"))
    require_choice("--loop", loop, ("no-overlap", "dag"))
    require_choice("--dependencies", dependencies, ("all", "data"))
    for option, value in (
        ("--peak-tflops", peak_tflops),
        ("--link-gbps", link_gbps),
        ("--total-gbytes-per-s", total_gbytes_per_s),
    ):
        require_positive(option, value)
    hierarchical = kind == "hierarchical-bandwidth"
    shape = _shape(dims, network, total_gbytes_per_s, ring_queues) if hierarchical else ([], 0.0, list[str]())
    dimensions, total, left_out = shape
    sizes = tuple(dimension["size"] for dimension in dimensions)
    groups, beside = _groups_beside(path, comm_groups)
    content = read_chakra(path, ranks=ranks, comm_groups=groups, dims=sizes)
    refuse_unsupported(content.uses, str(path))
    per_rank, notes_of_times = compute_ns(content, peak_tflops)
    job = (name or name_of(path), content, float(per_rank.max()))
    interfaces = {"degree": degree, "link_gbps": link_gbps, "links": links}
    if hierarchical and loop == "dag":
        workload, notes_of_kind = tasks_workload(
            path,
            content.name,
            sizes,
            content.ranks,
            comm_groups=groups,
            peak_tflops=peak_tflops,
            control=dependencies == "all",
        )
        figures = {"tasks": len(workload["tasks"])}
        made: Made = hierarchical_document(job[0], dimensions, total, workload), notes_of_kind, figures
    elif hierarchical:
        made = _layers(*job, dimensions, total)
    elif kind == "topology":
        made = _topology(*job, gpus_per_server, interfaces, (Algorithm(algorithm), Algorithm(all_to_all)))
    else:
        made = _workload(*job, gpus_per_server, interfaces)
    line = f"{content.ranks} ranks, {content.nodes} nodes"
    document, notes, figures = made
    notes = (*beside, *left_out, *content.notes, *notes_of_times, *notes)
    return Imported(document, line, {**_summary(content, job[2]), **figures}, notes)


IMPORTER: Importer = import_traces
