"""Flows of parts of chunks to flows of whole pieces: any bytes of a chunk serve as well as any others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

Key = tuple[int, int, int]
"""Source, chunk, number of the piece."""


WHOLE = Fraction(1)


class ChunkFlow(NamedTuple):
    """A part of a chunk that goes over a link or through switches in an epoch."""

    place: int
    chunk: int
    source: int
    tail: int
    head: int
    volume: Fraction
    epoch: int
    via: tuple[str, ...] | None


def whole_pieces(flows: Sequence[ChunkFlow]) -> tuple[dict[Key, Fraction], list[tuple[Key, ChunkFlow]]]:
    """Size of every piece, in chunks, and which pieces each flow carries.

    A flow of a part of a chunk takes what came first to its tail and has not been sent on; of what is not there it
    takes the beginning of the chunk, so that an executor finds that it is not there.
    """
    by_chunk: dict[tuple[int, int], list[ChunkFlow]] = {}
    for flow in flows:
        by_chunk.setdefault((flow.source, flow.chunk), []).append(flow)
    sizes: dict[Key, Fraction] = {}
    carried: list[tuple[Key, ChunkFlow]] = []
    for (source, chunk), own in by_chunk.items():
        if all(flow.volume is WHOLE or flow.volume == 1 for flow in own):
            sizes[source, chunk, 0] = Fraction(1)
            carried += [((source, chunk, 0), flow) for flow in own]
            continue
        taken = _intervals(source, own)
        ends = sorted({end for _, low, high in taken for end in (low, high)} | {Fraction(0), Fraction(1)})
        spans = list(itertools.pairwise(ends))
        for number, (low, high) in enumerate(spans):
            sizes[source, chunk, number] = high - low
        for flow, begin, stop in taken:
            carried += [
                ((source, chunk, k), flow) for k, (low, high) in enumerate(spans) if begin <= low and high <= stop
            ]
    return sizes, carried


def _intervals(source: int, flows: Sequence[ChunkFlow]) -> list[tuple[ChunkFlow, Fraction, Fraction]]:
    """Which part of the chunk each flow takes, low and high end."""
    here: dict[int, list[tuple[Fraction, Fraction, int]]] = {source: [(Fraction(0), Fraction(1), -1)]}
    taken: list[tuple[ChunkFlow, Fraction, Fraction]] = []
    for flow in sorted(flows, key=lambda one: one.epoch):
        left = min(flow.volume, Fraction(1))
        kept: list[tuple[Fraction, Fraction, int]] = []
        for low, high, since in here.get(flow.tail, ()):
            some = min(left, high - low) if since < flow.epoch else Fraction(0)
            if some:
                taken.append((flow, low, low + some))
                here.setdefault(flow.head, []).append((low, low + some, flow.epoch))
                left -= some
            if low + some < high:
                kept.append((low + some, high, since))
        here[flow.tail] = kept
        if left > Fraction(1, 1000):
            taken.append((flow, Fraction(0), left))
    return taken
