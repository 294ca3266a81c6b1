"""Bandwidth is allocated on given routes by water-filling, and by sequences of linear programs.

Bandwidth allocation on given routes: water-filling, and sequences of linear programs.

`water_fill` covers transfers of one route each, `raise_levels` any number, `largest_total` the weighted sum;
`clashing_guarantees` says why guarantees cannot be met.

Weighted max-min fair rates of transfers with one route each, by progressive filling; exact up to rounding.

All transfers rise together, rate = base + gain * level. When something shared is full, or a transfer reaches its
ceiling, those on it keep their rates and the others go on (Bertsekas and Gallager, Data Networks, section 6.5). Routes
may be split in given parts. At most R + T levels of O(R + T) each, and O(uses) in all.

Lexicographic max-min rates by a sequence of linear programs; routes may be chosen.

Each program raises all transfers that can still rise to the highest common level. By complementary slackness a transfer
whose row has a dual value above 0 is at that level in every optimal allocation, so it is held there; the duals are kept
as the proof. The duals of the rising rows weighted by gain sum to 1, so that every round holds one transfer at least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from formulations.bandwidth_allocation import (
    BandwidthAllocation,
    SharedCapacities,
    Shares,
    build_arrays,
    fitted,
    program_of,
    unit_of,
)
from solvers.backends import SOLVERS, LpResult, SolverLimits, infeasible_subset
from solvers.stop import Stop
from topoopt.core.allocation import AllocationPlan, price_certificate
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, LimitError, Problem, TopooptError
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import Certificate, SearchResult, empty_integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array


TIE = 1e-12
"""Relative difference of levels that counts as none."""

OnIncumbent = Callable[[Callable[[], SearchResult[AllocationPlan]]], None]
"""Offered what makes the result of the best so far."""


def water_fill(
    network: SharedCapacities, shares: Shares, stop: Stop, on_incumbent: OnIncumbent = lambda _: None
) -> SearchResult[AllocationPlan]:
    """Rates, and for every level what was full there; after a limit, all that still rise are at the last level.

    Args:
        network, shares: every transfer has one route, and the bases fit the capacities.
        stop, on_incumbent: asked at every level; offered what there is after each.

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
    current = rising.copy()
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
        stale = np.flatnonzero((rising < 1e-6 * current) & (open_users > 0))  # what subtracting the others left over
        for r in stale:
            on = slice(use.indptr[r], use.indptr[r + 1])
            users, parts = use.indices[on], use.data[on]
            waiting = reached[users] < 0
            rates = shares.base[users] + shares.gain[users] * np.maximum(reached[users], 0.0)
            free[r] = limit[r] - float(parts @ rates)
            rising[r] = current[r] = float(parts[waiting] @ shares.gain[users[waiting]])
        heights = np.where(reached < 0, level, reached)
        on_incumbent(partial(result, heights, len(certificates), None))
    return result(reached, len(certificates), StopReason.CONVERGED)


def _certificate(
    network: SharedCapacities, use: csr_array, index: int, shareds: int, capped: Ints, frozen: Ints
) -> Certificate:
    """A price of 1 on what is full, where every transfer pays for its part; at a ceiling the transfer pays itself."""
    if index >= shareds:
        own = capped[index - shareds : index - shareds + 1]
        return price_certificate(own, empty_integers(), np.zeros(0), own, np.ones(1))
    on = slice(use.indptr[index], use.indptr[index + 1])
    users, parts = use.indices[on].astype(np.int64), use.data[on]
    return price_certificate(
        np.intersect1d(users, frozen), network.numbers[index : index + 1], np.ones(1), users, np.asarray(parts)
    )


def first_rates(network: SharedCapacities, shares: Shares, stop: Stop) -> SearchResult[AllocationPlan] | None:
    """Fair rates on the first routes; None where these alone do not carry what is guaranteed.

    What they prove costs nothing: no transfer has more than its routes would give it alone.

    Raises:
        LimitError: the limit came first.
    """
    firsts: Ints = np.flatnonzero(np.diff(network.owner, prepend=-1))
    on = np.isin(network.route, firsts)
    position = np.searchsorted(firsts, network.route[on])
    alone = replace(
        network, owner=network.owner[firsts], shared=network.shared[on], route=position, use=network.use[on]
    )
    guaranteed = np.bincount(alone.shared, alone.use * shares.base[position], len(network.capacity))
    if (guaranteed > network.capacity).any():
        return None
    fill = water_fill(alone, shares, stop)
    rates = np.zeros(len(network.owner))
    rates[firsts] = fill.plan.route_gbps
    every = np.arange(len(shares.base), dtype=np.int64)
    proof = price_certificate(every, empty_integers(), np.zeros(0), every, shares.gain)
    return replace(fill, plan=AllocationPlan(rates), certificates=(proof,), method=f"{fill.method} of first routes")


PRICE_TOLERANCE = 1e-11
"""Prices below this part of the largest are left out of a certificate."""


