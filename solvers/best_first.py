"""Searches that divide a problem again and again look at the part of the least bound first."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from topoopt.core.arrays import Ints

Node = TypeVar("Node")


@dataclass
class Incumbent:
    """The best circuits so far.

    Attributes:
        value: of what is sought.
        circuits: int64[pairs].
    """

    value: float
    circuits: Ints


class BestFirst(Generic[Node]):
    """Open nodes of a search, least bound first; equal ones come by rank, then in the order of their arrival."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, ...]] = []
        self._number = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Node]:
        return (entry[-1] for entry in self._heap)

    @property
    def bound(self) -> float:
        """Least bound of an open node; infinite where none is left."""
        return float(self._heap[0][0]) if self._heap else math.inf

    def add(self, bound: float, node: Node, *rank: Any) -> None:
        """Open a node; `rank` decides between nodes of the same bound."""
        heapq.heappush(self._heap, (bound, *rank, next(self._number), node))

    def pop(self) -> Node:
        """Take out the first node."""
        node: Node = heapq.heappop(self._heap)[-1]
        return node
