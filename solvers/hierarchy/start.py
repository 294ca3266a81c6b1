"""A first allowed point, or why there is none: constraints that clash, or bandwidth without end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.hierarchy.hierarchical_certificate import implied_upper
from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.hierarchy.hierarchical_start import endless_arrays, widest_arrays
from solvers.backends import SOLVERS, SolverLimits, infeasible_subset
from topoopt.core.arrays import Bools, Floats
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.verdict import Status

EXPLAIN_S = 5.0
"""Time to find the clashing constraints."""


def starting_point(plain: BandwidthProgram, time_s: float | None = None, *, endless: bool = False) -> Floats:
    """float64[D]: bandwidths within all linear constraints, the least one that is needed as large as can be.

    Args:
        plain: the program of time, or of cost, without tau.
        time_s: limit; 0 leaves no time.
        endless: whether bandwidths may go without limit, since their cost counts.

    Raises:
        InputError: time falls for ever as a bandwidth grows.
        InfeasibleError: the constraints clash, or leave a dimension with traffic nothing; they are named.
        LimitError: no time.
    """
    loaded, upper = plain.loaded, implied_upper(plain)
    for j, speeds in enumerate(plain.speeds):
        if speeds:
            upper[j] = min(upper[j], speeds[-1])
    if plain.time_limit_ns is None and not endless:
        refuse_endless(plain, upper)
    elif plain.time_limit_ns is not None:
        upper = np.where(np.isfinite(upper), upper, _ample(plain))
    program = widest_arrays(plain, upper, loaded)
    result = SOLVERS["highs-simplex"](program, SolverLimits(time_s=time_s, feasibility=1e-9))
    if result.status is Status.INFEASIBLE:
        raise InfeasibleError(clash_text(plain, loaded))
    if result.x is None:
        raise LimitError(f"no bandwidths found in time: {result.message}")
    bandwidth = np.maximum(result.x[:-1], 0.0)
    without = [plain.names[j] for j in np.flatnonzero(loaded) if bandwidth[j] <= 1e-9 * max(bandwidth.max(), 1e-9)]
    if without:
        text = f"the constraints leave no bandwidth to {', '.join(without)}, which carries traffic"
        raise InfeasibleError(text)
    return bandwidth


def clash_text(plain: BandwidthProgram, loaded: Bools) -> str:
    """The clashing constraints, by name."""
    found = infeasible_subset(widest_arrays(plain, plain.upper, loaded), SolverLimits(time_s=EXPLAIN_S))
    lines = "; ".join(found.texts)
    return f"the constraints on the bandwidths clash: {lines}" if lines else "the constraints on the bandwidths clash"


def refuse_endless(plain: BandwidthProgram, upper: Floats) -> None:
    """Raise InputError when a dimension with traffic may have any bandwidth: the best one is not attained."""
    loaded = plain.loaded
    if np.isfinite(upper[loaded]).all():
        return
    result = SOLVERS["highs-simplex"](endless_arrays(plain, loaded), SolverLimits(time_s=EXPLAIN_S))
    if result.x is None:
        return
    endless = [plain.names[j] for j in np.flatnonzero(loaded & (result.x > 0.5e-6))]
    if endless:
        raise InputError(
            [
                Problem(
                    f"nothing limits the bandwidth of {', '.join(endless)}, so no time is the least",
                    path="network",
                    allowed="total_gbytes_per_s, max_gbytes_per_s, a constraint, or cost_cap_usd",
                )
            ]
        )


def _ample(plain: BandwidthProgram) -> Floats:
    """float64[D]: bandwidths at which communication takes a millionth of what the limit leaves, were they all allowed.

    Raises:
        InfeasibleError: compute alone takes longer than the limit.
    """
    compute = plain.time_of(np.full(len(plain.names), np.inf))
    limit = plain.time_limit_ns or 0.0
    if compute >= limit:
        raise InfeasibleError(f"time limit {limit:.9g} ns: compute alone takes {compute:.9g} ns")
    needed = np.zeros(len(plain.names))
    for timeline, weight in zip(plain.timelines, plain.weights, strict=True):
        needed += weight * (timeline.all_sizes @ timeline.volumes)
    return np.maximum(1e6 * len(needed) * needed / (limit - compute), plain.lower)


def refuse_vanishing(plain: BandwidthProgram) -> None:
    """Raise InputError when cost may fall to 0: then time x cost falls with it, and no bandwidths are the best."""
    if plain.fixed_cost > 0 or (plain.lower > 0).any():
        return
    cheapest = widest_arrays(plain, plain.upper, np.zeros(len(plain.names), dtype=np.bool_))
    cheapest = replace(cheapest, cost=np.append(plain.price / plain.price.max(), 0.0))
    result = SOLVERS["highs-simplex"](cheapest, SolverLimits(time_s=EXPLAIN_S))
    if result.objective is not None and result.objective <= 1e-9:
        raise InputError(
            [
                Problem(
                    "nothing keeps the bandwidths from 0, and time x cost falls with them",
                    path="network",
                    allowed="total_gbytes_per_s, min_gbytes_per_s, or a constraint with at_least",
                )
            ]
        )
