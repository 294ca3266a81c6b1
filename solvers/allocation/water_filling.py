"""Weighted max-min fair rates of transfers with one route each, by progressive filling; exact up to rounding.

All transfers rise together, rate = base + gain * level. When something shared is full, or a transfer reaches its
ceiling, those on it keep their rates and the others go on (Bertsekas and Gallager, Data Networks, section 6.5). Routes
may be split in given parts. At most R + T levels of O(R + T) each, and O(uses) in all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from formulations.allocation.bandwidth_allocation_data import SharedCapacities, Shares, fitted
from solvers.stop import Stop
from topoopt.core.allocation import AllocationPlan, price_certificate
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.proofs import StopReason
from topoopt.core.result import Certificate, SearchResult, empty_integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TIE = 1e-12
"""Relative difference of levels that counts as none."""

STALE = 1e-6
"""Part of a sum of gains that may be left over by subtracting the others."""


Keep = Callable[[Callable[[], SearchResult[AllocationPlan]]], None]
"""Offered what makes the result of the best so far."""


def water_fill(
    network: SharedCapacities, shares: Shares, stop: Stop, keep: Keep = lambda _: None
) -> SearchResult[AllocationPlan]:
    """Rates, and for every level what was full there; after a limit, all that still rise are at the last level.

    Args:
        network, shares: every transfer has one route, and the bases fit the capacities.
        stop, keep: asked at every level; offered what there is after each.

    Raises:
        InputError, LimitError: a transfer with several routes; the limit came before the first level.
    """
    from scipy.sparse import csr_array

    reason = stop.reason()
    if reason is not None:
        raise LimitError(f"stopped by {reason} before any rates were found")
    if not network.single_route:
        name = shares.names[int(np.argmax(np.bincount(network.owner) > 1))]
        text = f"water-filling needs one route, or given shares, for every transfer; {name!r} has a choice"
        raise InputError([Problem(text, path="search.method", value="water-filling", allowed="auto, lp")])
    transfers, shareds = len(shares.base), len(network.capacity)
    # A ceiling is one more thing to fill, shared with nobody.
    capped = np.flatnonzero(np.isfinite(shares.ceiling))
    rows = np.concatenate((network.shared, shareds + np.arange(len(capped))))
    columns = np.concatenate((network.route, capped))
    values = np.concatenate((network.use, np.ones(len(capped))))
    use = csr_array((values, (rows, columns)), shape=(shareds + len(capped), transfers))
    by_transfer = csr_array(use.T)
    limit = np.concatenate((network.capacity, shares.ceiling[capped]))
    free = np.maximum(limit - use @ shares.base, 0.0)
    rising = use @ shares.gain
    known = rising.copy()
    open_users = np.diff(use.indptr).astype(np.int64)
    reached = np.full(transfers, -1.0)
    certificates: list[Certificate] = []
    level = 0.0
    levels = 0

    def result(heights: Floats, proven: int, ended: StopReason | None) -> SearchResult[AllocationPlan]:
        rates = np.minimum(shares.base + shares.gain * heights, shares.ceiling)
        proofs, why = tuple(certificates[:proven]), ended or stop.reason() or StopReason.TIME
        plan = AllocationPlan(fitted(network, rates))
        return SearchResult(plan=plan, certificates=proofs, stopped_by=why, method="water-filling")

    while (reached < 0).any():
        reason = stop.reason()
        if reason is not None and levels:
            return result(np.where(reached < 0, level, reached), len(certificates), reason)
        at = np.full(len(free), np.inf)
        active = open_users > 0
        at[active] = np.maximum(free[active], 0.0) / rising[active]
        lowest = float(at.min(initial=np.inf))
        if not np.isfinite(lowest):
            raise AssertionError("a transfer that nothing limits")
        level = max(level, lowest)  # rounding may bring it below the last one
        levels += 1
        full = np.flatnonzero(at <= lowest * (1 + TIE))
        frozen = np.unique(np.concatenate([use.indices[use.indptr[r] : use.indptr[r + 1]] for r in full]))
        frozen = frozen[reached[frozen] < 0]
        reached[frozen] = level
        certificates += [_certificate(network, use, r, shareds, capped, frozen) for r in full.tolist()]
        for t in frozen:
            on = slice(by_transfer.indptr[t], by_transfer.indptr[t + 1])
            places, parts = by_transfer.indices[on], by_transfer.data[on]
            free[places] -= parts * shares.gain[t] * level
            rising[places] -= parts * shares.gain[t]
            open_users[places] -= 1
        # What is left after subtracting nearly everything is rounding: sum it up afresh.
        stale = np.flatnonzero((rising < STALE * known) & (open_users > 0))
        for r in stale:
            on = slice(use.indptr[r], use.indptr[r + 1])
            users, parts = use.indices[on], use.data[on]
            waiting = reached[users] < 0
            rates = shares.base[users] + shares.gain[users] * np.maximum(reached[users], 0.0)
            free[r] = limit[r] - float(parts @ rates)
            rising[r] = known[r] = float(parts[waiting] @ shares.gain[users[waiting]])
        heights = np.where(reached < 0, level, reached)
        keep(partial(result, heights, len(certificates), None))
    return result(reached, len(certificates), StopReason.CONVERGED)


def _certificate(
    network: SharedCapacities, use: csr_array, place: int, shareds: int, capped: Ints, frozen: Ints
) -> Certificate:
    """A price of 1 on what is full, where every transfer pays for its part; at a ceiling the transfer pays itself."""
    if place >= shareds:
        own = capped[place - shareds : place - shareds + 1]
        return price_certificate(own, empty_integers(), np.zeros(0), own, np.ones(1))
    on = slice(use.indptr[place], use.indptr[place + 1])
    users, parts = use.indices[on].astype(np.int64), use.data[on]
    return price_certificate(
        np.intersect1d(users, frozen), network.numbers[place : place + 1], np.ones(1), users, np.asarray(parts)
    )
