"""Simulated annealing over placements, compiled, in batches so that limits and Ctrl-C are seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.placement.search.groups import GroupGraph
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.placement.arrays import PlacementArrays
from topoopt.simulate.placement.events import makespan
from topoopt.simulate.placement.rates import rates_by_volume, volumes
from topoopt.simulate.splitmix import below, uniform

CURRENT, BEST = 0, 1
MOST_GROUPS = 5
"""A move takes a connected bunch of up to 2**5 groups."""
TRIES = 8


class PlacementWalker(NamedTuple):
    """State of one run, changed in place.

    Attributes:
        place, best: int64[G], current and best placement.
        device: int64[n], the current one by operator.
        used: int64[k], memory.
        value: current and best makespan.
        rng: uint64[1].
    """

    place: Ints
    best: Ints
    device: Ints
    used: Ints
    value: Floats
    rng: NDArray[np.uint64]


@kernel
def score(a: PlacementArrays, device: Ints, rates: Floats, allocate: bool, limit: float) -> float:
    """Makespan; with `allocate`, at the better of two static splits in closed form."""
    if not allocate:
        return float(makespan(a, device, rates, limit))
    volume = volumes(a, device)
    best = makespan(a, device, rates_by_volume(a, volume, 0.5), limit)
    return float(min(best, makespan(a, device, rates_by_volume(a, volume, 1.0), min(limit, best))))


@kernel
def _put(a: PlacementArrays, g: GroupGraph, walker: PlacementWalker, group: int, target: int) -> None:
    walker.used[walker.place[group]] -= g.memory[group]
    walker.used[target] += g.memory[group]
    walker.place[group] = target
    for at in range(a.group_ptr[group], a.group_ptr[group + 1]):
        walker.device[a.group_member[at]] = target


@piece
def _goal(a: PlacementArrays, g: GroupGraph, walker: PlacementWalker) -> tuple[int, int]:
    """A group and a device to take it to, mostly that of a neighbour; (-1, -1) if none was met."""
    groups, k = len(walker.place), len(a.room)
    for _ in range(TRIES):
        group = below(walker.rng, groups)
        degree = g.neighbour_ptr[group + 1] - g.neighbour_ptr[group]
        if degree == 0 or uniform(walker.rng) < 0.05:
            target = below(walker.rng, k)
        else:
            target = walker.place[g.neighbour[g.neighbour_ptr[group] + below(walker.rng, degree)]]
        if target != walker.place[group] and g.time[group, target] < np.inf:
            return group, target
    return -1, -1


@piece
def _propose(a: PlacementArrays, g: GroupGraph, walker: PlacementWalker, bunch: Ints, origin: Ints) -> int:
    """Change the placement by one random move; the number of groups moved, their old devices in `origin`."""
    group, target = _goal(a, g, walker)
    if group < 0:
        return 0
    source = walker.place[group]
    if uniform(walker.rng) < 0.1:  # swap with a group there
        other = below(walker.rng, len(walker.place))
        for _ in range(TRIES):
            if walker.place[other] == target and g.time[other, source] < np.inf:
                fits = walker.used[target] - g.memory[other] + g.memory[group] <= a.room[target]
                if fits and walker.used[source] - g.memory[group] + g.memory[other] <= a.room[source]:
                    bunch[0], origin[0], bunch[1], origin[1] = group, source, other, target
                    _put(a, g, walker, group, target)
                    _put(a, g, walker, other, source)
                    return 2
            other = below(walker.rng, len(walker.place))
        return 0
    most = 1 << below(walker.rng, MOST_GROUPS + 1)
    if walker.used[target] + g.memory[group] > a.room[target]:
        return 0
    bunch[0], origin[0], count = group, source, 1
    _put(a, g, walker, group, target)
    at = 0
    while at < count < most:
        low = g.neighbour_ptr[bunch[at]]
        degree = g.neighbour_ptr[bunch[at] + 1] - low
        shift = below(walker.rng, degree) if degree > 0 else 0
        for index in range(degree):
            other = g.neighbour[low + (index + shift) % degree]
            if (
                count < most
                and walker.place[other] == source
                and g.time[other, target] < np.inf
                and walker.used[target] + g.memory[other] <= a.room[target]
            ):
                bunch[count], origin[count] = other, source
                count += 1
                _put(a, g, walker, other, target)
        at += 1
    return count


@kernel
def anneal_batch(
    a: PlacementArrays,
    g: GroupGraph,
    walker: PlacementWalker,
    rates: Floats,
    allocate: bool,
    moves: int,
    hot: float,
    cold: float,
) -> int:
    """Make so many moves, cooling from `hot` to `cold` (relative to the current makespan); the number accepted."""
    bunch, origin = np.empty(1 << MOST_GROUPS, dtype=np.int64), np.empty(1 << MOST_GROUPS, dtype=np.int64)
    accepted = 0
    for move in range(moves):
        count = _propose(a, g, walker, bunch, origin)
        if count == 0:
            continue
        temperature = hot * (cold / hot) ** (move / moves)
        limit = walker.value[CURRENT] * (1.0 - temperature * np.log(1.0 - uniform(walker.rng)))
        value = score(a, walker.device, rates, allocate, limit)
        if value <= limit and value < np.inf:
            accepted += 1
            walker.value[CURRENT] = value
            if value < walker.value[BEST]:
                walker.value[BEST] = value
                walker.best[:] = walker.place
        else:
            for index in range(count):
                _put(a, g, walker, bunch[index], origin[index])
    return accepted
