"""Nodes of the tree over links that is searched with blocks of links, and the proof that they are written down as."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.network import BlockTree


@dataclass(frozen=True, eq=False)
class BlockNode:
    """A node of the tree.

    Attributes:
        rows: int64[n, 2], heads of the links of every server, -1 where it has not chosen.
        into: int64[n, 2], tails of the links chosen that lead to every server, -1 where fewer are known.
        parent: its number; -1 of the root.
        heads: of the links that made it of its parent.
        state: float64[3, n, n], prices, reliefs and shifts to begin with.
    """

    rows: Ints
    into: Ints
    parent: int
    heads: tuple[int, int]
    state: Floats


@dataclass(eq=False)
class Written:
    """Nodes written down so far, and the prices of each: bar, and int64[3, n, n]."""

    nodes: list[BlockNode] = field(default_factory=list)
    server: list[int] = field(default_factory=list)
    bar: list[int] = field(default_factory=list)
    state: list[Ints] = field(default_factory=list)

    def add(self, node: BlockNode, server: int, bar: int, state: Ints) -> int:
        """The number of a node."""
        for one, value in zip((self.nodes, self.server, self.bar, self.state), (node, server, bar, state), strict=True):
            one.append(value)  # type: ignore[attr-defined]
        return len(self.nodes) - 1

    def proof(self, theta: float) -> BlockTree:
        """All of them."""
        price, relief, shift = np.array(self.state, dtype=np.int64).transpose(1, 0, 2, 3)
        parent = np.array([node.parent for node in self.nodes], dtype=np.int64)
        heads = np.array([node.heads for node in self.nodes], dtype=np.int64)
        server, bar = np.array(self.server, dtype=np.int64), np.array(self.bar, dtype=np.int64)
        return BlockTree(theta, parent, heads, server, bar, price, relief, shift)