def raise_levels(
    network: SharedCapacities,
    shares: Shares,
    stop: Stop,
    on_incumbent: Callable[[SearchResult[AllocationPlan]], None] = lambda _: None,
) -> SearchResult[AllocationPlan]:
    """Rates and their proofs; after a limit, those of the rounds that were done.

    Args:
        network, shares: what there is; the bases fit the capacities.
        stop: asked before every program.
        on_incumbent: given what there is after each level.

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
        held = np.flatnonzero(gain * duals >= 1e-3 * (gain * duals).max())  # clearly held; the others come later
        certificates.append(_level_certificate(network, result.row_dual, duals, held))
        # Not above what this solution gives, so that it is one of the next program too.
        given = np.bincount(network.owner, weights=rates)[held]
        floor[held] = np.minimum(own.base[held] + own.gain[held] * level, given)
        gain[held] = 0.0
        on_incumbent(_result(fitted(network, rates * unit), certificates, StopReason.TIME))
    if rates is None:
        raise LimitError(f"stopped by {reason} before the first level was known")
    fit = fitted(network, rates * unit)
    converged = StopReason.CONVERGED if reason is None else reason
    return _result(fit, certificates, converged)


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
    for scale in (0.0, 1e-9, 1e-8, 1e-7):  # the checker asks for 1e-6
        result = _solved(program_of(network, shares, floor=floor * (1.0 - scale), gain=gain), stop)
        if result.status is not Status.INFEASIBLE:
            break
    return result


def _solved(program: BandwidthAllocation, stop: Stop) -> LpResult:
    return SOLVERS["highs-simplex"](build_arrays(program), SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9))


def _level_certificate(network: SharedCapacities, row_dual: Floats, duals: Floats, held: Ints) -> Certificate:
    price = np.maximum(-row_dual[: len(network.capacity)], 0.0)
    scale = max(float(price.max(initial=0.0)), float(duals.max(initial=0.0)))
    priced = np.flatnonzero(price > PRICE_TOLERANCE * scale)
    valued = np.flatnonzero(duals > PRICE_TOLERANCE * scale)
    return price_certificate(
        held, network.numbers[priced], price[priced] / scale, valued.astype(np.int64), duals[valued] / scale
    )


def largest_total(network: SharedCapacities, shares: Shares, stop: Stop) -> SearchResult[AllocationPlan]:
    """Rates of largest sum of gain times rate, at least base each, with the link prices that prove it.

    Raises:
        LimitError: the limit came first. TopooptError: the solver fails.
    """
    reason = stop.reason()
    if reason is not None:
        raise LimitError(f"stopped by {reason} before any rates were found")
    unit = unit_of(network)
    weight = shares.gain / shares.gain.max()
    small = replace(network, capacity=network.capacity / unit)
    own = replace(shares, base=shares.base / unit, ceiling=shares.ceiling / unit)
    program = build_arrays(program_of(small, own, weight=weight))
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


SHOWN = 12
"""Names listed in a message."""

ROUNDING = 1e-9
"""Relative excess of guarantees over a capacity that is forgiven."""


def clashing_guarantees(network: SharedCapacities, shares: Shares, stop: Stop) -> str | None:
    """None if the guarantees fit, else the transfers and links of an irreducible infeasible subset, in words.

    Raises:
        LimitError: the limit came before this was known.
    """
    if not shares.base.any():
        return None
    if network.single_route:
        load = np.bincount(
            network.shared,
            weights=network.use * shares.base[network.owner[network.route]],
            minlength=len(network.capacity),
        )
        if (load <= network.capacity * (1 + ROUNDING)).all():
            return None
    program = build_arrays(program_of(network, shares))
    if not network.single_route:
        result = SOLVERS["highs"](program, SolverLimits(time_s=stop.remaining_s()))
        if result.x is not None:
            return None
        if result.status is not Status.INFEASIBLE:
            raise LimitError(f"it is not known whether the guarantees can be met: {result.message}")
    subset = infeasible_subset(program, SolverLimits(time_s=stop.remaining_s()))
    if not subset.infeasible:
        raise LimitError("the guarantees cannot all be met; the limit came before it was known which")
    rows = [index for kind, index, _ in subset.members if kind == "row"]
    fits = len(network.capacity)
    links = [f"{network.names[r]} ({network.capacity[r]:g} Gbit/s)" for r in rows if r < fits]
    kept = [r - fits for r in rows if fits <= r < fits + len(shares.base)]
    wanted = [f"{shares.names[t]} ({shares.base[t]:g} Gbit/s)" for t in kept]
    more = "" if subset.irreducible else " (perhaps not all of them are needed)"
    if len(wanted) == 1:
        return f"the guaranteed rate of {wanted[0]} does not fit on {_listed(links)}{more}"
    return f"the guaranteed rates of {_listed(wanted)} do not fit together on {_listed(links)}{more}"


def _listed(names: list[str]) -> str:
    shown = names[:SHOWN]
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 and not rest else ", ".join(shown)) + rest
