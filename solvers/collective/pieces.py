"""Into how many pieces blocks are best divided, and which schedules are best for some size of the vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from solvers.collective.plans import PlannedSchedule
from solvers.collective.timing import MOST_PIECES, best_pieces, pipelined_parts, pipelined_us, step_loads_us
from topoopt.core.collective import CollectiveObjective, CollectiveProblem
from topoopt.core.collective_solution import BestBySize

FEW_PIECES = 16
"""Most pieces where latencies do not count."""

MOST_SENDS = 400_000
"""Messages of a schedule that a division into pieces may come to."""

LARGEST_BYTES = 1 << 50
"""Vector up to which the best schedule is told."""


@dataclass(frozen=True)
class Division:
    """A number of pieces, and what is minimised: whether there are too many steps; time, us, or steps."""

    pieces: int
    value: tuple[bool, float]


def most_pieces(problem: CollectiveProblem, planned: PlannedSchedule) -> int:
    """Pieces up to which a division is tried."""
    whole = planned.schedule
    if planned.divide is None or problem.objective is CollectiveObjective.LATENCY:
        return 1
    most = max(min(MOST_PIECES, MOST_SENDS // max(len(whole.sends), 1)), 1)
    if problem.objective is CollectiveObjective.THROUGHPUT:  # the same whatever the pieces
        most = min(most, FEW_PIECES)
    return most if problem.steps is None else min(most, max(problem.steps - whole.steps + 1, 1))


def best_division(problem: CollectiveProblem, planned: PlannedSchedule) -> Division:
    """Into how many pieces the blocks of a schedule are best divided."""
    whole = planned.schedule
    too_long = problem.steps is not None and whole.steps > problem.steps
    if problem.objective is CollectiveObjective.LATENCY:
        return Division(1, (too_long, float(whole.steps)))
    loads, latency = step_loads_us(problem, whole)
    pieces = best_pieces(lambda count: pipelined_us(loads, latency, count), most_pieces(problem, planned))
    return Division(pieces, (too_long, pipelined_us(loads, latency, pieces)))


def lines(problem: CollectiveProblem, planned: PlannedSchedule, method: str, pieces: int) -> list[BestBySize]:
    """Time by bytes of a schedule, in powers of two of pieces and in so many as are best for the instance."""
    whole = planned.schedule
    if problem.steps is not None and whole.steps > problem.steps:
        return []
    loads, latency = step_loads_us(problem, whole)
    counts = {1 << power for power in range(int(math.log2(most_pieces(problem, planned))) + 1)} | {pieces}
    found = []
    for count in sorted(counts):
        bytes_us, latency_us = pipelined_parts(loads, latency, count)
        per_mbyte = bytes_us / problem.vector_bytes * 1e6
        found.append(BestBySize(1, method, count, whole.steps + count - 1, latency_us, per_mbyte))
    return found


def front(points: Sequence[BestBySize]) -> tuple[BestBySize, ...]:
    """Those that are best for some size, each from which bytes on."""
    kept: list[BestBySize] = []
    for point in sorted(points, key=lambda one: (one.latency_us, one.us_per_mbyte)):
        if kept and point.us_per_mbyte >= kept[-1].us_per_mbyte * (1 - 1e-9):
            continue
        begin = 1
        while kept:
            begin = _crossing(kept[-1], point)
            if begin > kept[-1].from_bytes:
                break
            kept.pop()
            begin = 1
        if begin <= LARGEST_BYTES:
            kept.append(BestBySize(begin, *point.figures))
    return tuple(kept)


def _crossing(slow: BestBySize, fast: BestBySize) -> int:
    """Whole bytes from which the second takes no more time than the first."""
    return max(math.ceil((fast.latency_us - slow.latency_us) / (slow.us_per_mbyte - fast.us_per_mbyte) * 1e6), 1)
