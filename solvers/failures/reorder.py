"""Broken rings in another order: a lost step is undone by turning a part of the ring round (two-opt).

A ring ... u v ... x y ... that lost u -> v becomes ... u x ... v y ..., the part from v to x run backwards, where the
links u -> x and v -> y and all steps of the part, reversed, survive. With x -> y lost as well nothing of the ring is
left on dead links, so that an exchange of link ends (give up x - y, set u - x and v - y) makes it whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.routing import Ring

MOST_ORDERS = 6
"""Orders of a ring that are offered, those over the least loaded links first."""


def other_orders(ring: Ring, lost: Sequence[int], alive: Bools, load: Floats) -> list[Ring]:
    """Rings of the same members without the lost steps, each by one reversal over direct links.

    Args:
        ring: of the plan.
        lost: places of its broken steps; one or two (of more, no single reversal is rid).
        alive: bool[n, n], arcs that survive.
        load: float64[n, n], bytes on them; orders over less loaded links come first.
    """
    size = len(ring.order)
    if not 1 <= len(lost) <= 2 or size < 4:
        return []
    turn = lost[0]
    order = ring.order[turn + 1 :] + ring.order[: turn + 1]  # begins behind the first lost step, ends before it
    paths = ring.paths[turn + 1 :] + ring.paths[: turn + 1]
    backward = np.array([all(alive[b, a] for a, b in pairwise(path)) for path in paths[:-1]])
    whole = np.concatenate(([0], np.cumsum(~backward)))  # steps before a place that cannot be run backwards
    u, v = order[-1], order[0]
    places = range(1, size - 2) if len(lost) == 1 else [(lost[1] - turn - 1) % size]
    found: list[tuple[float, int, Ring]] = []
    for j in places:
        if not 1 <= j < size - 1 or whole[j] > 0:
            continue
        x, y = order[j], order[j + 1]
        if not (alive[u, x] and alive[v, y]):
            continue
        turned = tuple(reversed(order[: j + 1]))
        inner = tuple(tuple(reversed(path)) for path in reversed(paths[:j]))
        new = replace(ring, order=(*turned, *order[j + 1 :]), paths=(*inner, (v, y), *paths[j + 1 : -1], (u, x)))
        found.append((float(max(load[u, x], load[v, y])), j, new))
    found.sort(key=lambda entry: entry[:2])
    return [each for _, _, each in found[:MOST_ORDERS]]
