"""Compiled loops over circulant graphs: hop counts by displacement, balanced coin sequences, paths from them.

A circulant on Z_n with coins C has an arc i -> i + c for every server i and coin c. It looks the same from every
server, so one breadth-first search from 0 answers for all pairs (CoinChangeMod, TopoOpt, NSDI'23).
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.jit import kernel


@kernel
def hops_kernel(n: int, coins: Ints, dist: Int32s, queue: Int32s) -> None:  # pragma: no cover - compiled
    """Fill dist[n] with the fewest coins that sum to each displacement modulo n; -1 where none does."""
    dist[:] = -1
    dist[0] = 0
    queue[0] = 0
    head = 0
    tail = 1
    while head < tail:
        u = queue[head]
        head += 1
        after = dist[u] + 1
        for k in range(coins.shape[0]):
            v = u + coins[k]
            if v >= n:
                v -= n
            if dist[v] < 0:
                dist[v] = after
                queue[tail] = v
                tail += 1


@kernel
def score_sets_kernel(n: int, sets: Ints, scores: Ints) -> None:  # pragma: no cover
    """For every row of coins, the diameter and the sum of hops; both n*n when the coins do not reach everybody."""
    dist = np.empty(n, dtype=np.int32)
    queue = np.empty(n, dtype=np.int32)
    for row in range(sets.shape[0]):
        hops_kernel(n, sets[row], dist, queue)
        total = 0
        largest = 0
        for j in range(n):
            if dist[j] < 0:
                total = n * n
                largest = n * n
                break
            total += dist[j]
            largest = max(largest, dist[j])
        scores[row, 0] = largest
        scores[row, 1] = total


@kernel
def decompose_kernel(n: int, coins: Ints, hops: Ints, limit: int, rows: Ints) -> Ints:  # pragma: no cover - compiled
    """Multisets of fewest coins of each displacement as counts per coin, at most `limit` each, into `rows`.

    Returns int64[n+1]: rows of displacement j are ptr[j]..ptr[j+1]. Called with no rows, it only counts them.
    """
    classes = len(coins)
    ptr = np.zeros(n + 1, dtype=np.int64)
    longest = np.max(hops)
    coin_at = np.zeros(longest + 1, dtype=np.int64)
    rest_at = np.zeros(longest + 1, dtype=np.int64)
    filled = 0
    for j in range(n):
        found = 0
        if j > 0:
            depth = 0
            rest_at[0] = j
            coin_at[0] = 0
            while depth >= 0 and found < limit:
                c = coin_at[depth]
                if c >= classes:
                    depth -= 1
                    if depth >= 0:
                        coin_at[depth] += 1
                    continue
                q = rest_at[depth] - coins[c]
                if q < 0:
                    q += n
                if hops[q] != hops[rest_at[depth]] - 1:
                    coin_at[depth] += 1
                elif q == 0:
                    if len(rows) > 0:
                        for level in range(depth + 1):
                            rows[filled, coin_at[level]] += 1
                    filled += 1
                    found += 1
                    coin_at[depth] += 1
                else:
                    depth += 1
                    rest_at[depth] = q
                    coin_at[depth] = c  # ascending coins: each multiset once
        ptr[j + 1] = filled
    return ptr


@kernel
def balance_kernel(
    ptr: Ints, rows: Ints, displacement: Ints, amount: Floats, inverse: Floats, moves: int, seed: int, choice: Ints
) -> None:  # pragma: no cover - compiled
    """choice[p]: the row of parcel p so that the largest class load is least (annealing on sum of load^8)."""
    classes = len(inverse)
    load = np.zeros(classes)
    parcels = len(displacement)
    total = 0.0
    for p in range(parcels):
        r = ptr[displacement[p]]
        for c in range(classes):
            total += rows[r, c] * amount[p]
    reference = total / np.sum(1.0 / inverse)
    unit = np.empty(classes)
    for c in range(classes):
        unit[c] = inverse[c] / reference
    open_parcels = np.empty(parcels, dtype=np.int64)
    count = 0
    for p in range(parcels):  # each in turn takes its cheapest row
        first, last = ptr[displacement[p]], ptr[displacement[p] + 1]
        pick = first
        if last - first > 1:
            open_parcels[count] = p
            count += 1
            cheapest = np.inf
            for r in range(first, last):
                value = 0.0
                for c in range(classes):
                    x = (load[c] + rows[r, c] * amount[p]) * unit[c]
                    x *= x
                    x *= x
                    value += x * x
                if value < cheapest:
                    cheapest = value
                    pick = r
        choice[p] = pick
        for c in range(classes):
            load[c] += rows[pick, c] * amount[p]
    if count == 0:
        return
    energy = 0.0
    for c in range(classes):
        energy += (load[c] * unit[c]) ** 8
    best = choice.copy()
    best_value = np.max(load * inverse)
    best_energy = energy
    state = np.uint64(seed * 2 + 88172645463325253)
    # A move of one hop of the largest parcel is likely at first; the last half only descends.
    start = energy * min(0.02, np.max(amount) / reference)
    for move in range(moves):
        temperature = start * max(0.0, 1.0 - 2.0 * move / moves)
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        p = open_parcels[(state >> np.uint64(33)) % np.uint64(count)]
        first, last = ptr[displacement[p]], ptr[displacement[p] + 1]
        r = first + np.int64((state & np.uint64(0xFFFFFF)) % np.uint64(last - first))
        old = choice[p]
        if r == old:
            continue
        value = 0.0
        for c in range(classes):
            x = (load[c] + (rows[r, c] - rows[old, c]) * amount[p]) * unit[c]
            x *= x
            x *= x
            value += x * x
        draw = np.float64((state >> np.uint64(24)) & np.uint64(0xFFFF)) / 65536.0
        if value > energy and draw >= np.exp((energy - value) / (temperature + 1e-300)):
            continue
        choice[p] = r
        energy = value
        largest = 0.0 * load[0]
        for c in range(classes):
            load[c] += (rows[r, c] - rows[old, c]) * amount[p]
            largest = max(largest, load[c] * inverse[c])
        if largest < best_value * (1.0 - 1e-12) or (largest <= best_value and energy < best_energy * (1.0 - 1e-9)):
            best_value = largest
            best_energy = energy
            best[:] = choice
    choice[:] = best


@kernel
def order_kernel(
    coins: Ints, amount: Floats, inverse: Floats, order: Ints, counts: Ints, ptr: Ints, jump: Ints
) -> None:  # pragma: no cover - compiled
    """Order the coins of each path: at each position take the coin used least at that position so far."""
    used = np.zeros((np.max(ptr[1:] - ptr[:-1]), len(coins)))
    for p in order:
        left = counts[p].copy()
        for position in range(ptr[p + 1] - ptr[p]):
            pick = -1
            for c in range(len(coins)):
                if left[c] > 0 and (pick < 0 or used[position, c] * inverse[c] < used[position, pick] * inverse[pick]):
                    pick = c
            left[pick] -= 1
            used[position, pick] += amount[p]
            jump[ptr[p] + position] = coins[pick]


@kernel
def expand_kernel(
    n: int, source: Int32s, path: Ints, ptr: Ints, jump: Ints, path_ptr: Ints, node: Int32s
) -> None:  # pragma: no cover - compiled
    """Nodes of every path: the jumps of `path[k]` added up from `source[k]`."""
    for k in range(len(source)):
        v = np.int64(source[k])
        at = path_ptr[k]
        node[at] = v
        for q in range(ptr[path[k]], ptr[path[k] + 1]):
            v += jump[q]
            if v >= n:
                v -= n
            at += 1
            node[at] = v
