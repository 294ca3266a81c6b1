"""Breadth-first loads of Cayley digraphs of semidirect products, and a climb among their generators, compiled.

Elements, products and arcs are those of `topoopt.core.cayley`. A group lets every rank look like the identity, so that
the loads of one rank are those of all: an element x may come over the generator s in step dist(x) where
dist(x s^-1) = dist(x) - 1, and by Hall's theorem the load of a step is the largest, over sets of generators, of the
elements that come over no others, over the size of the set.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.splitmix import below


@piece
def inverse(m: int, k: int, powers: Ints, x: int) -> int:
    """The element that x makes the identity with; powers[b] = r^b mod m."""
    b = (k - x % k) % k
    back: int = (m - powers[b] * (x // k) % m) % m * k + b
    return back


@piece
def fill(m: int, k: int, powers: Ints, paired: bool, state: np.ndarray, generators: Ints, kept: int) -> bool:
    """Draw the generators from place `kept` on: different, none the identity; paired: closed under inversion."""
    n, d, found = m * k, len(generators), kept
    for _ in range(50 * d):
        if found == d:
            break
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
    return found == d


@kernel
def loads(
    m: int, k: int, powers: Ints, generators: Ints, most: int, parts: int, distance: Ints, masks: Ints, queue: Ints
) -> tuple[int, int, int]:
    """Steps, sum of the loads in 1 / parts of a shard per link, and sum of distances; 0 steps where `most` do not do.

    Args:
        m, k, powers: the group.
        generators: int64[d].
        most: steps.
        parts: a multiple of 1 to d.
        distance, masks, queue: int64[m k], overwritten.
    """
    n, d = m * k, len(generators)
    shift = np.empty((d, k), np.int64)
    for link in range(d):
        for b in range(k):
            shift[link, b] = powers[b] * (generators[link] // k) % m
    distance[:] = -1
    masks[:] = 0
    distance[0], queue[0], end, begin, far = 0, 0, 1, 0, 0
    while begin < end:
        x = queue[begin]
        begin += 1
        step = distance[x] + 1
        a, b = x // k, x % k
        for link in range(d):
            c = a + shift[link, b]
            if c >= m:
                c -= m
            e = b + generators[link] % k
            if e >= k:
                e -= k
            y = c * k + e
            if distance[y] < 0:
                if step > most:
                    return 0, 0, 0
                distance[y] = step
                far += step
                queue[end] = y
                end += 1
            if distance[y] == step:
                masks[y] |= 1 << link
    if end < n:
        return 0, 0, 0
    steps = distance[queue[n - 1]]
    inside = np.zeros((steps + 1, 1 << d), np.int64)
    for x in range(1, n):
        inside[distance[x], masks[x]] += 1
    total = 0
    for step in range(1, steps + 1):
        for link in range(d):  # sums over subsets
            for mask in range(1 << d):
                if mask >> link & 1:
                    inside[step, mask] += inside[step, mask ^ (1 << link)]
        largest = 0
        for mask in range(1, 1 << d):
            width = 0
            for link in range(d):
                width += mask >> link & 1
            largest = max(largest, inside[step, mask] * (parts // width))
        total += largest
    return steps, total, far


@kernel
def climb(
    m: int,
    k: int,
    powers: Ints,
    paired: bool,
    draws: int,
    patience: int,
    parts: int,
    state: np.ndarray,
    load: Ints,
    far: Ints,
    generators: Ints,
) -> int:
    """Climbs to small sums of distances by exchanging generators; begun anew after `patience` draws without gain.

    Of each number of steps the set of least load, then of least sum of distances, is kept.

    Args:
        m, k, powers: the group.
        paired: sets closed under inversion.
        draws: sets tried.
        patience: draws.
        parts: a multiple of 1 to d.
        state: uint64[1], of the random numbers.
        load: int64[most + 1], by steps, of the best so far; 1 / parts of a shard per link.
        far: int64[most + 1], its sum of distances.
        generators: int64[most + 1, d], its generators.

    Returns:
        Least sum of distances met, -1 where no set reached all elements.
    """
    n, d, most = m * k, generators.shape[1], len(load) - 1
    distance, masks, queue = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    chosen, held = np.empty(d, np.int64), np.empty(d, np.int64)
    held_far, held_load, stale, least = -1, 0, 0, -1
    for _ in range(draws):
        kept = 0
        if held_far >= 0:  # one generator, with its inverse, makes place for others
            out = held[below(state, d)]
            back = inverse(m, k, powers, out) if paired else out
            for place in range(d):
                if held[place] != out and held[place] != back:
                    chosen[kept] = held[place]
                    kept += 1
        if not fill(m, k, powers, paired, state, chosen, kept):
            held_far = -1
            continue
        steps, total, away = loads(m, k, powers, chosen, most, parts, distance, masks, queue)
        stale += 1
        if steps > 0:
            if total < load[steps] or (total == load[steps] and away < far[steps]):
                load[steps], far[steps] = total, away
                generators[steps] = chosen
            if least < 0 or away < least:
                least = away
            if held_far < 0 or away < held_far or (away == held_far and total <= held_load):
                if held_far < 0 or away < held_far or total < held_load:
                    stale = 0
                held_far, held_load = away, total
                held[:] = chosen
        if stale > patience:
            held_far, stale = -1, 0
    return least
