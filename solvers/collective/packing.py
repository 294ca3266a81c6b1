"""Spanning trees packed into a network of ranks: so many from every root, within whole capacities (Edmonds 1973).

Trees are grown an arc at a time; an arc may join a tree as often as the rest of the network can spare it (Lovasz 1976;
for batches of equal trees: Berczi and Frank 2010; Schrijver, Combinatorial Optimization, section 53.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from solvers.collective.max_flow import FlowNetwork

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
        ValueError: the capacities do not carry the trees.
    """
    packing = _Packing(nodes, dict(capacity), dict(roots))
    done: list[TreeBatch] = []
    while packing.waiting:
        done.append(packing.grow(packing.waiting.pop()))
    return tuple(done)


@dataclass
class _Batch:
    root: int
    count: int
    depth: dict[int, int]
    arcs: list[Arc]


class _Packing:
    def __init__(self, nodes: int, capacity: dict[Arc, int], roots: dict[int, int]) -> None:
        self.nodes, self.capacity, self.ranks = nodes, capacity, sorted(roots)
        self.out: dict[int, list[int]] = {rank: [] for rank in roots}
        for tail, head in sorted(capacity):
            self.out[tail].append(head)
        self.waiting = [_Batch(root, count, {root: 0}, []) for root, count in sorted(roots.items()) if count]

    def grow(self, batch: _Batch) -> TreeBatch:
        """Add arcs until all ranks are reached, shallow ones first; what must part from the batch waits."""
        while len(batch.depth) < len(self.ranks):
            for tail, head in self._candidates(batch):
                count = self._spare(batch, tail, head)
                if count:
                    break
            else:
                raise ValueError(f"no arc can join the trees of {batch.root}: the capacities do not carry them")
            if count < batch.count:
                self.waiting.append(_Batch(batch.root, batch.count - count, dict(batch.depth), list(batch.arcs)))
                batch.count = count
            self.capacity[tail, head] -= count
            batch.depth[head] = batch.depth[tail] + 1
            batch.arcs.append((tail, head))
        return TreeBatch(batch.root, batch.count, tuple(batch.arcs))

    def _candidates(self, batch: _Batch) -> list[Arc]:
        """Arcs out of what is reached, from the shallowest nodes and with most to spare first."""
        arcs = [
            (depth, -min(self.capacity[tail, head], batch.count), tail, head)
            for tail, depth in batch.depth.items()
            for head in self.out[tail]
            if head not in batch.depth and self.capacity[tail, head] > 0
        ]
        return [(tail, head) for _, _, tail, head in sorted(arcs)]

    def _spare(self, batch: _Batch, tail: int, head: int) -> int:
        """How many trees of the batch may take the arc, so that all others can still be grown."""
        most = min(batch.count, self.capacity[tail, head])
        arcs = [(*arc, units) for arc, units in self.capacity.items() if units > 0]
        others = [other for other in self.waiting if len(other.depth) < len(self.ranks)]
        large = sum(units for _, _, units in arcs) + sum(other.count for other in others) + 1
        for place, other in enumerate(others, start=self.nodes):
            arcs.append((tail, place, other.count))
            arcs.extend((place, reached, large) for reached in other.depth)
        table = np.array(arcs, dtype=np.int64)
        ends = table[:, :2].astype(np.int32)
        network = FlowNetwork(self.nodes + len(others), ends[:, 0], ends[:, 1], table[:, 2])
        return max(min(most, network.value(tail, head) - sum(other.count for other in others)), 0)
