"""MSCCL++ plans are read to programs: ranks access memory of others, and signals and packets order them. Schedules of
collectives as MSCCL++ plans: every rank writes into the memory of others and signals.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topoopt.core.collective import ChunkProgram, CollectiveOp, CollectiveResult
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.msccl.write import (
    FEWER,
    NAMES,
    ChunkMemory,
    Hop,
    RankSchedule,
    placed_schedule,
    rank_table,
    traffic_of,
)
from topoopt.formats.schedules import (
    MOST_RANKS,
    SHARED,
    ChunkCells,
    ProgramBuilder,
    ScheduleOptions,
    collective_named,
    no_collective,
    read_object,
)
from topoopt.formats.table import (
    NOTES_FILE,
    Export,
    Exporter,
    ExportOptions,
    json_bytes,
    notes_bytes,
    plain_name,
    refuse,
)

WHAT = "an MSCCL++ execution plan (JSON: name, collective, gpus)"
OPERATION_FIELDS: FieldTable = {
    "name": ("used", "what it does; one that is not covered is refused by name"),
    "channel_type": ("used", "of the channels and remote buffers"),
    "channel_ids[]": ("used", "channels, by the lists of the block"),
    "src_buff[].type": ("used", "buffer of the rank"),
    "src_buff[].buffer_id": ("used", "remote buffer, by the lists of the block"),
    "src_buff[].switch_channel_id": ("used", "switch channel, by the lists of the block"),
    "src_buff[].index": ("used", "first chunk"),
    "src_buff[].size": ("used", "chunks"),
    "dst_buff[].type": ("used", "as of src_buff"),
    "dst_buff[].buffer_id": ("used", "as of src_buff"),
    "dst_buff[].switch_channel_id": ("used", "as of src_buff"),
    "dst_buff[].index": ("used", "as of src_buff"),
    "dst_buff[].size": ("used", "as of src_buff"),
    "tbg_info.tb_id": ("used", "which part of the range the block takes"),
    "tbg_info.tbg_size": ("used", "of how many"),
    "semaphore_ids[]": ("used", "semaphores"),
    "barrier_id": ("used", "barrier"),
    "num_threadblocks": ("used", "blocks that meet there"),
    "reduce_op": ("noted", "every reduction is read as a sum"),
}
OPERATION = "gpus[].threadblocks[].ops[]."
FIELDS: FieldTable = {
    "name": ("used", "name of the program"),
    "collective": ("used", "which collective, unless --collective says it"),
    "inplace": ("used", "whether input and output are one buffer"),
    "protocol": ("noted", "Simple or LL"),
    "reuse_resources": ("noted", "of the executor"),
    "num_threads_per_block": ("noted", "of the executor"),
    "use_double_scratch_buffer": ("noted", "of the executor"),
    "buffer_alignment": ("noted", "bytes; parts of thread-block groups are read as equal"),
    "min_message_size": ("noted", "from which size on the plan is taken"),
    "max_message_size": ("noted", "to which size"),
    "gpus[].id": ("used", "rank, as it stands in the list"),
    "gpus[].input_chunks": ("used", "chunks of the input"),
    "gpus[].output_chunks": ("used", "chunks of the output"),
    "gpus[].scratch_chunks": ("used", "chunks of the scratch"),
    "gpus[].channels[].channel_type": ("used", "memory, port or switch"),
    "gpus[].channels[].connected_to[]": ("used", "ranks at the other end"),
    "gpus[].channels[].buffer_type": ("used", "buffer of a switch channel"),
    "gpus[].channels[].buff": ("used", "the same, as other versions of the DSL call it"),
    "gpus[].channels[].rank_groups[].ranks[]": ("used", "ranks at a switch"),
    "gpus[].channels[].rank_groups[][]": ("used", "ranks at a switch"),
    "gpus[].channels[].rank_groups[].size": ("noted", "how many, which the list of ranks says"),
    "gpus[].remote_buffers[].rank": ("used", "whose buffer"),
    "gpus[].remote_buffers[].type": ("used", "which of its buffers"),
    "gpus[].remote_buffers[].access_channel_types": ("noted", "kinds of channels that reach it"),
    "gpus[].semaphores[].init_value": ("used", "free from the start"),
    "gpus[].threadblocks[].id": ("used", "thread block"),
    "gpus[].threadblocks[].channels[].channel_type": ("used", "kind of channels"),
    "gpus[].threadblocks[].channels[].channel_ids[]": ("used", "which of the rank"),
    "gpus[].threadblocks[].channels[].buff": ("noted", "buffer of a switch channel, which the rank's channel says"),
    "gpus[].threadblocks[].remote_buffer_refs[].access_channel_type": ("used", "kind of channels"),
    "gpus[].threadblocks[].remote_buffer_refs[].remote_buffer_ids[]": ("used", "which of the rank"),
    **{f"{OPERATION}{field}": row for field, row in OPERATION_FIELDS.items()},
    f"{OPERATION}iter_context": ("noted", "turns of a pipeline: they are read as one"),
    **{f"{OPERATION}ops[].{field}": row for field, row in OPERATION_FIELDS.items()},
    "any other": ("noted", "written by other versions of MSCCL++"),
}
_OWN_FIELDS = frozenset(field.partition(".")[0].partition("[")[0] for field in OPERATION_FIELDS)
SIGNALS = frozenset({"signal", "rlxsignal", "pws", "pwsf"})
WAITS = frozenset({"wait", "rlxwait"})
COPIES = frozenset({"put", "pws", "pwsf", "get", "copy", "ppkt", "rppkt", "cpkt", "upkt"})
SUMS = frozenset({"re", "res", "rre", "rres", "repkt", "respkt", "recpkt", "recspkt", "glres"})
STORES = frozenset({"gstore"})
SEMAPHORES = frozenset({"sem_acquire", "sem_release"})
OPERATIONS = SIGNALS | WAITS | COPIES | SUMS | STORES | SEMAPHORES | {"nop", "flush", "barrier"}
MOST_CHUNKS = 1_000_000
MOST_PARTS = 1024


@dataclass(frozen=True)
class Range:
    """Chunks of a buffer (i, o or s) of ranks; several ranks stand for a switch that reduces or copies."""

    ranks: tuple[int, ...]
    buffer: str
    index: int
    size: int


@dataclass(frozen=True)
class Operation:
    """An operation: what it reads and writes, and its channels as (type, number at the rank)."""

    name: str
    sources: tuple[Range, ...]
    targets: tuple[Range, ...]
    channels: tuple[tuple[str, int], ...]
    given: Mapping[str, Any]


@dataclass(frozen=True)
class PlanBlock:
    """A thread block."""

    number: int
    channels: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class PlanRank:
    """A rank: chunks of its buffers, and the other end of every channel by type."""

    chunks: Mapping[str, int]
    connected: Mapping[str, tuple[int, ...]]
    blocks: tuple[PlanBlock, ...]
    semaphores: tuple[int, ...]


@dataclass(frozen=True)
class ExecutionPlan:
    """A plan; `chunks` of the whole vector, in an All-to-All of that of each rank; notes of what is not used."""

    name: str
    collective: CollectiveOp
    chunks: int
    in_place: bool
    ranks: tuple[PlanRank, ...]
    notes: tuple[str, ...]


def parsed(path: Path, options: ScheduleOptions) -> ExecutionPlan:
    """A plan.

    Raises:
        InputError: not such a file.
    """
    document, lines = read_object(path, WHAT)
    if "gpus" not in document:
        raise refusal(f"not {WHAT}", str(path), allowed="name, collective, gpus")
    notes = notes_of(lines, FIELDS)
    with parsing(str(path), WHAT):
        collective = options.collective or collective_named(str(document["collective"]))
        if collective is None:
            raise no_collective(str(path), document["collective"])
        gpus = document["gpus"]
        ids = [gpu["id"] for gpu in gpus]
        if not 2 <= len(gpus) <= MOST_RANKS or ids != list(range(len(gpus))):
            raise refusal(
                "wrong ranks", str(path), value=ids[:20], allowed="gpus 0, 1, ... in their order, two or more"
            )
        _refuse_uncovered(gpus, str(path))
        parts = _parts(gpus)
        ranks = tuple(_rank(gpu, len(gpus), parts) for gpu in gpus)
        largest = max(max(rank.chunks["i"], rank.chunks["o"]) for rank in ranks)
        if largest < 1 or (collective in SHARED and largest % len(gpus)):
            raise refusal("no equal shares of all ranks", str(path), value=f"{largest} chunks, {len(gpus)} ranks")
        name = str(document.get("name") or path.stem)
        return ExecutionPlan(name, collective, largest, bool(document.get("inplace", True)), ranks, notes)


def _operations(block: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed: list[Mapping[str, Any]] = []
    for given in block["ops"]:
        pipeline = given["name"] == "pipeline"
        if pipeline != ("ops" in given) or (pipeline and given.keys() & (_OWN_FIELDS - {"name"})):
            raise ValueError(f"operation {given['name']} has {', '.join(given)}")
        listed += given["ops"] if pipeline else [given]
    return listed


def _refuse_uncovered(gpus: Sequence[Mapping[str, Any]], file: str) -> None:
    """Raise InputError for operations whose effect is not known: whatever was found of the plan could be wrong."""
    uncovered: dict[str, str] = {}
    for rank, gpu in enumerate(gpus):
        for block in gpu["threadblocks"]:
            for number, given in enumerate(_operations(block)):
                if given["name"] not in OPERATIONS:
                    where = f"gpu {rank}, threadblock {block['id']}, op {number}"
                    uncovered.setdefault(str(given["name"]), f"{given['name']} at {where}")
    if uncovered:
        names = ", ".join(sorted(OPERATIONS))
        raise refusal("operations that are not covered", file, value="; ".join(uncovered.values()), allowed=names)


def _parts(gpus: Sequence[Mapping[str, Any]]) -> int:
    """Into how many parts each chunk is cut, so that every block of a group of blocks takes whole ones."""
    sizes = {
        _whole(given["tbg_info"]["tbg_size"], MOST_PARTS)
        for gpu in gpus
        for block in gpu["threadblocks"]
        for given in _operations(block)
        if "tbg_info" in given
    }
    return _whole(math.lcm(*sizes), MOST_PARTS)


def _whole(value: object, most: int = MOST_CHUNKS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no number from 0 to {most}")
    return value


def _rank(gpu: Mapping[str, Any], ranks: int, parts: int) -> PlanRank:
    chunks = {letter: _whole(gpu.get(f"{name}_chunks", 0)) * parts for letter, name in zip("ios", BUFFERS, strict=True)}
    connected: dict[str, list[int]] = {}
    switches: list[tuple[str, tuple[int, ...]]] = []
    for channel in gpu.get("channels", ()):
        kind = str(channel["channel_type"])
        if kind == "switch":
            for group in channel["rank_groups"]:
                members = group["ranks"] if isinstance(group, Mapping) else group
                letter = _letter(channel["buffer_type"] if "buffer_type" in channel else channel["buff"])
                switches.append((letter, tuple(_whole(rank, ranks - 1) for rank in members)))
        else:
            connected.setdefault(kind, []).extend(_whole(rank, ranks - 1) for rank in channel["connected_to"])
    remote = [(_whole(buffer["rank"], ranks - 1), _letter(buffer["type"])) for buffer in gpu.get("remote_buffers", ())]
    blocks = tuple(_block(buffer, int(gpu["id"]), remote, switches, parts) for buffer in gpu["threadblocks"])
    counters = tuple(_whole(buffer.get("init_value", 0)) for buffer in gpu.get("semaphores", ()))
    return PlanRank(chunks, {kind: tuple(ends) for kind, ends in connected.items()}, blocks, counters)


BUFFERS = ("input", "output", "scratch")


def _letter(text: object) -> str:
    letter = str(text)[:1]
    if letter not in ("i", "o", "s"):
        raise ValueError(f"no such buffer: {text}")
    return letter


def _block(
    block: Mapping[str, Any],
    rank: int,
    remote: Sequence[tuple[int, str]],
    switches: Sequence[tuple[str, tuple[int, ...]]],
    parts: int,
) -> PlanBlock:
    channels = {
        str(channel["channel_type"]): [_whole(k) for k in channel["channel_ids"]]
        for channel in block.get("channels", ())
    }
    refs = {
        str(channel["access_channel_type"]): [_whole(k) for k in channel["remote_buffer_ids"]]
        for channel in block.get("remote_buffer_refs", ())
    }

    def meant(buffer: Mapping[str, Any], kind: str, group: Mapping[str, Any]) -> Range:
        index, size = _whole(buffer["index"]) * parts, _whole(buffer.get("size", 1)) * parts
        size //= group.get("tbg_size", 1)
        index += _whole(group.get("tb_id", 0), group.get("tbg_size", 1) - 1) * size
        if "type" in buffer:
            return Range((rank,), _letter(buffer["type"]), index, size)
        if "buffer_id" in buffer:
            owner, letter = remote[refs[kind][_whole(buffer["buffer_id"])]]
            return Range((owner,), letter, index, size)
        letter, members = switches[channels["switch"][_whole(buffer["switch_channel_id"])]]
        return Range(members, letter, index, size)

    def operation(given: Mapping[str, Any]) -> Operation:
        kind = str(given.get("channel_type", "memory"))
        group = given.get("tbg_info", {})
        return Operation(
            str(given["name"]),
            tuple(meant(source, kind, group) for source in given.get("src_buff", ())),
            tuple(meant(source, kind, group) for source in given.get("dst_buff", ())),
            tuple((kind, channels[kind][_whole(k)]) for k in given.get("channel_ids", ()) if kind != "switch"),
            given,
        )

    used = sum(len(ids) for ids in channels.values())
    return PlanBlock(_whole(block["id"]), used, tuple(operation(given) for given in _operations(block)))


MOST_CHANNELS = 16
MOST_OPERATIONS = 64


@dataclass
class Meetings:
    """Who meets whom, in order."""

    signals: dict[tuple[int, str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[tuple[int, str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    acquired: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    released: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    barriers: dict[tuple[int, int], list[list[int]]] = field(default_factory=lambda: defaultdict(list))
    packets: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    unpacked: list[tuple[int, int]] = field(default_factory=list)


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """A plan as a program.

    Raises:
        InputError: not such a file.
    """
    plan = parsed(path, options)
    builder = ProgramBuilder(str(path), tuple(map(str, range(len(plan.ranks)))), ("gpu", "threadblock", "op"))
    builder.notes.extend(plan.notes)
    cell = _buffers(builder, plan)
    content = (cell, plan.collective, plan.chunks, options.root)
    builder.begin(*content)
    builder.end(*content)
    meetings = Meetings()
    actions: dict[tuple[int, int], list[int]] = {}
    for rank, block_of_rank in enumerate(plan.ranks):
        for position, block in enumerate(block_of_rank.blocks):
            _check_block(builder, rank, block.number, block.channels, len(block.operations))
            before = None
            for number, operation in enumerate(block.operations):
                action = builder.action((rank, block.number, number), rank, rank * 4096 + block.number)
                if before is not None:
                    builder.edges.append((action, before))
                before = action
                actions.setdefault((rank, position), []).append(action)
                _operation(builder, plan, cell, meetings, rank, operation, action)
    _meet(builder, plan, meetings)
    for rank, block_of_rank in enumerate(plan.ranks):
        _in_step(builder, [actions.get((rank, k), []) for k in range(len(block_of_rank.blocks))], block_of_rank.blocks)
    return builder.built(plan.name, plan.collective, plan.chunks, per_share=plan.collective in SHARED)


def _check_block(builder: ProgramBuilder, rank: int, block: int, channels: int, operations: int) -> None:
    where = f"gpu {rank}, threadblock {block}"
    if channels > MOST_CHANNELS:
        builder.defect("limit", f"{where}: {channels} channels, at most {MOST_CHANNELS}")
    if operations > MOST_OPERATIONS:
        builder.defect("limit", f"{where}: {operations} operations, at most {MOST_OPERATIONS}")


def _buffers(builder: ProgramBuilder, plan: ExecutionPlan) -> ChunkCells:
    first: dict[tuple[int, str], tuple[int, int]] = {}
    share = plan.chunks // len(plan.ranks)
    for rank, block_of_rank in enumerate(plan.ranks):
        small = {CollectiveOp.ALLGATHER: "i", CollectiveOp.REDUCE_SCATTER: "o"}.get(plan.collective)
        sizes = {name: share if name == small else plan.chunks for name in "io"}
        if plan.in_place:
            base = builder.buffer(rank, "i/o", plan.chunks)
            for name, size in sizes.items():
                first[rank, name] = base + (rank * share if name == small else 0), size
        else:
            for name, size in sizes.items():
                first[rank, name] = builder.buffer(rank, name, size), size
        first[rank, "s"] = builder.buffer(rank, "s", block_of_rank.chunks["s"]), block_of_rank.chunks["s"]

    def slot(rank: int, name: str, chunk: int) -> int | None:
        base, count = first[rank, name]
        return base + chunk if 0 <= chunk < count else None

    return slot


def _operation(
    builder: ProgramBuilder,
    plan: ExecutionPlan,
    cell: ChunkCells,
    meetings: Meetings,
    rank: int,
    operation: Operation,
    action: int,
) -> None:
    name = operation.name
    if name in SIGNALS:
        for kind, channel in operation.channels:
            meetings.signals[rank, kind, channel].append(action)
    if name in WAITS:
        for kind, channel in operation.channels:
            meetings.waits[rank, kind, channel].append(action)
    if name in SEMAPHORES:
        held = meetings.acquired if name == "sem_acquire" else meetings.released
        for number in operation.given.get("semaphore_ids", ()):
            held[rank, int(number)].append(action)
    if name == "barrier":
        meetings.barriers[rank, int(operation.given["barrier_id"])].append(
            [action, int(operation.given["num_threadblocks"])]
        )
    if name in COPIES | SUMS | STORES:
        where = f"gpu {rank}, threadblock {builder.location(action)[1]}, op {builder.location(action)[2]}"
        _data(builder, cell, meetings, rank, operation, action, where)


def _data(
    builder: ProgramBuilder,
    cell: ChunkCells,
    meetings: Meetings,
    rank: int,
    operation: Operation,
    action: int,
    where: str,
) -> None:
    def cells(extent: Range, owner: int) -> list[int]:
        cells_read = [cell(owner, extent.buffer, extent.index + k) for k in range(extent.size)]
        if None in cells_read:
            builder.defect("range", f"{where}: {extent.buffer} {extent.index} of rank {owner} is beyond the buffer")
        return [here for here in cells_read if here is not None]

    sources = [[cells(extent, owner) for owner in extent.ranks] for extent in operation.sources]
    targets = [[cells(extent, owner) for owner in extent.ranks] for extent in operation.targets]
    packed = operation.name.endswith("pkt")
    if operation.name in SUMS:
        summed = [[extent for ranks in sources for extent in ranks]] * len(targets)
    elif len(sources) == len(targets):
        summed = sources
    else:
        summed = sources[:1] * len(targets)
    for added, several in zip(summed, targets, strict=True):
        for target in several:
            for own in added:
                builder.moves.extend((action, to, source) for to, source in zip(target, own, strict=False))
                if len(own) != len(target):
                    builder.defect("message", f"{where}: {len(own)} chunks go to {len(target)}")
    for extent, several in zip(operation.sources, sources, strict=True):
        for owner, own in zip(extent.ranks, several, strict=True):
            if owner != rank and own:
                builder.message(action, owner, rank, len(own), piece=own[0])
            if packed and extent.buffer == "s" and operation.name != "cpkt":
                meetings.unpacked += [(action, here) for here in own]
    for extent, several in zip(operation.targets, targets, strict=True):
        for owner, own in zip(extent.ranks, several, strict=True):
            if owner != rank and own:
                first = sources[0][0][0] if sources and sources[0] and sources[0][0] else own[0]
                builder.message(action, rank, owner, len(own), piece=first)
            if packed and extent.buffer == "s":
                for here in own:
                    meetings.packets[here].append(action)
    if any(len(extent.ranks) > 1 for extent in (*operation.sources, *operation.targets)):
        builder.notes.append("switches reduce or copy for operations of groups of ranks")


def _meet(builder: ProgramBuilder, plan: ExecutionPlan, meetings: Meetings) -> None:
    """Order between blocks: signals and waits, packets, semaphores, barriers."""
    for (rank, kind, channel), waits in sorted(meetings.waits.items()):
        other = _other_end(plan, rank, kind, channel)
        signals = [] if other is None else meetings.signals.get(other, [])
        builder.edges.extend(zip(waits, signals, strict=False))
        if len(waits) > len(signals):
            text = f"{_at(builder, waits[len(signals)])} waits for ever: {len(signals)} signals for {len(waits)} waits"
            builder.defect("deadlock", text)
    for (rank, kind, channel), signals in sorted(meetings.signals.items()):
        other = _other_end(plan, rank, kind, channel)
        if other is None:
            builder.defect("message", f"{_at(builder, signals[0])} signals over a channel that nobody has")
        elif len(signals) > len(meetings.waits.get(other, [])):
            builder.notes.append("some signals are never waited for")
    for action, here in meetings.unpacked:
        builder.edges.extend((action, packet) for packet in meetings.packets.get(here, ()) if packet != action)
        if here not in meetings.packets:
            builder.defect("deadlock", f"{_at(builder, action)} waits for ever for a packet that nobody writes")
    for (rank, number), acquired in sorted(meetings.acquired.items()):
        counters = plan.ranks[rank].semaphores
        free = counters[number] if number < len(counters) else 0
        released = meetings.released.get((rank, number), [])
        builder.edges.extend(zip(acquired[free:], released, strict=False))
        if len(acquired) > free + len(released):
            builder.defect("deadlock", f"{_at(builder, acquired[-1])} waits for ever for semaphore {number}")
    _barriers(builder, meetings)


def _in_step(builder: ProgramBuilder, actions: Sequence[Sequence[int]], blocks: Sequence[PlanBlock]) -> None:
    """Order the blocks of a group, which share the range of every operation, as if they ran in step."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, block in enumerate(blocks):
        if any("tbg_info" in operation.given for operation in block.operations):
            groups[tuple(operation.name for operation in block.operations)].append(number)
    for group in groups.values():
        for first, second in itertools.permutations(group, 2):
            builder.edges.extend(zip(actions[first][1:], actions[second], strict=False))
        if len(group) > 1:
            builder.notes.append(
                "blocks of a thread-block group are taken to run in step: the file has no order of them"
            )


