"""Schedules are laid out for runtimes: the blocks in input, output and scratch, and the sends of each rank. AllReduces
of a plan and schedules are written as MSCCL algorithms: thread blocks by peer and channel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Generic, TypeVar
from xml.sax.saxutils import quoteattr

import numpy as np

from topoopt.core.collective import CollectiveOp, CollectiveProblem, CollectiveResult, CollectiveSchedule
from topoopt.core.result import Result
from topoopt.core.workload import GroupRings
from topoopt.formats.msccl import MOST_CHANNELS, MOST_CHUNKS, MOST_STEPS, RESIDENT_BLOCKS, MscclBlock, MscclStep
from topoopt.formats.table import (
    NOTES_FILE,
    Export,
    Exporter,
    ExportOptions,
    class_notes,
    notes_bytes,
    plain_name,
    refuse,
)

Hop = tuple[int, int, int, bool]
"""Step, rank that sends, rank that receives, whether that adds it up."""


@dataclass(frozen=True)
class PlacedBlock:
    """A block.

    Attributes:
        offset: of its first chunk, in the vector; in an All-to-All within what a rank sends another.
        count: of chunks.
        owner, target: ranks as in a schedule; the target is -1 outside an All-to-All.
        hops: its sends, by step.
    """

    offset: int
    count: int
    owner: int
    target: int
    hops: tuple[Hop, ...]


@dataclass(frozen=True)
class RankSchedule:
    """A schedule for a runtime; `chunks` of the vector, in an All-to-All of that of each rank."""

    collective: CollectiveOp
    ranks: int
    chunks: int
    root: int
    blocks: tuple[PlacedBlock, ...]

    @property
    def share(self) -> int:
        """Chunks of a rank's part of the vector."""
        return self.chunks // self.ranks


def placed_schedule(result: CollectiveResult) -> RankSchedule:
    """Return the schedule of a collective.

    Raises:
        InputError: the result has no problem.
    """
    problem: CollectiveProblem = result.figures.problem
    return placed(result.plan.schedule, problem.network.ranks.tolist(), problem.collective, problem.root)


