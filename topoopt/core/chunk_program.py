"""A collective schedule of any origin as a partial order of actions on cells of memory, each a piece of the vector.

What is sent and received is a cell too: one action fills it, another empties it. So one executor serves all formats.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.collective import CollectiveOp
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.shown import Shown

ALL_RANKS = -1
"""In `expected`: the sum over all ranks, each once."""

UNKNOWN = -1
"""No epoch, no stated route."""


@dataclass(frozen=True)
class CellRange:
    """Cells `first` to `first + count - 1`: a named part of the memory of a rank."""

    rank: int
    name: str
    first: int
    count: int


@dataclass(frozen=True)
class Defect:
    """What makes a schedule wrong: which law it breaks, and where."""

    law: str
    message: str


@dataclass(frozen=True)
class DeclaredFigures:
    """What a file or its user says of a schedule; None: nothing.

    Attributes:
        vector_bytes: M.
        time_us, algbw_gbytes_per_s: of the whole collective, and M over it.
        epoch_us: length of an epoch of the messages.
    """

    vector_bytes: float | None = None
    time_us: float | None = None
    algbw_gbytes_per_s: float | None = None
    epoch_us: float | None = None


NOTHING_DECLARED = DeclaredFigures()


@dataclass(frozen=True, eq=False, repr=False)
class Messages(Shown):
    """What goes over the network, in columns of equal length.

    Attributes:
        action: int64[k], the action that sends it.
        tail, head: int32[k], ranks at the ends.
        units: int64[k], size, in units of which the vector has `vector_units`.
        epoch: int32[k], when it starts; UNKNOWN: when its action may.
        piece: int64[k], what it is: equal ones are the same bytes, which a switch could copy.
        via: int32[k], index into `vias`; UNKNOWN: not stated.
    """

    action: Ints
    tail: Int32s
    head: Int32s
    units: Ints
    epoch: Int32s
    piece: Ints
    via: Int32s

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True, eq=False, repr=False)
class ChunkProgram(Shown):
    """A schedule that can be executed.

    Attributes:
        name: of the schedule.
        collective: what it is to do.
        ranks: names of the ranks, as the file has them.
        vector_units: size of the whole vector (in an All-to-All of that of each rank); 0: units are bytes.
        per_share: whether the vector has a share of each rank, so that ranks which a file forgets count.
        buffers: of all ranks, in the order of their cells.
        start: int64[s, 3], rows (cell, label, rank): what is there before: the part with that label of that rank.
        expected: int64[d, 3], rows (cell, label, rank or ALL_RANKS): what is to be there after.
        place_words: what the columns of `places` are.
        places: int32[a, p], where each action stands in the file.
        chain: int64[a], the thread block of each action; those of one are executed in their order.
        home: int32[a], the rank that executes it.
        moves: int64[m, 3], rows (action, to, from) sorted by action; cells that come to one cell are added up.
        after: int64[e, 2], rows (action, an earlier one).
        messages: over the network.
        vias: switches that a message passes, by their names in the file.
        declared: figures of the file.
        defects: found on reading.
        notes: what was assumed, and what runtimes are known to do.
        topology: network that the file states.
        exact: whether the file says which bytes are sent; if not, only who can know of whom is known.
    """

    name: str
    collective: CollectiveOp
    ranks: tuple[str, ...]
    vector_units: int
    per_share: bool
    buffers: tuple[CellRange, ...]
    start: Ints
    expected: Ints
    place_words: tuple[str, ...]
    places: Int32s
    chain: Ints
    home: Int32s
    moves: Ints
    after: Ints
    messages: Messages
    vias: tuple[tuple[str, ...], ...] = ()
    declared: DeclaredFigures = NOTHING_DECLARED
    defects: tuple[Defect, ...] = ()
    notes: tuple[str, ...] = ()
    topology: RatedNetwork | None = None
    exact: bool = True

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.buffers[-1].first + self.buffers[-1].count if self.buffers else 0

    def place(self, action: int) -> str:
        """Where an action stands in the file."""
        numbers = self.places[action].tolist()
        return ", ".join(f"{word} {number}" for word, number in zip(self.place_words, numbers, strict=True))

    def cell(self, cell: int) -> str:
        """Which cell is meant, in words."""
        buffer = self.buffers[bisect_right(self.buffers, cell, key=lambda buffer: buffer.first) - 1]
        return f"{buffer.name} {cell - buffer.first} of rank {self.ranks[buffer.rank]}"
