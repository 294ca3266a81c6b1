"""Arcs that look the same from every server: a row of values, as source 0 sees them, stands for the rows of all.

Servers are the places of a box whose dimensions are rings, numbered with the last dimension fastest, as a torus has
them. One dimension is the ring of all servers: what looks the same from its every place is a circulant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints


@dataclass(frozen=True)
class RingBox:
    """The translations of a box of rings, a group: each has the number of the server that it takes server 0 to.

    Attributes:
        dims: size of each dimension.
    """

    dims: tuple[int, ...]

    @property
    def servers(self) -> int:
        """How many places, and translations."""
        return math.prod(self.dims)

    @cached_property
    def _strides(self) -> list[int]:
        return [math.prod(self.dims[k + 1 :]) for k in range(len(self.dims))]

    def products(self, left: Ints, right: Ints | np.int64) -> Ints:
        """int64: translations of one array after those of another."""
        parts = zip(self.dims, self._strides, strict=True)
        return np.asarray(sum((left // s + right // s) % d * s for d, s in parts), dtype=np.int64)

    def inverses(self, elements: Ints) -> Ints:
        """int64: the translations back."""
        parts = zip(self.dims, self._strides, strict=True)
        return np.asarray(sum(-(elements // s) % d * s for d, s in parts), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Turns:
    """How arcs that look the same from every place of a box turn.

    Attributes:
        box: of the servers.
        tail: int64[m].
        step: int64[m], place of the step of each arc among all steps.
        arc: int64[steps, n], the arc with a step and a tail.
    """

    box: RingBox
    tail: Ints
    step: Ints
    arc: Ints

    def rows(self, row: Floats) -> Iterator[Floats]:
        """float64[m] of every source: what it sends where source 0 sends `row`, seen from itself."""
        n = self.box.servers
        values, begin, everyone = row[self.arc].ravel(), n * self.step, np.arange(n)
        for back in self.box.inverses(everyone):
            yield values[begin + self.box.products(everyone, back)[self.tail]]

    def load(self, row: Floats) -> Floats:
        """float64[m]: the sum of the rows of all sources."""
        return np.asarray(row[self.arc].sum(axis=1)[self.step])


def turns_of(arcs: Int32s | Ints, servers: int, dims: tuple[int, ...] = ()) -> Turns | None:
    """None where some server has other arcs than server 0, seen from itself.

    Args:
        arcs: [m, 2], tails and heads, all different and in range.
        dims: of the box, as many places as servers; none: the ring of all.
    """
    box = RingBox(dims or (servers,))
    tail, head = arcs.astype(np.int64).T
    steps, place, counts = np.unique(box.products(box.inverses(tail), head), return_inverse=True, return_counts=True)
    if not len(steps) or (counts != servers).any():
        return None
    table = np.empty((len(steps), servers), dtype=np.int64)
    table[place, tail] = np.arange(len(arcs))
    return Turns(box, tail, place, table)
