"""Schedules are laid out for runtimes: the blocks in input, output and scratch, and the sends of each rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

import numpy as np

from topoopt.core.collective import CollectiveOp, CollectiveProblem, CollectiveResult, CollectiveSchedule

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

    Raises
    ------
    InputError
        The result has no problem.
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
