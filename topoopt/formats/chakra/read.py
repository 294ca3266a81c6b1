"""Traces of all ranks of a job state its communication: groups of ranks, bytes and compute times."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.collective import ChunkProgram, CollectiveOp, DeclaredFigures
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.files.codec import MAX_SERVERS
from topoopt.files.documents import load_document
from topoopt.files.issues import Issue, value_text
from topoopt.files.reader_fields import FieldTable
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.chakra import (
    COLLECTIVE_FIELDS,
    FIELDS,
    TRACE,
    CollectiveUse,
    CommType,
    LeftOver,
    NodeType,
    TraceContent,
    read_trace,
    trace_files,
)
from topoopt.formats.schedules import (
    SHARED,
    ProgramBuilder,
    ScheduleOptions,
    collective_named,
    inputs,
    no_collective,
    outputs,
)

MAX_BYTES = 1 << 53
"""Largest size of one message; larger ones are not exact as floats."""

SHOWN = 20

Call = tuple[CommType, str | None, tuple[bool, ...], int]
"""Collective, name of the process group, involved dimensions (empty: not said), bytes."""


@dataclass
class RankTrace:
    """What one rank does.

    Attributes:
        rank: its number.
        nodes: in the file.
        calls: how often it takes part in equal collectives.
        sent, received: bytes by peer.
        compute_us: time of compute nodes that are no host operators.
        host_us: time of compute nodes that are host operators.
        operations: of compute nodes without a time.
        groups: process groups it names itself; empty ranks mean all.
        unsized: communication nodes without a size.
        launches: communication nodes of the host that state one.
        left_over: what is not used.
    """

    rank: int
    left_over: LeftOver
    nodes: int = 0
    calls: Counter[Call] = field(default_factory=Counter)
    sent: Counter[int] = field(default_factory=Counter)
    received: Counter[int] = field(default_factory=Counter)
    compute_us: int = 0
    host_us: int = 0
    operations: float = 0.0
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unsized: int = 0
    launches: int = 0


def attributes(node: Any) -> dict[str, Any]:
    """Attributes of a node by name; lists as lists, None where a value is missing."""
    values: dict[str, Any] = {}
    for attribute in node.attr:
        kind = attribute.WhichOneof("value")
        value: Any = getattr(attribute, kind) if kind else None
        values[attribute.name] = list(value.values) if kind and kind.endswith("_list") else value
    return values


def host_operator(node: Any) -> bool:
    """Whether a node runs on the host and only launches work."""
    return any(attribute.name == "is_cpu_op" and _truth(attribute) for attribute in node.attr)


def _truth(attribute: Any) -> bool:
    kind = attribute.WhichOneof("value")
    return bool(kind) and not kind.endswith("_list") and bool(getattr(attribute, kind))


def operations_of(node: Any) -> float:
    """Operations a compute node states, 0 if none."""
    value = attributes(node).get("num_ops")
    return float(value) if isinstance(value, int | float) and 0 < value < float("inf") else 0.0


def process_groups(node: Any) -> dict[str, tuple[int, ...]]:
    """Process groups that a PyTorch metadata node states as JSON inside its inputs; none if there are none."""
    text = node.inputs.values
    if "pg_name" not in text:
        return {}
    begin = re.search(r"\[\s*\{", text)
    end = text.find("]", text.rfind("}"))
    if begin is None or end < begin.start():
        return {}
    listed = text[begin.start() : end + 1]
    for candidate in (listed, listed.replace('\\"', '"')):
        try:
            entries = json.loads(candidate)
            return {str(entry["pg_name"]): _ranks(entry.get("ranks", [])) for entry in entries if "pg_name" in entry}
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
    return {}


def _ranks(listed: object) -> tuple[int, ...]:
    """Ranks of a group, ascending; a list of whole numbers, or a mapping from them."""
    if not isinstance(listed, Sequence | Mapping) or isinstance(listed, str):
        raise TypeError("not a list of ranks")
    return tuple(sorted({int(rank) for rank in listed}))


class _Issues:
    """What is wrong with the nodes of one file."""

    def __init__(self, file: FilePath) -> None:
        self.file, self.count, self.problems = file, 0, list[Problem]()

    def add(self, node: Any, message: str, value: object, allowed: str) -> None:
        self.count += 1
        if self.count <= SHOWN:
            self.problems.append(Problem(message, str(self.file), None, f"node {node.id}", value_text(value), allowed))

    def refuse(self) -> None:
        if self.count > SHOWN:
            self.problems.append(Problem(f"{self.count - SHOWN} further nodes are wrong", str(self.file)))
        raise_any(self.problems)


def _whole(node: Any, values: Mapping[str, Any], key: str, most: int, issues: _Issues) -> int | None:
    value = values.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    issues.add(node, f"{key} is not usable", value, f"a whole number 0 to {most}")
    return None


def _communication(node: Any, trace: RankTrace, ranks: int, issues: _Issues) -> None:
    values = attributes(node)
    if values.get("is_cpu_op"):
        trace.launches += bool(values.get("comm_size"))
        return
    if values.get("comm_size") is None:
        trace.unsized += node.type != NodeType.COMM_COLL or values.get("comm_type") != CommType.BARRIER
        return
    size = _whole(node, values, "comm_size", MAX_BYTES, issues)
    if node.type == NodeType.COMM_COLL:
        kind = _whole(node, values, "comm_type", max(CommType), issues)
        group = values.get("pg_name")
        involved = values.get("involved_dim") or []
        if size is not None and kind is not None:
            dims = tuple(bool(value) for value in involved) if isinstance(involved, list) else ()
            trace.calls[CommType(kind), None if group is None else str(group), dims, size] += 1
        return
    sends = node.type == NodeType.COMM_SEND
    peer = _whole(node, values, "comm_dst" if sends else "comm_src", ranks - 1, issues)
    if peer == trace.rank:
        issues.add(node, "a message of a rank to itself", peer, "another rank")
    elif size is not None and peer is not None:
        (trace.sent if sends else trace.received)[peer] += size


def read_rank(file: FilePath, rank: int, ranks: int) -> RankTrace:
    """Add up one file.

    Args:
        file: trace of the rank.
        rank: its number.
        ranks: n, for the range of peers.

    Raises:
        InputError: not a readable trace, and every node whose numbers cannot be used.
    """
    left_over = LeftOver(file, FIELDS)
    trace, issues = RankTrace(rank, left_over), _Issues(file)
    nodes = read_trace(file)
    left_over.metadata(next(nodes))
    for node in nodes:
        trace.nodes += 1
        left_over.node(node)
        kind = node.type
        if kind == NodeType.COMP:
            if host_operator(node):
                trace.host_us += node.duration_micros
            elif node.duration_micros:
                trace.compute_us += node.duration_micros
            else:
                trace.operations += operations_of(node)
        elif kind in (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV):
            _communication(node, trace, ranks, issues)
        elif kind == NodeType.METADATA:
            trace.groups.update(process_groups(node))
    if trace.compute_us >= 1 << 53:
        raise InputError([Problem("the compute times add up to more than 2^53 us", file=str(file))])
    issues.refuse()
    return trace


GROUP_FIELDS: FieldTable = {"*[]": ("used", "ranks of the process group of that name")}
Groups = Mapping[str, tuple[int, ...]]
ALL_RANKS = ("", "0")
"""Names of the group of all ranks when they are not defined otherwise."""


def read_comm_groups(path: str | os.PathLike[str], ranks: int) -> dict[str, tuple[int, ...]]:
    """Groups of ranks by name, from a JSON file {"1": [0, 1], "2": [2, 3]}.

    Raises:
        InputError: not of that shape, ranks out of range or repeated.
    """
    document = load_document(path)
    data = document.data
    if not isinstance(data, dict):
        document.refuse([Issue((), "not groups of ranks", value_text(data), 'a mapping such as {"1": [0, 1]}')])
        raise AssertionError("refuse returned with a fault")
    issues = []
    groups: dict[str, tuple[int, ...]] = {}
    for name, listed in data.items():
        good = isinstance(listed, list) and all(isinstance(r, int) and not isinstance(r, bool) for r in listed)
        if not good or len(set(listed)) < len(listed) or any(not 0 <= r < ranks for r in listed):
            allowed = f"a list of ranks 0 to {ranks - 1}, each once"
            issues.append(Issue((name,), "not a group of ranks", value_text(listed), allowed))
        else:
            groups[name] = tuple(sorted(listed))
    document.refuse(issues)
    return groups


class Resolver:
    """Members of groups; collects what had to be assumed (`notes`) and what is wrong (`problems`)."""

    def __init__(self, ranks: int, groups: Groups, dims: tuple[int, ...]) -> None:
        self.ranks, self.groups, self.dims = ranks, groups, dims
        self.everyone = tuple(range(ranks))
        self.unknown: set[str] = set()
        self.unplaced = False
        self.problems: list[Problem] = []

    def members(self, trace: RankTrace, group: str | None, involved: tuple[bool, ...], file: str) -> tuple[int, ...]:
        """Ranks of a collective of one rank."""
        if group is not None:
            members = trace.groups.get(group, self.groups.get(group))
            if members is None and group not in ALL_RANKS:
                self.unknown.add(group)
            if members:
                if trace.rank not in members or members[0] < 0 or members[-1] >= self.ranks:
                    allowed = f"a group of ranks 0 to {self.ranks - 1} with rank {trace.rank} in it"
                    message = "a collective in a group that its rank is not in, or of unknown ranks"
                    shown = f"{value_text(group)}: {value_text(list(members[:8]))} of {len(members)} ranks"
                    self.problems.append(Problem(message, file, None, None, shown, allowed))
                return members
            if members is not None or group not in self.unknown:
                return self.everyone
        if not involved or all(involved):
            return self.everyone
        if len(involved) != len(self.dims):
            self.unplaced = True
            return self.everyone
        stride, offsets, base = 1, np.zeros(1, dtype=np.int64), trace.rank
        for size, used in zip(self.dims, involved, strict=True):
            if used:
                base -= (trace.rank // stride % size) * stride
                offsets = (offsets[:, None] + stride * np.arange(size)).reshape(-1)
            stride *= size
        return tuple(sorted(int(base + offset) for offset in offsets))

    def notes(self) -> list[str]:
        notes = []
        if self.unknown:
            shown = ", ".join(value_text(name) for name in sorted(self.unknown)[:8])
            notes.append(f"process groups without a list of ranks are taken as all ranks: {shown}")
        if self.unplaced:
            notes.append("collectives that involve some dimensions are taken over all ranks: the sizes are not given")
        return notes


def shifted(members: Sequence[int], ranks: int) -> list[tuple[int, ...]] | None:
    """All groups that look like `members` (an arithmetic progression) in an SPMD job, None if that is not clear."""
    p = len(members)
    steps = {b - a for a, b in itertools.pairwise(members)}
    stride = next(iter(steps), 1)
    if len(steps) > 1 or ranks % (stride * p):
        return None
    blocks = range(0, ranks, stride * p)
    return [tuple(start + j + stride * i for i in range(p)) for start in blocks for j in range(stride)]


SHOWN_RANKS = 4


def _check_ranks(files: Mapping[int, FilePath], n: int, dims: tuple[int, ...], file: str) -> None:
    """Raise InputError when the traces, the number of ranks and the dimensions do not fit."""

    def wrong(message: str, path: str, value: object, allowed: str) -> InputError:
        return InputError([Problem(message, file, None, path, str(value), allowed)])

    if not 2 <= n <= MAX_SERVERS:
        allowed = f"2 to {MAX_SERVERS}" + ("; for the trace of one rank say how many there are" if n == 1 else "")
        raise wrong("wrong number of ranks", "--set ranks", n, allowed)
    if len(files) not in (1, n):
        raise wrong("the traces are of another number of ranks", "--set ranks", n, str(len(files)))
    if dims and math.prod(dims) != n:
        raise wrong("the dimensions hold another number of ranks", "dims", dims, f"sizes whose product is {n}")
    if max(files) >= n:
        raise wrong("the trace is of a rank there is not", "--set ranks", n, f"more than {max(files)}")


def read_chakra(
    path: str | os.PathLike[str],
    *,
    ranks: int | None = None,
    comm_groups: str | os.PathLike[str] | None = None,
    dims: tuple[int, ...] = (),
) -> TraceContent:
    """Read a job.

    Args:
        path: folder, prefix, or one file (see `trace_files`).
        ranks: n; needed when there is the trace of one rank only.
        comm_groups: JSON file of the groups.
        dims: sizes of the dimensions of the network, innermost first.

    Raises:
        InputError: everything wrong with the files.
    """
    files = trace_files(path)
    n = ranks if ranks is not None else math.prod(dims) if dims and len(files) == 1 else len(files)
    shown = os.fspath(path)
    _check_ranks(files, n, dims, shown)
    groups = read_comm_groups(comm_groups, n) if comm_groups is not None else {}
    resolver = Resolver(n, groups, dims)
    calls: dict[tuple[CommType, tuple[int, ...], int, tuple[bool, ...]], dict[int, int]] = defaultdict(dict)
    sent, received = (np.zeros((n, n), dtype=np.int64) for _ in range(2))
    compute, operations = np.zeros(n, dtype=np.int64), np.zeros(n)
    nodes = unsized = host = launches = 0
    left_over, missing = LeftOver(FilePath(shown), FIELDS), list[str | None]()
    for rank, file in files.items():
        trace = read_rank(file, rank, n)
        launches += trace.launches
        left_over.add(trace.left_over)
        missing.append(trace.left_over.missing())
        nodes, unsized, host = nodes + trace.nodes, unsized + trace.unsized, max(host, trace.host_us)
        compute[rank], operations[rank] = trace.compute_us, trace.operations
        for peer, amount in trace.sent.items():
            sent[rank, peer] = amount
        for peer, amount in trace.received.items():
            received[peer, rank] = amount
        for (kind, group, involved, size), count in trace.calls.items():
            members = resolver.members(trace, group, involved, str(file))
            by_rank = calls[kind, members, size, involved]
            by_rank[rank] = by_rank.get(rank, 0) + count
    raise_any(resolver.problems[:50])
    if nodes == 0:
        raise InputError([Problem("no nodes in these traces", file=shown)])
    notes = [*resolver.notes(), *_first_few([note for note in missing if note]), *left_over.notes()]
    if any(kind is CommType.BROADCAST for kind, *_ in calls):
        notes.append("the root of a broadcast is taken to be the first rank of its group")
    if unsized:
        notes.append(f"{unsized} communication nodes state no size and are left out")
    if host and not compute.any() and not operations.any():
        notes.append(f"compute nodes are host operators only ({host / 1000:.6g} ms): their time is not counted")
    elif host:
        notes.append(f"host operators ({host / 1000:.6g} ms of the busiest rank): their time is not counted")
    if launches:
        notes.append(f"{launches} communication nodes of the host are left out: what they launch counts")
    uses = tuple(
        CollectiveUse(kind, members, size, tuple(by_rank.get(rank, 0) for rank in members), involved)
        for (kind, members, size, involved), by_rank in sorted(calls.items())
    )
    name = next(iter(files.values())).name.removesuffix(".et").rpartition(".")
    content = TraceContent(name[0] or name[2], n, nodes, uses, sent, compute, operations, tuple(notes))
    if len(files) == 1:
        return _replicated(content, next(iter(files)), shown)
    return replace(content, notes=(*notes, *_disagreements(content, received)))


def _first_few(notes: list[str]) -> list[str]:
    more = len(notes) - SHOWN_RANKS
    return [*notes[:SHOWN_RANKS], *([f"{more} more traces have such dependencies"] if more > 0 else [])]


def _disagreements(content: TraceContent, received: Ints) -> list[str]:
    notes = []
    odd = [use for use in content.uses if len(set(use.calls)) > 1]
    if odd:
        use = odd[0]
        example = f"{use.collective.name} of {use.size_bytes} bytes: {min(use.calls)} to {max(use.calls)} calls"
        notes.append(f"members of a group do not take part equally often in {len(odd)} collectives ({example})")
    if received.any() and not np.array_equal(received, content.sent_bytes):
        source, target = (int(end) for end in np.argwhere(received != content.sent_bytes)[0])
        notes.append(
            f"sends and receives disagree: rank {target} receives {received[source, target]} bytes from rank {source}, "
            f"which sends {content.sent_bytes[source, target]}; sends count"
        )
    return notes


def _replicated(content: TraceContent, rank: int, file: str) -> TraceContent:
    n = content.ranks
    uses: list[CollectiveUse] = []
    for use in content.uses:
        count = use.calls[use.members.index(rank)]
        groups = shifted(use.members, n)
        if groups is None:
            allowed = "a group that can be shifted over all ranks, or the traces of all ranks"
            raise InputError(
                [
                    Problem(
                        "the groups of the other ranks are not clear", file, None, None, str(use.members[:20]), allowed
                    )
                ]
            )
        uses += [replace(use, members=members, calls=(count,) * len(members)) for members in groups]
    shift = (np.arange(n)[None, :] - np.arange(n)[:, None]) % n
    note = f"one trace: all {n} ranks are taken to do the same (groups and peers shifted)"
    return replace(
        content,
        uses=tuple(sorted(uses, key=lambda use: (use.collective, use.members, use.size_bytes, use.involved_dims))),
        sent_bytes=np.roll(content.sent_bytes[rank], -rank)[shift],
        compute_us=np.full(n, content.compute_us[rank]),
        operations=np.full(n, content.operations[rank]),
        notes=(*content.notes, note),
    )


MOST_CHUNKS = 1_000_000


@dataclass
class _Read:
    """Traces while they are read: cells of buffers, actions by node, halves of messages by (from, to, tag)."""

    builder: ProgramBuilder
    exact: bool
    first: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    sends: dict[tuple[int, int, int], list[tuple[int, int, list[int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    receives: dict[tuple[int, int, int], list[tuple[int, int, list[int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )


def read_schedule(path: FilePath, options: ScheduleOptions) -> ChunkProgram:
    """Traces of all ranks: a folder, or a prefix of PREFIX.RANK.et.

    Raises:
        InputError: not such files.
    """
    files = trace_files(path)
    if len(files) < 2:
        raise refusal("the trace of one rank alone", str(path), allowed="PREFIX.RANK.et of all ranks")
    streams = {rank: read_trace(file) for rank, file in files.items()}
    left_over = LeftOver(path, COLLECTIVE_FIELDS)
    with parsing(str(path), TRACE):
        firsts = {rank: next(stream) for rank, stream in streams.items()}
        for node in firsts.values():
            left_over.metadata(node)
        heads = {rank: scalar_attributes(node) for rank, node in firsts.items()}
        head = heads[0]
        collective = options.collective or collective_named(str(head.get("collective", "")))
        if collective is None:
            raise no_collective(str(path), head.get("collective"))
        builder = ProgramBuilder(str(path), tuple(map(str, range(len(files)))), ("rank", "node"))
        chunks = _count(head.get("vector_chunks", 0))
        work = _Read(builder, chunks > 0)
        if work.exact and collective in SHARED and chunks % len(files):
            raise refusal("no equal shares of all ranks", str(path), value=f"{chunks} chunks, {len(files)} ranks")
        _buffers(work, collective, chunks, heads, options.root)
        for rank, stream in streams.items():
            _nodes(work, rank, stream, left_over)
        _join(work)
    builder.notes.extend(left_over.notes())
    size = head.get("vector_bytes")
    declared = DeclaredFigures(vector_bytes=float(size) if isinstance(size, int) and size > 0 else None)
    return builder.built(
        next(iter(files.values())).name.rsplit(".", 2)[0],
        collective,
        chunks,
        per_share=collective in SHARED,
        declared=declared,
        exact=work.exact,
    )


def scalar_attributes(message: Any) -> dict[str, Any]:
    return {
        attribute.name: getattr(attribute, attribute.WhichOneof("value"))
        for attribute in message.attr
        if attribute.WhichOneof("value")
    }


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_CHUNKS:
        raise ValueError(f"{value!r} is no number of chunks")
    return value


def _buffers(
    work: _Read, collective: CollectiveOp, chunks: int, heads: Mapping[int, Mapping[str, Any]], root: int
) -> None:
    """One memory a rank for input and output (two in an All-to-All, the own part in both), and scratch."""
    builder, ranks = work.builder, len(heads)
    for rank, head in sorted(heads.items()):
        apart = collective is CollectiveOp.ALL_TO_ALL
        both = builder.buffer(rank, "i" if apart else "i/o", chunks or 1)
        work.first[rank, "i"] = both, chunks
        work.first[rank, "o"] = (builder.buffer(rank, "o", chunks) if apart else both), chunks
        scratch = _count(head.get("scratch_chunks", 0))
        work.first[rank, "s"] = builder.buffer(rank, "s", scratch), scratch
    if not work.exact:
        for rank, _, _, whose in outputs(collective, ranks, ranks, root):
            builder.required.append((work.first[rank, "i"][0], 0, whose))
        return
    share = chunks // ranks
    for rank, chunk, label in inputs(collective, ranks, chunks, root):
        offset = rank * share if collective is CollectiveOp.ALLGATHER else 0
        whose = root if collective is CollectiveOp.BROADCAST else rank
        builder.start.append((work.first[rank, "i"][0] + offset + chunk, label, whose))
        if collective is CollectiveOp.ALL_TO_ALL and chunk // share == rank:
            builder.start.append((work.first[rank, "o"][0] + chunk, label, rank))
    for rank, chunk, label, whose in outputs(collective, ranks, chunks, root):
        offset = rank * share if collective is CollectiveOp.REDUCE_SCATTER else 0
        builder.required.append((work.first[rank, "o"][0] + offset + chunk, label, whose))


def _nodes(work: _Read, rank: int, stream: Any, left_over: LeftOver) -> None:
    builder = work.builder
    action: dict[int, int] = {}
    needs: list[tuple[int, list[int]]] = []
    taken: dict[int, list[int]] = {}
    for move in stream:
        number = len(action)
        left_over.fields_of(move)
        if move.type == NodeType.COMM_COLL:
            text = f"rank {rank}, node {move.id} is a whole collective: its schedule is not in the traces"
            raise refusal(text, builder.file, allowed="sends and receives of single messages")
        if move.id in action:
            raise ValueError(f"two nodes {move.id} of rank {rank}")
        own = action[move.id] = builder.single_action((rank, int(move.id)), rank)
        needs.append((own, [*move.data_deps, *move.ctrl_deps]))
        given = scalar_attributes(move)
        cells = _cells(work, rank, given, number)
        size = given.get("comm_size", 0)
        if move.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
            sends = move.type == NodeType.COMM_SEND
            peer = given["comm_dst" if sends else "comm_src"]
            if not isinstance(peer, int) or not 0 <= peer < len(builder.ranks) or peer == rank:
                builder.defect("ranks", f"rank {rank}, node {move.id} is about rank {peer}")
                continue
            key = (rank, peer, int(given["comm_tag"])) if sends else (peer, rank, int(given["comm_tag"]))
            (work.sends if sends else work.receives)[key].append((own, int(size), cells))
            taken[int(move.id)] = cells
            if sends and int(size) > 0:
                units = len(cells) if work.exact else int(size)
                builder.message(own, rank, peer, units, piece=own)
        elif "chunk_added" in given and work.exact:
            for to, source in zip(cells, taken.get(given["chunk_added"], []), strict=True):
                builder.moves.extend(((own, to, to), (own, to, source)))
    for own, wanted in needs:
        for node in wanted:
            if node not in action:
                builder.defect(
                    "deadlock", f"rank {rank}, node {builder.location(own)[1]} waits for node {node}, which is not"
                )
            else:
                builder.edges.append((own, action[node]))


def _cells(work: _Read, rank: int, given: Mapping[str, Any], number: int) -> list[int]:
    if not work.exact or "chunk_first" not in given:
        return []
    base, count = work.first.get((rank, str(given.get("chunk_buffer"))), (0, 0))
    low, size = _count(given["chunk_first"]), _count(given["chunk_count"])
    if low + size > count:
        raise ValueError(f"chunks {low} to {low + size - 1} of rank {rank}, node {number} are beyond the buffer")
    return list(range(base + low, base + low + size))


def _join(work: _Read) -> None:
    builder = work.builder
    for key in sorted({*work.sends, *work.receives}):
        sends, receives = work.sends.get(key, []), work.receives.get(key, [])
        text = f"from rank {key[0]} to rank {key[1]} with tag {key[2]}"
        for (sent, size, source), (taken, capacity, target) in zip(sends, receives, strict=False):
            builder.edges.append((taken, sent))
            if size != capacity or (work.exact and len(source) != len(target)):
                builder.defect("message", f"{size} bytes are sent {text}, {capacity} taken")
                continue
            between = builder.buffer(key[0], f"message to rank {key[1]} with tag {key[2]}, chunk", len(source))
            builder.moves.extend((sent, between + k, step) for k, step in enumerate(source))
            builder.moves.extend((taken, step, between + k) for k, step in enumerate(target))
        if len(sends) > len(receives):
            builder.defect("message", f"what is sent {text} is not taken")
        elif len(receives) > len(sends):
            builder.defect("deadlock", f"what is to come {text} is not sent")
