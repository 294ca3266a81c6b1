"""Topologies as tables of links for the search kernels, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.network.constructions.assemble import assemble
from topoopt.core.arrays import Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False)
class LinkTable:
    """Heads and tails of every server's links.

    Attributes:
        links: bidirectional links are held in both directions.
        out: int64[n, d], heads; into: int64[n, d], tails. A dark port points to its own server in both.
    """

    links: LinkDirection
    out: Ints
    into: Ints

    @property
    def paired(self) -> bool:
        """Whether links are fibre pairs."""
        return self.links is LinkDirection.BIDIRECTIONAL


def table_of_arcs(n: int, degree: int, links: LinkDirection, arcs: Ints) -> LinkTable:
    """Table of unit arcs, int64[m, 2] with one row per parallel link, at most `degree` a server each way."""
    out = np.repeat(np.arange(n, dtype=np.int64)[:, None], degree, axis=1)
    into = out.copy()
    sent, received = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for tail, head in arcs:
        out[tail, sent[tail]] = head
        into[head, received[head]] = tail
        sent[tail] += 1
        received[head] += 1
    return LinkTable(links, out, into)


def table_of(topology: Topology) -> LinkTable:
    """Table of a topology."""
    arcs = np.repeat(topology.arcs.astype(np.int64), topology.multiplicity, axis=0)
    return table_of_arcs(topology.servers, topology.degree, topology.links, arcs)


def arcs_of(out: Ints) -> Ints:
    """int64[m, 2]: unit arcs of a table of heads, dark ports left out."""
    n, degree = out.shape
    tails = np.repeat(np.arange(n, dtype=np.int64), degree)
    heads = out.ravel()
    lit = tails != heads
    return np.column_stack((tails[lit], heads[lit]))


def topology_of(out: Ints, links: LinkDirection, origin: str) -> Topology:
    """Topology of a table of heads.

    Raises:
        InfeasibleError: some server cannot reach another one.
    """
    n, degree = out.shape
    return assemble(n, degree, links, [arcs_of(out)], origin)


def tails_of(out: Ints) -> Ints:
    """int64[n, d]: tails that go with heads; dark ports stay dark."""
    n, degree = out.shape
    return table_of_arcs(n, degree, LinkDirection.UNIDIRECTIONAL, arcs_of(out)).into


def diameter(out: Ints) -> int:
    """Most hops between two servers of a table of heads; n when some pair is not joined."""
    n = len(out)
    near = np.eye(n, dtype=np.bool_)
    for hops in range(n):
        if near.all():
            return hops
        near = near | near[out].any(axis=1)
    return n
