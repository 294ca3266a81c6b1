"""First placements: single device, topological fill, earliest finish (HEFT) or start, favourite child, first fit.

Earliest finish scatters chains over all devices and is poor where communication is dear; the others then win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from solvers.placement.search.earliest_start import earliest_start, favourite_child
from solvers.placement.search.groups import GroupGraph
from topoopt import native
from topoopt.core.arrays import Ints
from topoopt.simulate.placement.arrays import STATIC, UNLIMITED, PlacementArrays
from topoopt.simulate.placement.rates import uniform_rates

Placement = Ints
"""int64[G], device of each group."""


def _by_speed(g: GroupGraph) -> list[int]:
    """Devices, fastest class first."""
    finite = np.where(np.isfinite(g.time), g.time, 0.0).sum(axis=0) + 1e9 * np.isinf(g.time).sum(axis=0)
    return [int(d) for d in np.argsort(finite, kind="stable")]


def _orders(a: PlacementArrays) -> Iterator[Ints]:
    """Groups by their first member: depth first, and by the time at which it could start."""
    groups = len(a.group_ptr) - 1
    depth_first = np.empty(len(a.topo))
    depth_first[a.topo] = np.arange(len(a.topo))
    early = np.zeros(len(a.topo))
    fastest = a.time.min(axis=1)
    for i in a.topo:
        done = early[i] + fastest[i]
        for user in a.user[a.user_ptr[a.tensor_ptr[i]] : a.user_ptr[a.tensor_ptr[i + 1]]]:
            early[user] = max(early[user], done)
    for key in (depth_first, early):
        first = np.full(groups, np.inf)
        np.minimum.at(first, a.group, key)
        yield np.argsort(first, kind="stable")


def single(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """All on one device, each that can hold them."""
    for d in range(len(a.room)):
        if g.memory.sum() <= a.room[d] and np.isfinite(g.time[:, d]).all():
            yield np.full(len(g.memory), d, dtype=np.int64)


def _filled(a: PlacementArrays, g: GroupGraph, order: Ints, share: float) -> Placement | None:
    """Groups in order, device after device, each up to its memory and to a share of the work."""
    devices = _by_speed(g)
    used, work = np.zeros(len(devices), dtype=np.int64), np.zeros(len(devices))
    placement = np.empty(len(g.memory), dtype=np.int64)
    at = 0
    for group in order:
        ahead = devices[at:] + devices[:at]
        fits = [d for d in ahead if used[d] + g.memory[group] <= a.room[d] and np.isfinite(g.time[group, d])]
        if not fits:
            return None
        d = fits[0]
        if d == devices[at] and work[d] + g.time[group, d] > share and at + 1 < len(devices) and len(fits) > 1:
            d = fits[1]
        if d in devices[at:] and g.memory[group] + g.time[group, d] > 0:
            at = devices.index(d)
        placement[group] = d
        used[d] += g.memory[group]
        work[d] += g.time[group, d]
    return placement


def fill(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """Topological fill up to memory, and up to equal parts of the work."""
    total = float(np.where(np.isfinite(g.time), g.time, np.inf).min(axis=1).sum())
    for order in _orders(a):
        for parts in dict.fromkeys((1, 2, len(a.room))):
            placement = _filled(a, g, order, np.inf if parts == 1 else total / parts)
            if placement is not None:
                yield placement


def first_fit(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """First fit decreasing by memory: finds room where an order along the graph does not."""
    devices = _by_speed(g)
    left = a.room.copy()
    placement = np.empty(len(g.memory), dtype=np.int64)
    for group in np.argsort(-g.memory, kind="stable"):
        fits = [d for d in devices if g.memory[group] <= left[d] and np.isfinite(g.time[group, d])]
        if not fits:
            return
        placement[group] = fits[0]
        left[fits[0]] -= g.memory[group] if left[fits[0]] != UNLIMITED else 0
    yield placement


def earliest_finish(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """HEFT: operators by longest tail, each on the device where it ends first, a group where its first member is."""
    n, k = a.time.shape
    rates = uniform_rates(a) if a.sharing == STATIC else np.zeros((len(a.network), len(a.network)))
    fast = np.argmin(a.time, axis=1).astype(np.int64)
    rank = native.placement.tails(a, fast, rates)
    placement = np.full(len(g.memory), -1, dtype=np.int64)
    free, left = np.zeros(k), a.room.copy()
    ready = np.zeros((n, k))  # when the inputs of an operator could be on each device
    same = a.server[:, None] == a.server[None, :]
    speed = np.where(same, a.inside[a.server][:, None], np.minimum.outer(a.network[a.server], a.network[a.server]))
    fixed = np.where(same, a.alpha_inside, a.alpha) * (1 - np.eye(k))
    position = np.empty(n)
    position[a.topo] = np.arange(n)
    for i in np.lexsort((position, -rank)):
        group = a.group[i]
        if placement[group] < 0:
            open_to = (g.memory[group] <= left) & np.isfinite(g.time[group])
            if not open_to.any():
                return
            ends = np.where(open_to, np.maximum(free, ready[i]) + a.time[i], np.inf)
            placement[group] = int(np.argmin(ends))
            if left[placement[group]] != UNLIMITED:
                left[placement[group]] -= g.memory[group]
        d = placement[group]
        end = max(free[d], ready[i, d]) + a.time[i, d]
        free[d] = end if a.time[i, d] > 0 else free[d]
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            arrive = end + fixed[d] + np.where(np.arange(k) == d, 0.0, a.tensor_size[tensor] / speed[d])
            for user in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]]:
                ready[user] = np.maximum(ready[user], arrive)
    yield placement


STARTS: Mapping[str, Callable[[PlacementArrays, GroupGraph], Iterator[Placement]]] = {
    "single": single,
    "fill": fill,
    "earliest-finish": earliest_finish,
    "earliest-start": earliest_start,
    "favourite-child": favourite_child,
    "first-fit": first_fit,
}
"""Each yields the placements it finds; none where memory runs out on its way."""


def first_placements(a: PlacementArrays, g: GroupGraph) -> list[tuple[str, Placement]]:
    """All of them, by name, without repeats."""
    seen: dict[bytes, tuple[str, Placement]] = {}
    for name, make in STARTS.items():
        for placement in make(a, g):
            seen.setdefault(placement.tobytes(), (name, placement))
    return list(seen.values())
