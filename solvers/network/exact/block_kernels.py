"""Links around every server at once: what they are worth at a node of a tree over links, compiled.

The bound and its proof are those of `solvers.network.search.relay_blocks` with two differences: paths of three links or
more cost what the prices of links say, and servers that have chosen their links have no others. Degree 2.

A node is given by rows int64[n, 2], the heads of the links of every server, -1 where it has not chosen, and by
into int64[n, 2], the tails of the links chosen that lead to it, -1 where fewer are known.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.simulate.jit import kernel

NOTHING = -1e18
"""Worth of what cannot be chosen."""


@kernel
def choices(rows: Ints, into: Ints) -> tuple[Ints, Ints, Ints, Ints, Bools]:
    """Tails that may lead to each server, int64[n, q, 2], and how many, int64[n]; heads alike; links never there."""
    n = len(rows)
    most = n * (n + 1) // 2
    ins = np.zeros((n, most, 2), dtype=np.int64)
    outs = np.zeros((n, most, 2), dtype=np.int64)
    many_in = np.zeros(n, dtype=np.int64)
    many_out = np.zeros(n, dtype=np.int64)
    absent = np.zeros((n, n), dtype=np.bool_)
    for k in range(n):
        for a in range(n):
            for b in range(a, n):
                if k in (a, b):
                    continue
                fits = into[k, 1] < 0 or (a == into[k, 0] and b == into[k, 1])
                if fits and into[k, 1] < 0 and into[k, 0] >= 0:
                    known = into[k, 0]
                    fits = (a == known and rows[b, 0] < 0) or (b == known and rows[a, 0] < 0)
                elif fits and into[k, 0] < 0:
                    fits = rows[a, 0] < 0 and rows[b, 0] < 0
                if fits:
                    ins[k, many_in[k], 0], ins[k, many_in[k], 1] = a, b
                    many_in[k] += 1
                if rows[k, 0] >= 0:
                    fits = a == rows[k, 0] and b == rows[k, 1]
                else:
                    fits = into[a, 1] < 0 and into[b, 1] < 0 and (a != b or into[a, 0] < 0)
                if fits:
                    outs[k, many_out[k], 0], outs[k, many_out[k], 1] = a, b
                    many_out[k] += 1
        for j in range(n):
            chosen = rows[k, 0] >= 0
            absent[k, j] = j == k or (chosen and j not in (rows[k, 0], rows[k, 1])) or (not chosen and into[j, 1] >= 0)
    return ins, many_in, outs, many_out, absent


@kernel
def longest_of(price: Floats, absent: Bools) -> float:
    """The largest price of a link that may be there."""
    longest = 0.0
    for i in range(len(price)):
        for j in range(len(price)):
            if not absent[i, j]:
                longest = max(longest, price[i, j])
    return longest


@kernel
def set_bar(price: Floats, absent: Bools, bar: float) -> None:
    """Links that are never there get a length."""
    for i in range(len(price)):
        for j in range(len(price)):
            if absent[i, j]:
                price[i, j] = bar


@kernel
def far_lengths(price: Floats, far: Floats, last: Ints) -> None:
    """Fill far[i, j], least price of three links or more between i and j, and last[i, j], how it is reached.

    last is the server before j on the way, or, of paths with three links, -1 - (n a + b) for i -> a -> b -> j.
    """
    n = len(price)
    for i in range(n):
        for j in range(n):
            far[i, j] = 1e18
            if i == j:
                continue
            best, way = 1e18, 0
            for b in range(n):
                if b in (i, j) or price[b, j] >= best:
                    continue
                for a in range(n):
                    if a in (i, j, b):
                        continue
                    length = price[i, a] + price[a, b] + price[b, j]
                    if length < best:
                        best, way = length, a * n + b
            far[i, j], last[i, j] = best, -1 - way
        changed = n > 3
        while changed:
            changed = False
            for j in range(n):
                for b in range(n):
                    if j != i and b not in (i, j) and far[i, b] + price[b, j] < far[i, j] * (1 - 1e-12):
                        far[i, j], last[i, j] = far[i, b] + price[b, j], b
                        changed = True
        far[i, i] = 0.0


@kernel
def ends_of(
    k: int, demand: Floats, price: Floats, relief: Floats, shift: Floats, far: Floats, theta: float, ends: Floats
) -> None:
    """Fill ends[0, 0, i], half of what a link i -> k is worth, and its shift; [0, 1, i] of a second; [1] of k -> i."""
    for side in range(2):
        for v in range(len(demand)):
            if v == k:
                continue
            i, j = (v, k) if side == 0 else (k, v)
            gain = max(0.0, far[i, j] - price[i, j] - relief[i, j])
            moved = shift[i, j] if side == 0 else -shift[i, j]
            ends[side, 0, v] = 0.5 * (theta * price[i, j] + gain * min(demand[i, j], theta)) + moved
            again = min(max(demand[i, j] - theta, 0.0), theta)
            ends[side, 1, v] = 0.5 * (theta * price[i, j] + gain * again)


@kernel
def relayed(k: int, price: Floats, relief: Floats, far: Floats, gains: Floats) -> None:
    """Fill gains[i, j], what a unit of demand i -> j saves that k relays over two links."""
    n = len(price)
    for i in range(n):
        for j in range(n):
            gains[i, j] = 0.0
            if i not in (j, k) and j != k:
                gains[i, j] = max(0.0, far[i, j] - relief[i, j] - price[i, k] - price[k, j])


@kernel
def blocks(
    k: int, ins: Ints, many_in: int, outs: Ints, many_out: int, ends: Floats, gains: Floats, demand: Floats,
    theta: float, worth: Floats,
) -> None:  # fmt: skip
    """Fill worth[p, q], what the links around k are worth, from tails ins[k, p] and to heads outs[k, q]."""
    n = len(demand)
    saved = np.empty(n)
    for p in range(many_in):
        a, b = ins[k, p, 0], ins[k, p, 1]
        into = ends[0, 0, a] + (ends[0, 1, b] if a == b else ends[0, 0, b])
        for j in range(n):
            saved[j] = gains[a, j] * min(demand[a, j], theta)
            if a != b:
                saved[j] += gains[b, j] * min(demand[b, j], theta)
        for q in range(many_out):
            c, d = outs[k, q, 0], outs[k, q, 1]
            if c != d:
                worth[p, q] = into + ends[1, 0, c] + ends[1, 0, d] + saved[c] + saved[d]
                continue
            worth[p, q] = into + ends[1, 0, c] + ends[1, 1, c] + saved[c]
            if a == b:
                worth[p, q] += gains[a, c] * (min(demand[a, c], 2.0 * theta) - min(demand[a, c], theta))
