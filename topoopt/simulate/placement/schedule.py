"""A placement with its times: what the simulator did, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement_solution import TensorTransfer
from topoopt.native import placement
from topoopt.simulate.placement.arrays import ALONE, PlacementArrays

StepTimes = tuple[float, Floats, Floats, Ints, Ints, Floats, Floats]
"""(makespan, start[n], end[n], tensor[], target[], start[], end[] of transfers)."""


@dataclass(frozen=True, eq=False)
class PlacedSchedule:
    """One step.

    Attributes:
        device: int64[n]; start_ms, end_ms: float64[n].
        transfers: ascending by start.
        rates: float64[S, S] bytes/ms, of sharing STATIC.
        makespan_ms: last end.
    """

    device: Ints
    start_ms: Floats
    end_ms: Floats
    transfers: tuple[TensorTransfer, ...]
    rates: Floats
    makespan_ms: float


def _scheduled(device: Ints, rates: Floats, times: StepTimes) -> PlacedSchedule:
    makespan, start, end, *transfers = times
    rows = sorted(
        zip(*(column.tolist() for column in transfers), strict=True), key=lambda row: (row[2], row[0], row[1])
    )
    return PlacedSchedule(device, start, end, tuple(TensorTransfer(*row) for row in rows), rates, makespan)


def simulated(a: PlacementArrays, device: Ints, rates: Floats, priority: Floats | None = None) -> PlacedSchedule:
    """The step by events; without priorities, longest tails first."""
    order = -placement.tails(a, device, rates) if priority is None else priority
    return _scheduled(device, rates, placement.simulate(a, device, rates, order))


def ordered(a: PlacementArrays, device: Ints, rates: Floats, start_ms: Floats) -> PlacedSchedule:
    """The step in the order of given starts, each device waiting for its next operator; only without contention.

    Raises:
        ValueError: transfers contend.
    """
    if a.sharing != ALONE:
        raise ValueError("the order of operators says nothing about contending transfers")
    position = np.empty(len(device))
    position[a.topo] = np.arange(len(device))
    order = np.lexsort((position, start_ms)).astype(np.int64)
    return _scheduled(device, rates, placement.simulate_in_order(a, device, rates, order))
