"""Max-min fair rates of flows over shared links, by progressive filling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.simulate.insertion_heap import pop, push
from topoopt.simulate.jit import kernel


class FillingSpace(NamedTuple):
    """Working memory of `fill_rates`, made once for many calls; an entry a link.

    `crossings` is all zeros between calls.
    """

    crossings: NDArray[np.int64]
    pointer: NDArray[np.int64]
    free: NDArray[np.float64]
    rising: NDArray[np.float64]
    used: NDArray[np.int64]
    keys: NDArray[np.float64]
    order: NDArray[np.int64]
    values: NDArray[np.int64]


@kernel
def filling_space(links: int) -> FillingSpace:
    """Working memory for so many links."""
    return FillingSpace(
        np.zeros(links, dtype=np.int64),
        np.empty(links + 1, dtype=np.int64),
        np.empty(links, dtype=np.float64),
        np.empty(links, dtype=np.float64),
        np.empty(links, dtype=np.int64),
        np.empty(links + 1, dtype=np.float64),
        np.empty(links + 1, dtype=np.int64),
        np.empty(links + 1, dtype=np.int64),
    )


@kernel
def fill_rates(
    active: NDArray[np.int64],
    weight: NDArray[np.int64],
    route_low: NDArray[np.int64],
    route_high: NDArray[np.int64],
    route_link: NDArray[np.int32],
    link_rate: NDArray[np.float64],
    rate: NDArray[np.float64],
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
    for r in active:
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
        space.pointer[link] = position
        position += space.crossings[link]
        heap = push(
            space.keys, space.order, space.values, heap, space.free[link] / space.rising[link], int(link), int(link)
        )
    for r in active:
        for at in range(route_low[r], route_high[r]):
            link = route_link[at]
            route_of[space.pointer[link]] = r
            space.pointer[link] += 1
    level = 0.0
    while heap > 0:
        key = space.keys[0]
        link = space.values[0]
        heap = pop(space.keys, space.order, space.values, heap)
        if space.rising[link] <= 0.0:
            continue
        fills = space.free[link] / space.rising[link]
        if fills > key:  # others on it were frozen meanwhile
            heap = push(space.keys, space.order, space.values, heap, fills, int(link), int(link))
            continue
        level = max(level, fills)  # rounding may bring it below the last one
        for i in range(space.pointer[link] - space.crossings[link], space.pointer[link]):
            r = route_of[i]
            if rate[r] < 0.0:
                rate[r] = level
                for at in range(route_low[r], route_high[r]):
                    space.free[route_link[at]] -= level * weight[r]
                    space.rising[route_link[at]] -= weight[r]
    for i in range(used_count):
        space.crossings[space.used[i]] = 0


@kernel
def max_min_rates(
    active: NDArray[np.int64],
    flow_low: NDArray[np.int64],
    flow_high: NDArray[np.int64],
    flow_link: NDArray[np.int32],
    link_rate: NDArray[np.float64],
    rate: NDArray[np.float64],
) -> None:
    """Set `rate[f]` of every active flow f; its links are flow_link[flow_low[f]:flow_high[f]]. See `fill_rates`."""
    ones = np.ones(len(rate), dtype=np.int64)
    fill_rates(active, ones, flow_low, flow_high, flow_link, link_rate, rate, filling_space(len(link_rate)))
