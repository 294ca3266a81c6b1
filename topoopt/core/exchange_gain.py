"""What exchanges of links gained in the search of a job's plan."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from topoopt.core.job_solution import ConvergencePoint

EXCHANGE, EXCHANGE_STRATEGY = "exchange", "exchange strategy"
"""Phases in which links are exchanged by simulated time, and the strategy is searched on what came of it."""


def exchange_gain_ms(points: Iterable[ConvergencePoint]) -> float:
    """What the two phases took off the iteration time, ms: how far the best fell in them."""
    return sum(a.best_ms - b.best_ms for a, b in pairwise(points) if b.phase in (EXCHANGE, EXCHANGE_STRATEGY))
