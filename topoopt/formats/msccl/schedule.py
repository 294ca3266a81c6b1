"""MSCCL algorithms to programs: the n-th send from a rank to another on a channel meets the n-th receive there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from topoopt.core.collective import ChunkProgram, CollectiveOp
from topoopt.formats.msccl.algorithm import SENDS, MscclAlgorithm, MscclBlock, MscclStep, parsed
from topoopt.formats.msccl.limits import check_limits
from topoopt.formats.schedules.builder import ProgramBuilder
from topoopt.formats.schedules.reader import ScheduleOptions
from topoopt.formats.schedules.states import SHARED, inputs, outputs

ADDS = frozenset({"rrs", "rrc", "rrcs"})
KEEPS = frozenset({"r", "rcs", "rrc", "rrcs"})

Place = Callable[[int, str, int], int | None]
"""Cell of a chunk of a buffer of a rank; None where there is no such chunk."""


@dataclass(frozen=True)
class Sent:
    """A send or receive that waits for its other half: action, count, and the cells between."""

    action: int
    count: int
    between: tuple[int, ...] = ()


@dataclass
class FifoHalves:
    """Sends and receives of every (from, to, channel), in order.

    Attributes:
        coming: rows (action, cell, which of the chunks that come goes there), joined once both halves are known.
    """

    sends: dict[tuple[int, int, int], list[Sent]] = field(default_factory=lambda: defaultdict(list))
    receives: dict[tuple[int, int, int], list[Sent]] = field(default_factory=lambda: defaultdict(list))
    coming: list[tuple[int, int, int]] = field(default_factory=list)


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """An algorithm as a program.

    Raises:
        InputError: not such a file.
    """
    return program_of(path, parsed(path, options), options.root)


def program_of(path: Path, algorithm: MscclAlgorithm, root: int) -> ChunkProgram:
    """What the runtime would do."""
    ranks = len(algorithm.gpus)
    builder = ProgramBuilder(str(path), tuple(map(str, range(ranks))), ("gpu", "tb", "step"))
    check_limits(builder, algorithm)
    cell = buffers(builder, algorithm)
    for rank, chunk, label in inputs(algorithm.collective, ranks, algorithm.chunks, root):
        here = cell(rank, "i", chunk)
        if here is None:
            builder.defect("range", f"rank {rank} has no chunk {chunk} of its input")
        else:
            builder.start.append((here, label, _whose(algorithm, rank, root)))
    known = {one: (label, rank) for one, label, rank in builder.start}
    for rank, gpu in enumerate(algorithm.gpus):
        for source, target in gpu.copies:
            there, here = cell(rank, "i", source), cell(rank, "o", target)
            if there is None or here is None:
                builder.defect("range", f"gpu {rank}: copies chunk {source} to {target}, where there is none")
            elif there in known and here != there:
                builder.start.append((here, *known[there]))
    for rank, chunk, label, whose in outputs(algorithm.collective, ranks, algorithm.chunks, root):
        here = cell(rank, "o", chunk)
        if here is None:
            builder.defect("range", f"rank {rank} has no chunk {chunk} of its output")
        else:
            builder.due.append((here, label, whose))
    _steps(builder, algorithm, cell)
    shared = algorithm.collective in SHARED
    return builder.built(algorithm.name, algorithm.collective, algorithm.chunks, per_share=shared)


def _whose(algorithm: MscclAlgorithm, rank: int, root: int) -> int:
    return root if algorithm.collective is CollectiveOp.BROADCAST else rank


def buffers(builder: ProgramBuilder, algorithm: MscclAlgorithm) -> Place:
    """Buffers of all ranks; in place, input and output share their cells."""
    share = algorithm.chunks // len(algorithm.gpus)
    first: dict[tuple[int, str], tuple[int, int]] = {}
    for rank, gpu in enumerate(algorithm.gpus):
        sizes = {"s": gpu.chunks["s"], **_sizes(algorithm, share, gpu.chunks)}
        whole = max(sizes["i"], sizes["o"])
        if not algorithm.in_place:
            for name in ("i", "o"):
                first[rank, name] = builder.buffer(rank, name, sizes[name]), sizes[name]
        elif algorithm.collective is CollectiveOp.ALLGATHER:
            base = builder.buffer(rank, "o", whole)
            first[rank, "o"] = base, whole
            first[rank, "i"] = base + rank * share, min(share, max(whole - rank * share, 0))
        elif algorithm.collective is CollectiveOp.REDUCE_SCATTER:
            base = builder.buffer(rank, "i", whole)
            first[rank, "i"] = base, whole
            first[rank, "o"] = base + rank * share, min(share, max(whole - rank * share, 0))
        else:
            base = builder.buffer(rank, "o", whole)
            first[rank, "i"] = first[rank, "o"] = base, whole
        first[rank, "s"] = builder.buffer(rank, "s", sizes["s"]), sizes["s"]

    def place(rank: int, name: str, chunk: int) -> int | None:
        base, count = first[rank, name]
        return base + chunk if 0 <= chunk < count else None

    return place


def _sizes(algorithm: MscclAlgorithm, share: int, given: object) -> dict[str, int]:
    """Chunks of input and output by the file; where it says 0, as the collective has it."""
    stated = dict(given)  # type: ignore[call-overload]
    due = {"i": algorithm.chunks, "o": algorithm.chunks}
    if algorithm.collective is CollectiveOp.ALLGATHER:
        due["i"] = share
    if algorithm.collective is CollectiveOp.REDUCE_SCATTER:
        due["o"] = share
    return {name: stated[name] or due[name] for name in ("i", "o")}


def _steps(builder: ProgramBuilder, algorithm: MscclAlgorithm, cell: Place) -> None:
    wires = FifoHalves()
    number: dict[tuple[int, int, int], int] = {}
    waiting: list[tuple[int, int, MscclStep, str]] = []
    flagged: dict[tuple[int, int, int], bool] = {}
    for rank, gpu in enumerate(algorithm.gpus):
        for block in gpu.blocks:
            before = None
            for step in block.steps:
                action = builder.action((rank, block.number, step.number), rank, rank * 4096 + block.number)
                number[rank, block.number, step.number] = action
                flagged[rank, block.number, step.number] = step.waited_for
                if before is not None:
                    builder.edges.append((action, before))
                before = action
                where = f"gpu {rank}, tb {block.number}, step {step.number}"
                if step.waits is not None:
                    waiting.append((action, rank, step, where))
                _one_step(builder, algorithm, wires, cell, rank, block, step, action, where)
    for action, rank, step, where in waiting:
        assert step.waits is not None
        awaited = number.get((rank, *step.waits))
        if awaited is None:
            builder.defect("deadlock", f"{where} waits for tb {step.waits[0]}, step {step.waits[1]}, which is not")
            continue
        builder.edges.append((action, awaited))
        if not flagged[(rank, *step.waits)]:
            text = f"{where} waits for tb {step.waits[0]}, step {step.waits[1]}, which does not tell (hasdep 0)"
            builder.defect("deadlock", text)
    _join(builder, wires)


def _one_step(
    builder: ProgramBuilder,
    algorithm: MscclAlgorithm,
    wires: FifoHalves,
    cell: Place,
    rank: int,
    block: MscclBlock,
    step: MscclStep,
    action: int,
    where: str,
) -> None:
    """Cells that a step reads and writes; what it sends and receives is joined when all steps are known."""

    def cells(end: tuple[str, int]) -> list[int]:
        found = [cell(rank, end[0], end[1] + k) for k in range(step.count)]
        if None in found:
            builder.defect("range", f"{where}: {end[0]} {end[1]} to {end[1] + step.count - 1} is beyond the buffer")
        return [one for one in found if one is not None]

    if step.kind == "nop":
        return
    if step.kind in ("cpy", "re", "ra"):
        target = cells(step.target)
        for to, source in zip(target, cells(step.source), strict=False):
            builder.moves.append((action, to, source))
            if step.kind != "cpy":
                builder.moves.append((action, to, to))
        return
    local = cells(step.source) if step.kind in ADDS or step.kind == "s" else []
    targets = [cells(step.target)] if step.kind in KEEPS else []
    if step.kind in SENDS:
        if not 0 <= block.send < len(algorithm.gpus) or block.send == rank:
            builder.defect("ranks", f"{where} sends to rank {block.send}")
            return
        base = builder.buffer(rank, f"message of tb {block.number} to rank {block.send}, chunk", step.count)
        between = tuple(range(base, base + step.count))
        wires.sends[rank, block.send, block.channel].append(Sent(action, step.count, between))
        targets.append(list(between))
        if step.count:
            builder.message(action, rank, block.send, step.count, piece=base)
    if step.kind == "s":
        builder.moves.extend((action, to, source) for to, source in zip(targets[-1], local, strict=False))
        return
    if not 0 <= block.receive < len(algorithm.gpus) or block.receive == rank:
        builder.defect("ranks", f"{where} receives from rank {block.receive}")
        return
    wires.receives[block.receive, rank, block.channel].append(Sent(action, step.count))
    for target in targets:
        for k, to in enumerate(target):
            wires.coming.append((action, to, k))
            if step.kind in ADDS and k < len(local):
                builder.moves.append((action, to, local[k]))


def _join(builder: ProgramBuilder, wires: FifoHalves) -> None:
    came: dict[int, tuple[int, ...]] = {}
    for wire in sorted({*wires.sends, *wires.receives}):
        tail, head, channel = wire
        sends, receives = wires.sends.get(wire, []), wires.receives.get(wire, [])
        for sent, taken in zip(sends, receives, strict=False):
            builder.edges.append((taken.action, sent.action))
            came[taken.action] = sent.between
            if sent.count != taken.count:
                builder.defect(
                    "message",
                    f"rank {tail} sends {sent.count} chunks at {_at(builder, sent.action)}, where rank {head} takes "
                    f"{taken.count} at {_at(builder, taken.action)}",
                )
        text = f"from rank {tail} to rank {head} on channel {channel}"
        if len(sends) > len(receives):
            builder.defect("message", f"{_at(builder, sends[len(receives)].action)} sends what nobody takes, {text}")
        elif len(receives) > len(sends):
            lost = receives[len(sends)]
            builder.defect("deadlock", f"{_at(builder, lost.action)} waits for ever for what nobody sends, {text}")
    for action, to, chunk in wires.coming:
        between = came.get(action, ())
        if chunk < len(between):
            builder.moves.append((action, to, between[chunk]))


def _at(builder: ProgramBuilder, action: int) -> str:
    gpu, block, step = builder.place(action)
    return f"gpu {gpu}, tb {block}, step {step}"
