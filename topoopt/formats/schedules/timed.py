"""Sends of whole pieces at stated times to a program: what leaves in an epoch came in an earlier one.

A piece is copied, or, where several ranks contribute to it, summed: what comes is added when it holds other ranks'
parts, and taken instead when it holds all that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from topoopt.core.chunk_program import UNKNOWN
from topoopt.formats.schedules.builder import ProgramBuilder


@dataclass(frozen=True)
class Piece:
    """What is sent whole: its size, and the ranks that have (a part of) it before."""

    units: int
    holders: tuple[int, ...]
    summed: bool = False


class TimedSend(NamedTuple):
    """A send of a piece in an epoch, at a place of the file, through stated switches or not."""

    piece: int
    tail: int
    head: int
    epoch: int
    place: tuple[int, ...]
    via: tuple[str, ...] | None = None


class _Held(NamedTuple):
    """What a rank has of a piece: the parts of which ranks, and the actions that brought them."""

    parts: int
    brought: tuple[int, ...] = ()


def add_sends(
    builder: ProgramBuilder, pieces: Sequence[Piece], sends: Sequence[TimedSend], *, timed: bool
) -> list[int]:
    """Put pieces and sends into a program; of each rank the cell of its first piece, the others follow.

    Args:
        timed: whether epochs are times; otherwise they only say what comes first.
    """
    count = len(pieces)
    first = [builder.buffer(rank, "piece", count) for rank in range(len(builder.ranks))]
    held: dict[tuple[int, int], _Held] = {}
    for number, piece in enumerate(pieces):
        for rank in piece.holders:
            owner = rank if piece.summed else piece.holders[0]
            builder.start.append((first[rank] + number, number, owner))
            held[rank, number] = _Held(1 << owner)
    ordered = sorted(sends, key=lambda send: send.epoch)
    if not any(piece.summed for piece in pieces):
        again = _copies(builder, pieces, ordered, first, timed=timed)
        if again:
            builder.notes.append(f"{again} sends bring what is there already")
        return first
    again = 0
    low = 0
    while low < len(ordered):
        high = low
        while high < len(ordered) and ordered[high].epoch == ordered[low].epoch:
            high += 1
        again += _epoch(builder, pieces, ordered[low:high], held, first, timed=timed)
        low = high
    if again:
        builder.notes.append(f"{again} sends bring what is there already")
    return first


def _copies(
    builder: ProgramBuilder, pieces: Sequence[Piece], sends: Sequence[TimedSend], first: Sequence[int], *, timed: bool
) -> int:
    """Sends in order of their epochs, of pieces that are copied alone; how many bring nothing new."""
    base = builder.actions([send.place for send in sends], [send.tail for send in sends])
    ways = [UNKNOWN if send.via is None else builder.way(send.via) for send in sends]
    epochs = [send.epoch for send in sends] if timed else [UNKNOWN] * len(sends)
    units = [piece.units for piece in pieces]
    builder.sent += [
        (base + k, send.tail, send.head, units[send.piece], epoch, send.piece, way)
        for k, (send, epoch, way) in enumerate(zip(sends, epochs, ways, strict=True))
    ]
    brought: dict[int, int] = {}  # the action that fills a cell; -1: filled before
    for number, piece in enumerate(pieces):
        brought |= {first[rank] + number: -1 for rank in piece.holders}
    again = low = 0
    while low < len(sends):
        high = low
        while high < len(sends) and sends[high].epoch == sends[low].epoch:
            high += 1
        sources = [brought.get(first[sends[k].tail] + sends[k].piece) for k in range(low, high)]
        for k, source in zip(range(low, high), sources, strict=True):
            send, action = sends[k], base + k
            if source is None:
                where = ", ".join(f"{word} {at}" for word, at in zip(builder.place_words, send.place, strict=True))
                text = f"{where} sends piece {send.piece} from rank {builder.ranks[send.tail]}, which has it not yet"
                builder.defect("causality", text)
                continue
            if source >= 0:
                builder.edges.append((action, source))
            cell = first[send.head] + send.piece
            if cell in brought:
                again += 1
                continue
            builder.moves.append((action, cell, first[send.tail] + send.piece))
            brought[cell] = action
        low = high
    return again


def _epoch(
    builder: ProgramBuilder,
    pieces: Sequence[Piece],
    sends: Sequence[TimedSend],
    held: dict[tuple[int, int], _Held],
    first: Sequence[int],
    *,
    timed: bool,
) -> int:
    """The sends of one epoch; how many bring nothing new."""
    coming: list[tuple[TimedSend, int, _Held]] = []
    readers: dict[tuple[int, int], list[int]] = {}
    for send in sends:
        action = builder.action(send.place, send.tail, -1 - len(builder.places))
        source = held.get((send.tail, send.piece), _Held(0))
        builder.edges += [(action, one) for one in source.brought]
        epoch = send.epoch if timed else UNKNOWN
        units = pieces[send.piece].units
        builder.message(action, send.tail, send.head, units, piece=send.piece, epoch=epoch, via=send.via)
        readers.setdefault((send.tail, send.piece), []).append(action)
        coming.append((send, action, source))
    again = 0
    for send, action, source in coming:
        key, cell = (send.head, send.piece), first[send.head] + send.piece
        there = held.get(key, _Held(0))
        origin = first[send.tail] + send.piece
        if source.parts and source.parts | there.parts == there.parts and not pieces[send.piece].summed:
            again += 1
            continue
        if not source.parts:
            where = ", ".join(f"{word} {at}" for word, at in zip(builder.place_words, send.place, strict=True))
            text = f"{where} sends piece {send.piece} from rank {builder.ranks[send.tail]}, which has it not yet"
            builder.defect("causality", text)
            continue
        if not pieces[send.piece].summed:
            builder.moves.append((action, cell, origin))
            held[key] = _Held(source.parts, (action,))
            continue
        adds = there.parts & ~source.parts != 0
        taken = builder.action(send.place, send.head, -1 - len(builder.places))
        between = builder.buffer(send.head, "message", 1)
        builder.moves += [(action, between, origin), (taken, cell, between)]
        builder.moves += [(taken, cell, cell)] if adds else []
        builder.edges += [(taken, one) for one in (action, *there.brought, *readers.get(key, ())) if one != taken]
        held[key] = _Held(there.parts | source.parts, (taken,))
    return again
