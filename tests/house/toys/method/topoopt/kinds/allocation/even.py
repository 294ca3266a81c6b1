"""Every transfer gets the even part of the least link."""

from __future__ import annotations

import numpy as np

from solvers.allocation import AllocationResult
from topoopt.core.allocation import AllocationProblem
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort, Method


def even(problem: AllocationProblem, effort: Effort) -> AllocationResult:
    """Rates on the routes that cannot overload any link."""
    routes = sum(len(transfer.routes) for transfer in problem.transfers)
    rate = float(problem.capacity_gbps.min()) / routes
    return AllocationResult(np.full(routes, rate), (), StopReason.CONVERGED, "even", 1)


EVEN = Method("even", "the even part of the least link for all", even)
