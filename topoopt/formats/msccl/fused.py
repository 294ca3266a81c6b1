"""Messages that a rank passes on at once: which receive and which send of a block become one step of MSCCL.

rcs receives, keeps and sends on; rrs receives, adds what the rank has and sends on; rrcs keeps the sum besides. One
thread block has one peer to receive from and one to send to, and on a channel a peer is in one thread block alone. So
of the pairs (from, to) at a rank and channel those that occur most are joined, each peer once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from topoopt.core.collective import CollectiveOp
from topoopt.formats.schedules.placed_blocks import Hop, PlacedBlock, RankSchedule

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
        """Numbers of those that begin or end at ranks, in order."""
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
    for (rank, channel, sender, target), _ in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        if (rank, channel, sender) not in pairs and (rank, channel, target) not in taken:
            pairs[rank, channel, sender] = target
            taken.add((rank, channel, target))
    return pairs


def fused_chains(schedule: RankSchedule, blocks: Sequence[PlacedBlock], pairs: Pairs, channels: int) -> Iterator[Chain]:
    """Messages in an order for all ranks, each followed at once by those that pass it on."""
    left = [_Left(block) for block in blocks]
    every = sorted((hop, number, place) for number, one in enumerate(left) for place, hop in enumerate(one.hops))
    for _, number, place in every:
        own = left[number]
        if own.gone[place]:
            continue
        chain: list[tuple[Hop, str]] = []
        latest: int | None = place
        while latest is not None:
            hop = own.hops[latest]
            own.gone[latest] = True
            latest = _passed_on(own, hop, pairs.get((hop[2], number % channels, hop[1])))
            chain.append((hop, "" if latest is None else _kind(schedule, blocks[number], own, hop, latest)))
        yield number, chain


def _passed_on(left: _Left, came: Hop, target: int | None) -> int | None:
    """The next message of a block from where one came, if nothing that is left must stand between."""
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
    """The type of a step that receives a message and sends another."""
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
