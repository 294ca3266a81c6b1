"""Priorities of operators for a fixed placement: annealing of their order from longest tails first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel
from topoopt.simulate.placement.arrays import PlacementArrays
from topoopt.simulate.placement.events import simulate
from topoopt.simulate.placement.schedule import PlacedSchedule, simulated
from topoopt.simulate.placement.transfer_times import tails
from topoopt.simulate.splitmix import below, uniform

BATCH_OPERATORS = 60_000
REACH = 0.1
"""A priority moves by up to this part of the makespan."""
WORSE = 2e-4
"""Relative worsening accepted with chance 1/e."""


@kernel
def _shift_batch(
    a: PlacementArrays,
    device: Ints,
    rates: Floats,
    tail: Floats,
    priority: Floats,
    best: Floats,
    value: Floats,
    moves: int,
    rng: NDArray[np.uint64],
) -> None:
    """Shift priorities of single operators; `value`: current and best makespan."""
    n = len(priority)
    for _ in range(moves):
        i = below(rng, n)
        old = priority[i]
        priority[i] = old + (2 * uniform(rng) - 1) * REACH * value[1]
        limit = value[0] * (1.0 - WORSE * np.log(1.0 - uniform(rng)))
        found = simulate(a, device, priority, tail, rates, limit)[0]
        if found <= limit:
            value[0] = found
            if found < value[1]:
                value[1] = found
                best[:] = priority
        else:
            priority[i] = old


def polish_priorities(a: PlacementArrays, known: PlacedSchedule, moves: int, seed: int, stop: Stop) -> PlacedSchedule:
    """A schedule of the same placement, not worse."""
    device, rates = known.device, known.rates
    tail = tails(a, device, rates)
    priority = -tail
    begin = simulate(a, device, priority, tail, rates, np.inf)[0]
    by_start = known.start_ms.copy()
    if simulate(a, device, by_start, tail, rates, np.inf)[0] < begin:
        priority = by_start
        begin = simulate(a, device, priority, tail, rates, np.inf)[0]
    best, value = priority.copy(), np.array([begin, begin])
    rng = np.array([seed % 2**64], dtype=np.uint64)
    batch, made = max(8, BATCH_OPERATORS // len(device)), 0
    while made < moves and stop.reason() is None:
        _shift_batch(a, device, rates, tail, priority, best, value, min(batch, moves - made), rng)
        made += batch
    found = simulated(a, device, rates, best)
    return found if found.makespan_ms < known.makespan_ms else known
