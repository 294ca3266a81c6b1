"""Sends of whole pieces at stated times to a program: what leaves in an epoch came in an earlier one.

A piece is copied, or, where several ranks contribute to it, summed: what comes is added when it holds other ranks'
parts, and taken instead when it holds all that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.collective import UNKNOWN
from topoopt.formats.schedules.builder import ProgramBuilder
from topoopt.formats.schedules.row_store import Row

NOBODY, BEFORE = -2, -1
"""Which send brought a piece to a rank: none, or it was there before."""


@dataclass(frozen=True)
class Piece:
    """What is sent whole: its size, and the ranks that have (a part of) it before."""

    units: int
    holders: tuple[int, ...]
    summed: bool = False


@dataclass(frozen=True, eq=False)
class PieceSends:
    """Sends of pieces, int64[k] each.

    Attributes:
        piece, tail, head: what is sent, from which rank to which.
        epoch: when it starts.
        way: through which switches, a number of the builder; UNKNOWN: not stated.
        places: int64[k, p], where each stands in the file.
    """

    piece: Ints
    tail: Ints
    head: Ints
    epoch: Ints
    way: Ints
    places: Ints

    @classmethod
    def of_rows(cls, rows: Sequence[Row], words: int) -> PieceSends:
        """Of rows (piece, tail, head, epoch, way, place ...), a place of so many numbers."""
        table = np.array(rows, dtype=np.int64).reshape(-1, 5 + words)
        piece, tail, head, epoch, way = table[:, :5].T
        return cls(piece, tail, head, epoch, way, table[:, 5:])

    def taken(self, order: Ints) -> PieceSends:
        """Those of some numbers, in that order."""
        return PieceSends(*(getattr(self, name)[order] for name in self.__dataclass_fields__))


class _Held(NamedTuple):
    """What a rank has of a piece: the parts of which ranks, and the actions that brought them."""

    parts: int
    brought: tuple[int, ...] = ()


def add_sends(builder: ProgramBuilder, pieces: Sequence[Piece], sends: PieceSends, *, timed: bool) -> list[int]:
    """Put pieces and sends into a program; of each rank the cell of its first piece, the others follow.

    Args:
        timed: whether epochs are times; otherwise they only say what comes first.
    """
    count = len(pieces)
    first = [builder.buffer(rank, "piece", count) for rank in range(len(builder.ranks))]
    holders = [
        (first[rank] + number, number, rank if piece.summed else piece.holders[0])
        for number, piece in enumerate(pieces)
        for rank in piece.holders
    ]
    builder.start.extend(holders)
    ordered = sends.taken(np.argsort(sends.epoch, kind="stable"))
    units = np.array([piece.units for piece in pieces], dtype=np.int64)[ordered.piece]
    if any(piece.summed for piece in pieces):
        held = {cell: _Held(1 << owner) for cell, _, owner in holders}
        again = _sums(builder, pieces, ordered, units, held, first, timed=timed)
    else:
        again = _copies(builder, ordered, units, [cell for cell, _, _ in holders], first, timed=timed)
    if again:
        builder.notes.append(f"{again} sends bring what is there already")
    return first


def _copies(
    builder: ProgramBuilder, sends: PieceSends, units: Ints, filled: Sequence[int], first: Sequence[int], *, timed: bool
) -> int:
    """Sends in order of their epochs, of pieces that are copied alone; how many bring nothing new."""
    base = builder.single_actions(sends.places, sends.tail)
    action = base + np.arange(len(sends.piece))
    epochs = sends.epoch if timed else UNKNOWN
    builder.sent.add(action, sends.tail, sends.head, units, epochs, sends.piece, sends.way)
    cells = np.array(first, dtype=np.int64)
    source, target = cells[sends.tail] + sends.piece, cells[sends.head] + sends.piece
    fills, brought = _first_fills(source, target, sends.epoch, filled, builder.cells)
    builder.moves.add(action[fills], target[fills], source[fills])
    builder.edges.add(action[brought >= 0], base + brought[brought >= 0])
    for k in np.flatnonzero(brought == NOBODY).tolist():
        _sent_too_early(builder, sends.places[k].tolist(), int(sends.piece[k]), int(sends.tail[k]))
    return len(sends.piece) - len(fills) - int((brought == NOBODY).sum())


def _first_fills(source: Ints, target: Ints, epoch: Ints, filled: Sequence[int], cells: int) -> tuple[Ints, Ints]:
    """Which sends fill a cell first, and int64[k] the send that each has its piece from, BEFORE or NOBODY.

    Args:
        source, target: int64[k], cells of each send, in the order of epochs.
        filled: cells that are full before.
    """
    holds = [NOBODY] * cells
    for cell in filled:
        holds[cell] = BEFORE
    epochs = epoch.tolist()
    fills, brought = [], []
    for number, (tail, head, now) in enumerate(zip(source.tolist(), target.tolist(), epochs, strict=True)):
        came = holds[tail]
        if came >= 0 and epochs[came] >= now:
            came = NOBODY
        brought.append(came)
        if came != NOBODY and holds[head] == NOBODY:
            holds[head] = number
            fills.append(number)
    return np.array(fills, dtype=np.int64), np.array(brought, dtype=np.int64)


def _sent_too_early(builder: ProgramBuilder, place: Sequence[int], piece: int, tail: int) -> None:
    where = ", ".join(f"{word} {at}" for word, at in zip(builder.place_words, place, strict=True))
    text = f"{where} sends piece {piece} from rank {builder.ranks[tail]}, which has it not yet"
    builder.defect("causality", text)


def _sums(
    builder: ProgramBuilder,
    pieces: Sequence[Piece],
    sends: PieceSends,
    units: Ints,
    held: dict[int, _Held],
    first: Sequence[int],
    *,
    timed: bool,
) -> int:
    """Sends in order of their epochs where pieces are summed; how many bring nothing new."""
    columns = (sends.piece, sends.tail, sends.head, sends.epoch, sends.way, units)
    rows = list(zip(*(column.tolist() for column in columns), map(tuple, sends.places.tolist()), strict=True))
    again = low = 0
    while low < len(rows):
        high = low
        while high < len(rows) and rows[high][3] == rows[low][3]:
            high += 1
        again += _epoch(builder, pieces, rows[low:high], held, first, timed=timed)
        low = high
    return again


def _epoch(
    builder: ProgramBuilder,
    pieces: Sequence[Piece],
    rows: Sequence[tuple[int, int, int, int, int, int, Row]],
    held: dict[int, _Held],
    first: Sequence[int],
    *,
    timed: bool,
) -> int:
    """The sends of one epoch; how many bring nothing new. What is held goes by cells."""
    coming: list[tuple[int, int, int, int, Row, _Held]] = []
    readers: dict[int, list[int]] = {}
    for piece, tail, head, epoch, way, units, place in rows:
        action = builder.single_action(place, tail)
        origin, cell = first[tail] + piece, first[head] + piece
        source = held.get(origin, _Held(0))
        builder.edges.extend((action, one) for one in source.brought)
        builder.sent.append((action, tail, head, units, epoch if timed else UNKNOWN, piece, way))
        readers.setdefault(origin, []).append(action)
        coming.append((piece, action, origin, cell, place, source))
    again = 0
    for (piece, tail, head, *_), (_, action, origin, cell, place, source) in zip(rows, coming, strict=True):
        there = held.get(cell, _Held(0))
        if source.parts and source.parts | there.parts == there.parts and not pieces[piece].summed:
            again += 1
            continue
        if not source.parts:
            _sent_too_early(builder, place, piece, tail)
            continue
        if not pieces[piece].summed:
            builder.moves.append((action, cell, origin))
            held[cell] = _Held(source.parts, (action,))
            continue
        adds = there.parts & ~source.parts != 0
        taken = builder.single_action(place, head)
        between = builder.buffer(head, "message", 1)
        builder.moves.extend(((action, between, origin), (taken, cell, between)))
        if adds:
            builder.moves.append((taken, cell, cell))
        builder.edges.extend((taken, one) for one in (action, *there.brought, *readers.get(cell, ())) if one != taken)
        held[cell] = _Held(there.parts | source.parts, (taken,))
    return again
