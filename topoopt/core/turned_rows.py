"""Arcs that look the same from every server: a row of values, as source 0 sees them, stands for the rows of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints


@dataclass(frozen=True, eq=False)
class Turns:
    """How the arcs of a circulant turn.

    Attributes:
        tail: int64[m].
        offset: int64[m], place of the offset of each arc among all offsets.
        arc: int64[offsets, n], the arc with an offset and a tail.
    """

    tail: Ints
    offset: Ints
    arc: Ints

    def rows(self, row: Floats) -> Iterator[Floats]:
        """float64[m] of every source: what it sends where source 0 sends `row`, seen from itself."""
        n = self.arc.shape[1]
        twice = np.hstack((row[self.arc], row[self.arc])).ravel()
        seen = 2 * n * self.offset + n + self.tail
        for source in range(n):
            yield twice[seen - source]

    def load(self, row: Floats) -> Floats:
        """float64[m]: the sum of the rows of all sources."""
        return np.asarray(row[self.arc].sum(axis=1)[self.offset])


def turns_of(arcs: Int32s | Ints, servers: int) -> Turns | None:
    """None where some server has other arcs than server 0, seen from itself.

    Args:
        arcs: [m, 2], tails and heads, all different and in range.
    """
    tail, head = arcs.astype(np.int64).T
    offsets, place, counts = np.unique((head - tail) % servers, return_inverse=True, return_counts=True)
    if not len(offsets) or (counts != servers).any():
        return None
    table = np.empty((len(offsets), servers), dtype=np.int64)
    table[place, tail] = np.arange(len(arcs))
    return Turns(tail, place, table)
