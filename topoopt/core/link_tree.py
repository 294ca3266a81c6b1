"""A proof of a bound on theta over all topologies: a tree over the links, and multipliers that close its leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.shown import Shown

MOST_CASES = 5_000
"""Multipliers that a proof may have; with more a bound is not proven to others."""

LARGEST = 2**40
"""Of a multiplier: sums of them over all links stay far below 2^63."""

MOST_CHOICES = 20_000_000
"""Of the links of a server, times multipliers, summed over servers: numbers that a checker holds at once."""

MOST_WORK = 400_000_000
"""Nodes of the tree times multipliers that a checker looks at: some five seconds."""


@dataclass(frozen=True, eq=False, repr=False)
class LinkTree(Shown):
    """Proof that theta is at least some value on every topology that a problem allows.

    The tree chooses the links of one server after another: all its links out, or, if they are bidirectional, those to
    servers that come later. It needs no list of nodes: a node is a leaf where one of the multipliers says so.

    Attributes:
        order: int64[n], the servers in the order in which their links are chosen.
        multipliers: int64[k, n, n], 0 to `LARGEST`: off the diagonal the length of every ordered pair of servers, on it
            the price of an interface of that server (of one that receives, if links are unidirectional).
    """

    order: Ints
    multipliers: Ints

    def certificate(self, theta: float) -> Certificate:
        """As a file of a network holds it; `theta` is what is proven."""
        arrays = {"theta": np.array([theta]), "order": self.order, "multipliers": self.multipliers.ravel()}
        return Certificate(Argument.LINK_TREE, arrays)

    @classmethod
    def of(cls, certificate: Certificate, servers: int) -> LinkTree:
        """Of a certificate; raises ValueError where arrays are missing or do not fit."""
        order = certificate.integers("order", servers)
        return cls(order, certificate.integers("multipliers", -1, servers, servers))
