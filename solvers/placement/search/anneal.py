"""Annealing of a placement in rounds of growing length, each from the best one so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.placement.search.groups import GroupGraph
from solvers.placement.search.starts import Placement
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.verdict import StopReason
from topoopt.native import placement
from topoopt.simulate.placement.arrays import PlacementArrays

HOT, COLD = 0.02, 0.0002
"""Relative worsening accepted with chance 1/e, at the start and the end of a round."""
FIRST_ROUND = 1500
"""Moves of the first round; each next one has twice as many."""
BATCH_OPERATORS = 60_000
"""Operators simulated between two looks at the clock: some ten milliseconds."""


@dataclass(frozen=True, eq=False)
class PlacementAnnealResult:
    """Best placement by groups, its makespan in ms, moves tried, and why the search ended."""

    place: Placement
    value: float
    moves: int
    stopped_by: StopReason


def device_of(a: PlacementArrays, place: Placement) -> Ints:
    """int64[n], device of each operator."""
    return place[a.group].astype(np.int64)


def anneal(
    a: PlacementArrays,
    g: GroupGraph,
    start: Placement,
    rates: Floats,
    *,
    allocate: bool,
    moves: int,
    seed: int,
    stop: Stop,
    goal: float = 0.0,
) -> PlacementAnnealResult:
    """Search from a placement that fits.

    Args:
        rates: static rates in bytes/ms; unused with other sharing.
        allocate: choose static rates for each placement in closed form.
        moves: limit that makes runs repeatable.
        goal: proven bound, at which to end.
    """
    search = placement.PlacementAnnealing(a, g, start, rates, allocate, seed % 2**64)
    batch = max(8, BATCH_OPERATORS // len(a.group))
    made, length = 0, FIRST_ROUND
    reason: StopReason | None = None
    while reason is None and made < moves:
        length = min(length, moves - made)
        done = 0
        while done < length:
            now = min(batch, length - done)
            hot, cold = (HOT * (COLD / HOT) ** (step / length) for step in (done, done + now))
            search.run(now, hot, cold)
            done += now
            reason = StopReason.CONVERGED if search.value() <= goal * (1 + 1e-12) else stop.reason()
            if reason is not None:
                break
        made += done
        length *= 2
        if reason is None:
            search.restart()
    return PlacementAnnealResult(search.placement(), search.value(), made, reason or StopReason.BUDGET)
