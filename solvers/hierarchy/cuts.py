"""Tangents where they are needed, until the gap between a point and the duals' bound is closed.

Each round solves the linear program with the tangents and paths known so far. Its bandwidths are allowed whatever the
tangents, so the true objective there is an upper bound; its duals give a lower bound that needs no tangents
(`hierarchical_certificate`). Then the tangents at that point and the longest paths there are added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.hierarchy.hierarchical_bandwidth import Blocks, Scale, build_arrays
from formulations.hierarchy.hierarchical_certificate import Multipliers, lower_bound, multipliers_of
from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.hierarchy.hierarchical_timeline import Path
from solvers.backends import SOLVERS, LpResult, SolverLimits
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.verdict import StopReason

ACCURACY = 1e-9
"""Relative gap to close."""

NEAR = 1e-4
"""Gap at which the arrays are scaled anew, at the best point."""

FAR_SEEDS = np.geomspace(1e-4, 1e4, 41)
NEAR_SEEDS = np.sort(np.concatenate((np.geomspace(0.8, 1.25, 21), (0.2, 0.4, 2.5, 5.0))))
"""First tangents, as multiples of the starting point: over eight decades, or close to a point that is nearly right."""

MAX_ROUNDS = 200
STALLED = 12
"""Rounds without progress after which rounding is to blame."""

TIGHT = SolverLimits(feasibility=1e-10)


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best point of one program.

    Attributes:
        bandwidth: float64[D].
        objective: its value, recomputed.
        bound: what `multipliers` prove.
        multipliers: with the paths they weigh.
        rounds: linear programs solved.
        stopped_by: CONVERGED when the gap is closed; TIME, INTERRUPTED; GAP when rounding leaves a larger one.
    """

    bandwidth: Floats
    objective: float
    bound: float
    multipliers: Multipliers | None
    rounds: int
    stopped_by: StopReason

    @property
    def gap(self) -> float:
        """(objective - bound) / objective."""
        return (self.objective - self.bound) / self.objective


def minimise(
    data: BandwidthProgram,
    start: Floats,
    stop: Stop,
    *,
    near: bool = False,
    accuracy: float = ACCURACY,
    enough: float = -np.inf,
    hopeless: float = np.inf,
) -> Optimum:
    """Close the gap from an allowed point.

    Args:
        data: the program.
        start: float64[D], satisfies every row.
        stop: asked before each round.
        near: whether the start is close to the optimum, which saves rounds.
        accuracy: relative gap to close.
        enough: end early at a point this good.
        hopeless: end early once the bound is above this.
    """
    best = Optimum(start, data.objective_of(start), -np.inf, None, 0, StopReason.GAP)
    columns = data.columns_of(start)
    scale = scale_at(data, best, columns)
    tangents = seeds(data, scale.columns, NEAR_SEEDS if near else FAR_SEEDS)
    paths = paths_at(data, start, [[] for _ in data.timelines])
    fine, idle = near, 0
    for rounds in range(1, MAX_ROUNDS + 1):
        reason = stop.reason()
        if reason is not None:
            return replace(best, stopped_by=reason)
        program, blocks = build_arrays(data, tangents, paths, scale)
        result = SOLVERS["highs-simplex"](program, replace(TIGHT, time_s=stop.remaining_s()))
        if result.raw_x is None or (result.x is None and result.stopped_by is not StopReason.CONVERGED):
            return replace(best, stopped_by=stop.reason() or StopReason.ERROR)  # cut: its point may break any row
        columns = np.maximum(result.raw_x[: len(data.names)], 0.0) * scale.columns
        previous, best = best, _improved(data, replace(best, rounds=rounds), columns, start)
        best, priced = _bounded(data, best, blocks, scale, paths, result, columns)
        if best.gap <= accuracy:
            return replace(best, stopped_by=StopReason.CONVERGED)
        if best.objective <= enough or best.bound > hopeless:
            return best
        idle = 0 if best.gap < 0.9 * previous.gap else idle + 1
        if idle >= STALLED:
            return best
        if not fine and best.gap <= NEAR:
            fine, scale = True, scale_at(data, best, data.columns_of(best.bandwidth))
            tangents = seeds(data, scale.columns, NEAR_SEEDS)
        tangents = with_tangents(data, tangents, columns, scale)
        tangents = with_tangents(data, tangents, priced, scale)
        paths = paths_at(data, data.bandwidth_of(columns), paths)
        paths = paths_at(data, best.bandwidth, paths)
    return best


