"""Links given to switches so that each interface sends to and receives from one other: duplex patch cords do.

That is edge colouring of the multigraph of links, a matching a switch. As many colours as a server has links are not
always enough: never on an odd number of servers with all interfaces in use, where a matching leaves one server out; one
more is, where no links are parallel (Vizing 1964). Found by exchanging two colours along alternating paths (Kempe),
with random exchanges where these do not help; which links have no colour then is for the caller to deal with.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.simulate.jit import kernel
from topoopt.simulate.splitmix import below

EXCHANGES_PER_LINK = 40
SEED = 1


@kernel
def _exchange(partner: Int32s, a: int, b: int, start: int, nodes: Int32s) -> None:  # pragma: no cover - compiled
    """Exchange colours a and b on the path or cycle of links of the two that a server is on."""
    count = 0
    for first in (a, b):
        node, colour = start, first
        while True:
            if not (first == b and node == start):
                nodes[count] = node
                count += 1
            node = partner[colour, node]
            if node < 0 or node == start:
                break
            colour = a + b - colour
        if node == start:
            break
    for k in range(count):
        node = nodes[k]
        partner[a, node], partner[b, node] = partner[b, node], partner[a, node]


@kernel
def _other_end(partner: Int32s, a: int, b: int, start: int) -> int:  # pragma: no cover - compiled
    """The far end of the path of links of colours a, b, a, ... that begins at a server without b."""
    node, colour = start, a
    while partner[colour, node] >= 0:
        node = partner[colour, node]
        colour = a + b - colour
    return node


@kernel
def _a_free_colour(
    partner: Int32s, node: int, first: int, state: NDArray[np.uint64]
) -> int:  # pragma: no cover - compiled
    """One of the colours >= first that a server has no link of, -1 if it has of all."""
    colours = partner.shape[0]
    chosen, seen = -1, 0
    for colour in range(first, colours):
        if partner[colour, node] < 0:
            seen += 1
            if below(state, seen) == 0:
                chosen = colour
    return chosen


@kernel
def _match_kernel(
    ends: Ints, room: int, first: int, partner: Int32s, seed: int, done: Bools
) -> None:  # pragma: no cover - compiled
    """Give `room` links to colours >= first of partner[colour, server] = the other end; done: which have one."""
    colours, n = partner.shape
    state = np.array([seed], dtype=np.uint64)
    nodes = np.empty(n, dtype=np.int32)
    exchanges = EXCHANGES_PER_LINK * len(ends)
    placed = 0
    for e in range(len(ends)):
        placed += int(done[e])
    for sweep in range(2):
        for e in range(len(ends)):
            if done[e] or placed == room:
                continue
            u, v = ends[e, 0], ends[e, 1]
            while True:
                a = _a_free_colour(partner, u, first, state)
                b = _a_free_colour(partner, v, first, state)
                if a < 0 or b < 0:
                    break
                if partner[a, v] >= 0 and _other_end(partner, a, b, v) != u:
                    _exchange(partner, a, b, v, nodes)
                if partner[a, v] < 0:
                    partner[a, u], partner[a, v] = v, u
                    done[e] = True
                    placed += 1
                    break
                if sweep == 0 or exchanges == 0:
                    break
                exchanges -= 1
                c = first + below(state, colours - first)
                d = first + below(state, colours - first)
                if c != d:
                    _exchange(partner, c, d, below(state, n), nodes)


def matchings(n: int, degree: int, ends: Ints) -> tuple[Int32s, Bools]:
    """Give links to switches, a matching each.

    A distance that every server has takes two switches of alternating links, where it closes to even cycles, so that a
    circulant has few patch patterns; unless that leaves links over that other matchings would not.

    Args:
        n: servers.
        degree: switches.
        ends: int64[m, 2], the two servers of every link.

    Returns:
        int32[degree, n], the other end of the link of each server on each switch, -1 for none; bool[m], which links
        have a switch.
    """
    best: tuple[Int32s, Bools] | None = None
    room = min(len(ends), degree * (n // 2))
    for patterned in (True, False):
        partner, used, done = np.full((degree, n), -1, dtype=np.int32), 0, np.zeros(len(ends), dtype=np.bool_)
        if patterned:
            used, done = _alternating(n, ends, partner)
        _match_kernel(ends, room, used, partner, SEED, done)
        if best is None or done.sum() > best[1].sum():
            best = partner, done
        if done.sum() == room:
            break
    assert best is not None
    return best


def _alternating(n: int, ends: Ints, partner: Int32s) -> tuple[int, Bools]:
    """Fill rows with distances that close to even cycles; how many rows, and which links they hold."""
    done = np.zeros(len(ends), dtype=np.bool_)
    ahead = (ends[:, 1] - ends[:, 0]) % n
    shift = np.minimum(ahead, n - ahead)
    tails = np.where(2 * shift == n, ends.min(axis=1), np.where(ahead == shift, ends[:, 0], ends[:, 1]))
    used = 0
    for distance in np.unique(shift).tolist():
        cycles, antipodal = math.gcd(n, distance), 2 * distance == n
        if (n // cycles) % 2:
            continue
        rows = np.flatnonzero(shift == distance)
        rows = rows[np.argsort(tails[rows], kind="stable")]
        parallel = np.bincount(tails[rows], minlength=n // 2 if antipodal else n)
        first = np.cumsum(parallel) - parallel
        steps = np.arange(n)
        cycle = (steps % cycles + steps // cycles * distance) % n  # the servers, a cycle's places one after another
        even = np.empty(n, dtype=np.bool_)
        even[cycle] = steps // cycles % 2 == 0
        forth, back = (steps + distance) % n, (steps - distance) % n
        for layer in range(int(parallel.min())):
            done[rows[first + layer]] = True
            partner[used] = np.where(even, forth, back)
            used += 1
            if not antipodal:
                partner[used] = np.where(even, back, forth)
                used += 1
    return used, done
