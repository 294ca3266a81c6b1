"""Flows that look the same from every source of a circulant: in a file, the row of source 0 stands for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.network import AdaptedRouting, CommonRouting, SourceFlow
from topoopt.core.topology import Topology

LONG = 1 << 17
"""Entries of a table source x arc from which on it is looked whether one row says it all."""


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

    def table(self, row: Floats) -> Floats:
        """float64[n, m]: the same of all sources."""
        return np.array(list(self.rows(row)))


def turns_of(arcs: Int32s, servers: int) -> Turns | None:
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


Routing = AdaptedRouting | CommonRouting


def shortened(routing: Routing, topology: Topology) -> Routing:
    """With float64[1, m] in place of every long table that the row of source 0 turns into, to the last bit."""
    if isinstance(routing, CommonRouting) or routing.flows[0].flow.size < LONG:
        return routing
    turns = turns_of(topology.arcs, topology.servers)
    return routing if turns is None else replace(routing, flows=tuple(_first(each, turns) for each in routing.flows))


def _first(flow: SourceFlow, turns: Turns) -> SourceFlow:
    rows = flow.flow
    if flow.by_hop is None and all(map(np.array_equal, rows, turns.rows(rows[0]))):
        return SourceFlow(rows[:1])
    return flow


def lengthened(routing: Routing, topology: Topology) -> Routing:
    """The tables, float64[n, m], that single rows stand for."""
    n = topology.servers
    if isinstance(routing, CommonRouting) or all(len(each.flow) == n for each in routing.flows):
        return routing
    turns = turns_of(topology.arcs, n)
    assert turns is not None  # the reader has looked
    tables = (each if len(each.flow) == n else SourceFlow(turns.table(each.flow[0])) for each in routing.flows)
    return replace(routing, flows=tuple(tables))
