"""Where a topology search starts: one topology per idea, named, in a literal table.

TotientPerms suits rings, matchings suit skewed demand, generalized Kautz and random graphs suit all-to-all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from solvers.network.constructions.assemble import ArcList, assemble, link_arcs, ring_arcs
from solvers.network.constructions.matching import best_matching, best_permutation, discount
from solvers.network.constructions.totient_perms import select_offsets
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.topology import Topology

Demand = Floats
Seed = Callable[[int, int, LinkDirection, Demand, np.random.Generator], Topology]


def totient_seed(n: int, d: int, links: LinkDirection, demand: Demand, rng: np.random.Generator) -> Topology:
    """TotientPerms with the paper's geometric ring distances."""
    return _circulant(n, d, links, "paper", "totient")


def circulant_seed(n: int, d: int, links: LinkDirection, demand: Demand, rng: np.random.Generator) -> Topology:
    """The circulant of least mean hops that a search finds."""
    return _circulant(n, d, links, "best", "best circulant")


def matching_seed(n: int, d: int, links: LinkDirection, demand: Demand, rng: np.random.Generator) -> Topology:
    """One heaviest matching (or permutation) of the remaining demand per interface; a ring last if that has gaps."""
    weights = np.maximum(demand, 0.0)
    count = np.zeros((n, n), dtype=np.int64)
    parts: list[ArcList] = []
    for _ in range(d):
        if links is LinkDirection.BIDIRECTIONAL:
            pairs = best_matching(weights + weights.T, np.ones(n, dtype=np.bool_))
            arcs = link_arcs(pairs)
        else:
            arcs = np.column_stack((np.arange(n, dtype=np.int64), best_permutation(weights)))
        parts.append(arcs)
        for tail, head in arcs:
            count[tail, head] += 1
            discount(weights, tail, head, int(count[tail, head]))
    spare = 2 if links is LinkDirection.BIDIRECTIONAL and n > 2 else 1
    for kept in (d, d - spare):
        if kept < 0:
            break
        ring = [] if kept == d else [ring_arcs(n, 1, links)]
        try:
            return assemble(n, d, links, [*parts[:kept], *ring], "matchings")
        except InfeasibleError:
            continue
    raise InfeasibleError(f"matchings of degree {d} do not connect {n} servers")


def kautz_seed(n: int, d: int, links: LinkDirection, demand: Demand, rng: np.random.Generator) -> Topology:
    """Generalized Kautz graph: i -> -(d i + a) mod n, a = 1..d; links to oneself are exchanged with others."""
    if links is LinkDirection.BIDIRECTIONAL:
        raise InfeasibleError("generalized Kautz graphs have single links, not fibre pairs")
    tails = np.repeat(np.arange(n, dtype=np.int64), d)
    heads = -(d * tails + np.tile(np.arange(1, d + 1), n)) % n
    return assemble(n, d, links, [_without_loops(tails, heads, rng)], "generalized Kautz")


def random_seed(n: int, d: int, links: LinkDirection, demand: Demand, rng: np.random.Generator) -> Topology:
    """Random regular graph: d random permutations, or matchings of all servers, drawn again until connected."""
    for _ in range(50):
        parts: list[ArcList] = []
        for _ in range(d):
            order = rng.permutation(n)
            if links is LinkDirection.BIDIRECTIONAL:
                parts.append(link_arcs(zip(order[: n // 2 * 2 : 2].tolist(), order[1::2].tolist(), strict=True)))
            else:
                parts.append(np.column_stack((np.arange(n, dtype=np.int64), order.astype(np.int64))))
        arcs = np.vstack(parts)
        if links is LinkDirection.UNIDIRECTIONAL:
            arcs = _without_loops(arcs[:, 0], arcs[:, 1].copy(), rng)
        try:
            return assemble(n, d, links, [arcs], "random regular")
        except InfeasibleError:
            continue
    raise InfeasibleError(f"no random graph of degree {d} found that connects {n} servers")


SEEDS: Mapping[str, Seed] = {
    "totient": totient_seed,
    "matching": matching_seed,
    "kautz": kautz_seed,
    "random": random_seed,
    "circulant": circulant_seed,
}


def seed_topologies(
    n: int, d: int, links: LinkDirection, demand: Demand, *, seed: int = 0
) -> Iterator[tuple[str, Topology]]:
    """Name and topology of every seed that exists for this degree and kind of link, each made when it is asked for.

    Raises:
        InfeasibleError: none does.
    """
    found = 0
    for place, (name, make) in enumerate(SEEDS.items()):
        try:
            topology = make(n, d, links, demand, np.random.default_rng((seed, place)))
        except InfeasibleError:
            continue
        found += 1
        yield name, topology
    if not found:
        raise InfeasibleError(f"no topology of degree {d} with {links} links is known that connects {n} servers")


def _circulant(n: int, d: int, links: LinkDirection, selection: str, origin: str) -> Topology:
    distances = select_offsets(n, d, links, selection)
    return assemble(n, d, links, [ring_arcs(n, p, links) for p in distances], origin)


def _without_loops(tails: Ints, heads: Ints, rng: np.random.Generator) -> ArcList:
    """Exchange the heads of links to oneself with other links, so that no loop is left (n >= 2)."""
    for loop in np.flatnonzero(tails == heads):
        if tails[loop] != heads[loop]:
            continue
        fits = np.flatnonzero((tails != tails[loop]) & (heads != tails[loop]))
        other = int(rng.choice(fits))
        heads[loop], heads[other] = heads[other], heads[loop]
    return np.column_stack((tails, heads))
