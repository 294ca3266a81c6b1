"""Times of transfers when nothing else is sent, and what bounds and given orders make of them."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel
from topoopt.simulate.placement.arrays import STATIC, PlacementArrays


@kernel
def send_time(a: PlacementArrays, size: float, source: int, target: int, rates: Floats) -> float:
    """Time of a transfer between two devices when nothing else is sent; inf if its pair of servers has no rate."""
    if source == target:
        return 0.0
    s, t = a.server[source], a.server[target]
    if s == t:
        return float(a.alpha_inside + size / a.inside[s] if size > 0 else a.alpha_inside)
    if size <= 0:
        return a.alpha
    rate = rates[s, t] if a.sharing == STATIC else min(a.network[s], a.network[t])
    return float(a.alpha + size / rate)


@kernel
def tails(a: PlacementArrays, device: Ints, rates: Floats) -> Floats:
    """float64[n], longest path from the start of each operator to the end, with transfers as if each were alone."""
    n = len(device)
    tail = np.zeros(n, dtype=np.float64)
    for at in range(n - 1, -1, -1):
        i = a.topo[at]
        longest = 0.0
        d = device[i]
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            size = a.tensor_size[tensor]
            for u in range(a.user_ptr[tensor], a.user_ptr[tensor + 1]):
                j = a.user[u]
                way = tail[j]
                if device[j] != d:
                    way += send_time(a, size, d, device[j], rates)
                longest = max(longest, way)
        tail[i] = longest + a.time[i, d]
    return tail


@kernel
def in_order(a: PlacementArrays, device: Ints, order: Ints, rates: Floats) -> tuple[float, Floats, Floats]:
    """(makespan, start[n], end[n]) of operators run in a given order (producers first), nothing contending."""
    n = len(device)
    start, end, ready = np.zeros(n), np.zeros(n), np.zeros(n)
    free = np.zeros(len(a.room))
    last = 0.0
    for at in range(n):
        i = order[at]
        d = device[i]
        time = a.time[i, d]
        start[i] = max(ready[i], free[d]) if time > 0 else ready[i]
        end[i] = start[i] + time
        if time > 0:
            free[d] = end[i]
        last = max(last, end[i])
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            for u in range(a.user_ptr[tensor], a.user_ptr[tensor + 1]):
                j = a.user[u]
                arrives = end[i] + send_time(a, a.tensor_size[tensor], d, device[j], rates)
                ready[j] = max(ready[j], arrives)
    return last, start, end
