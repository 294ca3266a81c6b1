"""Makes a program of actions, as a reader meets them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from topoopt.core.arrays import Ints, distinct
from topoopt.core.collective import UNKNOWN, CellRange, ChunkProgram, CollectiveOp, DeclaredFigures, Defect, Messages
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.untrusted import refusal
from topoopt.formats.schedules.limits import MOST_ACTIONS, MOST_CELLS, MOST_SHOWN
from topoopt.formats.schedules.row_store import RowStore


@dataclass
class ProgramBuilder:
    """Actions, cells and messages, until all are there; rows as `ChunkProgram` and `Messages` have them.

    Attributes:
        actions: rows (rank that executes it, its chain, place in the file ...).
    """

    file: str
    ranks: tuple[str, ...]
    place_words: tuple[str, ...]
    buffers: list[CellRange] = field(default_factory=list)
    actions: RowStore = field(init=False)
    moves: RowStore = field(default_factory=lambda: RowStore(3))
    edges: RowStore = field(default_factory=lambda: RowStore(2))
    sent: RowStore = field(default_factory=lambda: RowStore(7))
    ways: dict[tuple[str, ...], int] = field(default_factory=dict)
    start: RowStore = field(default_factory=lambda: RowStore(3))
    due: RowStore = field(default_factory=lambda: RowStore(3))
    defects: list[Defect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cells: int = 0
    _told: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.actions = RowStore(2 + len(self.place_words))

    def buffer(self, rank: int, name: str, count: int) -> int:
        """A new buffer; its first cell.

        Raises:
            InputError: too many cells.
        """
        first = self.cells
        self.cells += count
        if self.cells > MOST_CELLS:
            raise refusal("too many pieces", self.file, value=self.cells, allowed=f"at most {MOST_CELLS}")
        if count:
            self.buffers.append(CellRange(rank, name, first, count))
        return first

    def action(self, place: tuple[int, ...], home: int, chain: int) -> int:
        """A new action.

        Raises:
            InputError: too many.
        """
        if len(self.actions) >= MOST_ACTIONS:
            raise refusal("too many actions", self.file, allowed=f"at most {MOST_ACTIONS}")
        self.actions.append((home, chain, *place))
        return len(self.actions) - 1

    def single_action(self, place: tuple[int, ...], home: int) -> int:
        """A new action that is a chain of its own.

        Raises:
            InputError: too many.
        """
        return self.action(place, home, -1 - len(self.actions))

    def single_actions(self, places: Ints, homes: Ints) -> int:
        """New actions, each a chain of its own; the number of the first.

        Args:
            places: int64[k, p]; homes: int64[k].

        Raises:
            InputError: too many.
        """
        first = len(self.actions)
        if first + len(places) > MOST_ACTIONS:
            raise refusal("too many actions", self.file, allowed=f"at most {MOST_ACTIONS}")
        self.actions.add(homes, -1 - first - np.arange(len(places)), *places.T)
        return first

    def place(self, action: int) -> tuple[int, ...]:
        """Where an action stands in the file."""
        return self.actions[action][2:]

    def way(self, via: tuple[str, ...]) -> int:
        """Number of a way through switches."""
        return self.ways.setdefault(via, len(self.ways))

    def message(
        self,
        action: int,
        tail: int,
        head: int,
        units: int,
        *,
        piece: int,
        epoch: int = UNKNOWN,
        via: tuple[str, ...] | None = None,
    ) -> None:
        """Bytes that an action sends."""
        way = UNKNOWN if via is None else self.way(via)
        self.sent.append((action, tail, head, units, epoch, piece, way))

    def defect(self, law: str, message: str) -> None:
        """Something wrong; of many of one law the first few are kept."""
        self._told[law] = self._told.get(law, 0) + 1
        if self._told[law] <= MOST_SHOWN:
            self.defects.append(Defect(law, message))

    def built(
        self,
        name: str,
        collective: CollectiveOp,
        vector_units: int,
        *,
        per_share: bool,
        stated: DeclaredFigures | None = None,
        topology: RatedNetwork | None = None,
        exact: bool = True,
    ) -> ChunkProgram:
        """The program."""
        hidden = [(law, count - MOST_SHOWN) for law, count in self._told.items() if count > MOST_SHOWN]
        sent, moves, actions = self.sent.table(), self.moves.table(), self.actions.table()
        narrow = [sent[:, column].astype(np.int32) for column in (1, 2, 4, 6)]
        return ChunkProgram(
            name,
            collective,
            self.ranks,
            vector_units,
            per_share,
            tuple(self.buffers),
            self.start.table(),
            self.due.table(),
            self.place_words,
            actions[:, 2:].astype(np.int32),
            actions[:, 1].copy(),
            actions[:, 0].astype(np.int32),
            moves[np.argsort(moves[:, 0], kind="stable")],
            _different(self.edges.table(), len(actions)),
            Messages(sent[:, 0], narrow[0], narrow[1], sent[:, 3], narrow[2], sent[:, 5], narrow[3]),
            tuple(self.ways),
            stated or DeclaredFigures(),
            (*self.defects, *(Defect(law, f"{count} more of the kind") for law, count in hidden)),
            tuple(dict.fromkeys(self.notes)),
            topology,
            exact,
        )


def _different(edges: Ints, actions: int) -> Ints:
    """Each pair once, sorted."""
    return np.column_stack(np.divmod(distinct(edges[:, 0] * max(actions, 1) + edges[:, 1]), max(actions, 1)))
