"""Schedules of collectives as MSCCL algorithms: a block for every peer that is sent to or received from, by channel.

Only s, r, rrc, cpy and nop are written, the types that every executor and converter knows. What a step needs is said by
dependences inside the rank; order is never left to messages of other ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import quoteattr

from topoopt.core.collective import CollectiveOp
from topoopt.core.collective_solution import CollectiveSolution
from topoopt.formats.exporter import NOTES_FILE, Export, notes_bytes, plain_name, refuse
from topoopt.formats.msccl.limits import MOST_CHANNELS, MOST_CHUNKS, MOST_STEPS, RESIDENT_BLOCKS
from topoopt.formats.schedules.memory import ChunkMemory
from topoopt.formats.schedules.placed_blocks import RankSchedule, cut_to, placed_schedule, traffic_of

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
NOTES = (
    "one rank a compute node, in their order; ranks.csv names them",
    "pieces of blocks that go the same ways are one: the runtime divides large vectors itself",
    "routes through switches are not part of an algorithm",
    "executed by this project before it is written; no GPU has run it here",
)

Key = tuple[int, str, int]
"""Channel, `s` or `r`, peer."""


@dataclass
class _Rank:
    """Thread blocks of a rank, the steps of each as (type, source, destination, count, waits for (block, step))."""

    number: dict[Key, int] = field(default_factory=dict)
    steps: list[list[tuple[str, tuple[str, int], tuple[str, int], int, tuple[int, int] | None]]] = field(
        default_factory=list
    )
    waited: set[tuple[int, int]] = field(default_factory=set)

    def add(
        self,
        key: Key,
        kind: str,
        ends: tuple[tuple[str, int], tuple[str, int]],
        count: int,
        after: set[tuple[int, int]],
    ) -> tuple[int, int]:
        """A step; further dependences are carried by steps that do nothing."""
        block = self.number.setdefault(key, len(self.number))
        if block == len(self.steps):
            self.steps.append([])
        latest: dict[int, int] = {}
        for other, step in after:
            if other != block:
                latest[other] = max(latest.get(other, -1), step)
        needs = sorted(latest.items())
        self.waited.update(needs)
        for need in needs[:-1]:
            self.steps[block].append(("nop", ("i", -1), ("o", -1), 0, need))
        self.steps[block].append((kind, *ends, count, needs[-1] if needs else None))
        return block, len(self.steps[block]) - 1


def algorithm_of(name: str, schedule: RankSchedule, sizes: tuple[int, int] = (0, MAX_BYTES)) -> str:
    """XML of a schedule for vectors of least and most so many bytes, with as few channels as its steps need.

    Raises:
        InputError: it does not fit the limits of MSCCL.
    """
    total = sum(len(block.hops) for block in schedule.blocks)
    if total > MOST_WRITTEN_STEPS:
        raise refuse("too many steps for an algorithm", value=total, allowed=f"at most {MOST_WRITTEN_STEPS}; {FEWER}")
    channels = 1
    while True:
        ranks, memory = _laid_out(schedule, channels)
        longest = max((len(steps) for rank in ranks for steps in rank.steps), default=0)
        if longest <= MOST_STEPS:
            break
        channels = max(channels + 1, -(-channels * longest // MOST_STEPS))
        if channels > MOST_CHANNELS:
            text = f"blocks of {longest} steps with {MOST_CHANNELS} channels"
            raise refuse("too long for an algorithm", value=text, allowed=f"at most {MOST_STEPS}; {FEWER}")
    most = max(len(rank.steps) for rank in ranks)
    if most > RESIDENT_BLOCKS:
        raise refuse("too many blocks of a rank", value=most, allowed=f"at most {RESIDENT_BLOCKS}; {FEWER}")
    return _xml(name, schedule, ranks, memory, channels, sizes)


def _laid_out(schedule: RankSchedule, channels: int) -> tuple[list[_Rank], ChunkMemory]:
    memory = ChunkMemory(schedule)
    ranks = [_Rank() for _ in range(schedule.ranks)]
    blocks = cut_to(schedule.blocks, MOST_CHUNKS)
    written: dict[tuple[int, int], set[tuple[int, int]]] = {}
    read: dict[tuple[int, int], set[tuple[int, int]]] = {}
    hops = sorted((hop, number) for number, block in enumerate(blocks) for hop in block.hops)
    for (_, tail, head, adds), number in hops:
        block, channel = blocks[number], number % channels
        source, target = memory.place(tail, number, block), memory.place(head, number, block)
        before = written.get((tail, number), set())
        step = ranks[tail].add((channel, "s", head), "s", (source, target), block.count, before)
        read.setdefault((tail, number), set()).add(step)
        key = (head, number)
        after = written.get(key, set()) | read.get(key, set())
        taken = ranks[head].add((channel, "r", tail), "rrc" if adds else "r", (target, target), block.count, after)
        written[key], read[key] = {taken}, set()
    for number, rank in enumerate(ranks):
        for source_chunk, target_chunk, count in memory.own_copies(number):
            for low in range(0, count, MOST_CHUNKS):
                ends = ("i", source_chunk + low), ("o", target_chunk + low)
                rank.add((0, "c", -1), "cpy", ends, min(MOST_CHUNKS, count - low), set())
    return ranks, memory


def _xml(
    name: str, schedule: RankSchedule, ranks: list[_Rank], memory: ChunkMemory, channels: int, sizes: tuple[int, int]
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
        for (channel, kind, peer), block in rank.number.items():
            send, receive = (peer if kind == one else -1 for one in "sr")
            lines.append(f'    <tb id="{block}" send="{send}" recv="{receive}" chan="{channel}">')
            for place, (what, source, target, count, needs) in enumerate(rank.steps[block]):
                other, step = needs or (-1, -1)
                lines.append(
                    f'      <step s="{place}" type="{what}" srcbuf="{source[0]}" srcoff="{source[1]}" '
                    f'dstbuf="{target[0]}" dstoff="{target[1]}" cnt="{count}" depid="{other}" deps="{step}" '
                    f'hasdep="{int((block, place) in rank.waited)}"/>'
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>"]) + "\n"


def rank_table(solution: CollectiveSolution) -> bytes:
    """CSV: which compute node is which rank."""
    names = [solution.network.names[node] for node in solution.network.ranks.tolist()]
    return ("rank,node\n" + "".join(f"{rank},{name}\n" for rank, name in enumerate(names))).encode()


def build_collective(solution: CollectiveSolution) -> Export:
    """One algorithm.

    Raises:
        InputError: it does not fit the limits of MSCCL.
    """
    schedule = placed_schedule(solution)
    prefix = plain_name(solution.name)
    file = f"{prefix}.xml"
    text = algorithm_of(prefix, schedule)
    title = f"{solution.collective} over {schedule.ranks} ranks"
    notes = (*NOTES, *([f"the root is rank {solution.root}"] if solution.root else []))
    files = (
        (file, text.encode()),
        ("ranks.csv", rank_table(solution)),
        (NOTES_FILE, notes_bytes(title, notes)),
    )
    return Export(files, {file: traffic_of(schedule)}, notes)
