"""Thread blocks of an MSCCL algorithm: the steps of every rank, by peers and channel, and what each waits for.

What a step needs is said by dependences inside the rank; order is never left to messages of other ranks. Messages stand
in one order for all ranks, so that the n-th send from a rank to another on a channel meets the n-th receive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from topoopt.formats.msccl.fused import Chain, fused_chains, pairs_of
from topoopt.formats.msccl.limits import MOST_CHUNKS
from topoopt.formats.schedules.memory import ChunkMemory
from topoopt.formats.schedules.placed_blocks import Hop, RankSchedule, cut_to

NO_PEER = -1
Place = tuple[str, int]
StepAt = tuple[int, int]
"""Block and step of a rank."""


@dataclass(frozen=True)
class WrittenStep:
    """A step as it stands in a file; `needs` is the one that it waits for."""

    kind: str
    source: Place
    target: Place
    count: int
    needs: StepAt | None


@dataclass
class WrittenBlock:
    """A thread block and its peers."""

    channel: int
    send: int
    receive: int
    steps: list[WrittenStep] = field(default_factory=list)


@dataclass
class RankBlocks:
    """Thread blocks of a rank, and the steps that others of it wait for."""

    blocks: list[WrittenBlock] = field(default_factory=list)
    waited: set[StepAt] = field(default_factory=set)
    _sends: dict[tuple[int, int], int] = field(default_factory=dict)
    _receives: dict[tuple[int, int], int] = field(default_factory=dict)

    def block(self, channel: int, send: int, receive: int) -> int:
        """The block that sends to a peer and receives from one on a channel; each of both stands in one block alone."""
        if send == receive == NO_PEER:
            self.blocks.append(WrittenBlock(channel, send, receive))
            return len(self.blocks) - 1
        known = self._sends.get((channel, send), self._receives.get((channel, receive)))
        if known is None:
            known = len(self.blocks)
            self.blocks.append(WrittenBlock(channel, send, receive))
        if send != NO_PEER:
            self._sends[channel, send] = known
            self.blocks[known].send = send
        if receive != NO_PEER:
            self._receives[channel, receive] = known
            self.blocks[known].receive = receive
        return known

    def add(self, block: int, kind: str, ends: tuple[Place, Place], count: int, after: set[StepAt]) -> StepAt:
        """A step; further dependences are carried by steps that do nothing."""
        latest: dict[int, int] = {}
        for other, step in after:
            if other != block:
                latest[other] = max(latest.get(other, -1), step)
        needs = sorted(latest.items())
        self.waited.update(needs)
        steps = self.blocks[block].steps
        steps += [WrittenStep("nop", ("i", -1), ("o", -1), 0, need) for need in needs[:-1]]
        steps.append(WrittenStep(kind, *ends, count, needs[-1] if needs else None))
        return block, len(steps) - 1


class _Uses:
    """Which steps of a rank last wrote a block of the vector, and which have read it since."""

    def __init__(self) -> None:
        self.written: dict[tuple[int, int], set[StepAt]] = {}
        self.read: dict[tuple[int, int], set[StepAt]] = {}

    def before_read(self, key: tuple[int, int]) -> set[StepAt]:
        return self.written.get(key, set())

    def before_write(self, key: tuple[int, int]) -> set[StepAt]:
        return self.written.get(key, set()) | self.read.get(key, set())

    def add(self, key: tuple[int, int], step: StepAt, *, writes: bool) -> None:
        if writes:
            self.written[key], self.read[key] = {step}, set()
        else:
            self.read.setdefault(key, set()).add(step)


def laid_out(schedule: RankSchedule, channels: int, *, fused: bool) -> tuple[list[RankBlocks], ChunkMemory]:
    """Thread blocks of all ranks.

    Args:
        fused: steps that receive and send on at once; otherwise s, r, rrc, cpy and nop alone.
    """
    memory = ChunkMemory(schedule)
    ranks = [RankBlocks() for _ in range(schedule.ranks)]
    blocks = cut_to(schedule.blocks, MOST_CHUNKS)
    uses = _Uses()
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

        def place(rank: int, number: int = number) -> Place:
            return memory.place(rank, number, blocks[number])

        (_, tail, head, _), _ = chain[0]
        key = (tail, number)
        own = ranks[tail].block(channel, head, NO_PEER)
        ends = place(tail), place(head)
        uses.add(key, ranks[tail].add(own, "s", ends, block.count, uses.before_read(key)), writes=False)
        for position, ((_, sender, rank, adds), joined) in enumerate(chain):
            onward: Hop | None = chain[position + 1][0] if position + 1 < len(chain) else None
            own = ranks[rank].block(channel, NO_PEER if onward is None else onward[2], sender)
            here, key = place(rank), (rank, number)
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
