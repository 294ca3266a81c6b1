"""The largest weighted total above guarantees: one linear program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.allocation.bandwidth_allocation import build_arrays
from formulations.allocation.bandwidth_allocation_data import SharedCapacities, Shares, fitted, program_of, unit_of
from solvers.backends import SOLVERS, SolverLimits
from solvers.stop import Stop
from topoopt.core.allocation import AllocationPlan, price_certificate
from topoopt.core.errors import LimitError, TopooptError
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import SearchResult


def largest_total(network: SharedCapacities, shares: Shares, stop: Stop) -> SearchResult[AllocationPlan]:
    """Rates of largest sum of gain times rate, at least base each, with the link prices that prove it.

    Raises:
        LimitError: the limit came first. TopooptError: the solver fails.
    """
    reason = stop.reason()
    if reason is not None:
        raise LimitError(f"stopped by {reason} before any rates were found")
    unit = unit_of(network)
    worth = shares.gain / shares.gain.max()
    small = replace(network, capacity=network.capacity / unit)
    own = replace(shares, base=shares.base / unit, ceiling=shares.ceiling / unit)
    program = build_arrays(program_of(small, own, worth=worth))
    result = SOLVERS["highs-simplex"](program, SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9))
    if result.x is None or result.row_dual is None or result.status is not Status.OPTIMAL:
        if result.stopped_by in (StopReason.TIME, StopReason.INTERRUPTED):
            raise LimitError(f"stopped by {result.stopped_by} before any rates were found")
        raise TopooptError(f"HiGHS fails: {result.message}")
    price = np.maximum(-result.row_dual[: len(network.capacity)], 0.0) * shares.gain.max()
    priced = np.flatnonzero(price > 0)
    every = np.arange(len(shares.base), dtype=np.int64)
    certificate = price_certificate(every, network.numbers[priced], price[priced], every, shares.gain)
    rates = fitted(network, result.x[: len(network.owner)] * unit)
    return SearchResult(
        plan=AllocationPlan(rates),
        certificates=(certificate,),
        stopped_by=StopReason.CONVERGED,
        method="lp (highs-simplex)",
    )
