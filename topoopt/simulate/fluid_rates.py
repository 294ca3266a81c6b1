"""Max-min fair rates of flows over shared links, by progressive filling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.simulate.jit import kernel


@kernel
def max_min_rates(
    active: NDArray[np.int64],
    flow_low: NDArray[np.int64],
    flow_high: NDArray[np.int64],
    flow_link: NDArray[np.int32],
    link_rate: NDArray[np.float64],
    rate: NDArray[np.float64],
) -> None:
    """Set `rate[f]` of every active flow f; its links are flow_link[flow_low[f]:flow_high[f]], repeats counted.

    All rates rise together; when a link is full, its flows keep their rate and the others go on (Bertsekas and
    Gallager, Data Networks, section 6.5). Time O(active links of flows + full links * links).
    """
    links = len(link_rate)
    pointer = np.zeros(links + 1, dtype=np.int64)
    for f in active:
        rate[f] = -1.0
        for at in range(flow_low[f], flow_high[f]):
            pointer[flow_link[at] + 1] += 1
    used = np.flatnonzero(pointer[1:])
    for link in range(links):
        pointer[link + 1] += pointer[link]
    fill = pointer[:-1].copy()
    flow_of = np.empty(pointer[links], dtype=np.int64)
    for f in active:
        for at in range(flow_low[f], flow_high[f]):
            flow_of[fill[flow_link[at]]] = f
            fill[flow_link[at]] += 1
    rising = pointer[1:] - pointer[:-1]
    free = link_rate.copy()
    level = 0.0
    open_links = len(used)
    while open_links > 0:
        full = -1
        lowest = np.inf
        kept = 0
        for i in range(open_links):
            link = used[i]
            if rising[link] > 0:
                used[kept] = link
                kept += 1
                if free[link] / rising[link] < lowest:
                    lowest = free[link] / rising[link]
                    full = link
        open_links = kept
        if full < 0:
            break
        level = max(level, lowest)  # rounding may bring it below the last one
        for i in range(pointer[full], pointer[full + 1]):
            f = flow_of[i]
            if rate[f] < 0.0:
                rate[f] = level
                for at in range(flow_low[f], flow_high[f]):
                    free[flow_link[at]] -= level
                    rising[flow_link[at]] -= 1
        rising[full] = 0
