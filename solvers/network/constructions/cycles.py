"""Link-disjoint Hamiltonian cycles over all links of a topology whose servers have the same even number of fibre pairs.

Every link has a colour, every server two links of each. Exchanging two colours along a closed trail that alternates
between them keeps that; trails are drawn at random, and kept unless there are more cycles than before, until every
colour is one cycle. Almost all random regular graphs of even degree have such cycles (Kim and Wormald 2001). An
AllReduce of all servers then loads every link alike.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Ints
from topoopt.simulate.jit import kernel
from topoopt.simulate.splitmix import below

TRIES_PER_SERVER = 60
STEPS_PER_LINK = 4


def hamiltonian_cycles(
    counts: Ints, known: Iterable[tuple[int, ...]], *, seed: int
) -> tuple[tuple[int, ...], ...] | None:
    """One order of all servers for every two interfaces; None where none are found, or interfaces differ or are odd.

    Args:
        counts: int64[n, n], symmetric, links between servers.
        known: cycles to begin with; links that the topology does not have are left out of them.
        seed: of the trails.
    """
    degree = counts.sum(axis=1)
    n, colours = len(counts), int(degree[0]) // 2
    if n < 3 or colours < 1 or (degree != 2 * colours).any():
        return None
    tails, heads = np.nonzero(np.triu(counts))
    ends = np.repeat(np.column_stack((tails, heads)), counts[tails, heads], axis=0).astype(np.int64)
    colour = _first_colours(ends, n, colours, known)
    at = np.argsort(ends.ravel(), kind="stable") // 2  # links of each server, one row each
    links = at.reshape(n, 2 * colours).astype(np.int64)
    state = np.array([seed % 2**64], dtype=np.uint64)
    if not _coloured(ends, links, colour, colours, TRIES_PER_SERVER * n, state):
        return None
    return tuple(_order(ends, links, colour, each) for each in range(colours))


def _first_colours(ends: Ints, n: int, colours: int, known: Iterable[tuple[int, ...]]) -> Ints:
    """Of the cycles known; else the one that its two servers have fewest of."""
    places: dict[tuple[int, int], list[int]] = {}
    for link, (one, other) in enumerate(ends.tolist()):
        places.setdefault((one, other), []).append(link)
    colour = np.full(len(ends), -1, dtype=np.int64)
    have = np.zeros((n, colours), dtype=np.int64)
    for each, order in enumerate(known):
        for here, there in zip(order, (*order[1:], order[0]), strict=True):
            left = places.get((min(here, there), max(here, there)))
            if left and each < colours:
                colour[left.pop()] = each
                have[[here, there], each] += 1
    for link in np.flatnonzero(colour < 0).tolist():
        one, other = ends[link].tolist()
        colour[link] = int(np.argmin(have[one] + have[other]))
        have[[one, other], colour[link]] += 1
    return colour


def _order(ends: Ints, links: Ints, colour: Ints, each: int) -> tuple[int, ...]:
    order, last = [0], -1
    while True:
        here = order[-1]
        link = next(k for k in links[here].tolist() if colour[k] == each and k != last)
        there = int(ends[link, 0] + ends[link, 1] - here)
        if there == 0:
            return tuple(order)
        order.append(there)
        last = link


@kernel
def _count(links: Ints, colour: Ints, server: int, each: int) -> int:  # pragma: no cover - compiled
    found = 0
    for k in range(links.shape[1]):
        if colour[links[server, k]] == each:
            found += 1
    return found


@kernel
def _trail(
    ends: Ints, links: Ints, colour: Ints, start: int, more: int, less: int, most: int, state: NDArray[np.uint64]
) -> bool:  # pragma: no cover - compiled
    """From a server on, links of `more` become `less` and the other way round, until servers have two of each again."""
    here, last = start, -1
    for _ in range(most):
        chosen, seen = -1, 0
        for k in range(links.shape[1]):
            link = links[here, k]
            if colour[link] == more and link != last:
                seen += 1
                if below(state, seen) == 0:
                    chosen = link
        if chosen < 0:
            return False
        colour[chosen] = less
        here, last = ends[chosen, 0] + ends[chosen, 1] - here, chosen
        more, less = less, more
        if _count(links, colour, here, more) == 2:
            return True
    return False


@kernel
def _cycles(ends: Ints, links: Ints, colour: Ints, each: int, seen: Bools) -> int:  # pragma: no cover - compiled
    n = links.shape[0]
    seen[:] = False
    count = 0
    for start in range(n):
        if seen[start]:
            continue
        count += 1
        here, last = start, -1
        while not seen[here]:
            seen[here] = True
            for k in range(links.shape[1]):
                link = links[here, k]
                if colour[link] == each and link != last:
                    here, last = ends[link, 0] + ends[link, 1] - here, link
                    break
    return count


@kernel
def _balanced(
    ends: Ints, links: Ints, colour: Ints, colours: int, tries: int, state: NDArray[np.uint64]
) -> bool:  # pragma: no cover - compiled
    """Two links of each colour at every server, by trails from those with too many."""
    n, most = links.shape[0], STEPS_PER_LINK * len(colour)
    for _ in range(tries):
        start, more, less = -1, -1, -1
        for server in range(n):
            for each in range(colours):
                found = _count(links, colour, server, each)
                if found > 2:
                    start, more = server, each
            if start >= 0:
                for each in range(colours):
                    if _count(links, colour, start, each) < 2:
                        less = each
                break
        if start < 0:
            return True
        _trail(ends, links, colour, start, more, less, most, state)
    return False


@kernel
def _coloured(
    ends: Ints, links: Ints, colour: Ints, colours: int, tries: int, state: NDArray[np.uint64]
) -> bool:  # pragma: no cover - compiled
    """Colour the links so that each colour is one cycle of all servers."""
    n, most = links.shape[0], STEPS_PER_LINK * len(colour)
    if not _balanced(ends, links, colour, colours, tries, state):
        return False
    seen = np.zeros(n, dtype=np.bool_)
    cycles = np.empty(colours, dtype=np.int64)
    for each in range(colours):
        cycles[each] = _cycles(ends, links, colour, each, seen)
    kept = colour.copy()
    for _ in range(tries):
        if cycles.sum() == colours:
            return True
        if colours < 2:
            return False
        a = below(state, colours)
        b = (a + 1 + below(state, colours - 1)) % colours
        if cycles[a] + cycles[b] == 2:
            continue
        fewer = cycles[a] + cycles[b] + 1
        if _trail(ends, links, colour, below(state, n), a, b, most, state):
            one, other = _cycles(ends, links, colour, a, seen), _cycles(ends, links, colour, b, seen)
            if one + other < fewer:
                cycles[a], cycles[b] = one, other
                kept[:] = colour
                continue
        colour[:] = kept
    return bool(cycles.sum() == colours)
