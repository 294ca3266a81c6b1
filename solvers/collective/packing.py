"""Spanning trees packed into a network of ranks: so many from every root, within whole capacities (Edmonds 1973).

Trees are grown an arc at a time; an arc may join a tree as often as the rest of the network can spare it (Lovasz 1976;
for batches of equal trees: Berczi and Frank 2010; Schrijver, Combinatorial Optimization, section 53.5). Any order of
arcs is valid: all trees grow in turns, from their shallowest nodes, so that they stay flat. An arc that cannot be
spared once never can be again: what keeps it is a set of nodes into which nothing is left over, and nothing ever comes
back.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from solvers.collective.max_flow import FlowNetwork, TreesDoNotFitError
from topoopt.core.arrays import Bools, Ints

Arc = tuple[int, int]


@dataclass(frozen=True)
class TreeBatch:
    """Equal trees.

    Attributes:
        root: where they begin.
        count: how many.
        arcs: in the order in which they were added, each from a node that is reached to one that is not.
    """

    root: int
    count: int
    arcs: tuple[Arc, ...]

    @property
    def height(self) -> int:
        """Arcs of the longest path from the root."""
        depth = {self.root: 0}
        for tail, head in self.arcs:
            depth[head] = depth[tail] + 1
        return max(depth.values())


def pack_trees(nodes: int, capacity: Mapping[Arc, int], roots: Mapping[int, int]) -> tuple[TreeBatch, ...]:
    """Pack trees that reach all ranks.

    Args:
        nodes: numbers of ranks are below it.
        capacity: of every arc between ranks, whole numbers.
        roots: trees of each rank, 0 or more; all ranks are listed.

    Raises:
        TreesDoNotFitError: the capacities do not carry the trees.
    """
    return _Packing(nodes, capacity, roots).packed()


@dataclass(eq=False)
class _Batch:
    """Equal trees that grow: depth of every node, -1 where it is not reached, and arcs that cannot join any more."""

    root: int
    count: int
    depth: Ints
    refused: Bools
    arcs: tuple[Arc, ...] = ()


class _Packing:
    def __init__(self, nodes: int, capacity: Mapping[Arc, int], roots: Mapping[int, int]) -> None:
        ends = sorted(
            (arc for arc, units in capacity.items() if units > 0), key=lambda a: (a[0], (a[1] - a[0]) % nodes)
        )
        self.nodes, self.ranks = nodes, len(roots)
        self.tails, self.heads = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        self.room = np.array([capacity[arc] for arc in ends], dtype=np.int64)
        self.large = int(self.room.sum()) + sum(roots.values()) + 1
        self.growing: list[tuple[int, int, int, _Batch]] = []
        self.number = itertools.count()
        for root, count in sorted(roots.items()):
            if count:
                depth = np.full(nodes, -1, dtype=np.int64)
                depth[root] = 0
                self._wait(0, _Batch(root, count, depth, np.zeros(len(ends), dtype=np.bool_)))

    def _wait(self, level: int, batch: _Batch) -> None:
        """Those whose next arc is least deep come first, and of those the ones that reach least."""
        heapq.heappush(self.growing, (level, len(batch.arcs), next(self.number), batch))

    def packed(self) -> tuple[TreeBatch, ...]:
        """Grow all batches in turns; what must part from a batch grows on its own."""
        done: list[TreeBatch] = []
        while self.growing:
            level, _, _, batch = heapq.heappop(self.growing)
            if len(batch.arcs) == self.ranks - 1:
                done.append(TreeBatch(batch.root, batch.count, batch.arcs))
                continue
            arc, depth = self._next(batch)
            if depth > level:
                self._wait(depth, batch)
                continue
            count = self._spare(batch, arc)
            if count < batch.count:
                rest = replace(batch, count=batch.count - count, depth=batch.depth.copy(), refused=batch.refused.copy())
                rest.refused[arc] = True
                self._wait(level, rest)
            if count:
                tail, head = int(self.tails[arc]), int(self.heads[arc])
                batch.count = count
                batch.depth[head] = depth + 1
                batch.arcs += ((tail, head),)
                self.room[arc] -= count
                self._wait(level, batch)
        return tuple(sorted(done, key=lambda one: one.root))

    def _next(self, batch: _Batch) -> tuple[int, int]:
        """The arc out of what is reached, from the shallowest nodes and with most room; and the depth of its tail."""
        depth = batch.depth[self.tails]
        open_ = np.flatnonzero((depth >= 0) & (batch.depth[self.heads] < 0) & (self.room > 0) & ~batch.refused)
        if not len(open_):
            raise TreesDoNotFitError(f"no arc can join the trees of {batch.root}: the capacities do not carry them")
        arc = int(open_[np.argmin(depth[open_] * self.large - self.room[open_])])
        return arc, int(depth[arc])

    def _spare(self, batch: _Batch, arc: int) -> int:
        """How many trees of the batch may take an arc, so that all others can still be grown.

        Every other batch is a node that the tail feeds and that feeds what the batch reaches. Those that reach the head
        already are left out: they would add as much to the flow as to what is due.
        """
        tail, head = int(self.tails[arc]), int(self.heads[arc])
        most = min(batch.count, int(self.room[arc]))
        others = [one for *_, one in self.growing if one.depth[head] < 0]
        counts = np.array([one.count for one in others], dtype=np.int64)
        due = int(counts.sum())
        left = np.flatnonzero(self.room)
        hubs = np.arange(self.nodes, self.nodes + len(others))
        depths = np.array([one.depth for one in others]).reshape(-1, self.nodes)
        hub, reached = np.nonzero(depths >= 0)
        tails = np.concatenate((self.tails[left], np.full(len(others), tail), hub + self.nodes))
        heads = np.concatenate((self.heads[left], hubs, reached))
        capacity = np.concatenate((self.room[left], counts, np.full(len(hub), self.large)))
        network = FlowNetwork(self.nodes + len(others), tails.astype(np.int32), heads.astype(np.int32), capacity)
        return max(min(most, network.value(tail, head) - due), 0)
