"""Chakra traces of a custom collective (ASTRA-sim) to a program: sends meet receives by peers and tag.

Traces say how many bytes are sent, not which. Where nodes carry chunks besides (`chunk_first` ..., as our own do)
the program is exact; otherwise it tells who can know of whom.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topoopt.core.collective import ChunkProgram, CollectiveOp, DeclaredFigures
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.chakra import NodeType
from topoopt.formats.chakra.stream import COLLECTIVE_FIELDS, TRACE, LeftOver, read_trace, trace_files
from topoopt.formats.schedules import SHARED, ScheduleOptions, collective_named, inputs, no_collective, outputs
from topoopt.formats.schedules.builder import ProgramBuilder

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


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
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
        heads = {rank: attributes(node) for rank, node in firsts.items()}
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


def attributes(message: Any) -> dict[str, Any]:
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
        given = attributes(move)
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
