"""Bandwidths from catalogues of discrete speeds: branch and bound by HiGHS, paths and tangents added as needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.hierarchy.hierarchical_bandwidth import Scale, build_arrays
from formulations.hierarchy.hierarchical_catalogue import chosen_speeds, with_catalogue
from formulations.hierarchy.hierarchical_program import BandwidthProgram, with_ratio
from solvers.backends import SOLVERS, SolverLimits, infeasible_subset
from solvers.hierarchy.cuts import Optimum, minimise, paths_at, scale_at, seeds, with_tangents
from solvers.hierarchy.limit import within_limit
from solvers.hierarchy.start import starting_point
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.verdict import Status, StopReason

ACCURACY = 1e-7
"""Relative gap to close; branch and bound is right to about 1e-9 of the objective."""

SPEED_SEEDS = np.geomspace(1e-2, 1e2, 41)
"""First tangents, as multiples of the relaxed optimum."""

MAX_ROUNDS = 60
NONE_FITS = "no choice of speeds satisfies the constraints"


def minimise_speeds(data: BandwidthProgram, plain: BandwidthProgram, relaxed: Optimum, stop: Stop) -> Optimum:
    """The best speeds (and, where a dimension has no catalogue, bandwidths).

    Args:
        data, plain: the program, and the same without tau.
        relaxed: optimum when every bandwidth between the speeds is allowed.
        stop: asked before each round.

    Raises:
        InfeasibleError: no speeds satisfy the constraints. LimitError: none found in time.
    """
    best: Optimum | None = None
    bound = relaxed.bound
    scale = scale_at(data, relaxed, data.columns_of(relaxed.bandwidth))
    tangents = seeds(data, scale.columns, SPEED_SEEDS)
    paths = paths_at(data, relaxed.bandwidth, [[] for _ in data.timelines])
    for rounds in range(1, MAX_ROUNDS + 1):
        reason = stop.reason()
        if reason is not None:
            return _ended(best, bound, rounds, reason)
        program, blocks = build_arrays(data, tangents, paths, scale)
        result = SOLVERS["highs"](
            with_catalogue(program, blocks, data, scale),
            SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9),
            {"mip_abs_gap": 0.0},
        )
        if result.status is Status.INFEASIBLE:
            raise InfeasibleError(_why(data, plain))
        if result.bound is not None and np.isfinite(result.bound):
            fixed = data.fixed_cost if data.time_limit_ns is not None else 0.0
            bound = max(bound, result.bound * scale.objective + fixed)
        if result.raw_x is None or (result.x is None and result.stopped_by is not StopReason.CONVERGED):
            return _ended(best, bound, rounds, stop.reason() or StopReason.ERROR)
        columns = np.maximum(result.raw_x[: len(data.names)], 0.0) * scale.columns
        found = _settled(data, plain, data.bandwidth_of(columns), result.raw_x[program.columns :], stop)
        seen = [columns]
        if found is not None:
            seen.append(data.columns_of(found))
            value = data.objective_of(found)
            if best is None or value < best.objective:
                best = Optimum(found, value, bound, None, rounds, StopReason.GAP)
        if best is not None and best.objective - bound <= ACCURACY * best.objective:
            return replace(best, bound=min(bound, best.objective), stopped_by=StopReason.CONVERGED)
        before = sum(map(len, tangents)) + sum(map(len, paths))
        for point in seen:
            tangents = with_tangents(data, tangents, point, scale)
            paths = paths_at(data, data.bandwidth_of(point), paths)
        if before == sum(map(len, tangents)) + sum(map(len, paths)):
            break
    return _ended(best, bound, MAX_ROUNDS, StopReason.GAP)


def _ended(best: Optimum | None, bound: float, rounds: int, reason: StopReason) -> Optimum:
    if best is None:
        raise LimitError("no speeds found within the limits")
    return replace(best, bound=min(bound, best.objective), rounds=rounds, stopped_by=reason)


def _settled(
    data: BandwidthProgram, plain: BandwidthProgram, near: Floats, choose: Floats, stop: Stop
) -> Floats | None:
    """float64[D]: the chosen speeds to the last bit, the other bandwidths the best beside them; None if not allowed."""
    speeds = chosen_speeds(data, choose)
    bandwidth = near.copy()
    for j, speed in speeds.items():
        bandwidth[j] = speed
    if len(speeds) < len(bandwidth):
        fixed = np.array(list(speeds))
        lower, upper = plain.lower.copy(), plain.upper.copy()
        lower[fixed] = upper[fixed] = list(speeds.values())
        rest = replace(plain, lower=lower, upper=upper, speeds=((),) * len(bandwidth))
        try:
            start = starting_point(rest, stop.remaining_s(), endless=data.ratio)
            if rest.time_limit_ns is not None:
                start = within_limit(rest, start, stop)
        except (InfeasibleError, LimitError):
            return None
        bandwidth = minimise(with_ratio(rest) if data.ratio else rest, start, stop).bandwidth
        for j, speed in speeds.items():
            bandwidth[j] = speed
    limit = data.time_limit_ns
    if limit is not None and plain.time_of(bandwidth) > limit * (1 + 1e-12):
        return None
    return bandwidth


def _why(data: BandwidthProgram, plain: BandwidthProgram) -> str:
    """Which constraints no choice of speeds satisfies, or that the time limit is to blame."""
    scale = Scale(np.ones(len(plain.names)), 1.0, 1.0)
    bare = replace(plain, timelines=(), weights=np.zeros(0), time_limit_ns=None, worst_case=False)
    program, blocks = build_arrays(bare, [np.zeros(0)] * len(plain.names), [], scale)
    subset = infeasible_subset(with_catalogue(program, blocks, bare, scale), SolverLimits(time_s=5.0))
    if subset.texts:
        return f"{NONE_FITS}: {'; '.join(subset.texts)}"
    if data.time_limit_ns is not None:
        return f"{NONE_FITS} and keeps the time limit {data.time_limit_ns:.9g} ns"
    return NONE_FITS
