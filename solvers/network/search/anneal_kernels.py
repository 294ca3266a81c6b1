"""Annealing of a topology on its demand-weighted hop total, evaluated incrementally on bit-packed reach rows.

R_k[i] is the set of servers within k hops of i, and sum D dist = sum_k sum_i D[i, outside R_k[i]], cut off after a
given number of levels (pairs not reached count one more). A swap of two links changes R_1 of their tails only, and R_k
of servers one hop before a change of R_{k-1}; the demand outside a changed row is corrected bit by bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.simulate.jit import kernel

_DEBRUIJN = 0x03F79D71B4CB0A89


def bit_positions() -> Ints:
    """int64[64]: position of the lowest set bit b, at index (b * de Bruijn constant) >> 58."""
    table = np.zeros(64, dtype=np.int64)
    for position in range(64):
        table[((_DEBRUIJN << position) & 0xFFFFFFFFFFFFFFFF) >> 58] = position
    return table


@kernel
def reach_rows(out: Ints, levels: int) -> NDArray[np.uint64]:
    """uint64[levels+1, n, words]: servers within k hops of each, from heads out[n, d]."""
    n, d = out.shape
    words = (n + 63) // 64
    reach = np.zeros((levels + 1, n, words), dtype=np.uint64)
    for i in range(n):
        reach[0, i, i // 64] = np.uint64(1) << np.uint64(i % 64)
    for k in range(1, levels + 1):
        for i in range(n):
            for w in range(words):
                bits = reach[k - 1, i, w]
                for a in range(d):
                    bits |= reach[k - 1, out[i, a], w]
                reach[k, i, w] = bits
    return reach


@kernel
def hop_total(reach: NDArray[np.uint64], demand: Floats) -> float:
    """sum D min(dist, levels + 1)."""
    levels, n, _ = reach.shape
    total = 0.0
    for k in range(levels):
        for i in range(n):
            for j in range(n):
                if not (reach[k, i, j // 64] >> np.uint64(j % 64)) & np.uint64(1):
                    total += demand[i, j]
    return total


@kernel
def _replace(table: Ints, row: int, old: int, new: int) -> None:
    for a in range(table.shape[1]):
        if table[row, a] == old:
            table[row, a] = new
            return


@kernel
def swap(out: Ints, into: Ints, i: int, j: int, k: int, l: int, paired: bool) -> None:  # noqa: E741
    """Links i -> j and k -> l become i -> l and k -> j; with paired links the opposite arcs follow."""
    _replace(out, i, j, l)
    _replace(out, k, l, j)
    _replace(into, j, i, k)
    _replace(into, l, k, i)
    if paired:
        _replace(out, j, i, k)
        _replace(out, l, k, i)
        _replace(into, i, j, l)
        _replace(into, k, l, j)


@kernel
def may_swap(allowed: Bools, i: int, j: int, k: int, l: int, paired: bool) -> bool:  # noqa: E741
    """Whether `swap` makes arcs that may be made, between servers that differ."""
    if i == k or j == l or not allowed[i, l] or not allowed[k, j]:
        return False
    return not paired or not (i in (j, l) or k in (j, l) or not allowed[l, i] or not allowed[j, k])


@kernel
def anneal_hops(
    out: Ints,
    into: Ints,
    demand: Floats,
    allowed: Bools,
    group: Ints,
    levels: int,
    paired: bool,
    parallel: bool,
    hot: float,
    cold: float,
    proposals: int,
    seed: int,
    position: Ints,
    best_out: Ints,
) -> float:
    """Propose swaps, temperature falling geometrically from `hot` to `cold`; the least hop total, heads in best_out.

    Args:
        out, into: int64[n, d], heads and tails of every server's links; changed in place. A port left dark points to
            its own server in both.
        allowed: bool[n, n], arcs that may be made (False on the diagonal).
        group: int64[n], of each server; as many of its links as before stay inside its group.
        paired: links are fibre pairs: out and into hold the same links, and swaps keep it so.
        parallel: whether a second link may join a pair.
        position: `bit_positions()`.
    """
    np.random.seed(seed)
    n, d = out.shape
    words = (n + 63) // 64
    one, zero = np.uint64(1), np.uint64(0)
    reach = reach_rows(out, levels)
    total = hop_total(reach, demand)
    best = total
    best_out[:] = out
    most = (levels + 1) * n
    changed_level, changed_row = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    saved = np.empty((most, words), dtype=np.uint64)
    mark = np.zeros(n, dtype=np.int64)
    stamp = 0
    heads = np.empty(4, dtype=np.int64)
    ratio = (cold / hot) ** (1.0 / max(1, proposals)) if hot > 0.0 else 1.0
    heat = hot
    row = np.empty(words, dtype=np.uint64)
    for _ in range(proposals):
        heat *= ratio
        i, k = np.random.randint(n), np.random.randint(n)
        j, l = out[i, np.random.randint(d)], out[k, np.random.randint(d)]  # noqa: E741
        inside = group[i] == group[j]
        if inside != (group[k] == group[l]) or inside != (group[i] == group[l]) or inside != (group[k] == group[j]):
            continue
        if not may_swap(allowed, i, j, k, l, paired):
            continue
        if not parallel:
            double = False
            for a in range(d):
                if out[i, a] == l or out[k, a] == j:
                    double = True
            if double:
                continue
        swap(out, into, i, j, k, l, paired)
        sources = 2
        heads[0], heads[1] = i, k
        if paired:
            sources = 4
            heads[2], heads[3] = j, l
        delta = 0.0
        count = 0
        begin = 0
        for level in range(1, levels + 1):
            stamp += 1
            end = count
            # rows to look at: the tails of the swapped links, and whoever links to a row changed one level below
            for c in range(-sources, end - begin):
                if c < 0:
                    around = 1
                    centre = heads[-c - 1]
                else:
                    around = d + 1
                    centre = changed_row[begin + c]
                for b in range(around):
                    v = centre if b == 0 else into[centre, b - 1]
                    if mark[v] == stamp:
                        continue
                    mark[v] = stamp
                    differs = False
                    for w in range(words):
                        bits = reach[level - 1, v, w]
                        for a in range(d):
                            bits |= reach[level - 1, out[v, a], w]
                        row[w] = bits
                        if bits != reach[level, v, w]:
                            differs = True
                    if not differs:
                        continue
                    for w in range(words):
                        old = reach[level, v, w]
                        saved[count, w] = old
                        gone = old & ~row[w]
                        while gone != zero:
                            low = gone & (~gone + one)
                            delta += demand[v, w * 64 + position[(low * np.uint64(_DEBRUIJN)) >> np.uint64(58)]]
                            gone ^= low
                        come = row[w] & ~old
                        while come != zero:
                            low = come & (~come + one)
                            delta -= demand[v, w * 64 + position[(low * np.uint64(_DEBRUIJN)) >> np.uint64(58)]]
                            come ^= low
                        reach[level, v, w] = row[w]
                    changed_level[count], changed_row[count] = level, v
                    count += 1
            begin = end
        if delta <= 0.0 or delta <= -heat * np.log(np.random.random()):
            total += delta
            if total < best - 1e-9 * abs(best):
                best = total
                best_out[:] = out
        else:
            swap(out, into, i, l, k, j, paired)
            for c in range(count):
                for w in range(words):
                    reach[changed_level[c], changed_row[c], w] = saved[c, w]
    return best


@kernel
def exact_hop_total(out: Ints, demand: Floats) -> float:
    """sum D dist by breadth-first search; pairs that no path joins count n hops."""
    n, d = out.shape
    queue, hops = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    total = 0.0
    for source in range(n):
        hops[:] = n
        hops[source] = 0
        queue[0] = source
        begin, end = 0, 1
        while begin < end:
            v = queue[begin]
            begin += 1
            for a in range(d):
                w = out[v, a]
                if hops[w] == n:
                    hops[w] = hops[v] + 1
                    queue[end] = w
                    end += 1
        for v in range(n):
            total += demand[source, v] * hops[v]
    return total
