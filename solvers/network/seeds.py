"""A topology search starts from one topology per idea, and from random graphs of groups of servers.

Where a topology search starts: one topology per idea, named, in a literal table.

TotientPerms suits rings, matchings suit skewed demand, generalized Kautz and random graphs suit all-to-all.

Random graphs of groups of servers with links across, whose AllReduces fill the links inside.

Of an even number of links a random graph has as many Hamiltonian cycles as it needs (Kim and Wormald 2001). Of an odd
number few have cycles that take every link twice: here those are drawn, of matchings each of which is a Hamiltonian
cycle with the next one (a perfectly Hamiltonian colouring, Kotzig 1964).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy.optimize import linear_sum_assignment

from solvers.network.annealing import hops_of, table_of_arcs
from solvers.network.assembly import ArcList, assemble, best_matching, best_permutation, discount, link_arcs, ring_arcs
from solvers.network.distances import select_offsets
from topoopt.core.arrays import Floats, Int32s, Ints, whole_shares
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.topology import Topology

Demand = Floats
Seed = Callable[[int, int, LinkDirection, Demand, np.random.Generator], Topology]


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
    "totient": lambda n, d, links, demand, rng: _circulant(n, d, links, "paper", "totient"),
    "matching": matching_seed,
    "kautz": kautz_seed,
    "random": random_seed,
    "circulant": lambda n, d, links, demand, rng: _circulant(n, d, links, "best", "best circulant"),
}


def seed_topologies(
    n: int, d: int, links: LinkDirection, demand: Demand, *, seed: int = 0, quick_first: bool = False
) -> Iterator[tuple[str, Topology]]:
    """Name and topology of every seed that exists for this degree and kind of link, each made when it is asked for.

    `quick_first`: matchings, which take longest, come last.

    Raises:
        InfeasibleError: none does.
    """
    count = 0
    table = [(index, name, make) for index, (name, make) in enumerate(SEEDS.items())]
    for index, name, make in sorted(table, key=lambda row: quick_first and row[1] == "matching"):
        try:
            topology = make(n, d, links, demand, np.random.default_rng((seed, index)))
        except InfeasibleError:
            continue
        count += 1
        yield name, topology
    if not count:
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


DRAWS = 8
"""Sets of matchings drawn for a group; that of fewest hops is taken."""


def fits(n: int, size: int, across: int, degree: int) -> bool:
    """Whether there are such graphs: an odd number of links of each of an odd number of servers cannot be paired."""
    inside = degree - across
    return 2 <= inside < size and inside * size % 2 == across * n % 2 == 0


def grouped_links(
    demand: Floats, size: int, inside: int, across: int, rng: np.random.Generator
) -> tuple[Int32s, ArcList, ArcList]:
    """Links of the groups i mod (n / size): random graphs, and matchings of two groups at a time.

    Args:
        demand: float64[n, n], bytes between servers.
        size: of a group, with the links as `fits` says.
        inside, across: links of each server to its own group and to others.

    Returns:
        int32[links, n], the servers that the links inside groups lead to, where they are an odd number of matchings (no
        rows where they are cycles); int64[m, 2], arcs inside groups; and the arcs across.

    Raises:
        InfeasibleError: no such matchings were drawn.
    """
    n, groups = len(demand), len(demand) // size
    matched = np.full((inside if inside % 2 else 0, n), -1, dtype=np.int32)
    within: list[ArcList] = [np.zeros((0, 2), dtype=np.int64)]
    for group in range(groups):
        for _ in range(inside // 2 if inside % 2 == 0 else 0):
            order = group + groups * rng.permutation(size)
            within.append(link_arcs(zip(order.tolist(), np.roll(order, -1).tolist(), strict=True)))
        for turn, pairs in enumerate(group + groups * _matchings(size, inside, rng) if inside % 2 else ()):
            matched[turn, pairs[:, 0]], matched[turn, pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
            within.append(link_arcs(zip(*pairs.T.tolist(), strict=True)))
    return matched, np.vstack(within), np.vstack(list(_across(size, across, demand, rng)))


def _matchings(size: int, links: int, rng: np.random.Generator) -> Ints:
    """int64[links, size / 2, 2]: an odd number of matchings, each a Hamiltonian cycle with the next, the last with the
    first; of some drawn, those of fewest hops."""
    best: tuple[float, Ints] | None = None
    for _ in range(DRAWS):
        order = rng.permutation(size)
        matchings = [order.reshape(-1, 2), np.roll(order, -1).reshape(-1, 2)]
        for _ in range(5_000):  # of 512 servers some 300 are drawn before one is a cycle with two others
            pairs = rng.permutation(size).reshape(-1, 2)
            others = [matchings[-1], matchings[0]] if len(matchings) == links - 1 else [matchings[-1]]
            matchings += [pairs] if all(single_cycle(pairs, matching) for matching in others) else []
            if len(matchings) == links:
                break
        else:
            continue
        arcs = np.vstack([link_arcs(zip(*pairs.T.tolist(), strict=True)) for pairs in matchings])
        hops = hops_of(table_of_arcs(size, links, LinkDirection.BIDIRECTIONAL, arcs).out, np.ones((size, size)))
        if best is None or hops < best[0]:
            best = hops, np.array(matchings)
    if best is None:
        raise InfeasibleError(f"no {links} matchings of {size} servers found that are Hamiltonian cycles two by two")
    return best[1]


def single_cycle(base: Ints, other: Ints) -> bool:
    """Whether two perfect matchings, int64[k, 2], are together one cycle of all 2 k."""
    first, second = np.empty((2, 2 * len(base)), dtype=np.int64)
    for partner, pairs in ((first, base), (second, other)):
        partner[pairs[:, 0]], partner[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
    after = second[first].tolist()
    at, steps = after[0], 1
    while at != 0:
        at, steps = after[at], steps + 1
    return steps == len(base)


def _across(size: int, links: int, demand: Floats, rng: np.random.Generator) -> Iterator[ArcList]:
    """Heaviest matchings of two groups at a time, of demand that no link before carries and servers that have links
    left; pairs of groups in rounds of a tournament, those first that have most to say to each other."""
    n = len(demand)
    groups = n // size
    left = demand + demand.T + rng.random((n, n)) * (1e-6 * float(demand.max()))
    free = np.full(n, links)
    rounds = rounds_of_groups(groups)
    weight = np.array([sum(left[source::groups, other::groups].sum() for source, other in pairs) for pairs in rounds])
    shares = shared_out(size * links // (1 + groups % 2), weight)
    for turn in np.argsort(-weight, kind="stable"):
        for source, other in rounds[turn]:
            wanted = int(shares[turn])
            while wanted:
                rows, columns = (np.flatnonzero(free[group::groups]) * groups + group for group in (source, other))
                first, second = linear_sum_assignment(left[np.ix_(rows, columns)], maximize=True)
                heavy = np.argsort(-left[rows[first], columns[second]], kind="stable")[:wanted]
                tails, heads = rows[first[heavy]], columns[second[heavy]]
                for ends in ((tails, heads), (heads, tails)):
                    left[ends] *= 0.5
                free[tails] -= 1
                free[heads] -= 1
                wanted -= len(heavy)
                yield link_arcs(zip(tails.tolist(), heads.tolist(), strict=True))


def shared_out(total: int, weight: Floats) -> Ints:
    """int64[k] of sum `total`: one to each while they last, to those of most worth first; the rest in proportion."""
    shares = np.zeros(len(weight), dtype=np.int64)
    shares[np.argsort(-weight, kind="stable")[:total]] = 1
    return shares + whole_shares(weight, total - int(shares.sum()))


def rounds_of_groups(groups: int) -> list[list[tuple[int, int]]]:
    """Pairs of groups that meet in each round of a tournament: every group one other, of an odd number of groups two;
    in all rounds each meets each."""
    if groups % 2:
        return [[(group, (group + step) % groups) for group in range(groups)] for step in range(1, groups // 2 + 1)]
    last = groups - 1
    meets = range(1, groups // 2)
    return [[(last, turn), *(((turn + k) % last, (turn - k) % last) for k in meets)] for turn in range(last)]