def _barriers(builder: ProgramBuilder, meetings: Meetings) -> None:
    chain = builder.actions.table()[:, 1].tolist()
    following: dict[int, int] = {}
    for action, before in builder.edges:
        if chain[action] == chain[before] and action == before + 1:
            following[before] = action
    for (rank, number), calls in sorted(meetings.barriers.items()):
        rounds: dict[int, list[int]] = defaultdict(list)
        seen: dict[int, int] = defaultdict(int)
        for action, _ in calls:
            block = chain[action]
            rounds[seen[block]].append(action)
            seen[block] += 1
        for met in rounds.values():
            blocks = calls[0][1]
            if len(met) != blocks:
                text = f"barrier {number} of gpu {rank} is for {blocks} blocks, {len(met)} come: {_at(builder, met[0])}"
                builder.defect("deadlock", text)
            for call in met:
                if call in following:
                    builder.edges.extend((following[call], other) for other in met if other != call)


def _other_end(plan: ExecutionPlan, rank: int, kind: str, channel: int) -> tuple[int, str, int] | None:
    """The channel of the peer that belongs to one: the k-th to a peer and the peer's k-th back."""
    ends = plan.ranks[rank].connected.get(kind, ())
    if channel >= len(ends):
        return None
    peer = ends[channel]
    which = ends[:channel].count(peer)
    back = [k for k, end in enumerate(plan.ranks[peer].connected.get(kind, ())) if end == rank]
    return (peer, kind, back[which]) if which < len(back) else None


