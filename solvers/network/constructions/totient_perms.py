"""TotientPerms: ring distances for n servers, and how far apart they leave the servers.

A distance p coprime to n links server i to i + p mod n in one Hamiltonian ring; a multiple of n/k coprime to it in Z_k
makes n/k disjoint rings of k servers (TopoOpt, NSDI'23, section 4.3 and Algorithm 1).

Interfaces: a bidirectional ring takes two of each server, and p and n - p are the same ring; the antipodal distance
n/2 is a perfect matching and takes one. A unidirectional ring takes one. An odd degree with bidirectional links
therefore adds n/2 when n is even, and leaves one interface free when n is odd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from solvers.network.constructions.selection import Selection, coins_of, select_distances
from topoopt.core.arrays import Int32s
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.native import graph


@dataclass(frozen=True)
class TotientResult:
    """Ring distances of all servers and the hop counts they give.

    Attributes:
        servers, degree, links, selection: as asked for.
        distances: the chosen ring distances with repetition (a repeated one is a parallel link).
        offsets: every displacement of one hop, ascending (p and n - p for bidirectional links), without repetition.
        diameter: most hops between two servers.
        mean_hops: over the n - 1 non-zero displacements; 0 for one server.
        diameter_bound: d * n^(1/d), the paper's bound for d directed rings.
        ring_bound: r * n^(1/r) for the r rings there are, the same bound when each ring is used both ways.
        hop_histogram: entry h - 1 counts the displacements h hops away.
    """

    servers: int
    degree: int
    links: LinkDirection
    selection: Selection
    distances: tuple[int, ...]
    offsets: tuple[int, ...]
    diameter: int
    mean_hops: float
    diameter_bound: float
    ring_bound: float
    hop_histogram: tuple[int, ...]


def hop_table(n: int, offsets: Sequence[int]) -> Int32s:
    """int32[n]: fewest hops from any server i to i + j mod n, by displacement j; -1 where unreachable.

    `offsets` are the displacements of one hop (for bidirectional links both p and n - p).
    """
    return graph.circulant_hops(n, np.array(sorted({p % n for p in offsets} - {0}), dtype=np.int64))


def select_offsets(
    n: int, degree: int, links: LinkDirection | str, selection: Selection | str, *, seed: int = 0
) -> tuple[int, ...]:
    """Ring distances (with repetition) that use the interfaces of n servers and connect them all.

    Raises:
        InputError: n or degree below 1, an unknown link direction or selection.
        InfeasibleError: one bidirectional interface cannot connect more than two servers.
    """
    links, selection = _direction(links), _selection(selection)
    check_connectable(n, degree, links)
    if n == 1:
        return ()
    if n == 2:
        return (1,) * degree
    if links is LinkDirection.UNIDIRECTIONAL:
        return select_distances(n, n, degree, links, selection, seed=seed)
    antipodal = (n // 2,) if degree % 2 and n % 2 == 0 else ()
    return (*select_distances(n, n, degree // 2, links, selection, fixed=antipodal, seed=seed), *antipodal)


def check_connectable(n: int, degree: int, links: LinkDirection) -> None:
    """Raise unless some topology of this degree connects n servers."""
    problems = []
    if n < 1:
        problems.append(Problem("number of servers is too small", path="servers", value=str(n), allowed=">= 1"))
    if degree < 1:
        problems.append(Problem("degree is too small", path="degree", value=str(degree), allowed=">= 1"))
    if problems:
        raise InputError(problems)
    if links is LinkDirection.BIDIRECTIONAL and degree == 1 and n > 2:
        raise InfeasibleError(
            f"one bidirectional interface per server (degree 1) cannot connect {n} servers; degree 2 can"
        )


def totient(
    servers: int, degree: int, links: LinkDirection | str, selection: Selection | str, *, seed: int = 0
) -> TotientResult:
    """Ring distances of a full set of rings, with diameter, mean hops and the hop histogram.

    Raises:
        InputError, InfeasibleError: see `select_offsets`.
    """
    links, selection = _direction(links), _selection(selection)
    distances = select_offsets(servers, degree, links, selection, seed=seed)
    offsets = coins_of(servers, distances, links)
    histogram = np.bincount(hop_table(servers, offsets))[1:]
    total = int(np.dot(histogram, np.arange(1, len(histogram) + 1)))
    rings = max(len(distances), 1)
    return TotientResult(
        servers=servers,
        degree=degree,
        links=links,
        selection=selection,
        distances=distances,
        offsets=offsets,
        diameter=len(histogram),
        mean_hops=total / (servers - 1) if servers > 1 else 0.0,
        diameter_bound=degree * servers ** (1.0 / degree),
        ring_bound=rings * servers ** (1.0 / rings),
        hop_histogram=tuple(int(v) for v in histogram),
    )


def generates(n: int, distances: Sequence[int]) -> bool:
    """Whether the distances connect all n servers."""
    return gcd(n, *distances) == 1


def _direction(links: LinkDirection | str) -> LinkDirection:
    allowed = ", ".join(LinkDirection)
    if links not in list(LinkDirection):
        raise InputError([Problem("unknown link direction", path="links", value=str(links), allowed=allowed)])
    return LinkDirection(links)


def _selection(selection: Selection | str) -> Selection:
    allowed = ", ".join(Selection)
    if selection not in list(Selection):
        raise InputError([Problem("unknown selection", path="selection", value=str(selection), allowed=allowed)])
    return Selection(selection)
