"""First placements by list scheduling on pairs of operator and device: earliest start (m-ETF), favourite child (m-SCT).

Of the operators whose producers are placed, the one that can start first anywhere is put there, as far as memory
allows. With favourite children, chosen by a linear program, such a child stays on the device of its parent.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping

import numpy as np

from formulations.placement.favourite_children import FavouriteChildren, build_arrays, favourites
from solvers.backends import SOLVERS, SolverLimits
from solvers.placement.search.groups import GroupGraph
from topoopt.core.arrays import Ints
from topoopt.native import placement
from topoopt.simulate.placement.arrays import STATIC, UNLIMITED, PlacementArrays
from topoopt.simulate.placement.rates import uniform_rates

WIDTH = 64
"""Ready operators looked at, longest tails first."""

MOST_EDGES = 2_000
"""Consumers up to which the program of favourite children is solved."""

PROGRAM_S = 2.0

Placement = Ints


def earliest_start(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """m-ETF."""
    yield from _listed(a, g, {})


def favourite_child(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """m-SCT; nothing for large graphs, or if no operator has a favourite child."""
    if not 0 < len(a.user) <= MOST_EDGES:
        return
    used = sorted(set(a.server.tolist()))
    across = len(used) > 1
    rate = float((a.network if across else a.inside)[used].min())
    alpha = a.alpha if across else a.alpha_inside
    cost: dict[tuple[int, int], float] = {}
    for i in range(len(a.needs)):
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            sends = alpha + (float(a.tensor_size[tensor]) / rate if a.tensor_size[tensor] > 0 else 0.0)
            for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]].tolist():
                cost[i, j] = max(cost.get((i, j), 0.0), sends)
    data = FavouriteChildren(a.time.min(axis=1), cost)
    result = SOLVERS["highs"](build_arrays(data), SolverLimits(time_s=PROGRAM_S))
    if result.x is not None and (chosen := favourites(data, result.x)):
        yield from _listed(a, g, chosen)


def _listed(a: PlacementArrays, g: GroupGraph, children: Mapping[int, int]) -> Iterator[Placement]:
    """One placement, or none where memory runs out on the way."""
    n, k = a.time.shape
    parent = {child: operator for operator, child in children.items()}
    rates = uniform_rates(a) if a.sharing == STATIC else np.zeros((len(a.network), len(a.network)))
    rank = placement.tails(a, np.argmin(a.time, axis=1).astype(np.int64), rates)
    place = np.full(len(g.memory), -1, dtype=np.int64)
    free, left = np.zeros(k), a.room.copy()
    arrives = np.zeros((n, k))
    same = a.server[:, None] == a.server[None, :]
    speed = np.where(same, a.inside[a.server][:, None], np.minimum.outer(a.network[a.server], a.network[a.server]))
    fixed = np.where(same, a.alpha_inside, a.alpha) * (1 - np.eye(k))
    waiting = a.needs.copy()
    ready: list[tuple[float, int]] = sorted((-float(rank[i]), i) for i in np.flatnonzero(waiting == 0).tolist())
    for _ in range(n):
        some = np.array([i for _, i in ready[:WIDTH]], dtype=np.int64)
        groups = a.group[some]
        homes = place[groups]
        allowed = (g.memory[groups][:, None] <= left[None, :]) & np.isfinite(g.time[groups])
        at_home = np.arange(k)[None, :] == homes[:, None]
        allowed = np.where(homes[:, None] >= 0, at_home, allowed)
        for row, i in enumerate(some.tolist()):
            if i in parent and homes[row] < 0:
                d = int(place[a.group[parent[i]]])
                if allowed[row, d]:
                    allowed[row] = np.arange(k) == d
        start = np.where(allowed, np.maximum(free[None, :], arrives[some]), np.inf)
        if not np.isfinite(start).any():
            return
        row, d = divmod(int(np.argmin(start)), k)
        i = int(some[row])
        ready.remove((-float(rank[i]), i))
        if place[a.group[i]] < 0:
            place[a.group[i]] = d
            if left[d] != UNLIMITED:
                left[d] -= g.memory[a.group[i]]
        end = float(start[row, d]) + float(a.time[i, d])
        if a.time[i, d] > 0:
            free[d] = end
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            size = a.tensor_size[tensor]
            away = np.where(size > 0, size / speed[d], 0.0)
            there = end + fixed[d] + np.where(np.arange(k) == d, 0.0, away)
            for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]].tolist():
                arrives[j] = np.maximum(arrives[j], there)
                waiting[j] -= 1
                if waiting[j] == 0:
                    insort(ready, (-float(rank[j]), j))
    yield place
