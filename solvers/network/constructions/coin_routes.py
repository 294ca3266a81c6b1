"""Balanced shortest routes on a circulant: sequences of coins per displacement, used by all sources alike.

When every server uses the same coins for the same displacement, all arcs of one coin carry the same load, so balancing
means balancing the coins (classes of arcs): each displacement picks one of its shortest coin decompositions (there are
few as multisets), by annealing. Within a path, coins are ordered so that at each position along the paths all classes
are used equally: transfers that start together do not queue on the same first arc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.network.constructions.totient_perms import hop_table
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.routing import PathTable
from topoopt.native import graph

MOST_DECOMPOSITIONS = 48
MOVES = 60_000


@dataclass(frozen=True, eq=False)
class CoinTable:
    """Coin sequences of every displacement.

    Attributes:
        path_of: int64[n+1]; the paths of displacement j are path_of[j]..path_of[j+1] (none for 0).
        share: float64[P], fraction of the displacement's traffic on each path.
        ptr: int64[P+1]; the jumps of path p are jump[ptr[p]:ptr[p+1]].
        jump: int64[...].
    """

    path_of: Ints
    share: Floats
    ptr: Ints
    jump: Ints


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
    table = coin_table(n, offsets, weights, capacities, paths_per_pair=paths_per_pair, seed=seed)
    if pairs is None:
        source = np.repeat(np.arange(n, dtype=np.int32), n - 1)
        slot = np.tile(np.arange(n - 1, dtype=np.int32), n)
        target = slot + (slot >= source)  # 0..n-1 without the source
    else:
        source, target = (ends.astype(np.int32) for ends in np.nonzero(pairs & ~np.eye(n, dtype=np.bool_)))
    displacement = (target.astype(np.int64) - source) % n
    pair_ptr = np.concatenate(([0], np.cumsum(np.diff(table.path_of)[displacement]))).astype(np.int64)
    pair_of_path = np.repeat(np.arange(len(source)), np.diff(pair_ptr))
    path = table.path_of[displacement][pair_of_path] + np.arange(len(pair_of_path)) - pair_ptr[pair_of_path]
    path_ptr, node = graph.circulant_paths(n, source[pair_of_path], path, table.ptr, table.jump)
    return PathTable(n, source, target, pair_ptr, table.share[path], path_ptr, node)


def coin_table(
    n: int,
    offsets: Sequence[int],
    weights: Floats | None = None,
    capacities: Sequence[float] | None = None,
    *,
    paths_per_pair: int = 1,
    seed: int = 0,
) -> CoinTable:
    """Balanced coin sequences of all displacements; arguments and errors as for `circulant_routes`."""
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
    row_ptr, rows = graph.coin_decompositions(n, coins, MOST_DECOMPOSITIONS)
    counts = np.empty((len(parcel), len(coins)), dtype=np.int64)
    counts[order] = rows[graph.balance_coins(row_ptr, rows, parcel_of[order], parcel[order], inverse, MOVES, seed)]
    counts, parcel_of, shares = _merged(n, parcel_of, counts)
    load = amount[parcel_of] * shares
    order = _heaviest_first(n, parcel_of, load * hops[parcel_of])
    ptr, jump = graph.order_coins(coins, load, inverse, order, counts)
    path_of = np.searchsorted(parcel_of, np.arange(n + 1)).astype(np.int64)
    return CoinTable(path_of, shares, ptr, jump)


def _heaviest_first(n: int, parcel_of: Ints, work: Floats) -> Ints:
    """Most traffic x hops first, since what is placed last fills the valleys; a displacement beside its mirror."""
    return np.lexsort((np.minimum(parcel_of, n - parcel_of), -work)).astype(np.int64)


def _merged(n: int, parcel_of: Ints, counts: Ints) -> tuple[Ints, Ints, Floats]:
    """Equal decompositions of a displacement become one, with the sum of their shares."""
    if len(parcel_of) < n:  # one parcel each
        return counts, parcel_of, np.ones(len(parcel_of))
    rows, sizes = np.unique(np.column_stack((parcel_of, counts)), axis=0, return_counts=True)
    per_displacement = len(parcel_of) // (n - 1)
    return np.ascontiguousarray(rows[:, 1:]), rows[:, 0].copy(), sizes / per_displacement
