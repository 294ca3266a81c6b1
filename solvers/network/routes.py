"""Routes of all pairs spread the load: sequences of coins on circulants (CoinChangeMod), shortest paths, and shares of
k paths.

Balanced shortest routes on a circulant: sequences of coins per displacement, used by all sources alike.

When every server uses the same coins for the same displacement, all arcs of one coin carry the same load, so balancing
means balancing the coins (classes of arcs): each displacement picks one of its shortest coin decompositions (there are
few as multisets), by annealing. Within a path, coins are ordered so that at each position along the paths all classes
are used equally: transfers that start together do not queue on the same first arc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

import numpy as np

from formulations.mixtures import PathSplit, path_split_arrays, shares_of
from solvers.backends import BACKENDS, SolverLimits
from solvers.network.assembly import Digraph, arc_graph, assemble, common_offsets, ring_arcs
from solvers.network.distances import generates, hop_table, interfaces_of
from topoopt import native
from topoopt.core.arrays import Bools, Floats, Int32s, Ints, offsets, stable_order
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.topology import Topology
from topoopt.core.workload import PathTable
from topoopt.native import graph, routing


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


def circulant_routes(
    n: int,
    offsets: Sequence[int],
    weights: Floats | None = None,
    capacities: Sequence[float] | None = None,
    *,
    paths_per_pair: int = 1,
    seed: int = 0,
    pairs: Bools | None = None,
) -> PathTable:
    """Shortest routes of all n (n-1) ordered pairs, or of some: each pair's are the same whatever others there are.

    Args:
        n: servers.
        offsets: displacements of one hop, ascending, both p and n - p for bidirectional links.
        weights: float64[n], traffic by displacement (entry 0 unused); None: uniform.
        capacities: parallel links per offset; None: one each.
        paths_per_pair: most paths a pair's traffic is split over, in equal parcels.
        seed: of the balancing.
        pairs: bool[n, n], those that are written out; None: all. The diagonal is left out.

    Raises:
        InfeasibleError: the offsets do not connect all servers.
    """
    path_of, share, ptr, jump = coin_table(n, offsets, weights, capacities, paths_per_pair=paths_per_pair, seed=seed)
    if pairs is None:
        source = np.repeat(np.arange(n, dtype=np.int32), n - 1)
        slot = np.tile(np.arange(n - 1, dtype=np.int32), n)
        target = slot + (slot >= source)  # 0..n-1 without the source
    else:
        source, target = (ends.astype(np.int32) for ends in np.nonzero(pairs & ~np.eye(n, dtype=np.bool_)))
    displacement = (target.astype(np.int64) - source) % n
    pair_ptr = np.concatenate(([0], np.cumsum(np.diff(path_of)[displacement]))).astype(np.int64)
    pair_of_path = np.repeat(np.arange(len(source)), np.diff(pair_ptr))
    path = path_of[displacement][pair_of_path] + np.arange(len(pair_of_path)) - pair_ptr[pair_of_path]
    path_ptr, node = graph.circulant_paths(n, source[pair_of_path], path, ptr, jump)
    return PathTable(n, source, target, pair_ptr, share[path], path_ptr, node)


def coin_table(
    n: int,
    offsets: Sequence[int],
    weights: Floats | None = None,
    capacities: Sequence[float] | None = None,
    *,
    paths_per_pair: int = 1,
    seed: int = 0,
) -> tuple[Ints, Floats, Ints, Ints]:
    """Balanced coin sequences of all displacements; arguments and errors as for `circulant_routes`.

    Returns:
        int64[n+1], first path of each displacement (none for 0); float64[P], part of the displacement's traffic on each
        path; int64[P+1], first jump of each path; int64[...], the jumps.
    """
    coins = np.array(offsets, dtype=np.int64)
    hops = hop_table(n, offsets).astype(np.int64)
    if (hops < 0).any():
        raise InfeasibleError(f"ring distances {list(offsets)} do not connect all {n} servers")
    amount = np.ones(n) if weights is None else np.array(weights, dtype=np.float64)
    # Displacements without traffic are routed too; a trace of weight spreads them evenly.
    amount = np.maximum(amount, 1e-6 * max(float(amount[1:].max(initial=0.0)), 1e-300))
    inverse = np.ones(len(coins)) if capacities is None else 1.0 / np.asarray(capacities, dtype=np.float64)
    parcel_of = np.repeat(np.arange(1, n, dtype=np.int64), paths_per_pair)
    parcel = amount[parcel_of] / paths_per_pair
    order = _heaviest_first(n, parcel_of, parcel * hops[parcel_of])
    row_ptr, rows = graph.coin_decompositions(n, coins, 48)
    counts = np.empty((len(parcel), len(coins)), dtype=np.int64)
    counts[order] = rows[graph.balance_coins(row_ptr, rows, parcel_of[order], parcel[order], inverse, 60_000, seed)]
    counts, parcel_of, shares = _merged(n, parcel_of, counts)
    load = amount[parcel_of] * shares
    order = _heaviest_first(n, parcel_of, load * hops[parcel_of])
    ptr, jump = graph.order_coins(coins, load, inverse, order, counts)
    path_of = np.searchsorted(parcel_of, np.arange(n + 1)).astype(np.int64)
    return path_of, shares, ptr, jump


def _heaviest_first(n: int, parcel_of: Ints, work: Floats) -> Ints:
    """Most traffic x hops first, since what is placed last fills the valleys; a displacement beside its mirror."""
    return np.lexsort((np.minimum(parcel_of, n - parcel_of), -work)).astype(np.int64)


def _merged(n: int, parcel_of: Ints, counts: Ints) -> tuple[Ints, Ints, Floats]:
    if len(parcel_of) < n:  # one parcel each
        return counts, parcel_of, np.ones(len(parcel_of))
    rows, sizes = np.unique(np.column_stack((parcel_of, counts)), axis=0, return_counts=True)
    per_displacement = len(parcel_of) // (n - 1)
    return np.ascontiguousarray(rows[:, 1:]), rows[:, 0].copy(), sizes / per_displacement


PASSES_SMALL = 5
PASSES_LARGE = 1
PASSES_ALIKE, HEAVY = 3, 8
"""On large circulants the first pass takes all parcels, the others the heaviest of so many."""
LARGE_PAIRS = 100_000
SMALL_SERVERS = 64
ROUNDING = 1e-12


def balanced_routes(
    topology: Topology,
    weights: Floats | None = None,
    *,
    paths_per_pair: int = 1,
    seed: int = 0,
    pairs: Bools | None = None,
) -> PathTable:
    """Shortest paths of all ordered pairs, or of some.

    On a circulant whose traffic depends on the displacement only, `circulant_routes` answers in one table (up to 64
    servers it must stand comparison with the general method). Otherwise each pair's traffic, in `paths_per_pair` equal
    parcels, heaviest first, goes over the shortest path that is least loaded; then every parcel is taken out and put
    back a few times and the best state is kept. Should breadth-first shortest paths load the worst link less (local
    search can end above them), the same is done from those, so the result is never worse than they are (but for the one
    table of larger circulants).

    Args:
        topology: connected.
        weights: float64[n, n], bytes i -> j; None: uniform. Pairs without traffic are routed too.
        paths_per_pair: most paths a pair is split over.
        seed: order of equal weights.
        pairs: bool[n, n], those that are routed, the diagonal aside; None: all. The traffic of the others does not
            count, unless one table by displacement serves all.

    Raises:
        InputError: weights of another shape, negative or not finite; fewer than one path per pair.
        InfeasibleError: the topology is not connected.
    """
    n = topology.servers
    amount = checked_weights(n, weights, paths_per_pair)
    if n < 2:
        return _table(n, np.zeros(0, dtype=np.int64), 1, np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64))
    if topology.offsets:
        by_displacement = _invariant(amount)
        if by_displacement is not None:
            parallel = common_offsets(n, topology.arcs, topology.multiplicity)
            capacities = [float(parallel[p]) for p in topology.offsets]
            alike = circulant_routes(
                n, topology.offsets, by_displacement, capacities, paths_per_pair=paths_per_pair, seed=seed, pairs=pairs
            )
            if n > SMALL_SERVERS:
                return alike
            peak = float(link_loads(topology, alike, amount).max())
            plain = plain_peak(arc_graph(topology), amount)
            # Routes that differ between sources can balance what whole paths per displacement cannot.
            free = _spread(topology, amount, paths_per_pair, seed, pairs)
            gain = float(link_loads(topology, free, amount).max()) < 0.98 * peak
            return free if gain or plain < peak * (1.0 - ROUNDING) else alike
    return _spread(topology, amount, paths_per_pair, seed, pairs)


def _spread(topology: Topology, amount: Floats, paths_per_pair: int, seed: int, pairs: Bools | None) -> PathTable:
    n = topology.servers
    graph = arc_graph(topology)
    wanted = ~np.eye(n, dtype=np.bool_)
    if pairs is not None:
        wanted &= pairs
        amount = np.where(wanted, amount, 0.0)
    pair = np.flatnonzero(wanted).astype(np.int64)
    parcels = np.repeat(pair, paths_per_pair)
    bytes_each = amount.ravel()[parcels] / paths_per_pair
    bytes_each = np.maximum(bytes_each, 1e-6 * max(float(bytes_each.max(initial=0.0)), 1e-300))
    source, target = parcels // n, parcels % n
    path_ptr = offsets(graph.hops_to[target, source])
    shuffled = np.random.default_rng(seed).permutation(len(parcels))
    order = shuffled[stable_order(-bytes_each[shuffled])]
    arcs = np.empty(int(path_ptr[-1]), dtype=np.int64)
    load = np.zeros(len(graph.head))
    best_value, best_arcs = np.inf, arcs
    passes = PASSES_SMALL if len(parcels) <= LARGE_PAIRS else PASSES_LARGE
    paths = None
    if passes == PASSES_LARGE and topology.offsets and len(set(graph.inverse_capacity.tolist())) == 1:
        paths, passes = routing.DisplacementPaths(graph.tail, graph.head, n), PASSES_ALIKE

    def peak() -> float:
        return float(_loads_of(arcs, path_ptr, amount.ravel()[parcels] / paths_per_pair, graph).max(initial=0.0))

    def improve(turns: range) -> None:
        nonlocal best_value, best_arcs
        for turn in turns:
            if paths is not None:
                part = order if turn == 0 else order[: len(order) // HEAVY]
                paths.route(source[part], target[part], bytes_each[part], path_ptr[part], load, arcs, turn > 0)
            else:
                routing.route_demands(
                    order, source, target, bytes_each, graph.first, graph.head, graph.hops_to, graph.inverse_capacity,
                    load, path_ptr, arcs, turn > 0,
                )  # fmt: skip
            value = peak()
            if value < best_value * (1.0 - ROUNDING):
                best_value, best_arcs = value, arcs.copy()

    improve(range(passes))
    if plain_peak(graph, amount) < best_value * (1.0 - ROUNDING):
        _, via = native.graph.breadth_first_trees(graph.first, graph.head, graph.servers)
        _fill_tree_paths(arcs, path_ptr, source, target, graph, via)
        load[:] = _loads_of(arcs, path_ptr, bytes_each, graph) / graph.inverse_capacity
        best_value, best_arcs = peak(), arcs.copy()
        improve(range(1, passes + 1))
    return _table(n, pair, paths_per_pair, path_ptr, best_arcs, graph.head)


def _loads_of(arcs: Ints, path_ptr: Ints, amounts: Floats, graph: Digraph) -> Floats:
    """float64[m]: load per parallel link of parcels over given paths."""
    load = np.bincount(arcs, weights=np.repeat(amounts, np.diff(path_ptr)), minlength=len(graph.head))
    return np.asarray(load * graph.inverse_capacity, dtype=np.float64)


def _fill_tree_paths(arcs: Ints, path_ptr: Ints, source: Ints, target: Ints, graph: Digraph, via: Ints) -> None:
    start, index, server = path_ptr[:-1], path_ptr[1:] - 1, target
    while len(source):
        arcs[index] = via[source, server]
        further = index > start
        server = graph.tail[arcs[index]][further]
        source, start, index = source[further], start[further], index[further] - 1


def plain_peak(graph: Digraph, amount: Floats) -> float:
    """Largest load per link when every pair takes its first shortest path in breadth-first order."""
    order, via = native.graph.breadth_first_trees(graph.first, graph.head, graph.servers)
    load = routing.tree_loads(graph.tail, order, via, amount)
    return float((load * graph.inverse_capacity).max(initial=0.0))


def link_loads(topology: Topology, routes: PathTable, weights: Floats | None = None) -> Floats:
    """float64[m]: bytes on each arc per parallel link, for traffic `weights` (None: 1 per ordered pair)."""
    n = topology.servers
    amount = checked_weights(n, weights, 1)
    per_pair = amount[routes.source, routes.target]
    per_path = np.repeat(per_pair, np.diff(routes.pair_ptr)) * routes.share
    hops = np.diff(routes.path_ptr) - 1
    inside = np.ones(max(len(routes.node) - 1, 0), dtype=bool)
    inside[routes.path_ptr[1:-1] - 1] = False
    ids = topology.arc_ids()[routes.node[:-1], routes.node[1:]][inside]
    loads = np.bincount(ids, weights=np.repeat(per_path, hops), minlength=len(topology.arcs))
    return np.asarray(loads / topology.multiplicity, dtype=np.float64)


def checked_weights(n: int, weights: Floats | None, paths_per_pair: int) -> Floats:
    problems = []
    amount = np.ones((n, n)) if weights is None else np.array(weights, dtype=np.float64)
    if paths_per_pair < 1:
        problems.append(Problem("too few paths", path="paths_per_pair", value=str(paths_per_pair), allowed=">= 1"))
    if amount.shape != (n, n):
        problems.append(
            Problem("traffic has the wrong shape", path="weights", value=str(amount.shape), allowed=f"({n}, {n})")
        )
    elif not np.isfinite(amount).all() or (amount < 0).any():
        problems.append(Problem("traffic must be finite and not negative", path="weights"))
    if problems:
        raise InputError(problems)
    np.fill_diagonal(amount, 0.0)
    return amount


def _invariant(amount: Floats) -> Floats | None:
    """Traffic by displacement, when every server has the same (up to rounding), else None."""
    n = len(amount)
    least, most, total = np.full(n, np.inf), np.full(n, -np.inf), np.zeros(n)
    shifted = np.empty(n)
    rounding = 1e-9 * float(amount.max(initial=0.0))
    for i in range(n):
        shifted[: n - i], shifted[n - i :] = amount[i, i:], amount[i, :i]
        np.minimum(least, shifted, out=least)
        np.maximum(most, shifted, out=most)
        total += shifted
        if float((most - least).max()) > rounding:
            return None
    return total / n


def _table(n: int, pair: Ints, paths_per_pair: int, path_ptr: Ints, arcs: Ints, head: Ints | None = None) -> PathTable:
    source = (pair // max(n, 1)).astype(np.int32)
    target = (pair % max(n, 1)).astype(np.int32)
    hops = np.diff(path_ptr)
    start = offsets(hops + 1)
    node = np.empty(int(start[-1]), dtype=np.int32)
    first = np.zeros(len(node), dtype=bool)
    first[start[:-1]] = True
    node[start[:-1]] = np.repeat(source, paths_per_pair)
    if head is not None:
        node[~first] = head[arcs]
    share = np.full(len(hops), 1.0 / paths_per_pair)
    pair_ptr = np.arange(len(pair) + 1, dtype=np.int64) * paths_per_pair
    if paths_per_pair > 1 and len(pair):
        return _merged_routes(n, source, target, paths_per_pair, start, node)
    return PathTable(n, source, target, pair_ptr, share, start, node)


def _merged_routes(n: int, source: Int32s, target: Int32s, paths_per_pair: int, start: Ints, node: Int32s) -> PathTable:
    k, pairs = paths_per_pair, len(source)
    length = np.diff(start).reshape(pairs, k)  # the same for all paths of a pair: all are shortest
    first = offsets(length[:, 0])
    inside = np.arange(int(first[-1])) - np.repeat(first[:-1], length[:, 0])
    column = [node[np.repeat(start[:-1].reshape(pairs, k)[:, c], length[:, 0]) + inside] for c in range(k)]
    leader = np.tile(np.arange(k), (pairs, 1))
    for c in range(1, k):
        for before in range(c):
            same = np.logical_and.reduceat(column[c] == column[before], first[:-1])
            leader[:, c] = np.where(same & (leader[:, c] == c), leader[:, before], leader[:, c])
    kept = leader == np.arange(k)
    times = np.stack([(leader == c).sum(axis=1) for c in range(k)], axis=1)[kept]
    share = np.cumsum(np.full(k, 1.0 / k))[times - 1]
    chosen = np.flatnonzero(kept.ravel())
    path_ptr = offsets(np.diff(start)[chosen])
    at = (
        np.repeat(start[chosen], np.diff(path_ptr))
        + np.arange(int(path_ptr[-1]))
        - np.repeat(path_ptr[:-1], np.diff(path_ptr))
    )
    pair_ptr = offsets(kept.sum(axis=1))
    return PathTable(n, source, target, pair_ptr, share, path_ptr, node[at])


HOP_PRICE = 1e-6
"""Charge per byte-hop, relative to the largest load: shorter paths win ties."""


def split_routes_lp(
    topology: Topology,
    weights: Floats | None = None,
    k: int = 8,
    *,
    seed: int = 0,
) -> PathTable:
    """Traffic of each pair split over up to k simple paths of at most one hop more than the shortest.

    Meant for small clusters (n <= 32; n^2 k columns). Pairs without traffic get one shortest path.

    Args:
        topology: connected.
        weights: float64[n, n], bytes i -> j; None: uniform.
        k: most paths per pair, shortest first.
        seed: of the draw among equally long paths.

    Raises:
        InputError: bad weights.
        InfeasibleError: the topology is not connected.
        LimitError: the solver reached its limit.
    """
    n = topology.servers
    amount = checked_weights(n, weights, k)
    graph = arc_graph(topology)
    scale = max(float(amount.max(initial=0.0)), 1e-300)
    pairs = [(s, t) for s in range(n) for t in range(n) if s != t]
    rng = Random(seed)
    paths: list[list[int]] = []
    owner: list[int] = []
    for index, (s, t) in enumerate(pairs):
        shortest = shortest_arc_paths(graph, s, t, k if amount[s, t] > 0 else 1, rng)
        paths += shortest
        owner += [index] * len(shortest)
    demand = np.array(owner, dtype=np.int64)
    hops = np.array([len(path) for path in paths], dtype=np.int64)
    arcs = np.array([a for path in paths for a in path], dtype=np.int64)
    per_path = np.array([amount[s, t] / scale for s, t in pairs])[demand] if paths else np.zeros(0)
    data = PathSplit(
        demand=demand,
        resource=arcs,
        alternative=np.repeat(np.arange(len(paths)), hops),
        use=np.repeat(per_path, hops) * graph.inverse_capacity[arcs],
        resources=len(graph.head),
        price=HOP_PRICE * per_path * hops,
    )
    if not paths:
        share = np.zeros(0)
    else:
        result = BACKENDS["highs-simplex"](path_split_arrays(data), SolverLimits())
        if result.x is None:
            raise LimitError(f"no split of the routes found: {result.message}")
        share = shares_of(data, result.x)
    return _path_table(n, pairs, paths, demand, share, graph)


def shortest_arc_paths(graph: Digraph, source: int, target: int, k: int, rng: Random) -> list[list[int]]:
    """Up to k different simple paths (arc ids), fewest hops first, of at most one hop over the shortest."""
    to_target = graph.hops_to[target]

    def walk(node: int, left: int, visited: set[int], prefix: list[int]) -> Iterator[list[int]]:
        if node == target:
            if left == 0:
                yield prefix
            return
        for arc in range(int(graph.first[node]), int(graph.first[node + 1])):
            after = int(graph.head[arc])
            if after not in visited and int(to_target[after]) < left:
                yield from walk(after, left - 1, visited | {after}, [*prefix, arc])

    paths: list[list[int]] = []
    shortest = int(to_target[source])
    for length in (shortest, shortest + 1):
        level = list(islice(walk(source, length, {source}, []), 256))
        missing = k - len(paths)
        if len(level) <= missing:
            paths += level
            continue
        # Drawn, since the first ones in arc order share their first arcs.
        paths += rng.sample(level, missing)
        break
    return paths


def _path_table(
    n: int, pairs: list[tuple[int, int]], paths: list[list[int]], demand: Ints, share: Floats, graph: Digraph
) -> PathTable:
    used = [p for p in range(len(paths)) if share[p] > 0]
    nodes = [[pairs[demand[p]][0], *(int(graph.head[a]) for a in paths[p])] for p in used]
    per_pair = np.bincount(demand[used], minlength=len(pairs)) if used else np.zeros(len(pairs), dtype=np.int64)
    return PathTable(
        nodes_total=n,
        source=np.array([s for s, _ in pairs], dtype=np.int32),
        target=np.array([t for _, t in pairs], dtype=np.int32),
        pair_ptr=offsets(per_pair),
        share=share[used],
        path_ptr=offsets([len(path) for path in nodes]),
        node=np.array([v for path in nodes for v in path], dtype=np.int32),
    )