def _at(builder: ProgramBuilder, action: int) -> str:
    gpu, block, op = builder.location(action)
    return f"gpu {gpu}, threadblock {block}, op {op}"


MOST_BLOCKS = 1024


def _ranges(end: tuple[str, int], count: int, remote: int | None = None) -> list[dict[str, Any]]:
    location = {"type": end[0]} if remote is None else {"buffer_id": remote}
    return [{**location, "index": end[1], "size": count}]


class _Block:
    def __init__(self) -> None:
        self.operations: list[dict[str, Any]] = []
        self.peers: list[int] = []
        self.remote: list[tuple[int, str]] = []

    def channel(self, peer: int) -> int:
        if peer not in self.peers:
            self.peers.append(peer)
        return self.peers.index(peer)

    def sync(self) -> None:
        if self.operations and self.operations[-1]["name"] != "nop":
            self.operations.append({"name": "nop"})

    def put(self, peer: int, source: tuple[str, int], target: tuple[str, int], count: int) -> None:
        if (peer, target[0]) not in self.remote:
            self.remote.append((peer, target[0]))
        there = _ranges(target, count, self.remote.index((peer, target[0])))
        self.sync()
        self.operations.append(
            {"name": "put", "src_buff": _ranges(source, count), "dst_buff": there, "channel_type": "memory"}
        )
        self.sync()
        self.operations.append({"name": "signal", "channel_ids": [self.channel(peer)], "channel_type": "memory"})

    def take(self, peer: int, target: tuple[str, int], added: tuple[str, int] | None, count: int) -> None:
        self.sync()
        self.operations.append({"name": "wait", "channel_ids": [self.channel(peer)], "channel_type": "memory"})
        if added is not None:
            self.sync()
            both = [*_ranges(target, count), *_ranges(added, count)]
            self.operations.append(
                {"name": "re", "src_buff": both, "dst_buff": _ranges(target, count), "reduce_op": "sum"}
            )


