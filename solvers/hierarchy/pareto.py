"""The front of time and cost of one design: the cheapest network for each of a row of time limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from formulations.hierarchy.hierarchical_program import BandwidthProgram
from solvers.hierarchy.catalogue import minimise_speeds
from solvers.hierarchy.cuts import Optimum, minimise
from solvers.hierarchy.designs import solve_program
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, LimitError

SLOWEST = 1.0
"""Largest time limit above the least time, as a part of that time, or ..."""

SLOWEST_COMMUNICATION = 5.0
"""... as a multiple of its communication, if that is less: where compute dominates, more time buys nothing."""

SAME = 1e-6
"""Relative slack of the first limit above the least time, where cost falls without bound."""


@dataclass(frozen=True, eq=False)
class FrontPoint:
    """The cheapest network for a time limit."""

    limit_ns: float
    program: BandwidthProgram
    optimum: Optimum


def front(plain: BandwidthProgram, points: int, stop: Stop) -> Iterator[FrontPoint]:
    """Up to `points` points, fastest first; ends when time runs out or cost falls no more.

    Args:
        plain: the program of time, without tau.
        points: at least 1.
        stop: asked before each point.
    """
    plain = replace(plain, time_limit_ns=None)
    _, fastest = solve_program(plain, stop, ratio=False)
    least = fastest.objective
    compute = plain.time_of(np.full(len(plain.names), np.inf))
    most = min(SLOWEST * least, SLOWEST_COMMUNICATION * (least - compute))
    # Closer together where cost falls fastest, at the fast end.
    limits = least * (1 + SAME) + most * np.linspace(0.0, 1.0, points) ** 2
    inside, known = fastest.bandwidth, np.inf
    for limit in limits.tolist():
        if stop.reason() is not None:
            return
        data = replace(plain, time_limit_ns=limit)
        try:
            found = minimise(data, inside, stop, near=True)
            if any(plain.speeds):
                found = minimise_speeds(data, data, found, stop)
        except (InfeasibleError, LimitError):
            continue
        if found.objective >= known * (1 - 1e-9):
            continue
        inside, known = found.bandwidth, found.objective  # it keeps every later limit with room to spare
        yield FrontPoint(limit, data, found)
