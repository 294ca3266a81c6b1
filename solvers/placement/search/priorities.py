"""Priorities of operators for a fixed placement: annealing of their order from longest tails first."""

from __future__ import annotations

from solvers.stop import Stop
from topoopt.native import placement
from topoopt.simulate.placement.arrays import PlacementArrays
from topoopt.simulate.placement.schedule import PlacedSchedule, simulated

BATCH_OPERATORS = 60_000
"""Operators simulated between two looks at the clock."""


def polish_priorities(
    a: PlacementArrays, incumbent: PlacedSchedule, moves: int, seed: int, stop: Stop
) -> PlacedSchedule:
    """A schedule of the same placement, not worse."""
    device, rates = incumbent.device, incumbent.rates
    starts = (-placement.tails(a, device, rates), incumbent.start_ms)
    searches = [placement.PriorityAnnealing(a, device, rates, start, seed % 2**64) for start in starts]
    search = min(searches, key=lambda each: each.value())
    batch, made = max(8, BATCH_OPERATORS // len(device)), 0
    while made < moves and stop.reason() is None:
        search.run(min(batch, moves - made))
        made += batch
    polished = simulated(a, device, rates, search.priority())
    return polished if polished.makespan_ms < incumbent.makespan_ms else incumbent
