"""MSCCL algorithms (XML) are read to programs: the n-th send to a rank on a channel meets the n-th receive there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from topoopt.core.collective import ChunkProgram, CollectiveOp
from topoopt.files.documents import Document
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, read_xml_text, refusal
from topoopt.formats.schedules import (
    MAX_FILE_BYTES,
    MOST_RANKS,
    SHARED,
    ChunkCells,
    ProgramBuilder,
    ScheduleOptions,
    collective_named,
    no_collective,
)

WHAT = "an MSCCL algorithm (XML: algo, gpu, tb, step)"
FIELDS: FieldTable = {
    "@name": ("used", "name of the program"),
    "@coll": ("used", "which collective, unless --collective says it"),
    "@ngpus": ("used", "number of ranks; default: as many as there are gpu"),
    "@nchunksperloop": ("used", "chunks of the vector"),
    "@nchannels": ("used", "number of channels"),
    "@inplace": ("used", "whether input and output are one buffer; default: where no gpu has chunks of an input"),
    "@proto": ("used", "LL is known to give wrong data, which a note says"),
    "@maxBytes": ("used", "above it the runtime takes NCCL, which a note says"),
    "@minBytes": ("noted", "below it the runtime takes NCCL"),
    "@outofplace": ("noted", "whether the runtime takes it for buffers apart"),
    "@nthreads": ("noted", "threads of a block"),
    "@redop": ("noted", "every reduction is read as a sum"),
    "gpu[].@id": ("used", "rank"),
    "gpu[].@i_chunks": ("used", "chunks of the input"),
    "gpu[].@o_chunks": ("used", "chunks of the output"),
    "gpu[].@s_chunks": ("used", "chunks of the scratch"),
    "gpu[].copy[].@i_off": ("used", "chunk of the input that is copied before"),
    "gpu[].copy[].@o_off": ("used", "where it is copied to"),
    "gpu[].tb[].@id": ("used", "thread block"),
    "gpu[].tb[].@send": ("used", "rank it sends to"),
    "gpu[].tb[].@recv": ("used", "rank it receives from"),
    "gpu[].tb[].@chan": ("used", "channel"),
    "gpu[].tb[].step[].@s": ("used", "number of the step"),
    "gpu[].tb[].step[].@type": ("used", "what it does"),
    "gpu[].tb[].step[].@srcbuf": ("used", "buffer it reads"),
    "gpu[].tb[].step[].@srcoff": ("used", "chunk it reads first"),
    "gpu[].tb[].step[].@dstbuf": ("used", "buffer it writes"),
    "gpu[].tb[].step[].@dstoff": ("used", "chunk it writes first"),
    "gpu[].tb[].step[].@cnt": ("used", "chunks"),
    "gpu[].tb[].step[].@depid": ("used", "thread block it waits for"),
    "gpu[].tb[].step[].@deps": ("used", "step it waits for"),
    "gpu[].tb[].step[].@hasdep": ("used", "whether it is waited for"),
    "any other": ("noted", "written for other runtimes"),
}
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
LOCAL = frozenset({"cpy", "re", "ra", "nop"})
TYPES = RECEIVES | SENDS | LOCAL
MOST_COUNT = 1_000_000


@dataclass(frozen=True)
class MscclStep:
    """A step of a thread block; `waits` is (block, step) or None."""

    kind: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    waits: tuple[int, int] | None
    number: int = -1
    waited_for: bool = False


@dataclass
class MscclBlock:
    """A thread block with its peers, -1 where there is none."""

    number: int
    send: int
    receive: int
    channel: int
    steps: list[MscclStep] = field(default_factory=list)


@dataclass(frozen=True)
class Gpu:
    """A rank: chunks of its buffers i, o, s, and (from, to) of chunks that are copied from i to o before."""

    chunks: Mapping[str, int]
    copies: tuple[tuple[int, int], ...]
    blocks: tuple[MscclBlock, ...]


@dataclass(frozen=True)
class MscclAlgorithm:
    """An algorithm; `chunks` of the whole vector, in an All-to-All of that of each rank; notes of what is not used."""

    name: str
    collective: CollectiveOp
    chunks: int
    channels: int
    in_place: bool
    most_bytes: int
    attributes: Mapping[str, str]
    gpus: tuple[Gpu, ...]
    notes: tuple[str, ...]


def parsed(path: Path, options: ScheduleOptions) -> MscclAlgorithm:
    """An algorithm.

    Raises:
        InputError: not such a file.
    """
    with parsing(str(path), WHAT):
        root = ElementTree.fromstring(read_xml_text(path, MAX_FILE_BYTES))
        if root.tag != "algo":
            raise refusal(f"not {WHAT}", str(path), value=root.tag)
        collective = options.collective or collective_named(root.attrib.get("coll", ""))
        if collective is None:
            raise no_collective(str(path), root.attrib.get("coll"))
        listed = sorted(root.findall("gpu"), key=lambda gpu: int(gpu.attrib["id"]))
        ranks, chunks = int(root.attrib.get("ngpus", len(listed))), _whole(root.attrib["nchunksperloop"], 1)
        if not 2 <= ranks <= MOST_RANKS or [int(gpu.attrib["id"]) for gpu in listed] != list(range(ranks)):
            allowed = f"each of 0 to ngpus - 1 once, 2 to {MOST_RANKS} of them"
            raise refusal("wrong ranks", str(path), value=f"{len(listed)} gpu, ngpus {ranks}", allowed=allowed)
        if collective in SHARED and chunks % ranks:
            raise refusal("no equal shares of all ranks", str(path), value=f"nchunksperloop {chunks}, {ranks} ranks")
        return MscclAlgorithm(
            root.attrib.get("name", path.stem),
            collective,
            chunks,
            int(root.attrib.get("nchannels", "1")),
            root.attrib.get("inplace", str(int(not any(gpu.get("i_chunks", "0") != "0" for gpu in listed)))) == "1",
            int(root.attrib.get("maxBytes") or 0),
            dict(root.attrib),
            tuple(_gpu(element) for element in listed),
            (*notes_of(Document(str(path), root, lambda _: {}), FIELDS), *_missing(root.attrib)),
        )


REQUIRED = ("ngpus", "coll", "inplace")
"""Attributes that files of early SCCL lack; later runtimes refuse a file without one."""


def _missing(given: Mapping[str, str]) -> tuple[str, ...]:
    missing = [name for name in REQUIRED if name not in given]
    if not missing:
        return ()
    missing += [name for name in ("minBytes", "maxBytes") if name not in given]
    return (f"runtimes want attributes of algo that the file has not: {', '.join(missing)}",)


def _whole(text: str, low: int) -> int:
    number = int(text)
    if not low <= number <= MOST_COUNT:
        raise ValueError(f"{text} is no number from {low} to {MOST_COUNT}")
    return number


def _gpu(element: ElementTree.Element) -> Gpu:
    chunks = {name: _whole(element.attrib.get(f"{name}_chunks", "0"), 0) for name in "ios"}
    copies = tuple(
        (_whole(pair.attrib["i_off"], 0), _whole(pair.attrib["o_off"], 0)) for pair in element.findall("copy")
    )
    blocks = tuple(
        MscclBlock(
            int(copy.attrib["id"]),
            int(copy.attrib["send"]),
            int(copy.attrib["recv"]),
            int(copy.attrib["chan"]),
            [_step(step.attrib) for step in copy.findall("step")],
        )
        for copy in element.findall("tb")
    )
    return Gpu(chunks, copies, blocks)


def _step(given: Mapping[str, str]) -> MscclStep:
    kind = given["type"]
    if kind not in TYPES:
        raise ValueError(f"no such type of step: {kind}")
    waits = int(given["depid"]), int(given["deps"])
    ends = []
    for end in ("src", "dst"):
        name = given[f"{end}buf"]
        if name not in ("i", "o", "s"):
            raise ValueError(f"no such buffer: {name}")
        ends.append((name, int(given[f"{end}off"])))
    count = _whole(given["cnt"], 0)
    waited = given["hasdep"] == "1"
    return MscclStep(kind, ends[0], ends[1], count, None if waits[0] < 0 else waits, int(given["s"]), waited)


MOST_CHANNELS = 32
MOST_PEERS = 32
MOST_STEPS = 256
MOST_BLOCKS = 216
RESIDENT_BLOCKS = 108
"""Multiprocessors of an A100: all blocks of a rank must run at once."""
MOST_CHUNKS = 71
MOST_FUSED = 16
MAX_BYTES_ABSENT = 1 << 27


def check_limits(builder: ProgramBuilder, algorithm: MscclAlgorithm) -> None:
    """Defects where the runtime refuses the file, notes where it does something else than one expects."""
    _notes(builder, algorithm)
    if not 1 <= algorithm.channels <= MOST_CHANNELS:
        builder.defect("limit", f"{algorithm.channels} channels, at most {MOST_CHANNELS}")
    for rank, gpu in enumerate(algorithm.gpus):
        numbers = [block.number for block in gpu.blocks]
        if numbers != list(range(len(numbers))):
            builder.defect("limit", f"gpu {rank}: blocks are not numbered 0, 1, ...: {numbers[:10]}")
        if len(numbers) > MOST_BLOCKS:
            builder.defect("limit", f"gpu {rank}: {len(numbers)} blocks, at most {MOST_BLOCKS}")
        elif len(numbers) > RESIDENT_BLOCKS:
            builder.notes.append(f"a rank has {len(numbers)} blocks; an A100 runs {RESIDENT_BLOCKS} at once")
        _peers(builder, rank, gpu)
        for block in gpu.blocks:
            where = f"gpu {rank}, tb {block.number}"
            if not 0 <= block.channel < min(algorithm.channels, MOST_CHANNELS):
                builder.defect("limit", f"{where}: channel {block.channel}, there are {algorithm.channels}")
            if len(block.steps) > MOST_STEPS:
                builder.defect("limit", f"{where}: {len(block.steps)} steps, at most {MOST_STEPS}")
            for step in block.steps:
                if step.kind != "nop" and not 1 <= step.count <= MOST_CHUNKS:
                    builder.defect("limit", f"{where}, step {step.number}: {step.count} chunks, 1 to {MOST_CHUNKS}")
            _fused(builder, where, block.steps)


def _peers(builder: ProgramBuilder, rank: int, gpu: Gpu) -> None:
    seen: set[tuple[str, int, int]] = set()
    peers: dict[tuple[str, int], set[int]] = {}
    for block in gpu.blocks:
        for direction, peer, kinds in (("send", block.send, SENDS), ("receive", block.receive, RECEIVES)):
            if peer < 0 or not any(step.kind in kinds for step in block.steps):
                continue
            if (direction, peer, block.channel) in seen:
                builder.defect(
                    "limit", f"gpu {rank}: two blocks {direction} with rank {peer} on channel {block.channel}, one may"
                )
            seen.add((direction, peer, block.channel))
            peers.setdefault((direction, block.channel), set()).add(peer)
    for (direction, channel), lists in peers.items():
        if len(lists) > MOST_PEERS:
            builder.defect(
                "limit", f"gpu {rank}: {len(lists)} peers to {direction} on channel {channel}, at most {MOST_PEERS}"
            )


def _fused(builder: ProgramBuilder, where: str, steps: Sequence[MscclStep]) -> None:
    """Consecutive reductions into one place are joined: 16 at most, and only the first may wait."""
    run = 0
    for earlier, step in zip((None, *steps), steps, strict=False):
        joined = earlier is not None and step.kind == earlier.kind == "re" and step.target == earlier.target
        run = run + 1 if joined else 1
        if joined and step.waits is not None:
            builder.defect("limit", f"{where}, step {step.number}: a later one of joined reductions waits")
        if run == MOST_FUSED + 1:
            builder.defect("limit", f"{where}, step {step.number}: more than {MOST_FUSED} joined reductions")


def _notes(builder: ProgramBuilder, algorithm: MscclAlgorithm) -> None:
    builder.notes.extend(algorithm.notes)
    given = algorithm.attributes
    absent = [name for name in ("minBytes", "maxBytes", "outofplace") if name not in given]
    if absent:
        builder.notes.append(f"newer executors refuse files without {', '.join(absent)}")
    largest = algorithm.most_bytes or MAX_BYTES_ABSENT
    builder.notes.append(f"above {largest} bytes the runtime silently uses NCCL instead")
    if algorithm.channels > 2:
        builder.notes.append("executors of Azure are known to fail above 2 channels")
    if given.get("proto") == "LL":
        builder.notes.append("wrong data are known with protocol LL alone; Simple gives right ones")


ADDS = frozenset({"rrs", "rrc", "rrcs"})
KEEPS = frozenset({"r", "rcs", "rrc", "rrcs"})

Half = tuple[int, int, tuple[int, ...]]
"""A send or receive that waits for its other half: action, count, and the cells between."""


@dataclass
class FifoHalves:
    """Sends and receives of every (from, to, channel), in order.

    Attributes:
        coming: rows (action, cell, which of the chunks that come goes there), joined once both halves are known.
    """

    sends: dict[tuple[int, int, int], list[Half]] = field(default_factory=lambda: defaultdict(list))
    receives: dict[tuple[int, int, int], list[Half]] = field(default_factory=lambda: defaultdict(list))
    coming: list[tuple[int, int, int]] = field(default_factory=list)


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """An algorithm as a program.

    Raises:
        InputError: not such a file.
    """
    return program_of(path, parsed(path, options), options.root)


def program_of(path: Path, algorithm: MscclAlgorithm, root: int) -> ChunkProgram:
    ranks = len(algorithm.gpus)
    builder = ProgramBuilder(str(path), tuple(map(str, range(ranks))), ("gpu", "tb", "step"))
    check_limits(builder, algorithm)
    cell = buffers(builder, algorithm)
    content = (cell, algorithm.collective, algorithm.chunks, root)
    builder.begin(*content)
    labels = {address: (label, rank) for address, label, rank in builder.start}
    for rank, gpu in enumerate(algorithm.gpus):
        for source, target in gpu.copies:
            there, here = cell(rank, "i", source), cell(rank, "o", target)
            if there is None or here is None:
                builder.defect("range", f"gpu {rank}: copies chunk {source} to {target}, where there is none")
            elif there in labels and here != there:
                builder.start.append((here, *labels[there]))
    builder.end(*content)
    _steps(builder, algorithm, cell)
    shared = algorithm.collective in SHARED
    return builder.built(algorithm.name, algorithm.collective, algorithm.chunks, per_share=shared)


def buffers(builder: ProgramBuilder, algorithm: MscclAlgorithm) -> ChunkCells:
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

    def slot(rank: int, name: str, chunk: int) -> int | None:
        base, count = first[rank, name]
        return base + chunk if 0 <= chunk < count else None

    return slot


def _sizes(algorithm: MscclAlgorithm, share: int, given: object) -> dict[str, int]:
    declared = dict(given)  # type: ignore[call-overload]
    sizes = {"i": algorithm.chunks, "o": algorithm.chunks}
    if algorithm.collective is CollectiveOp.ALLGATHER:
        sizes["i"] = share
    if algorithm.collective is CollectiveOp.REDUCE_SCATTER:
        sizes["o"] = share
    return {name: declared[name] or sizes[name] for name in ("i", "o")}


def _steps(builder: ProgramBuilder, algorithm: MscclAlgorithm, cell: ChunkCells) -> None:
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
    cell: ChunkCells,
    rank: int,
    block: MscclBlock,
    step: MscclStep,
    action: int,
    where: str,
) -> None:
    def cells(end: tuple[str, int]) -> list[int]:
        cells_read = [cell(rank, end[0], end[1] + k) for k in range(step.count)]
        if None in cells_read:
            builder.defect("range", f"{where}: {end[0]} {end[1]} to {end[1] + step.count - 1} is beyond the buffer")
        return [cell_or_none for cell_or_none in cells_read if cell_or_none is not None]

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
        wires.sends[rank, block.send, block.channel].append((action, step.count, between))
        targets.append(list(between))
        if step.count:
            builder.message(action, rank, block.send, step.count, piece=base)
    if step.kind == "s":
        builder.moves.extend((action, to, source) for to, source in zip(targets[-1], local, strict=False))
        return
    if not 0 <= block.receive < len(algorithm.gpus) or block.receive == rank:
        builder.defect("ranks", f"{where} receives from rank {block.receive}")
        return
    wires.receives[block.receive, rank, block.channel].append((action, step.count, ()))
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
        for (sent, count, between), (taken, wanted, _) in zip(sends, receives, strict=False):
            builder.edges.append((taken, sent))
            came[taken] = between
            if count != wanted:
                builder.defect(
                    "message",
                    f"rank {tail} sends {count} chunks at {_at(builder, sent)}, where rank {head} takes "
                    f"{wanted} at {_at(builder, taken)}",
                )
        text = f"from rank {tail} to rank {head} on channel {channel}"
        if len(sends) > len(receives):
            builder.defect("message", f"{_at(builder, sends[len(receives)][0])} sends what nobody takes, {text}")
        elif len(receives) > len(sends):
            lost = receives[len(sends)][0]
            builder.defect("deadlock", f"{_at(builder, lost)} waits for ever for what nobody sends, {text}")
    for action, to, chunk in wires.coming:
        between = came.get(action, ())
        if chunk < len(between):
            builder.moves.append((action, to, between[chunk]))


def _at(builder: ProgramBuilder, action: int) -> str:
    gpu, block, step = builder.location(action)
    return f"gpu {gpu}, tb {block}, step {step}"