def scale_at(data: BandwidthProgram, best: Optimum, columns: Floats) -> Scale:
    """Units in which the best point is all ones."""
    positive = columns[columns > 0]
    reference = np.where(columns > 1e-9 * positive.max(), columns, positive.min())
    if data.time_limit_ns is not None:
        return Scale(reference, best.objective, data.time_limit_ns)
    return Scale(reference, best.objective, best.objective)


def seeds(data: BandwidthProgram, reference: Floats, factors: Floats) -> list[Floats]:
    """Tangents at these multiples of a point, in the columns that count."""
    return [factors * one if used else np.zeros(0) for one, used in zip(reference, data.loaded, strict=True)]


def with_tangents(data: BandwidthProgram, tangents: list[Floats], columns: Floats, scale: Scale) -> list[Floats]:
    """One more tangent a column, where the point is."""
    added = []
    for known, point, unit, used in zip(tangents, columns, scale.columns, data.loaded, strict=True):
        at = max(float(point), 1e-6 * float(unit))
        new = used and not (np.abs(known - at) <= 1e-13 * at).any()
        added.append(np.append(known, at) if new else known)
    return added


def paths_at(data: BandwidthProgram, bandwidth: Floats, paths: list[list[Path]]) -> list[list[Path]]:
    """The paths, and of each job the longest one at a point."""
    more = []
    for timeline, own in zip(data.timelines, paths, strict=True):
        times = timeline.group_times(np.maximum(bandwidth, 1e-12))
        path = timeline.longest(times)
        known = any(one.steps == path.steps for one in own)
        more.append(own if known else [*own, path])
    return more


def _improved(data: BandwidthProgram, best: Optimum, columns: Floats, start: Floats) -> Optimum:
    """The better of the best point and the one of the linear program, moved into the time limit if there is one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bandwidth = data.bandwidth_of(columns)
    if not np.isfinite(bandwidth).all():
        return best
    if data.time_limit_ns is not None:
        bandwidth = _into_limit(data, bandwidth, start)
    value = data.objective_of(bandwidth)
    return replace(best, bandwidth=bandwidth, objective=value) if value < best.objective else best


def _into_limit(data: BandwidthProgram, outside: Floats, inside: Floats) -> Floats:
    """The point nearest to `outside` on the way to `inside` that keeps the time limit (time is convex)."""
    limit = data.time_limit_ns or np.inf
    if data.time_of(outside) <= limit:
        return outside
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if data.time_of(outside + middle * (inside - outside)) <= limit:
            high = middle
        else:
            low = middle
        if high - low <= 1e-16 + 1e-12 * high:
            break
    return outside + high * (inside - outside)


def _bounded(
    data: BandwidthProgram,
    best: Optimum,
    blocks: Blocks,
    scale: Scale,
    paths: list[list[Path]],
    result: LpResult,
    columns: Floats,
) -> tuple[Optimum, Floats]:
    """The best point with the better of its bound and the one of these duals; the columns that those ask for."""
    if result.row_dual is None:
        return best, columns
    found = multipliers_of(data, blocks, scale, paths, result.row_dual)
    bound, priced = lower_bound(data, found, blocks.group_start, best.objective)
    better = replace(best, bound=bound, multipliers=found) if bound > best.bound else best
    return better, np.where(np.isfinite(priced) & (priced > 0), priced, columns)
