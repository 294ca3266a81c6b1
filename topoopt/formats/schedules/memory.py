"""Where the chunks of a block are in the buffers of a rank: i, o, or a place of its own in the scratch s."""

from __future__ import annotations

from topoopt.core.collective import CollectiveOp
from topoopt.formats.schedules.placed_blocks import PlacedBlock, RankSchedule

IN_INPUT = frozenset({CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALLREDUCE, CollectiveOp.REDUCE})
"""Those that are done in the input, which in place is the output too; the others in the output."""


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

    def place(self, rank: int, number: int, block: PlacedBlock) -> tuple[str, int]:
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
        """Chunks of input and output."""
        chunks, share = self.schedule.chunks, self.schedule.share
        if self.schedule.collective is CollectiveOp.ALLGATHER:
            return share, chunks
        if self.schedule.collective is CollectiveOp.REDUCE_SCATTER:
            return chunks, share
        return chunks, chunks
