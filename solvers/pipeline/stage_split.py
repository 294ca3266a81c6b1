"""Consecutive layers to the stages of a pipeline, exactly: the least longest stage that the memory of all ranks allows.

For a bound on the time of a stage and each first layer, the layers that rank r can take end anywhere up to a farthest
one, as part of what fits fits. Which layers rank r can end with follows from those of rank r - 1; every rank takes one
layer at least, and what a rank holds of a layer depends on how many micro-batches it has on their way. The least bound
that gets through is found by bisection over the times of all runs of layers: there are no others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InfeasibleError


@dataclass(frozen=True, eq=False)
class LayerLoads:
    """Layers in the order of the model; embedding and head count as layers where they weigh.

    Attributes:
        time: float64[L], of all passes of a micro-batch.
        state: float64[L], memory of weights, gradients and optimizer.
        activations: float64[L], memory of a micro-batch on its way.
        in_flight: float64[p], micro-batches that each rank holds at most.
        room: memory of a rank; inf: no limit.
    """

    time: Floats
    state: Floats
    activations: Floats
    in_flight: Floats
    room: float = np.inf


def stage_split(loads: LayerLoads) -> tuple[int, ...]:
    """Layers of each rank, p numbers; of all splits with the shortest longest stage one that fills early ranks least.

    Raises:
        InfeasibleError: fewer layers than ranks, or too little memory; says how much would do.
    """
    layers, ranks = len(loads.time), len(loads.in_flight)
    if layers < ranks:
        raise InfeasibleError(f"{layers} layers do not fill {ranks} stages")
    sums = np.concatenate([[0.0], np.cumsum(loads.time)])
    begin, end = np.triu_indices(layers + 1, 1)
    bounds = np.unique(sums[end] - sums[begin])
    farthest = [_fits(loads, rank, loads.room) for rank in range(ranks)]
    if _ends(sums, farthest, bounds[-1]) is None:
        raise InfeasibleError(
            f"no split of {layers} layers over {ranks} stages fits in memory: {_least_room(loads, sums):.6g} would do"
        )
    low, high = 0, len(bounds) - 1
    while low < high:
        middle = (low + high) // 2
        if _ends(sums, farthest, bounds[middle]) is None:
            low = middle + 1
        else:
            high = middle
    return _counts(sums, farthest, bounds[low])


def _fits(loads: LayerLoads, rank: int, room: float) -> Ints:
    """int64[L], where the longest run from each first layer that fits the memory of a rank ends."""
    held = loads.state + loads.in_flight[rank] * loads.activations
    sums = np.concatenate([[0.0], np.cumsum(held)])
    return _reach(sums, room)


def _reach(sums: Floats, most: float) -> Ints:
    """int64[L], how far a run from each first layer goes with a sum of at most so much, but for rounding."""
    limits = sums[:-1] + most + 1e-12 * (sums[-1] + abs(most) if np.isfinite(most) else 0.0)
    return np.searchsorted(sums, limits, side="right").astype(np.int64) - 1


def _ends(sums: Floats, farthest: list[Ints], bound: float) -> list[Bools] | None:
    """For each rank, bool[L + 1], which numbers of layers it can end with; None if the last one cannot end with all."""
    layers, ranks = len(sums) - 1, len(farthest)
    by_time = _reach(sums, bound)
    here = np.zeros(layers + 1, dtype=bool)
    here[0] = True
    found = []
    for rank in range(ranks):
        change = np.zeros(layers + 2, dtype=np.int64)
        first = np.flatnonzero(here[:-1])
        last = np.minimum(by_time[first], farthest[rank][first])
        able = last > first
        np.add.at(change, first[able] + 1, 1)
        np.add.at(change, last[able] + 1, -1)
        here = np.cumsum(change)[: layers + 1] > 0
        here[layers - (ranks - 1 - rank) + 1 :] = False
        found.append(here)
    return found if here[layers] else None


def _counts(sums: Floats, farthest: list[Ints], bound: float) -> tuple[int, ...]:
    """Layers of each rank, from the last rank back: each takes as many as it can."""
    ends = _ends(sums, farthest, bound)
    assert ends is not None
    by_time = _reach(sums, bound)
    end, counts = len(sums) - 1, []
    for rank in range(len(farthest) - 1, 0, -1):
        first = np.flatnonzero(ends[rank - 1][:end])
        reach = np.minimum(by_time[first], farthest[rank][first])
        begin = int(first[reach >= end][0])
        counts.append(end - begin)
        end = begin
    counts.append(end)
    return tuple(reversed(counts))


def _least_room(loads: LayerLoads, sums: Floats) -> float:
    """The least memory of a rank with which some split fits."""
    held = loads.state[:, None] + loads.in_flight[None, :] * loads.activations[:, None]
    totals = np.concatenate([np.zeros((1, held.shape[1])), np.cumsum(held, axis=0)])
    begin, end = np.triu_indices(len(sums), 1)
    rooms = np.unique(totals[end] - totals[begin])
    low, high = 0, len(rooms) - 1
    while low < high:
        middle = (low + high) // 2
        farthest = [_fits(loads, rank, float(rooms[middle])) for rank in range(held.shape[1])]
        if _ends(sums, farthest, float(sums[-1])) is None:
            low = middle + 1
        else:
            high = middle
    return float(rooms[low])