def placed(schedule: CollectiveSchedule, nodes: Sequence[int], wanted: CollectiveOp, root: int = 0) -> RankSchedule:
    """Blocks in the order of the vector, sizes in their largest common measure; `nodes` are ranks 0, 1, ..."""
    rank = np.full(max(nodes) + 1, -1, dtype=np.int64)
    rank[list(nodes)] = np.arange(len(nodes))
    blocks, sends = schedule.blocks, schedule.sends
    owner = rank[blocks.owner]
    target = np.where(blocks.target >= 0, rank[blocks.target], -1)
    hops: list[list[Hop]] = [[] for _ in range(len(owner))]
    columns = (sends.block, sends.step, rank[sends.tail], rank[sends.head], sends.reduce)
    for block, step, tail, head, adds in zip(*(column.tolist() for column in columns), strict=True):
        hops[block].append((step, tail, head, adds))
    ordered = np.lexsort((np.arange(len(owner)), target, owner)).tolist()
    joined: list[PlacedBlock] = []
    offset = 0
    shape: tuple[Any, ...] = ()
    for block in ordered:
        own = tuple(sorted(hops[block]))
        size, ends = int(blocks.units[block]), (int(owner[block]), int(target[block]))
        starts_pair = not joined or ends != (joined[-1].owner, joined[-1].target)
        if starts_pair and wanted is CollectiveOp.ALL_TO_ALL:
            offset = 0
        early = own[0][0] if own else 0
        directions = (*ends, tuple((step - early, *rest) for step, *rest in own))
        if not starts_pair and directions == shape:
            last = joined[-1]
            joined[-1] = PlacedBlock(last.offset, last.count + size, *ends, last.hops)
        else:
            joined.append(PlacedBlock(offset, size, *ends, own))
        shape = directions
        offset += size
    ranks = len(nodes)
    total = blocks.total // ranks if wanted is CollectiveOp.ALL_TO_ALL else blocks.total
    measure = math.gcd(total // ranks if total % ranks == 0 else 1, *(run.count for run in joined))
    return RankSchedule(
        wanted,
        ranks,
        total // measure,
        root,
        tuple(
            PlacedBlock(run.offset // measure, run.count // measure, run.owner, run.target, run.hops) for run in joined
        ),
    )


Traffic = tuple[str, int, tuple[tuple[int, int, Fraction], ...]]
"""Collective, ranks, and rows (tail, head, part of the vector that is sent)."""


def traffic_of(schedule: RankSchedule) -> Traffic:
    """What every rank sends each other one, as it should be read in an export."""
    sent: dict[tuple[int, int], int] = {}
    for block in schedule.blocks:
        for _, tail, head, _ in block.hops:
            sent[tail, head] = sent.get((tail, head), 0) + block.count
    rows = tuple((*pair, Fraction(units, schedule.chunks)) for pair, units in sorted(sent.items()))
    return schedule.collective.value, schedule.ranks, rows


def cut_to(blocks: Sequence[PlacedBlock], most: int) -> list[PlacedBlock]:
    """Blocks of at most so many chunks."""
    return [
        PlacedBlock(block.offset + low, min(most, block.count - low), block.owner, block.target, block.hops)
        for block in blocks
        for low in range(0, block.count, most)
    ]


IN_INPUT = frozenset({CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALLREDUCE, CollectiveOp.REDUCE})
"""Those that are done in the input, which in place is the output too; the others in the output."""


Step = TypeVar("Step")


class Accesses(Generic[Step]):
    """Which steps last wrote a block of the vector at a rank, and which have read it since."""

    def __init__(self) -> None:
        self._written: dict[tuple[int, int], set[Step]] = {}
        self._read: dict[tuple[int, int], set[Step]] = {}

    def before_read(self, key: tuple[int, int]) -> set[Step]:
        return self._written.get(key, set())

    def before_write(self, key: tuple[int, int]) -> set[Step]:
        return self._written.get(key, set()) | self._read.get(key, set())

    def add(self, key: tuple[int, int], step: Step, *, writes: bool) -> None:
        """Take notice of a step; one that writes hides all before it."""
        if writes:
            self._written[key], self._read[key] = {step}, set()
        else:
            self._read.setdefault(key, set()).add(step)


class ChunkMemory:
    """Places of blocks; scratch grows as it is asked for."""

    def __init__(self, schedule: RankSchedule) -> None:
        self.schedule = schedule
        self.scratch = [0] * schedule.ranks
        self._kept: dict[tuple[int, int], int] = {}

    def copied(self) -> ChunkMemory:
        """The same places, apart from this one from now on."""
        other = ChunkMemory(self.schedule)
        other.scratch, other._kept = list(self.scratch), dict(self._kept)
        return other

    @property
    def in_place(self) -> bool:
        """Whether input and output are the same memory: all but All-to-All."""
        return self.schedule.collective is not CollectiveOp.ALL_TO_ALL

    def location(self, rank: int, number: int, block: PlacedBlock) -> tuple[str, int]:
        """Buffer and first chunk of a block at a rank that has or passes it.

        Args:
            number: of the block, of its own among all.
        """
        if self.in_place:
            return ("i" if self.schedule.collective in IN_INPUT else "o"), block.offset
        share = self.schedule.share
        if rank == block.owner:
            return "i", block.target * share + block.offset
        if rank == block.target:
            return "o", block.owner * share + block.offset
        if (rank, number) not in self._kept:
            self._kept[rank, number] = self.slot(rank, block.count)
        return "s", self._kept[rank, number]

    def slot(self, rank: int, count: int) -> int:
        """First chunk of a new place in the scratch of a rank."""
        first = self.scratch[rank]
        self.scratch[rank] += count
        return first

    def own_copies(self, rank: int) -> list[tuple[int, int, int]]:
        """What a rank sends itself in an All-to-All: chunk of the input, of the output, count."""
        share = self.schedule.share
        return [] if self.in_place else [(rank * share, rank * share, share)]

    def sizes(self) -> tuple[int, int]:
        chunks, share = self.schedule.chunks, self.schedule.share
        if self.schedule.collective is CollectiveOp.ALLGATHER:
            return share, chunks
        if self.schedule.collective is CollectiveOp.REDUCE_SCATTER:
            return chunks, share
        return chunks, chunks


Chain = tuple[int, list[tuple[Hop, str]]]
"""Number of a block of the vector; its messages, and the type of the step that receives each and sends the next."""

Pairs = dict[tuple[int, int, int], int]
"""(rank, channel, peer that it receives from) -> peer that it sends to."""


class _Left:
    """Messages of a block of the vector that are not written yet, by the ranks at their ends."""

    def __init__(self, block: PlacedBlock) -> None:
        self.hops = block.hops
        self.gone = [False] * len(block.hops)
        self.at: dict[int, list[int]] = {}
        for number, (_, tail, head, _) in enumerate(block.hops):
            for rank in (tail, head):
                self.at.setdefault(rank, []).append(number)

    def about(self, *ranks: int) -> list[int]:
        return sorted({number for rank in ranks for number in self.at.get(rank, ()) if not self.gone[number]})


def pairs_of(blocks: Sequence[PlacedBlock], channels: int) -> Pairs:
    """Of the ways messages take through a rank those that occur most, no peer twice."""
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for number, block in enumerate(blocks):
        came: dict[int, int] = {}  # from whom a rank has received the block since it sent it
        for _, sender, rank, _ in block.hops:
            if sender in came:
                counts[sender, number % channels, came.pop(sender), rank] += 1
            came[rank] = sender
    pairs: Pairs = {}
    taken: set[tuple[int, int, int]] = set()
    for (rank, channel, sender, target), _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        if (rank, channel, sender) not in pairs and (rank, channel, target) not in taken:
            pairs[rank, channel, sender] = target
            taken.add((rank, channel, target))
    return pairs


def fused_chains(schedule: RankSchedule, blocks: Sequence[PlacedBlock], pairs: Pairs, channels: int) -> Iterator[Chain]:
    """Messages in an order for all ranks, each followed at once by those that pass it on."""
    left = [_Left(block) for block in blocks]
    every = sorted(
        (hop, number, index) for number, own_chain in enumerate(left) for index, hop in enumerate(own_chain.hops)
    )
    for _, number, index in every:
        own = left[number]
        if own.gone[index]:
            continue
        chain: list[tuple[Hop, str]] = []
        latest: int | None = index
        while latest is not None:
            hop = own.hops[latest]
            own.gone[latest] = True
            latest = _passed_on(own, hop, pairs.get((hop[2], number % channels, hop[1])))
            chain.append((hop, "" if latest is None else _kind(schedule, blocks[number], own, hop, latest)))
        yield number, chain


def _passed_on(left: _Left, came: Hop, target: int | None) -> int | None:
    rank = came[2]
    onward = next((number for number in left.about(rank) if left.hops[number][1] == rank), None)
    if onward is None or target is None or left.hops[onward][2] != target:
        return None
    for number in left.about(rank, target):
        if number == onward:
            return onward
        _, _, head, adds = left.hops[number]
        if not (head == target and adds and left.hops[onward][3]):  # in which order a rank adds up does not matter
            return None
    return None


def _kind(schedule: RankSchedule, block: PlacedBlock, left: _Left, came: Hop, onward: int) -> str:
    _, _, rank, adds = came
    if not adds:
        return "rcs"
    following = next((left.hops[number] for number in left.about(rank) if number != onward), None)
    if following is not None:
        kept = following[1] == rank or following[3]
    elif schedule.collective is CollectiveOp.ALLREDUCE:
        kept = True
    else:
        kept = rank == (schedule.root if schedule.collective is CollectiveOp.REDUCE else block.owner)
    return "rrcs" if kept else "rrs"


NO_PEER = -1
Place = tuple[str, int]
StepAt = tuple[int, int]
"""Block and step of a rank."""


@dataclass
class RankBlocks:
    """Thread blocks of a rank, and the steps that others of it wait for."""

    blocks: list[MscclBlock] = field(default_factory=list)
    waited: set[StepAt] = field(default_factory=set)
    _sends: dict[tuple[int, int], int] = field(default_factory=dict)
    _receives: dict[tuple[int, int], int] = field(default_factory=dict)

    def block(self, channel: int, send: int, receive: int) -> int:
        """The block that sends to a peer and receives from one on a channel; each of both stands in one block alone."""
        existing = self._sends.get((channel, send), self._receives.get((channel, receive)))
        if existing is None:
            existing = len(self.blocks)
            self.blocks.append(MscclBlock(existing, send, receive, channel))
        if send != NO_PEER:
            self._sends[channel, send] = existing
            self.blocks[existing].send = send
        if receive != NO_PEER:
            self._receives[channel, receive] = existing
            self.blocks[existing].receive = receive
        return existing

    def add(self, block: int, kind: str, ends: tuple[Place, Place], count: int, after: set[StepAt]) -> StepAt:
        """A step; further dependences are carried by steps that do nothing."""
        latest: dict[int, int] = {}
        for other, step in after:
            if other != block:
                latest[other] = max(latest.get(other, -1), step)
        needs = sorted(latest.items())
        self.waited.update(needs)
        steps = self.blocks[block].steps
        steps += [MscclStep("nop", ("i", -1), ("o", -1), 0, need) for need in needs[:-1]]
        steps.append(MscclStep(kind, *ends, count, needs[-1] if needs else None))
        return block, len(steps) - 1


def in_blocks(schedule: RankSchedule, channels: int, *, fused: bool) -> tuple[list[RankBlocks], ChunkMemory]:
    """Thread blocks of all ranks.

    Args:
        fused: steps that receive and send on at once; otherwise s, r, rrc, cpy and nop alone.
    """
    memory = ChunkMemory(schedule)
    ranks = [RankBlocks() for _ in range(schedule.ranks)]
    blocks = cut_to(schedule.blocks, MOST_CHUNKS)
    uses = Accesses[StepAt]()
    chains: Iterable[Chain]
    if fused:
        pairs = pairs_of(blocks, channels)
        for (rank, channel, sender), target in pairs.items():
            ranks[rank].block(channel, target, sender)
        chains = fused_chains(schedule, blocks, pairs, channels)
    else:
        hops = sorted((hop, number) for number, block in enumerate(blocks) for hop in block.hops)
        chains = [(number, [(hop, "")]) for hop, number in hops]
    for number, chain in chains:
        block, channel = blocks[number], number % channels
        location_at = partial(memory.location, number=number, block=blocks[number])
        (_, tail, head, _), _ = chain[0]
        key = (tail, number)
        own = ranks[tail].block(channel, head, NO_PEER)
        ends = location_at(tail), location_at(head)
        uses.add(key, ranks[tail].add(own, "s", ends, block.count, uses.before_read(key)), writes=False)
        for position, ((_, sender, rank, adds), joined) in enumerate(chain):
            onward: Hop | None = chain[position + 1][0] if position + 1 < len(chain) else None
            own = ranks[rank].block(channel, NO_PEER if onward is None else onward[2], sender)
            here, key = location_at(rank), (rank, number)
            kind = joined or ("rrc" if adds else "r")
            keeps = kind != "rrs"
            after = uses.before_write(key) if keeps else uses.before_read(key)
            uses.add(key, ranks[rank].add(own, kind, (here, here), block.count, after), writes=keeps)
    for number, blocks_of in enumerate(ranks):
        own_block = -1
        for source_chunk, target_chunk, count in memory.own_copies(number):
            for low in range(0, count, MOST_CHUNKS):
                ends = ("i", source_chunk + low), ("o", target_chunk + low)
                own_block = blocks_of.block(0, NO_PEER, NO_PEER) if own_block < 0 else own_block
                blocks_of.add(own_block, "cpy", ends, min(MOST_CHUNKS, count - low), set())
    return ranks, memory


NAMES: Mapping[CollectiveOp, str] = {
    CollectiveOp.ALLREDUCE: "allreduce",
    CollectiveOp.ALLGATHER: "allgather",
    CollectiveOp.REDUCE_SCATTER: "reduce_scatter",
    CollectiveOp.ALL_TO_ALL: "alltoall",
    CollectiveOp.BROADCAST: "broadcast",
    CollectiveOp.REDUCE: "reduce",
}
MAX_BYTES = 1 << 40
MOST_WRITTEN_STEPS = 1_000_000
FEWER = "fewer trees (limits.trees_per_root), or another method"
FUSED_NOTE = "converters to ASTRA-sim know s, r, rrc and nop alone, not the fused steps of this file"
NOTES = (
    "one rank a compute node, in their order; ranks.csv names them",
    "pieces of blocks that go the same ways are one: the runtime divides large vectors itself",
    "routes through switches are not part of an algorithm",
    "no GPU has run it here; `topoopt collective audit` executes it",
)


def algorithm_of(
    name: str, schedule: RankSchedule, sizes: tuple[int, int] = (0, MAX_BYTES), *, fused: bool = False
) -> str:
    """XML of a schedule for vectors of least and most so many bytes.

    Args:
        fused: steps that receive and send on at once, in as many channels as there are trees and fit; otherwise in as
            few as the steps need.

    Raises:
        InputError: it does not fit the limits of MSCCL.
    """
    total = sum(len(block.hops) for block in schedule.blocks)
    if total > MOST_WRITTEN_STEPS:
        raise refuse("too many steps for an algorithm", value=total, allowed=f"at most {MOST_WRITTEN_STEPS}; {FEWER}")
    channels = min(MOST_CHANNELS, len(schedule.blocks)) if fused else 1
    while True:
        ranks, memory = in_blocks(schedule, channels, fused=fused)
        longest = max((len(block.steps) for rank in ranks for block in rank.blocks), default=0)
        most = max(len(rank.blocks) for rank in ranks)
        if longest > MOST_STEPS:
            text = f"blocks of {longest} steps with {channels} channels"
            channels = max(channels + 1, -(-channels * longest // MOST_STEPS))
            if fused or channels > MOST_CHANNELS:
                raise refuse("too long for an algorithm", value=text, allowed=f"at most {MOST_STEPS}; {FEWER}")
        elif most > RESIDENT_BLOCKS and fused and channels > 1:
            channels //= 2
        elif most > RESIDENT_BLOCKS:
            raise refuse("too many blocks of a rank", value=most, allowed=f"at most {RESIDENT_BLOCKS}; {FEWER}")
        else:
            return _xml(name, schedule, ranks, memory, channels, sizes)


def _xml(
    name: str,
    schedule: RankSchedule,
    ranks: list[RankBlocks],
    memory: ChunkMemory,
    channels: int,
    sizes: tuple[int, int],
) -> str:
    inside, outside = memory.sizes()
    lines = [
        f'<algo name={quoteattr(name)} proto="Simple" nchannels="{channels}" nchunksperloop="{schedule.chunks}" '
        f'ngpus="{schedule.ranks}" coll="{NAMES[schedule.collective]}" inplace="{int(memory.in_place)}" '
        f'outofplace="{int(not memory.in_place)}" minBytes="{sizes[0]}" maxBytes="{sizes[1]}">'
    ]
    for number, rank in enumerate(ranks):
        scratch = memory.scratch[number]
        lines.append(f'  <gpu id="{number}" i_chunks="{inside}" o_chunks="{outside}" s_chunks="{scratch}">')
        for block, row in enumerate(rank.blocks):
            lines.append(f'    <tb id="{block}" send="{row.send}" recv="{row.receive}" chan="{row.channel}">')
            for index, step in enumerate(row.steps):
                other, awaited = step.waits or (-1, -1)
                lines.append(
                    f'      <step s="{index}" type="{step.kind}" srcbuf="{step.source[0]}" srcoff="{step.source[1]}" '
                    f'dstbuf="{step.target[0]}" dstoff="{step.target[1]}" cnt="{step.count}" depid="{other}" '
                    f'deps="{awaited}" hasdep="{int((block, index) in rank.waited)}"/>'
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>"]) + "\n"


def rank_table(result: CollectiveResult) -> bytes:
    """CSV: which compute node is which rank."""
    network = result.figures.problem.network
    names = [network.names[node] for node in network.ranks.tolist()]
    return ("rank,node\n" + "".join(f"{rank},{name}\n" for rank, name in enumerate(names))).encode()


def build_collective(result: CollectiveResult, *, fused: bool = False) -> Export:
    """One algorithm.

    Raises:
        InputError: it does not fit the limits of MSCCL.
    """
    schedule = placed_schedule(result)
    prefix = plain_name(result.name)
    file = f"{prefix}.xml"
    text = algorithm_of(prefix, schedule, fused=fused)
    title = f"{schedule.collective} over {schedule.ranks} ranks"
    notes = (
        *NOTES,
        *([FUSED_NOTE] if fused else []),
        *([f"the root is rank {schedule.root}"] if schedule.root else []),
    )
    files = (
        (file, text.encode()),
        ("ranks.csv", rank_table(result)),
        (NOTES_FILE, notes_bytes(title, notes)),
    )
    return Export(files, {file: traffic_of(schedule)}, notes)


SCHEDULED = ".schedule"
"""In names of files for schedules of a job."""

MAX_STEPS = 2_000_000
MAX_PARTS = 64
"""Most chunks a block of ring 0..R-1 is cut into, all together."""


def parts_of(shares: Sequence[float]) -> list[int]:
    """Whole numbers near the shares of rings, their total at most 64; none is 0.

    The smallest total whose largest error is within a thousandth, else the best of all.
    """
    best: tuple[float, list[int]] = (np.inf, [1] * len(shares))
    for total in range(len(shares), max(MAX_PARTS, len(shares)) + 1):
        exact = np.asarray(shares) * total
        parts = np.maximum(np.floor(exact), 1).astype(int)
        for index in np.argsort(parts - exact, kind="stable")[: max(0, total - int(parts.sum()))]:
            parts[index] += 1
        if parts.sum() != total:
            continue
        error = float(np.abs(parts / total - np.asarray(shares)).max())
        if error < best[0] - 1e-12:
            best = error, parts.tolist()
        if error <= 1e-3:
            break
    return best[1]


def ring_steps(position: int, size: int, first: int, parts: int) -> list[tuple[str, int, int]]:
    """(type, offset of the chunks, count) of a rank at a position of a ring; `first` is the ring's first chunk.

    Types of MSCCL: s sends, rrs receives, reduces and sends, rrcs keeps the result as well, rcs receives, keeps and
    sends on, r receives and keeps.
    """
    kinds = ["s", *["rrs"] * (size - 2), "rrcs", *["rcs"] * (size - 2), "r"]
    return [(kind, first + (position - step) % size * parts, parts) for step, kind in enumerate(kinds)]


def algorithm(name: str, group: GroupRings) -> tuple[str, list[int]]:
    """XML of a group whose communicator has the members as ranks 0, 1, ..., and the chunks of a block of each ring."""
    size = len(group.members)
    rank = {server: index for index, server in enumerate(group.members)}
    parts = parts_of([ring.share for ring in group.rings])
    chunks = size * sum(parts)
    lines = [
        f'<algo name={quoteattr(name)} nchannels="{len(group.rings)}" nchunksperloop="{chunks}" proto="Simple" '
        f'ngpus="{size}" coll="allreduce" inplace="1" outofplace="0" minBytes="0" maxBytes="0">'
    ]
    places = [{rank[server]: k for k, server in enumerate(ring.order)} for ring in group.rings]
    orders = [[rank[server] for server in ring.order] for ring in group.rings]
    for own in range(size):
        lines.append(f'  <gpu id="{own}" i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="0">')
        for channel, (k, order) in enumerate(zip(places, orders, strict=True)):
            at = k[own]
            send, receive = order[(at + 1) % size], order[at - 1]
            lines.append(f'    <tb id="{channel}" send="{send}" recv="{receive}" chan="{channel}">')
            first = size * sum(parts[:channel])
            for step, (kind, offset, count) in enumerate(ring_steps(at, size, first, parts[channel])):
                lines.append(
                    f'      <step s="{step}" type="{kind}" srcbuf="i" srcoff="{offset}" dstbuf="i" dstoff="{offset}" '
                    f'cnt="{count}" depid="-1" deps="-1" hasdep="0"/>'
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>"]) + "\n", parts


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The algorithm of a collective, or those of a job.

    Raises:
        InputError: no group of two or more servers, or more than the format takes.
    """
    if solution.kind == "collective":
        return build_collective(solution, fused=options.fused)
    return _of_job(solution, fused=options.fused)


def _of_job(solution: Result[Any, Any], *, fused: bool) -> Export:
    """One algorithm for each group that has rings, and for each schedule."""
    groups = [group for group in solution.plan.rings if len(group.members) > 1]
    if not groups and not solution.plan.schedules:
        raise refuse("the plan has no AllReduce", allowed="a plan with rings or schedules")
    steps = sum(len(group.rings) * len(group.members) * (2 * len(group.members) - 1) for group in groups)
    if steps > MAX_STEPS:
        raise refuse("too many steps for algorithms", value=steps, allowed=f"at most {MAX_STEPS}")
    prefix, n = plain_name(solution.name), solution.plan.topology.servers
    files: list[tuple[str, bytes]] = []
    content: dict[str, object] = {}
    notes = [*EXPORTER.limits, *class_notes(solution.figures.cluster)]
    table = ["file,rank,server"]
    for number, group in enumerate(groups):
        file = f"{prefix}.allreduce{number}.xml"
        text, parts = algorithm(f"{prefix}-{number}", group)
        files.append((file, text.encode()))
        rank = {server: index for index, server in enumerate(group.members)}
        content[file] = tuple(
            (tuple(rank[server] for server in ring.order), count)
            for ring, count in zip(group.rings, parts, strict=True)
        )
        error = max(abs(c / sum(parts) - ring.share) for c, ring in zip(parts, group.rings, strict=True))
        if error > 1e-3:
            notes.append(f"{file}: shares of rings are off by up to {error:.3f}")
        table += [f"{file},{index},{server}" for index, server in enumerate(group.members)]
    for number, planned in enumerate(solution.plan.schedules):
        file = f"{prefix}{SCHEDULED}{number}.xml"
        schedule = placed(planned.schedule, planned.members, CollectiveOp.ALLREDUCE)
        largest = MAX_BYTES if planned.below_bytes is None else planned.below_bytes - 1
        text = algorithm_of(f"{prefix}-schedule-{number}", schedule, (planned.from_bytes, largest), fused=fused)
        files.append((file, text.encode()))
        content[file] = traffic_of(schedule)
        table += [f"{file},{index},{server}" for index, server in enumerate(planned.members)]
    if solution.plan.schedules:
        notes.append("schedules are for vectors of minBytes to maxBytes; the runtime divides large ones itself")
    files.append(("ranks.csv", ("\n".join(table) + "\n").encode()))
    count = len(groups) + len(solution.plan.schedules)
    title = f"{count} AllReduce algorithms for {n} servers; ranks.csv: which server is which rank"
    files.append((NOTES_FILE, notes_bytes(title, tuple(notes))))
    return Export(tuple(files), content, tuple(notes))


EXPORTER = Exporter(
    kinds=("co-optimisation", "collective"),
    makes="MSCCL algorithms (XML): of a collective, or for the AllReduce of each group of a job; and ranks.csv",
    limits=(
        "one rank a server: the AllReduce inside a server is another communicator's",
        "an algorithm says which rank sends to which, not by which interface: routes do (--to linux-forwarding)",
        "no GPU has run it here; `topoopt collective audit` executes it",
    ),
    folder=True,
    build=build,
)
