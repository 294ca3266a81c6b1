"""A proof of a bound on theta over all topologies of degree 2: a tree over links out, and prices at every node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.shown import Shown

DEGREE = 2
"""Links out of and into a server."""

MOST_NODES = 40_000
"""Of a proof; with more a bound is not proven to others."""

LARGEST = 2**40
"""Of a price, relief or shift, either way."""


@dataclass(frozen=True, eq=False, repr=False)
class BlockTree(Shown):
    """Proof that theta is at least `theta` on every topology of degree 2 with unidirectional links.

    A node is what some servers have as links out. Prices say at every node what the links around each server are worth
    at most (`topoopt.verify.network.trees`), demand in units of its mean. Only their proportions count, so that
    they are whole numbers.

    Attributes:
        theta: what is proven.
        parent: int64[k], of each node, one that stands before it; -1 of the root, which is the first.
        heads: int64[k, 2], where the links of the server lead by which the parent is divided; -1 of the root.
        server: int64[k], by which a node is divided into those that have it as parent; -1 of a node that is closed.
        bar: int64[k], length of links that no network of the node has, whatever their price.
        price, relief: int64[k, n, n], of links and of pairs of servers, not negative.
        shift: int64[k, n, n], of the worth of a link from its tail to its head.
    """

    theta: float
    parent: Ints
    heads: Ints
    server: Ints
    bar: Ints
    price: Ints
    relief: Ints
    shift: Ints

    def certificate(self) -> Certificate:
        """As a file holds it."""
        names = ("parent", "heads", "server", "bar", "price", "relief", "shift")
        arrays = {name: getattr(self, name).ravel() for name in names}
        return Certificate(Argument.LINK_BLOCKS, {"theta": np.array([self.theta]), **arrays})

    @classmethod
    def of(cls, certificate: Certificate, servers: int) -> BlockTree:
        """Of a certificate; raises ValueError where arrays are missing or do not fit."""
        parent = certificate.integers("parent", -1)
        count = len(parent)
        tables = (certificate.integers(name, count, servers, servers) for name in ("price", "relief", "shift"))
        return cls(
            certificate.scalar("theta"),
            parent,
            certificate.integers("heads", count, DEGREE),
            certificate.integers("server", count),
            certificate.integers("bar", count),
            *tables,
        )
