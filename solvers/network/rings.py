"""Rings share the AllReduce of each group of servers so that the largest link load is least.

Rings that share the AllReduce of each group so that the largest link load is least.

Equally spaced groups on a circulant (all groups a strided placement makes) are solved once per size and translated;
on any other topology such a group runs along Hamiltonian cycles that together take every link inside it alike, where
there are any; what is left goes through `general_rings`. Shares come from a linear program over candidate rings
(formulations/path_split.py) with two loads: that of all translates of the group at work together, which decides, and
that of one alone; a small charge on hops breaks ties.

Candidate rings of an equally spaced group on a circulant, described once for all its translates.

A ring of constant jump g = (n/k) q, q coprime to k, visits the k members o, o+g, o+2g, ...; each jump is a sequence of
coins, and every member uses the same one. All arcs (o + prefix + i n/k) -> (+ coin) then carry the same load: one orbit
of arcs per position. Rings of links inside the group that are not coprime come as a bundle of Hamiltonian cycles.

Hamiltonian cycles that together use every link of a circulant, also those of distances not coprime to n.

The links of one distance p form gcd(p, n) cycles: one ring over all servers only when p is coprime to n. With cycles
joined across distances an AllReduce over all servers fills all links, where rings of a single distance leave the others
idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from math import gcd

import numpy as np

from formulations.mixtures import PathSplit, path_split_arrays, shares_of
from solvers.backends import BACKENDS, SolverLimits
from solvers.network.assembly import Digraph, arc_graph, common_offsets, coset_size
from solvers.network.distances import hop_table
from solvers.network.routes import decompositions
from topoopt.core.arrays import Floats, Int32s, Ints, offsets
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, Ring
from topoopt.native import graph, routing
from topoopt.simulate.network import joined_cycles

HOP_PRICE = 0.02
LEAST_SHARE = 0.01


def group_rings(
    topology: Topology, groups: Sequence[tuple[int, ...]], max_rings: int | None = None, *, seed: int = 0
) -> tuple[GroupRings, ...]:
    """Rings of every group, in the order given.

    Args:
        topology: connected.
        groups: two or more different servers each; members are kept as given.
        max_rings: most rings per group; None: the degree (two at least).
        seed: of tie-breaks on topologies that are not circulant.

    Raises:
        InputError: a group with fewer than two members, a repeated or unknown server; max_rings below 1.
        InfeasibleError: the topology is not connected.
    """
    n = topology.servers
    limit = max(2, topology.degree) if max_rings is None else max_rings
    _check(n, groups, limit)
    coins = common_offsets(n, topology.arcs, topology.multiplicity) if n > 1 else {}
    hops = hop_table(n, tuple(coins))
    connected = gcd(n, *coins) == 1
    solved: dict[int, tuple[Ring, ...]] = {}
    graph: Digraph | None = None
    out = []
    for members in groups:
        size = coset_size(n, members)
        if size is not None and connected and size not in solved:
            bidirectional = topology.links is LinkDirection.BIDIRECTIONAL
            candidates = coset_candidates(n, size, coins, hops, bidirectional=bidirectional)
            solved[size] = _shared(candidates, coins, limit)
        if size is not None and connected and (topology.offsets or len(solved[size][0].paths[0]) == 2):
            rings = tuple(_translated(ring, min(members), n) for ring in solved[size])
        else:
            graph = graph or arc_graph(topology)
            cycles = _along_cycles(topology, members, limit, seed) if size is not None else ()
            rings = cycles or general_group_rings(graph, members, limit, seed=seed)
        out.append(GroupRings(tuple(members), rings))
    return tuple(out)


def _along_cycles(topology: Topology, members: tuple[int, ...], limit: int, seed: int) -> tuple[Ring, ...]:
    """Rings both ways round Hamiltonian cycles of a group that together take every fibre pair inside it alike, see
    `cycles_inside`; none where there are no such cycles, or pairs for more than `limit` rings."""
    if topology.links is not LinkDirection.BIDIRECTIONAL:
        return ()
    cycles = cycles_inside(topology, members, limit, seed=seed)
    orders = [order for cycle in cycles for order in (cycle, cycle[::-1])]
    return tuple(
        Ring(order, 1.0 / len(orders), tuple(zip(order, (*order[1:], order[0]), strict=True))) for order in orders
    )


def _shared(candidates: Sequence[RingCandidate], coins: Mapping[int, int], limit: int) -> tuple[Ring, ...]:
    kept = [candidate for candidate in candidates if len(candidate.rings) <= limit]
    shares = _best_shares(kept, coins)
    for _ in range(3):
        chosen: list[int] = []
        rings = 0
        for index in np.argsort(-shares, kind="stable"):
            if shares[index] >= LEAST_SHARE and rings + len(kept[index].rings) <= limit:
                chosen.append(int(index))
                rings += len(kept[index].rings)
        if len(chosen) == len(kept):
            break
        kept = [kept[index] for index in sorted(chosen)]
        shares = _best_shares(kept, coins)
    rings_out: list[Ring] = []
    for candidate, share in zip(kept, shares, strict=True):
        for paths in candidate.rings:
            rings_out.append(Ring(tuple(path[0] for path in paths), float(share) / len(candidate.rings), paths))
    total = sum(ring.share for ring in rings_out)
    return tuple(Ring(ring.order, ring.share / total, ring.paths) for ring in rings_out if ring.share > 0)


def _best_shares(candidates: Sequence[RingCandidate], coins: Mapping[int, int]) -> Floats:
    """Shares of the candidates by linear program; rows are coins (all translates), then orbits (one group)."""
    if len(candidates) == 1:
        return np.ones(1)
    rows: dict[object, int] = {coin: index for index, coin in enumerate(coins)}
    classes = len(rows)
    resource: list[int] = []
    alternative: list[int] = []
    use: list[float] = []
    for index, candidate in enumerate(candidates):
        for (residue, coin), times in candidate.orbits:
            orbit = rows.setdefault((residue, coin), len(rows))
            resource += [rows[coin], orbit]
            alternative += [index, index]
            use += [times / coins[coin]] * 2
    data = PathSplit(
        demand=np.zeros(len(candidates), dtype=np.int64),
        resource=np.array(resource, dtype=np.int64),
        alternative=np.array(alternative, dtype=np.int64),
        use=np.array(use),
        resources=len(rows),
        family=(np.arange(len(rows)) >= classes).astype(np.int64),
        family_weight=(1.0, 0.5),
        price=np.array([HOP_PRICE * candidate.hops for candidate in candidates]) / sum(coins.values()),
    )
    result = BACKENDS["highs-simplex"](path_split_arrays(data), SolverLimits())
    if result.x is None:  # the program always has a solution; equal shares are one
        return np.full(len(candidates), 1.0 / len(candidates))
    return shares_of(data, result.x)


def _translated(ring: Ring, offset: int, n: int) -> Ring:
    if offset == 0:
        return ring
    paths = tuple(tuple((node + offset) % n for node in path) for path in ring.paths)
    return Ring(tuple(path[0] for path in paths), ring.share, paths)


def _check(n: int, groups: Sequence[tuple[int, ...]], limit: int) -> None:
    problems = []
    if limit < 1:
        problems.append(Problem("too few rings", path="max_rings", value=str(limit), allowed=">= 1"))
    for index, members in enumerate(groups):
        where = f"groups[{index}]"
        if len(members) < 2:
            problems.append(Problem("an AllReduce group needs two servers", path=where, value=str(members)))
        if len(set(members)) < len(members):
            problems.append(Problem("a server is in the group twice", path=where, value=str(members)))
        if any(not 0 <= server < n for server in members):
            problems.append(Problem("unknown server", path=where, value=str(members), allowed=f"0..{n - 1}"))
    if problems:
        raise InputError(problems)


ARITHMETIC_ORDERS = 4
ALL_ORDERS_SIZE = 5

Routed = tuple[tuple[int, ...], Ints, Ints]
"""A member order, and its paths: arcs of the path from member i are arcs[ptr[i]:ptr[i+1]]."""


def general_group_rings(graph: Digraph, members: tuple[int, ...], limit: int, *, seed: int = 0) -> tuple[Ring, ...]:
    """At most `limit` rings of a group; each next one is the order and paths that raise the largest load least."""
    orders = _orders(graph, sorted(members), seed)
    load = np.zeros(len(graph.head))
    rings: list[Routed] = []
    for _ in range(limit):
        best: tuple[tuple[float, int], Floats, Routed] | None = None
        for order in orders:
            trial = load.copy()
            ptr, arcs = _route(graph, order, trial)
            value = (float((trial * graph.inverse_capacity).max()), len(arcs))
            if best is None or value < best[0]:
                best = (value, trial, (order, ptr, arcs))
        assert best is not None
        load = best[1]
        rings.append(best[2])
    shares = _shares(graph, [arcs for _, _, arcs in rings])
    kept = shares >= LEAST_SHARE
    shares = np.where(kept, shares, 0.0) / shares[kept].sum()
    return tuple(
        Ring(order, float(share), _paths(graph, order, ptr, arcs))
        for (order, ptr, arcs), share in zip(rings, shares, strict=True)
        if share > 0
    )


def _route(graph: Digraph, order: tuple[int, ...], load: Floats) -> tuple[Ints, Ints]:
    """Paths from each member to the next, as arc ids in rows; `load` grows by one per arc used."""
    source = np.array(order, dtype=np.int64)
    target = np.roll(source, -1)
    ptr = offsets(graph.hops_to[target, source])
    arcs = np.empty(int(ptr[-1]), dtype=np.int64)
    routing.route_demands(
        np.arange(len(order), dtype=np.int64), source, target, np.ones(len(order)), graph.first, graph.head,
        graph.hops_to, graph.inverse_capacity, load, ptr, arcs, False,
    )  # fmt: skip
    return ptr, arcs


def _paths(graph: Digraph, order: tuple[int, ...], ptr: Ints, arcs: Ints) -> tuple[tuple[int, ...], ...]:
    heads = graph.head[arcs].tolist()
    return tuple((server, *heads[ptr[i] : ptr[i + 1]]) for i, server in enumerate(order))


def _shares(graph: Digraph, rings: list[Ints]) -> Floats:
    if len(rings) == 1:
        return np.ones(1)
    used, row = np.unique(np.concatenate(rings), return_inverse=True)
    sizes = np.array([len(arcs) for arcs in rings])
    data = PathSplit(
        demand=np.zeros(len(rings), dtype=np.int64),
        resource=row.astype(np.int64),
        alternative=np.repeat(np.arange(len(rings)), sizes),
        use=graph.inverse_capacity[used][row],
        resources=len(used),
        price=0.01 * sizes / len(graph.head),
    )
    result = BACKENDS["highs-simplex"](path_split_arrays(data), SolverLimits())
    return np.full(len(rings), 1.0 / len(rings)) if result.x is None else shares_of(data, result.x)


def _orders(graph: Digraph, members: list[int], seed: int) -> list[tuple[int, ...]]:
    """Different member orders of few hops, both ways round: ascending, arithmetic, and a two-opted tour."""
    size = len(members)
    hops = graph.hops_to[np.ix_(members, members)].T.astype(np.int64)  # hops[i, j] from member i to member j
    if size <= ALL_ORDERS_SIZE:
        every = [(0, *rest) for rest in permutations(range(1, size))]
        return _shortest_orders(hops, members, every, 24)
    multipliers = [q for q in range(1, size) if gcd(q, size) == 1]
    every = [tuple(q * i % size for i in range(size)) for q in multipliers[: ARITHMETIC_ORDERS + 1]]
    every += [_tour(hops, start) for start in np.random.default_rng(seed).permutation(size)[:2].tolist()]
    every += [(order[0], *reversed(order[1:])) for order in every]
    return _shortest_orders(hops, members, every, 6)


def _shortest_orders(hops: Ints, members: list[int], every: list[tuple[int, ...]], limit: int) -> list[tuple[int, ...]]:
    lengths = {order: int(hops[order, np.roll(order, -1)].sum()) for order in every}
    ranked = sorted(lengths, key=lambda order: lengths[order])
    shortest = lengths[ranked[0]]
    return [tuple(members[i] for i in order) for order in ranked[:limit] if lengths[order] <= 1.5 * shortest]


def _tour(hops: Ints, start: int) -> tuple[int, ...]:
    """Nearest neighbour from `start`, then two-opt on small groups (reversals count both directions of hops)."""
    size = len(hops)
    left = np.ones(size, dtype=bool)
    order = [start]
    left[start] = False
    while len(order) < size:
        order.append(int(np.argmin(np.where(left, hops[order[-1]], np.iinfo(np.int64).max))))
        left[order[-1]] = False
    if size > 64 or size < 4 or not np.array_equal(hops, hops.T):
        return tuple(order)
    gained = True
    while gained:
        gained = False
        for i in range(size - 1):
            for j in range(i + 2, size if i else size - 1):
                a, b, c, d = order[i], order[i + 1], order[j], order[(j + 1) % size]
                if hops[a, c] + hops[b, d] < hops[a, b] + hops[c, d]:
                    order[i + 1 : j + 1] = reversed(order[i + 1 : j + 1])
                    gained = True
    return tuple(order)


def cycles_inside(
    topology: Topology, members: tuple[int, ...], limit: int, *, seed: int
) -> tuple[tuple[int, ...], ...]:
    """Orders of the members, each every link inside the group once, where they have an even number of them; twice where
    it is odd and the switches have matchings of which each is a Hamiltonian cycle with the next one. Else none.

    Args:
        topology: bidirectional.
        members: two different servers or more.
        limit: most links of a member inside the group.
        seed: of the search for cycles.
    """
    position = np.full(topology.servers, -1)
    position[list(members)] = range(len(members))
    ends = position[topology.arcs]
    within = (ends >= 0).all(axis=1)
    counts = np.zeros((len(members),) * 2, dtype=np.int64)
    counts[ends[within, 0], ends[within, 1]] = topology.multiplicity[within]
    inside = counts.sum(axis=1)
    if inside.min() < 2 or inside.min() != inside.max() or inside[0] > limit:
        return ()
    if inside[0] % 2 == 0:
        orders = graph.hamiltonian_cycles(counts, seed % 2**64).tolist()
        return tuple(tuple(members[member] for member in order) for order in orders)
    rows = topology.switches[:, list(members)]
    matched = topology.switches[(position[rows] >= 0).all(axis=1) & (rows >= 0).all(axis=1)]
    if len(matched) != inside[0]:
        return ()
    cycles = tuple(
        _cycle(members[0], first, other) for first, other in zip(matched, np.roll(matched, -1, axis=0), strict=True)
    )
    return cycles if all(len(cycle) == len(members) for cycle in cycles) else ()


def _cycle(start: int, first: Int32s, other: Int32s) -> tuple[int, ...]:
    order = [start]
    while True:
        order.append(int(first[order[-1]]))
        there = int(other[order[-1]])
        if there == start:
            return tuple(order)
        order.append(there)


MOST_CANDIDATES = 96
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
    candidates: list[RingCandidate] = []
    one_hop = [c for c in inside if gcd(c // step, size) == 1]
    covered = set(one_hop)
    if bidirectional and len(one_hop) < len(inside):
        bundle = _bundle(n, step, size, inside)
        if bundle is not None:
            candidates.append(bundle)
            covered = {coin for (_, coin), _ in bundle.orbits}
    q = np.arange(1, size, dtype=np.int64)
    jumps = step * q[np.gcd(q, size) == 1]
    reach = hops[jumps]
    fewest = int(reach.min())
    for length in (fewest, fewest + 1):
        # One hop more pays where it uses links that shortest rings leave idle.
        if length == 2 and len(covered) == len(coins):
            break
        rings = _constant(n, step, size, coins, hops, jumps[reach <= length], length)
        candidates += islice(rings, MOST_CANDIDATES - len(candidates))
    return tuple(candidates)


def _constant(
    n: int, step: int, size: int, coins: Mapping[int, int], hops: Int32s, jumps: Ints, length: int
) -> Iterator[RingCandidate]:
    """Rings of these jumps over `length` hops each; one order of every jump first, then the next ones."""
    choices = [_sequences(n, tuple(coins), int(g), hops, length) for g in jumps[:MOST_CANDIDATES]]
    for rank in range(max((len(choice) for choice in choices), default=0)):
        for sequences in choices:
            if rank < len(sequences):
                yield _ring(n, step, size, sequences[rank])


def _sequences(n: int, coins: tuple[int, ...], jump: int, hops: Int32s, length: int) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = []
    for multiset in decompositions(n, coins, jump, hops, length, 12):
        if len(multiset) <= 4:
            out += sorted(set(permutations(multiset)))[:ORDERS]
        else:
            turns = {multiset[i:] + multiset[:i] for i in range(len(multiset))}
            out += sorted(turns)[:ORDERS]
    return out


def _ring(n: int, step: int, size: int, sequence: tuple[int, ...]) -> RingCandidate:
    prefix = offsets(sequence)
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


def circulant_cycles(n: int, distances: Sequence[int], *, seed: int = 1) -> tuple[tuple[int, ...], ...] | None:
    """One Hamiltonian cycle per ring distance, link-disjoint, over the undirected circulant; None when not found.

    Args:
        n: servers, at least 3.
        distances: ring distances 1 <= p < n/2, repeated for parallel links, with gcd(n, all) = 1.
        seed: of the search.
    """
    if n < 3 or not distances or gcd(n, *distances) != 1:
        return None
    start = np.arange(n, dtype=np.int64)
    factors = np.array([np.column_stack(((start + p) % n, (start - p) % n)) for p in distances], dtype=np.int64)
    return joined_cycles(factors, seed=seed)
