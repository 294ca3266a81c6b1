"""Makes a program of actions, as a reader meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topoopt.core.chunk_program import (
    UNKNOWN,
    CellRange,
    ChunkProgram,
    Defect,
    Messages,
    StatedFigures,
)
from topoopt.core.collective import CollectiveOp
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.untrusted import refusal
from topoopt.formats.schedules.limits import MOST_ACTIONS, MOST_CELLS, MOST_SHOWN


@dataclass
class ProgramBuilder:
    """Actions, cells and messages, in lists until all are there."""

    file: str
    ranks: tuple[str, ...]
    place_words: tuple[str, ...]
    buffers: list[CellRange] = field(default_factory=list)
    places: list[tuple[int, ...]] = field(default_factory=list)
    chain: list[int] = field(default_factory=list)
    home: list[int] = field(default_factory=list)
    moves: list[tuple[int, int, int]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    sent: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)
    ways: dict[tuple[str, ...], int] = field(default_factory=dict)
    start: list[tuple[int, int, int]] = field(default_factory=list)
    due: list[tuple[int, int, int]] = field(default_factory=list)
    defects: list[Defect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cells: int = 0
    _told: dict[str, int] = field(default_factory=dict)

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
        if len(self.places) >= MOST_ACTIONS:
            raise refusal("too many actions", self.file, allowed=f"at most {MOST_ACTIONS}")
        self.places.append(place)
        self.home.append(home)
        self.chain.append(chain)
        return len(self.places) - 1

    def actions(self, places: Sequence[tuple[int, ...]], homes: Sequence[int]) -> int:
        """New actions, each a chain of its own; the number of the first.

        Raises:
            InputError: too many.
        """
        first = len(self.places)
        if first + len(places) > MOST_ACTIONS:
            raise refusal("too many actions", self.file, allowed=f"at most {MOST_ACTIONS}")
        self.places += places
        self.home += homes
        self.chain += range(-1 - first, -1 - first - len(places), -1)
        return first

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
        stated: StatedFigures | None = None,
        topology: RatedNetwork | None = None,
        exact: bool = True,
    ) -> ChunkProgram:
        """The program."""
        hidden = [(law, count - MOST_SHOWN) for law, count in self._told.items() if count > MOST_SHOWN]
        sent = _table(self.sent, 7)
        narrow = [sent[:, column].astype(np.int32) for column in (1, 2, 4, 6)]
        moves = _table(self.moves, 3)
        return ChunkProgram(
            name,
            collective,
            self.ranks,
            vector_units,
            per_share,
            tuple(self.buffers),
            _table(self.start, 3),
            _table(self.due, 3),
            self.place_words,
            _table(self.places, len(self.place_words)).astype(np.int32),
            np.array(self.chain, dtype=np.int64),
            np.array(self.home, dtype=np.int32),
            moves[np.argsort(moves[:, 0], kind="stable")],
            _different(_table(self.edges, 2), len(self.places)),
            Messages(sent[:, 0], narrow[0], narrow[1], sent[:, 3], narrow[2], sent[:, 5], narrow[3]),
            tuple(self.ways),
            stated or StatedFigures(),
            (*self.defects, *(Defect(law, f"{count} more of the kind") for law, count in hidden)),
            tuple(dict.fromkeys(self.notes)),
            topology,
            exact,
        )


def _different(edges: np.ndarray, actions: int) -> np.ndarray:
    """Each pair once, sorted."""
    keys = np.unique(edges[:, 0] * max(actions, 1) + edges[:, 1])
    return np.column_stack((keys // max(actions, 1), keys % max(actions, 1)))


def _table(rows: Sequence[Sequence[int]], width: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, width)
