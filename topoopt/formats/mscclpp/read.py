"""MSCCL++ plans to programs: memory of others is read and written at once; only signals, and packets, order ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from topoopt.core.collective import ChunkProgram, CollectiveOp
from topoopt.formats.mscclpp.plan import (
    COPIES,
    SEMAPHORES,
    SIGNALS,
    STORES,
    SUMS,
    WAITS,
    ExecutionPlan,
    Operation,
    Range,
    parsed,
)
from topoopt.formats.schedules.builder import ProgramBuilder
from topoopt.formats.schedules.reader import ScheduleOptions
from topoopt.formats.schedules.states import SHARED, inputs, outputs

MOST_CHANNELS = 16
MOST_OPERATIONS = 64
Place = Callable[[int, str, int], int | None]


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
    ranks = len(plan.ranks)
    builder = ProgramBuilder(str(path), tuple(map(str, range(ranks))), ("gpu", "threadblock", "op"))
    builder.notes.extend(plan.notes)
    cell = _buffers(builder, plan)
    for rank, chunk, label in inputs(plan.collective, ranks, plan.chunks, options.root):
        here = cell(rank, "i", chunk)
        if here is None:
            builder.defect("range", f"rank {rank} has no chunk {chunk} of its input")
        else:
            whose = options.root if plan.collective is CollectiveOp.BROADCAST else rank
            builder.start.append((here, label, whose))
    for rank, chunk, label, whose in outputs(plan.collective, ranks, plan.chunks, options.root):
        here = cell(rank, "o", chunk)
        if here is None:
            builder.defect("range", f"rank {rank} has no chunk {chunk} of its output")
        else:
            builder.due.append((here, label, whose))
    meetings = Meetings()
    for rank, one in enumerate(plan.ranks):
        for block in one.blocks:
            _check_block(builder, rank, block.number, block.channels, len(block.operations))
            before = None
            for number, operation in enumerate(block.operations):
                action = builder.action((rank, block.number, number), rank, rank * 4096 + block.number)
                if before is not None:
                    builder.edges.append((action, before))
                before = action
                _operation(builder, plan, cell, meetings, rank, operation, action)
    _meet(builder, plan, meetings)
    return builder.built(plan.name, plan.collective, plan.chunks, per_share=plan.collective in SHARED)


def _check_block(builder: ProgramBuilder, rank: int, block: int, channels: int, operations: int) -> None:
    where = f"gpu {rank}, threadblock {block}"
    if channels > MOST_CHANNELS:
        builder.defect("limit", f"{where}: {channels} channels, at most {MOST_CHANNELS}")
    if operations > MOST_OPERATIONS:
        builder.defect("limit", f"{where}: {operations} operations, at most {MOST_OPERATIONS}")


def _buffers(builder: ProgramBuilder, plan: ExecutionPlan) -> Place:
    """Buffers of all ranks; in place, the smaller of input and output is the rank's part of the larger."""
    first: dict[tuple[int, str], tuple[int, int]] = {}
    share = plan.chunks // len(plan.ranks)
    for rank, one in enumerate(plan.ranks):
        small = {CollectiveOp.ALLGATHER: "i", CollectiveOp.REDUCE_SCATTER: "o"}.get(plan.collective)
        sizes = {name: share if name == small else plan.chunks for name in "io"}
        if plan.in_place:
            base = builder.buffer(rank, "i/o", plan.chunks)
            for name, size in sizes.items():
                first[rank, name] = base + (rank * share if name == small else 0), size
        else:
            for name, size in sizes.items():
                first[rank, name] = builder.buffer(rank, name, size), size
        first[rank, "s"] = builder.buffer(rank, "s", one.chunks["s"]), one.chunks["s"]

    def place(rank: int, name: str, chunk: int) -> int | None:
        base, count = first[rank, name]
        return base + chunk if 0 <= chunk < count else None

    return place


def _operation(
    builder: ProgramBuilder,
    plan: ExecutionPlan,
    cell: Place,
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
        where = f"gpu {rank}, threadblock {builder.place(action)[1]}, op {builder.place(action)[2]}"
        _data(builder, cell, meetings, rank, operation, action, where)


def _data(
    builder: ProgramBuilder,
    cell: Place,
    meetings: Meetings,
    rank: int,
    operation: Operation,
    action: int,
    where: str,
) -> None:
    def cells(one: Range, owner: int) -> list[int]:
        found = [cell(owner, one.buffer, one.index + k) for k in range(one.size)]
        if None in found:
            builder.defect("range", f"{where}: {one.buffer} {one.index} of rank {owner} is beyond the buffer")
        return [here for here in found if here is not None]

    sources = [[cells(one, owner) for owner in one.ranks] for one in operation.sources]
    targets = [[cells(one, owner) for owner in one.ranks] for one in operation.targets]
    packed = operation.name.endswith("pkt")
    if operation.name in SUMS:
        summed = [[one for ranks in sources for one in ranks]] * len(targets)
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
    for one, several in zip(operation.sources, sources, strict=True):
        for owner, own in zip(one.ranks, several, strict=True):
            if owner != rank and own:
                builder.message(action, owner, rank, len(own), piece=own[0])
            if packed and one.buffer == "s" and operation.name != "cpkt":
                meetings.unpacked += [(action, here) for here in own]
    for one, several in zip(operation.targets, targets, strict=True):
        for owner, own in zip(one.ranks, several, strict=True):
            if owner != rank and own:
                first = sources[0][0][0] if sources and sources[0] and sources[0][0] else own[0]
                builder.message(action, rank, owner, len(own), piece=first)
            if packed and one.buffer == "s":
                for here in own:
                    meetings.packets[here].append(action)
    if any(len(one.ranks) > 1 for one in (*operation.sources, *operation.targets)):
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
        builder.edges.extend((action, one) for one in meetings.packets.get(here, ()) if one != action)
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


def _barriers(builder: ProgramBuilder, meetings: Meetings) -> None:
    """The n-th barrier of a block meets the n-th of every other block; what follows it comes after all of them."""
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
            due = calls[0][1]
            if len(met) != due:
                text = f"barrier {number} of gpu {rank} is for {due} blocks, {len(met)} come: {_at(builder, met[0])}"
                builder.defect("deadlock", text)
            for one in met:
                if one in following:
                    builder.edges.extend((following[one], other) for other in met if other != one)


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
    gpu, block, op = builder.place(action)
    return f"gpu {gpu}, threadblock {block}, op {op}"
