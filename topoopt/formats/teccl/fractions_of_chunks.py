"""Flows of parts of chunks to flows of whole pieces: any bytes of a chunk serve as well as any others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Ints

WHOLE = Fraction(1)


@dataclass(frozen=True, eq=False)
class ChunkFlows:
    """Parts of chunks that go over links or through switches, int64[k] each, in the order of the file.

    Attributes:
        chunk, source: which chunk of which node.
        tail, head: nodes at the ends.
        epoch: when it starts.
        volume: index into `volumes`, whose first is the whole chunk.
        via: index into `ways`, switches between by their names; -1: none are stated.
    """

    chunk: Ints
    source: Ints
    tail: Ints
    head: Ints
    epoch: Ints
    volume: Ints
    via: Ints
    volumes: tuple[Fraction, ...]
    ways: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class WholePieces:
    """Chunks cut so that every flow carries whole pieces.

    Attributes:
        source, chunk: int64[g], of which node which chunk, as they come first.
        first: int64[g + 1], pieces of chunk g are first[g] to first[g + 1] - 1.
        sizes: of every piece, in chunks.
        piece, flow: int64[s], which piece each send carries, and in which flow.
    """

    source: Ints
    chunk: Ints
    first: Ints
    sizes: tuple[Fraction, ...]
    piece: Ints
    flow: Ints


class _PartFlow(NamedTuple):
    """A flow of a part of a chunk."""

    place: int
    tail: int
    head: int
    volume: Fraction
    epoch: int


def whole_pieces(flows: ChunkFlows) -> WholePieces:
    """Pieces, and which of them each flow carries.

    A flow of a part of a chunk takes what came first to its tail and has not been sent on; of what is not there it
    takes the beginning of the chunk, so that an executor finds that it is not there.
    """
    keys, begin, which = np.unique(flows.source * 10**9 + flows.chunk, return_index=True, return_inverse=True)
    appearance = np.argsort(begin)
    number = np.empty_like(appearance)
    number[appearance] = np.arange(len(keys))
    group = number[which.reshape(-1)]
    parted = np.zeros(len(keys), dtype=np.bool_)
    parted[group[flows.volume != 0]] = True
    sizes: list[Sequence[Fraction]] = [(WHOLE,)] * len(keys)
    plain = np.flatnonzero(~parted[group])
    rows = [np.column_stack((group[plain], np.zeros(len(plain), dtype=np.int64), plain))]  # chunk, piece in it, flow
    for cut in np.flatnonzero(parted).tolist():
        own = np.flatnonzero(group == cut)
        sizes[cut], carried = _cut(flows, own)
        rows.append(np.array([(cut, *one) for one in carried], dtype=np.int64).reshape(-1, 3))
    first = np.concatenate(([0], np.cumsum([len(one) for one in sizes]))).astype(np.int64)
    table = np.concatenate(rows)
    table = table[np.argsort(table[:, 0], kind="stable")]
    sources, chunks = np.divmod(keys[appearance], 10**9)
    every = tuple(itertools.chain.from_iterable(sizes))
    return WholePieces(sources, chunks, first, every, first[table[:, 0]] + table[:, 1], table[:, 2])


def _cut(flows: ChunkFlows, own: Ints) -> tuple[list[Fraction], list[tuple[int, int]]]:
    """Sizes of the pieces of a chunk of which parts are sent, and rows (piece, flow)."""
    columns = (own, flows.tail[own], flows.head[own], flows.volume[own], flows.epoch[own])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    parts = [_PartFlow(place, tail, head, flows.volumes[volume], epoch) for place, tail, head, volume, epoch in rows]
    taken = _intervals(int(flows.source[own[0]]), parts)
    ends = sorted({end for _, low, high in taken for end in (low, high)} | {Fraction(0), Fraction(1)})
    spans = list(itertools.pairwise(ends))
    carried = [
        (k, flow.place)
        for flow, begin, stop in taken
        for k, (low, high) in enumerate(spans)
        if begin <= low and high <= stop
    ]
    return [high - low for low, high in spans], carried


def _intervals(source: int, flows: Sequence[_PartFlow]) -> list[tuple[_PartFlow, Fraction, Fraction]]:
    """Which part of the chunk each flow takes, low and high end."""
    here: dict[int, list[tuple[Fraction, Fraction, int]]] = {source: [(Fraction(0), Fraction(1), -1)]}
    taken: list[tuple[_PartFlow, Fraction, Fraction]] = []
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
