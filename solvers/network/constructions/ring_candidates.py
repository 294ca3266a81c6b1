"""Candidate rings of an equally spaced group on a circulant, described once for all its translates.

A ring of constant jump g = (n/k) q, q coprime to k, visits the k members o, o+g, o+2g, ...; each jump is a sequence of
coins, and every member uses the same one. All arcs (o + prefix + i n/k) -> (+ coin) then carry the same load: one orbit
of arcs per position. Rings of links inside the group that are not coprime come as a bundle of Hamiltonian cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations
from math import gcd

import numpy as np

from solvers.network.constructions.circulant import decompositions
from solvers.network.constructions.circulant_cycles import circulant_cycles
from topoopt.core.arrays import Int32s, Ints

MOST_CANDIDATES = 96
DECOMPOSITIONS = 12
ORDERS = 8


@dataclass(frozen=True)
class RingCandidate:
    """One ring, or a bundle of rings of equal share, for the group that contains server 0.

    Attributes:
        rings: of each ring the node paths from member to member, the first starting at server 0.
        orbits: ((residue modulo n/k, coin), traversals) of the arcs used, per unit of the candidate's share.
        hops: mean hops from one member to the next.
    """

    rings: tuple[tuple[tuple[int, ...], ...], ...]
    orbits: tuple[tuple[tuple[int, int], float], ...]
    hops: float


def coset_candidates(
    n: int, size: int, coins: Mapping[int, int], hops: Int32s, *, bidirectional: bool
) -> tuple[RingCandidate, ...]:
    """Candidates of the group {0, n/size, 2 n/size, ...}, fewest hops first.

    Args:
        n: servers.
        size: members of the group, a divisor of n.
        coins: displacements of one hop -> parallel links.
        hops: hop table of the coins.
        bidirectional: whether a coin and its negative are the two directions of one link.
    """
    step = n // size
    inside = {c: m for c, m in coins.items() if c % step == 0}
    found: list[RingCandidate] = []
    one_hop = [c for c in inside if gcd(c // step, size) == 1]
    covered = set(one_hop)
    if bidirectional and len(one_hop) < len(inside):
        bundle = _bundle(n, step, size, inside)
        if bundle is not None:
            found.append(bundle)
            covered = set(bundle_coins(bundle))
    q = np.arange(1, size, dtype=np.int64)
    jumps = step * q[np.gcd(q, size) == 1]
    reach = hops[jumps]
    fewest = int(reach.min())
    for length in (fewest, fewest + 1):
        # One hop more pays where it uses links that shortest rings leave idle.
        if length == 2 and len(covered) == len(coins):
            break
        rings = _constant(n, step, size, coins, hops, jumps[reach <= length], length)
        found += islice(rings, MOST_CANDIDATES - len(found))
    return tuple(found)


def bundle_coins(candidate: RingCandidate) -> tuple[int, ...]:
    """Coins a candidate uses."""
    return tuple(coin for (_, coin), _ in candidate.orbits)


def _constant(
    n: int, step: int, size: int, coins: Mapping[int, int], hops: Int32s, jumps: Ints, length: int
) -> Iterator[RingCandidate]:
    """Rings of these jumps over `length` hops each; one order of every jump first, then the next ones."""
    choices = [_sequences(n, tuple(coins), int(g), hops, length) for g in jumps[:MOST_CANDIDATES]]
    for rank in range(max((len(each) for each in choices), default=0)):
        for sequences in choices:
            if rank < len(sequences):
                yield _ring(n, step, size, sequences[rank])


def _sequences(n: int, coins: tuple[int, ...], jump: int, hops: Int32s, length: int) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = []
    for multiset in decompositions(n, coins, jump, hops, length, DECOMPOSITIONS):
        if len(multiset) <= 4:
            out += sorted(set(permutations(multiset)))[:ORDERS]
        else:
            turns = {multiset[i:] + multiset[:i] for i in range(len(multiset))}
            out += sorted(turns)[:ORDERS]
    return out


def _ring(n: int, step: int, size: int, sequence: tuple[int, ...]) -> RingCandidate:
    prefix = np.concatenate(([0], np.cumsum(sequence)))
    starts = (int(prefix[-1]) * np.arange(size)) % n
    nodes = (starts[:, None] + prefix[None, :]) % n
    use: dict[tuple[int, int], float] = {}
    for at, coin in zip(prefix[:-1].tolist(), sequence, strict=True):
        orbit = (at % step, coin)
        use[orbit] = use.get(orbit, 0.0) + 1.0
    paths = tuple(tuple(row) for row in nodes.tolist())
    return RingCandidate((paths,), tuple(sorted(use.items())), float(len(sequence)))


def _bundle(n: int, step: int, size: int, inside: Mapping[int, int]) -> RingCandidate | None:
    """Hamiltonian cycles over all links inside the group, both directions of each, or None."""
    distances = [c // step for c, m in sorted(inside.items()) for _ in range(m) if 2 * c < n]
    antipodal = inside.get(n // 2, 0) if n % 2 == 0 and (n // 2) % step == 0 else 0
    # Two antipodal links of every server make pairs, which are cycles of two; a single one is no cycle.
    distances += [size // 2] * (antipodal // 2)
    if size < 3 or not distances or gcd(size, *distances) != 1:
        return None
    cycles = next((c for seed in range(1, 4) if (c := circulant_cycles(size, distances, seed=seed))), None)
    if cycles is None:
        return None
    orders = [order for cycle in cycles for order in (cycle, (cycle[0], *reversed(cycle[1:])))]
    rings = tuple(tuple((order[i] * step, order[(i + 1) % size] * step) for i in range(size)) for order in orders)
    per_coin: dict[int, float] = {}
    for p in distances:
        for coin in (p * step, n - p * step):
            per_coin[coin] = per_coin.get(coin, 0.0) + 1.0 / len(rings)
    return RingCandidate(rings, tuple(sorted(((0, coin), use) for coin, use in per_coin.items())), 1.0)
