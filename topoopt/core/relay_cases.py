"""Cases by the number of links between two servers, each with prices that bound theta by relay blocks there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.network import RelayPrices, relay_arrays, relay_prices_of
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.shown import Shown

MOST_CASES = 2000
"""Cases in one proof."""


class LinkCounts(NamedTuple):
    """Topologies with so many links between servers.

    Attributes:
        least, most: int64[n, n], links i -> j; no topology has more than its degree.
    """

    least: Ints
    most: Ints

    @classmethod
    def any(cls, n: int, d: int) -> LinkCounts:
        """All topologies of n servers of degree d."""
        return cls(np.zeros((n, n), dtype=np.int64), np.full((n, n), d, dtype=np.int64))

    def split(self, i: int, j: int, count: int) -> tuple[LinkCounts, LinkCounts]:
        """Those with fewer than `count` links i -> j, and the others."""
        fewer, more = self.most.copy(), self.least.copy()
        fewer[i, j] = min(int(fewer[i, j]), count - 1)
        more[i, j] = max(int(more[i, j]), count)
        return LinkCounts(self.least, fewer), LinkCounts(more, self.most)


@dataclass(frozen=True, eq=False, repr=False)
class RelayCases(Shown):
    """A binary tree of cases, every node before those below it.

    Attributes:
        splits: int64[nodes, 3], (i, j, count): first come the topologies with fewer than `count` links i -> j, then
            those with as many or more; (0, 0, 0) where a node is not split but has prices.
        prices: of the nodes that are not split, in this order; each proves its theta of the topologies of its node.
    """

    splits: Ints
    prices: tuple[RelayPrices, ...]

    def certificate(self) -> Certificate:
        """As a file holds it."""
        return Certificate(Argument.RELAY_CASES, {"splits": self.splits.ravel(), **relay_arrays(self.prices)})

    @classmethod
    def of(cls, certificate: Certificate, servers: int) -> RelayCases:
        """Of a certificate; raises ValueError where arrays are missing or do not fit."""
        return cls(certificate.integers("splits", -1, 3), relay_prices_of(certificate, servers))
