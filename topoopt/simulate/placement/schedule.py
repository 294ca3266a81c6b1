"""A placement with its times: what the simulator did, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement_solution import TensorTransfer
from topoopt.simulate.placement.arrays import ALONE, PlacementArrays
from topoopt.simulate.placement.events import simulate
from topoopt.simulate.placement.transfer_times import in_order, send_time, tails


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


def simulated(a: PlacementArrays, device: Ints, rates: Floats, priority: Floats | None = None) -> PlacedSchedule:
    """The step by events; without priorities, longest tails first."""
    tail = tails(a, device, rates)
    order = -tail if priority is None else priority
    value, start, end, ways, tensor, target, sent, arrived = simulate(a, device, order, tail, rates, np.inf)
    columns = (tensor[:ways].tolist(), target[:ways].tolist(), sent[:ways].tolist(), arrived[:ways].tolist())
    rows = sorted(zip(*columns, strict=True), key=lambda row: (row[2], row[0], row[1]))
    return PlacedSchedule(device, start, end, tuple(TensorTransfer(*row) for row in rows), rates, float(value))


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
    value, start, end = in_order(a, device, order, rates)
    rows = []
    for i in range(len(device)):
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            users = a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]]
            for e in sorted(set(device[users].tolist()) - {int(device[i])}):
                duration = send_time(a, a.tensor_size[tensor], device[i], e, rates)
                rows.append(TensorTransfer(tensor, e, float(end[i]), float(end[i] + duration)))
    rows.sort(key=lambda row: (row.start_ms, row.tensor, row.target))
    return PlacedSchedule(device, start, end, tuple(rows), rates, float(value))
