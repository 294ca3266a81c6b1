"""Breadth-first loads of Cayley digraphs of semidirect products Z_m x| Z_k: one search from the identity tells all.

Element (a, b) has the number k a + b; (a, b)(c, e) = (a + r^b c mod m, b + e mod k) with r^k = 1 mod m; arcs lead
from x to x s for every generator s.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.simulate.jit import kernel
from topoopt.simulate.splitmix import below


@kernel
def times(m: int, k: int, powers: Ints, x: int, y: int) -> int:
    """The product x y; powers[b] = r^b mod m."""
    a, b, c, e = x // k, x % k, y // k, y % k
    product: int = (a + powers[b] * c) % m * k + (b + e) % k
    return product


@kernel
def inverse(m: int, k: int, powers: Ints, x: int) -> int:
    """The element that x makes the identity with."""
    b = (k - x % k) % k
    other: int = (m - powers[b] * (x // k) % m) % m * k + b
    return other


@kernel
def loads(m: int, k: int, powers: Ints, generators: Ints, most: int, numerator: Ints, denominator: Ints) -> int:
    """Steps of a breadth-first broadcast, 0 where it needs more than `most`.

    Writes the load of step t, shards per link, as numerator[t - 1] / denominator[t - 1].
    """
    n, d = m * k, len(generators)
    distance = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    distance[0], queue[0], end, begin = 0, 0, 1, 0
    while begin < end:
        x = queue[begin]
        begin += 1
        if distance[x] == most:
            break
        for s in generators:
            y = times(m, k, powers, x, s)
            if distance[y] < 0:
                distance[y] = distance[x] + 1
                queue[end] = y
                end += 1
    if end < n:
        return 0
    steps: int = distance[queue[n - 1]]
    sets = 1 << d
    inside = np.zeros((steps + 1, sets), np.int64)
    back = np.empty(d, np.int64)
    for link in range(d):
        back[link] = inverse(m, k, powers, generators[link])
    for x in range(1, n):
        mask = 0
        for link in range(d):
            if distance[times(m, k, powers, x, back[link])] == distance[x] - 1:
                mask |= 1 << link
        inside[distance[x], mask] += 1
    for link in range(d):
        for mask in range(sets):
            if mask >> link & 1:
                for step in range(1, steps + 1):
                    inside[step, mask] += inside[step, mask ^ (1 << link)]
    for step in range(1, steps + 1):
        up, down = 0, 1
        for mask in range(1, sets):
            width = 0
            for link in range(d):
                width += mask >> link & 1
            if inside[step, mask] * down > up * width:
                up, down = inside[step, mask], width
        numerator[step - 1], denominator[step - 1] = up, down
    return steps


@kernel
def draw(m: int, k: int, powers: Ints, paired: bool, state: np.ndarray, generators: Ints) -> bool:
    """Random different generators, none the identity; paired: closed under inversion, involutions alone or not."""
    n, d, found = m * k, len(generators), 0
    for _ in range(50 * d):
        x = 1 + below(state, n - 1)
        y = inverse(m, k, powers, x) if paired else x
        new = True
        for place in range(found):
            new = new and generators[place] != x and generators[place] != y
        if not new or (x != y and found + 2 > d):
            continue
        generators[found] = x
        found += 1
        if x != y:
            generators[found] = y
            found += 1
        if found == d:
            return True
    return False
