"""Routes of all pairs on any topology, shortest and spread so that the largest link load is least."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.heuristics.topology.assemble import common_offsets
from solvers.heuristics.topology.coin_routes import circulant_routes
from solvers.heuristics.topology.graph import arc_graph
from solvers.heuristics.topology.route_kernels import route_kernel
from topoopt.core.errors import InputError, Problem
from topoopt.core.routing import PathTable
from topoopt.core.topology import Topology

PASSES_SMALL = 5
PASSES_LARGE = 1
LARGE_PAIRS = 100_000
SMALL_SERVERS = 64


def balanced_routes(
    topology: Topology, weights: NDArray[np.float64] | None = None, *, paths_per_pair: int = 1, seed: int = 0
) -> PathTable:
    """Shortest paths of all ordered pairs.

    On a circulant whose traffic depends on the displacement only, `circulant_routes` answers in one table (up to 64
    servers it must stand comparison with the general method). Otherwise each pair's traffic, in `paths_per_pair` equal
    parcels, heaviest first, goes over the shortest path that is least loaded; then every parcel is taken out and put
    back a few times and the best state is kept.

    Args:
        topology: connected.
        weights: float64[n, n], bytes i -> j; None: uniform. Pairs without traffic are routed too.
        paths_per_pair: most paths a pair is split over.
        seed: order of equal weights.

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
                n, topology.offsets, by_displacement, capacities, paths_per_pair=paths_per_pair, seed=seed
            )
            if n > SMALL_SERVERS:
                return alike
            # Routes that differ between sources can balance what whole paths per displacement cannot.
            free = _spread(topology, amount, paths_per_pair, seed)
            gain = link_loads(topology, free, amount).max() < 0.98 * link_loads(topology, alike, amount).max()
            return free if gain else alike
    return _spread(topology, amount, paths_per_pair, seed)


def _spread(topology: Topology, amount: NDArray[np.float64], paths_per_pair: int, seed: int) -> PathTable:
    n = topology.servers
    graph = arc_graph(topology)
    pair = np.flatnonzero(~np.eye(n, dtype=bool).ravel()).astype(np.int64)
    parcels = np.repeat(pair, paths_per_pair)
    bytes_each = amount.ravel()[parcels] / paths_per_pair
    bytes_each = np.maximum(bytes_each, 1e-6 * max(float(bytes_each.max()), 1e-300))
    source, target = parcels // n, parcels % n
    path_ptr = np.concatenate(([0], np.cumsum(graph.hops_to[target, source], dtype=np.int64)))
    shuffled = np.random.default_rng(seed).permutation(len(parcels))
    order = shuffled[np.argsort(-bytes_each[shuffled], kind="stable")]
    arcs = np.empty(int(path_ptr[-1]), dtype=np.int64)
    load = np.zeros(len(graph.head))
    best_value, best_arcs = np.inf, arcs
    for turn in range(PASSES_SMALL if len(parcels) <= LARGE_PAIRS else PASSES_LARGE):
        route_kernel(
            order, source, target, bytes_each, graph.ptr, graph.head, graph.tail, graph.hops_to,
            graph.inverse_capacity, load, path_ptr, arcs, turn > 0,
        )  # fmt: skip
        value = float((load * graph.inverse_capacity).max())
        if value < best_value * (1.0 - 1e-12):
            best_value, best_arcs = value, arcs.copy()
    return _table(n, pair, paths_per_pair, path_ptr, best_arcs, graph.head)


def link_loads(
    topology: Topology, routes: PathTable, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
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


def checked_weights(n: int, weights: NDArray[np.float64] | None, paths_per_pair: int) -> NDArray[np.float64]:
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


def _invariant(amount: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Traffic by displacement, when every server has the same (up to rounding), else None."""
    n = len(amount)
    columns = (np.arange(n)[:, None] + np.arange(n)[None, :]) % n
    shifted = np.take_along_axis(amount, columns, axis=1)
    spread = float(np.ptp(shifted, axis=0).max())
    return shifted.mean(axis=0) if spread <= 1e-9 * float(amount.max(initial=0.0)) else None


def _table(
    n: int,
    pair: NDArray[np.int64],
    paths_per_pair: int,
    path_ptr: NDArray[np.int64],
    arcs: NDArray[np.int64],
    head: NDArray[np.int64] | None = None,
) -> PathTable:
    """Path table from the arcs of each parcel; equal paths of a pair are merged."""
    source = (pair // max(n, 1)).astype(np.int32)
    target = (pair % max(n, 1)).astype(np.int32)
    hops = np.diff(path_ptr)
    start = np.concatenate(([0], np.cumsum(hops + 1))).astype(np.int64)
    node = np.empty(int(start[-1]), dtype=np.int32)
    first = np.zeros(len(node), dtype=bool)
    first[start[:-1]] = True
    node[first] = np.repeat(source, paths_per_pair)
    if head is not None:
        node[~first] = head[arcs]
    share = np.full(len(hops), 1.0 / paths_per_pair)
    pair_ptr = np.arange(len(pair) + 1, dtype=np.int64) * paths_per_pair
    if paths_per_pair > 1:
        return _merged(n, source, target, paths_per_pair, start, node)
    return PathTable(n, source, target, pair_ptr, share, start, node)


def _merged(
    n: int,
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    paths_per_pair: int,
    start: NDArray[np.int64],
    node: NDArray[np.int32],
) -> PathTable:
    share: list[float] = []
    pair_ptr = [0]
    pieces: list[NDArray[np.int32]] = []
    for index in range(len(source)):
        distinct: dict[bytes, int] = {}
        for p in range(index * paths_per_pair, (index + 1) * paths_per_pair):
            piece = node[start[p] : start[p + 1]]
            key = piece.tobytes()
            if key in distinct:
                share[distinct[key]] += 1.0 / paths_per_pair
            else:
                distinct[key] = len(share)
                share.append(1.0 / paths_per_pair)
                pieces.append(piece)
        pair_ptr.append(len(share))
    path_ptr = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces]))).astype(np.int64)
    return PathTable(
        n, source, target, np.array(pair_ptr, dtype=np.int64), np.array(share), path_ptr, np.concatenate(pieces)
    )
