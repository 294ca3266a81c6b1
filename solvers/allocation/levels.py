"""Lexicographic max-min rates by a sequence of linear programs; routes may be chosen.

Each program raises all transfers that can still rise to the highest common level. By complementary slackness a transfer
whose row has a dual value above 0 is at that level in every optimal allocation, so it is held there; the duals are kept
as the proof. The duals of the rising rows weighted by gain sum to 1, so that every round holds one transfer at least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from formulations.allocation.bandwidth_allocation import BandwidthAllocation, build_arrays
from formulations.allocation.bandwidth_allocation_data import SharedCapacities, Shares, fitted, program_of, unit_of
from solvers.backends import SOLVERS, LpResult, SolverLimits
from solvers.stop import Stop
from topoopt.core.allocation import AllocationPlan, price_certificate
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import LimitError, TopooptError
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import Certificate, SearchResult

CLEAR = 1e-3
"""Part of the largest dual value from which a transfer counts as held; the others have their turn later."""

ROOMS = (0.0, 1e-9, 1e-8, 1e-7)
"""Parts by which held rates are lowered, one after the other; the checker asks for 1e-6."""

PRICE_DUST = 1e-11
"""Prices below this part of the largest are left out of a certificate."""


def raise_levels(
    network: SharedCapacities,
    shares: Shares,
    stop: Stop,
    keep: Callable[[SearchResult[AllocationPlan]], None] = lambda _: None,
) -> SearchResult[AllocationPlan]:
    """Rates and their proofs; after a limit, those of the rounds that were done.

    Args:
        network, shares: what there is; the bases fit the capacities.
        stop: asked before every program.
        keep: given what there is after each level.

    Raises:
        LimitError: the limit came before the first level was known.
        TopooptError: the solver fails.
    """
    unit = unit_of(network)
    small = replace(network, capacity=network.capacity / unit)
    # Numbers near 1 are what solvers do best with: rates and gains in units of the largest capacity and gain.
    own = Shares(shares.base / unit, shares.gain / shares.gain.max(), shares.ceiling / unit, shares.names)
    floor, gain = own.base.copy(), own.gain.copy()
    certificates: list[Certificate] = []
    rates: Floats | None = None
    level = 0.0
    reason = None
    while (gain > 0).any():
        reason = stop.reason()
        if reason is not None:
            break
        result = _next_level(small, own, floor, gain, stop)
        if result.x is None or result.row_dual is None or result.status is not Status.OPTIMAL:
            if result.stopped_by in (StopReason.TIME, StopReason.INTERRUPTED):
                reason = result.stopped_by
                break
            raise TopooptError(f"HiGHS fails on level {len(certificates) + 1}: {result.message}")
        rates = result.x[: len(network.owner)]
        level = max(level, float(result.x[-1]))
        duals = np.maximum(result.row_dual[len(network.capacity) : len(network.capacity) + len(floor)], 0.0)
        held = np.flatnonzero(gain * duals >= CLEAR * (gain * duals).max())
        certificates.append(_certificate(network, result.row_dual, duals, held))
        # Not above what this solution gives, so that it is one of the next program too.
        given = np.bincount(network.owner, weights=rates)[held]
        floor[held] = np.minimum(own.base[held] + own.gain[held] * level, given)
        gain[held] = 0.0
        so_far = fitted(network, rates * unit)
        keep(_result(so_far, certificates, StopReason.TIME))
    if rates is None:
        raise LimitError(f"stopped by {reason} before the first level was known")
    found = fitted(network, rates * unit)
    converged = StopReason.CONVERGED if reason is None else reason
    return _result(found, certificates, converged)


def _result(
    route_gbps: Floats, certificates: list[Certificate], stopped_by: StopReason
) -> SearchResult[AllocationPlan]:
    return SearchResult(
        plan=AllocationPlan(route_gbps),
        certificates=tuple(certificates),
        stopped_by=stopped_by,
        method="lp (highs-simplex)",
    )


def _next_level(network: SharedCapacities, shares: Shares, floor: Floats, gain: Floats, stop: Stop) -> LpResult:
    """The highest common level of what still rises.

    The rates of the level before are a solution, but for their rounding: where a tiny part of a transfer makes a solver
    see more than that, held rates are lowered by a little.
    """
    for room in ROOMS:
        result = _solved(program_of(network, shares, floor=floor * (1.0 - room), gain=gain), stop)
        if result.status is not Status.INFEASIBLE:
            break
    return result


def _solved(program: BandwidthAllocation, stop: Stop) -> LpResult:
    return SOLVERS["highs-simplex"](build_arrays(program), SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9))


def _certificate(network: SharedCapacities, row_dual: Floats, duals: Floats, held: Ints) -> Certificate:
    price = np.maximum(-row_dual[: len(network.capacity)], 0.0)
    scale = max(float(price.max(initial=0.0)), float(duals.max(initial=0.0)))
    priced = np.flatnonzero(price > PRICE_DUST * scale)
    valued = np.flatnonzero(duals > PRICE_DUST * scale)
    return price_certificate(
        held, network.numbers[priced], price[priced] / scale, valued.astype(np.int64), duals[valued] / scale
    )
