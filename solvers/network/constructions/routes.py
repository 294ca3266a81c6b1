"""Routes of all pairs on any topology, shortest and spread so that the largest link load is least."""

from __future__ import annotations

import numpy as np

from solvers.network.constructions.assemble import common_offsets
from solvers.network.constructions.coin_routes import circulant_routes
from solvers.network.constructions.graph import ArcGraph, arc_graph
from topoopt import native
from topoopt.core.arrays import Bools, Floats, Int32s, Ints, stable_order
from topoopt.core.errors import InputError, Problem
from topoopt.core.routing import PathTable
from topoopt.core.topology import Topology
from topoopt.native import routing

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
    path_ptr = np.concatenate(([0], np.cumsum(graph.hops_to[target, source], dtype=np.int64)))
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
        """Largest load of the traffic itself, without the dust that spreads pairs without any."""
        return float(_loads_of(arcs, path_ptr, amount.ravel()[parcels] / paths_per_pair, graph).max(initial=0.0))

    def improve(turns: range) -> None:
        """Route all parcels again, turn by turn (turn 0: from nothing), and keep the best state."""
        nonlocal best_value, best_arcs
        for turn in turns:
            if paths is not None:
                part = order if turn == 0 else order[: len(order) // HEAVY]
                paths.route(source[part], target[part], bytes_each[part], path_ptr[part], load, arcs, turn > 0)
            else:
                routing.route_demands(
                    order, source, target, bytes_each, graph.ptr, graph.head, graph.hops_to, graph.inverse_capacity,
                    load, path_ptr, arcs, turn > 0,
                )  # fmt: skip
            value = peak()
            if value < best_value * (1.0 - ROUNDING):
                best_value, best_arcs = value, arcs.copy()

    improve(range(passes))
    if plain_peak(graph, amount) < best_value * (1.0 - ROUNDING):
        _, via = native.graph.breadth_first_trees(graph.ptr, graph.head, graph.servers)
        _fill_tree_paths(arcs, path_ptr, source, target, graph, via)
        load[:] = _loads_of(arcs, path_ptr, bytes_each, graph) / graph.inverse_capacity
        best_value, best_arcs = peak(), arcs.copy()
        improve(range(1, passes + 1))
    return _table(n, pair, paths_per_pair, path_ptr, best_arcs, graph.head)


def _loads_of(arcs: Ints, path_ptr: Ints, amounts: Floats, graph: ArcGraph) -> Floats:
    """float64[m]: load per parallel link of parcels over given paths."""
    load = np.bincount(arcs, weights=np.repeat(amounts, np.diff(path_ptr)), minlength=len(graph.head))
    return np.asarray(load * graph.inverse_capacity, dtype=np.float64)


def _fill_tree_paths(arcs: Ints, path_ptr: Ints, source: Ints, target: Ints, graph: ArcGraph, via: Ints) -> None:
    """Set the arcs of all parcels to those of breadth-first trees, last hops first."""
    start, index, server = path_ptr[:-1], path_ptr[1:] - 1, target
    while len(source):
        arcs[index] = via[source, server]
        further = index > start
        server = graph.tail[arcs[index]][further]
        source, start, index = source[further], start[further], index[further] - 1


def plain_peak(graph: ArcGraph, amount: Floats) -> float:
    """Largest load per link when every pair takes its first shortest path in breadth-first order."""
    order, via = native.graph.breadth_first_trees(graph.ptr, graph.head, graph.servers)
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
    """Path table from the arcs of each parcel; equal paths of a pair are merged."""
    source = (pair // max(n, 1)).astype(np.int32)
    target = (pair % max(n, 1)).astype(np.int32)
    hops = np.diff(path_ptr)
    start = np.concatenate(([0], np.cumsum(hops + 1))).astype(np.int64)
    node = np.empty(int(start[-1]), dtype=np.int32)
    first = np.zeros(len(node), dtype=bool)
    first[start[:-1]] = True
    node[start[:-1]] = np.repeat(source, paths_per_pair)
    if head is not None:
        node[~first] = head[arcs]
    share = np.full(len(hops), 1.0 / paths_per_pair)
    pair_ptr = np.arange(len(pair) + 1, dtype=np.int64) * paths_per_pair
    if paths_per_pair > 1 and len(pair):
        return _merged(n, source, target, paths_per_pair, start, node)
    return PathTable(n, source, target, pair_ptr, share, start, node)


def _merged(n: int, source: Int32s, target: Int32s, paths_per_pair: int, start: Ints, node: Int32s) -> PathTable:
    """Equal paths of a pair become one, at its first place, with the sum of their shares."""
    k, pairs = paths_per_pair, len(source)
    length = np.diff(start).reshape(pairs, k)  # the same for all paths of a pair: all are shortest
    first = np.concatenate(([0], np.cumsum(length[:, 0]))).astype(np.int64)
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
    path_ptr = np.concatenate(([0], np.cumsum(np.diff(start)[chosen]))).astype(np.int64)
    at = (
        np.repeat(start[chosen], np.diff(path_ptr))
        + np.arange(int(path_ptr[-1]))
        - np.repeat(path_ptr[:-1], np.diff(path_ptr))
    )
    pair_ptr = np.concatenate(([0], np.cumsum(kept.sum(axis=1)))).astype(np.int64)
    return PathTable(n, source, target, pair_ptr, share, path_ptr, node[at])
