"""Circulant topologies, and coin decompositions of displacements on them (CoinChangeMod, TopoOpt)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from solvers.network.constructions.assemble import assemble, ring_arcs
from solvers.network.constructions.selection import coins_of, interfaces_of
from solvers.network.constructions.totient_perms import generates, hop_table
from topoopt.core.arrays import Int32s
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.topology import Topology


def circulant_topology(
    n: int, degree: int, links: LinkDirection, distances: Sequence[int], *, origin: str = ""
) -> Topology:
    """Every server linked to the servers `distances` further on (repeated distances are parallel links).

    For bidirectional links a distance p stands for both p and n - p.

    Raises:
        InputError: a distance is a multiple of n, or they take more than `degree` interfaces.
        InfeasibleError: the distances do not connect all servers.
    """
    problems = [
        Problem("ring distance links a server to itself", path="distances", value=str(p), allowed=f"1..{n - 1}")
        for p in distances
        if p % n == 0
    ]
    used = sum(interfaces_of(n, p, links) for p in distances)
    if used > degree:
        problems.append(
            Problem("distances take too many interfaces", path="distances", value=str(used), allowed=f"<= {degree}")
        )
    if problems:
        raise InputError(problems)
    name = distances_text(distances)
    if not generates(n, distances):
        raise InfeasibleError(f"ring distances {name} share a divisor with {n}, so they do not connect all servers")
    parts = [ring_arcs(n, p % n, links) for p in distances]
    return assemble(n, degree, links, parts, origin or f"circulant {name}")


def distances_text(distances: Sequence[int]) -> str:
    """For people: {1,5}."""
    return "{" + ",".join(str(p) for p in distances) + "}"


def decompositions(
    n: int, coins: Sequence[int], displacement: int, hops: Int32s, length: int, limit: int
) -> tuple[tuple[int, ...], ...]:
    """Multisets of `length` coins that sum to `displacement` modulo n, each ascending, at most `limit` of them.

    `hops` is `hop_table(n, coins)`; a length of `hops[displacement]` gives the shortest ones.
    """

    def extend(rest: int, first: int, prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        left = length - len(prefix)
        if left == 0:
            yield prefix
            return
        for k in range(first, len(coins)):
            after = (rest - coins[k]) % n
            if hops[after] < left and (after == 0) == (left == 1):
                yield from extend(after, k, (*prefix, coins[k]))

    return tuple(islice(extend(displacement % n, 0, ()), limit))


def group_descriptors(n: int, distances: Sequence[int], links: LinkDirection, size: int) -> tuple[tuple[int, ...], ...]:
    """Logical rings of a group of `size` equally spaced servers: each a list of jumps from one member to the next.

    Every multiplier coprime to the size gives a ring order; kept are those of fewest hops, one decomposition each.
    """
    coins = coins_of(n, distances, links)
    hops = hop_table(n, coins)
    step = n // size
    reach = [step * q for q in range(1, size) if np.gcd(q, size) == 1 and hops[step * q] > 0]
    fewest = min((int(hops[g]) for g in reach), default=0)
    return tuple(decompositions(n, coins, g, hops, fewest, 1)[0] for g in reach if hops[g] == fewest)
