"""Max-min fair rates of flows over shared links, by progressive filling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.engine.queue import pop, push, replace_first
from topoopt.simulate.jit import kernel


class FillingSpace(NamedTuple):
    """Working memory of `fill_rates`, made once for many calls: an entry a link, in the heap also one a route.

    `crossings` is all zeros between calls.
    """

    crossings: Ints
    pointer: Ints
    free: Floats
    rising: Floats
    used: Ints
    keys: Floats
    values: Ints


@kernel
def filling_space(links: int, routes: int) -> FillingSpace:
    """Working memory for so many links and routes."""
    return FillingSpace(
        np.zeros(links, dtype=np.int64),
        np.empty(links + 1, dtype=np.int64),
        np.empty(links, dtype=np.float64),
        np.empty(links, dtype=np.float64),
        np.empty(links, dtype=np.int64),
        np.empty(links + routes + 1, dtype=np.float64),
        np.empty(links + routes + 1, dtype=np.int64),
    )


@kernel
def _freeze(
    r: int,
    level: float,
    weight: Ints,
    route_low: Ints,
    route_high: Ints,
    route_link: Int32s,
    rate: Floats,
    space: FillingSpace,
) -> int:
    """Give route r its rate, unless it has one; returns how many got one."""
    if rate[r] >= 0.0:
        return 0
    rate[r] = level
    for at in range(route_low[r], route_high[r]):
        space.free[route_link[at]] -= level * weight[r]
        space.rising[route_link[at]] -= weight[r]
    return 1


@kernel
def fill_rates(
    active: Ints,
    weight: Ints,
    route_low: Ints,
    route_high: Ints,
    route_link: Int32s,
    link_rate: Floats,
    rate: Floats,
    space: FillingSpace,
) -> None:
    """Set `rate[r]` of every active route r: what each of its weight[r] > 0 flows gets.

    The links of r are route_link[route_low[r]:route_high[r]], repeats counted. All rates rise together; when a link is
    full, its flows keep their rate and the others go on (Bertsekas and Gallager, Data Networks, section 6.5). The level
    at which a link fills can only rise while others are frozen, so a heap finds the next one. Time O(C log L) for C
    crossings of L links; the number of flows of a route does not matter.
    """
    used_count = 0
    total = 0
    for i in range(len(active)):
        r = active[i]
        rate[r] = -1.0
        for at in range(route_low[r], route_high[r]):
            link = route_link[at]
            if space.crossings[link] == 0:
                space.used[used_count] = link
                used_count += 1
                space.free[link] = link_rate[link]
                space.rising[link] = 0.0
            space.crossings[link] += 1
            space.rising[link] += weight[r]
            total += 1
    route_of = np.empty(total, dtype=np.int64)
    position = 0
    heap = 0
    for i in range(used_count):
        link = space.used[i]
        if space.crossings[link] > 1:
            space.pointer[link] = position
            position += space.crossings[link]
            heap = push(space.keys, space.values, heap, space.free[link] / space.rising[link], int(link))
    # A link that one route crosses once cannot slow down any other: of these, a route needs the slowest only.
    links = len(link_rate)
    for i in range(len(active)):
        r = active[i]
        own = np.inf
        for at in range(route_low[r], route_high[r]):
            link = route_link[at]
            if space.crossings[link] == 1:
                own = min(own, space.free[link])
            else:
                route_of[space.pointer[link]] = r
                space.pointer[link] += 1
        if own < np.inf:
            heap = push(space.keys, space.values, heap, own / weight[r], int(links + r))
    level = 0.0
    open_routes = len(active)
    while heap > 0 and open_routes > 0:
        link = space.values[0]
        if link >= links:
            level = max(level, space.keys[0])  # rounding may bring it below the last one
            heap = pop(space.keys, space.values, heap)
            open_routes -= _freeze(int(link - links), level, weight, route_low, route_high, route_link, rate, space)
            continue
        if space.rising[link] <= 0.0:
            heap = pop(space.keys, space.values, heap)
            continue
        fills = space.free[link] / space.rising[link]
        if fills > space.keys[0]:  # others on it were frozen meanwhile
            replace_first(space.keys, space.values, heap, fills, int(link))
            continue
        heap = pop(space.keys, space.values, heap)
        level = max(level, fills)
        for i in range(space.pointer[link] - space.crossings[link], space.pointer[link]):
            open_routes -= _freeze(route_of[i], level, weight, route_low, route_high, route_link, rate, space)
    for i in range(used_count):
        space.crossings[space.used[i]] = 0


@kernel
def max_min_rates(
    active: Ints, flow_low: Ints, flow_high: Ints, flow_link: Int32s, link_rate: Floats, rate: Floats
) -> None:
    """Set `rate[f]` of every active flow f; its links are flow_link[flow_low[f]:flow_high[f]]. See `fill_rates`."""
    ones = np.ones(len(rate), dtype=np.int64)
    fill_rates(active, ones, flow_low, flow_high, flow_link, link_rate, rate, filling_space(len(link_rate), len(rate)))