def _written_operations(schedule: RankSchedule, members: Sequence[int], memory: ChunkMemory) -> list[_Block]:
    made = [_Block() for _ in range(schedule.ranks)]
    hops: list[tuple[Hop, int]] = sorted((hop, member) for member in members for hop in schedule.blocks[member].hops)
    for (_, tail, head, adds), number in hops:
        block = schedule.blocks[number]
        source, target = memory.location(tail, number, block), memory.location(head, number, block)
        added = ("s", memory.slot(head, block.count)) if adds else None
        made[tail].put(head, source, added or target, block.count)
        made[head].take(tail, target, added, block.count)
    return made


def plan_document(name: str, schedule: RankSchedule) -> dict[str, Any]:
    """A plan.

    Raises:
        InputError: it does not fit the limits of MSCCL++.
    """
    memory = ChunkMemory(schedule)
    groups: list[list[_Block]] = []
    waiting = list(range(len(schedule.blocks)))
    while waiting:
        count = len(waiting)
        while True:
            tried = memory.copied()
            made = _written_operations(schedule, waiting[:count], tried)
            if max(len(block.operations) for block in made) <= MOST_OPERATIONS and (
                max(len(block.peers) for block in made) <= MOST_CHANNELS
            ):
                break
            if count == 1:
                longest = max(len(block.operations) for block in made)
                peers = max(len(block.peers) for block in made)
                allowed = f"{MOST_OPERATIONS} operations and {MOST_CHANNELS} channels a block; {FEWER}"
                raise refuse("too much for a plan", value=f"{longest} operations, {peers} channels", allowed=allowed)
            count = max(count // 2, 1)
        groups.append(made)
        memory = tried
        waiting = waiting[count:]
        if len(groups) > MOST_BLOCKS:
            raise refuse("too many thread blocks for a plan", allowed=f"at most {MOST_BLOCKS}; {FEWER}")
    return _document(name, schedule, memory, groups)


def _document(name: str, schedule: RankSchedule, memory: ChunkMemory, groups: list[list[_Block]]) -> dict[str, Any]:
    inside, outside = memory.sizes()
    return {
        "name": name,
        "collective": NAMES[schedule.collective].replace("_", ""),
        "protocol": "Simple",
        "inplace": memory.in_place,
        "reuse_resources": False,
        "gpus": [
            {
                "id": rank,
                "input_chunks": inside,
                "output_chunks": outside,
                "scratch_chunks": memory.scratch[rank],
                **_threadblocks(rank, [group[rank] for group in groups], memory),
                "semaphores": [],
            }
            for rank in range(schedule.ranks)
        ],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": (1 << 64) - 1,
    }


def _threadblocks(rank: int, made: list[_Block], memory: ChunkMemory) -> dict[str, Any]:
    used = [block for block in made if block.operations]
    own = _Block()
    for source, target, count in memory.own_copies(rank):
        copied = {"name": "copy", "src_buff": _ranges(("i", source), count), "dst_buff": _ranges(("o", target), count)}
        own.operations.append(copied)
    used += [own] if own.operations else []
    remote = sorted({buffer for block in used for buffer in block.remote})
    connected: list[int] = []
    listed = []
    for number, block in enumerate(used):
        ids = list(range(len(connected), len(connected) + len(block.peers)))
        connected += block.peers
        refs = [remote.index(buffer) for buffer in block.remote]
        listed.append(
            {
                "id": number,
                "ops": block.operations,
                "channels": [{"channel_type": "memory", "channel_ids": ids}] if ids else [],
                "remote_buffer_refs": ([{"access_channel_type": "memory", "remote_buffer_ids": refs}] if refs else []),
            }
        )
    return {
        "threadblocks": listed,
        "channels": [{"channel_type": "memory", "connected_to": connected}] if connected else [],
        "remote_buffers": [{"rank": peer, "type": kind, "access_channel_types": ["memory"]} for peer, kind in remote],
    }


def build(result: CollectiveResult, options: ExportOptions) -> Export:
    """One plan.

    Raises:
        InputError: it does not fit the limits of MSCCL++.
    """
    schedule = placed_schedule(result)
    prefix = plain_name(result.name)
    document = plan_document(prefix, schedule)
    title = f"{schedule.collective} over {schedule.ranks} ranks"
    notes = (*EXPORTER.limits, *([f"the root is rank {schedule.root}"] if schedule.root else []))
    files = (
        ("plan.json", json_bytes(document)),
        ("ranks.csv", rank_table(result)),
        (NOTES_FILE, notes_bytes(title, notes)),
    )
    return Export(files, traffic_of(schedule), notes)


EXPORTER = Exporter(
    kinds=("collective",),
    makes="an MSCCL++ execution plan (plan.json) and ranks.csv",
    limits=(
        f"at most {MOST_OPERATIONS} operations and {MOST_CHANNELS} channels a thread block: schedules of many steps "
        "of one block of the vector are refused",
        "channels of memory only: ranks reach each other's memory",
        "routes through switches are not part of a plan",
        "no GPU has run it here; `topoopt collective audit` executes it",
    ),
    folder=True,
    build=build,
)
