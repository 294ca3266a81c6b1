"""Bandwidths of hierarchical networks by linear programs with tangents, lists of speeds, and the choice among designs.

Tangents are added where they are needed, until the gap between a point and the bound of the duals is closed. Each round
solves the linear program with the tangents and paths so far. Its bandwidths are allowed whatever the tangents, so the
true objective there is an upper bound. Its duals give a lower bound that needs no tangents, by the module
`hierarchical_certificate`. Then the tangents at that point and the longest paths there are added. Discrete speeds go to
branch and bound by HiGHS.

Of many designs, the bounds by formula come first, then programs in the order of these, until the bounds pass the best.
Every design is solved, given up once its bound passes the best, or never opened since its bound by formula does. So the
result is the best of all designs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from formulations.hierarchical_bandwidth import (
    BandwidthProgram,
    Blocks,
    Multipliers,
    Path,
    Scale,
    build_arrays,
    chosen_speeds,
    endless_arrays,
    formula_bound,
    implied_upper,
    lower_bound,
    multipliers_of,
    plain_program,
    widest_arrays,
    with_catalogue,
    with_ratio,
)
from solvers.backends import SOLVERS, LpResult, SolverLimits, infeasible_subset
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.proofs import Status, StopReason

ACCURACY = 1e-9
"""Relative gap to close."""

NEAR = 1e-4
"""Gap at which the arrays are scaled anew, at the best point."""

FAR_SEEDS = np.geomspace(1e-4, 1e4, 41)
NEAR_SEEDS = np.sort(np.concatenate((np.geomspace(0.8, 1.25, 21), (0.2, 0.4, 2.5, 5.0))))
"""First tangents, as multiples of the starting point: over eight decades, or close to a point that is nearly right."""

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
    for rounds in range(1, 200 + 1):
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
        if idle >= 12:  # rounds without progress after which rounding is to blame
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
    return [factors * point if used else np.zeros(0) for point, used in zip(reference, data.loaded, strict=True)]


def with_tangents(data: BandwidthProgram, tangents: list[Floats], columns: Floats, scale: Scale) -> list[Floats]:
    """One more tangent a column, where the point is."""
    added = []
    for present, point, unit, used in zip(tangents, columns, scale.columns, data.loaded, strict=True):
        at = max(float(point), 1e-6 * float(unit))
        new = used and not (np.abs(present - at) <= 1e-13 * at).any()
        added.append(np.append(present, at) if new else present)
    return added


def paths_at(data: BandwidthProgram, bandwidth: Floats, paths: list[list[Path]]) -> list[list[Path]]:
    """The paths, and of each job the longest one at a point."""
    more = []
    for timeline, own in zip(data.timelines, paths, strict=True):
        times = timeline.group_times(np.maximum(bandwidth, 1e-12))
        path = timeline.longest(times)
        present = any(listed.steps == path.steps for listed in own)
        more.append(own if present else [*own, path])
    return more


def _improved(data: BandwidthProgram, best: Optimum, columns: Floats, start: Floats) -> Optimum:
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
    multipliers = multipliers_of(data, blocks, scale, paths, result.row_dual)
    bound, priced = lower_bound(data, multipliers, blocks.group_start, best.objective)
    better = replace(best, bound=bound, multipliers=multipliers) if bound > best.bound else best
    return better, np.where(np.isfinite(priced) & (priced > 0), priced, columns)


# Time limits.


def within_limit(plain: BandwidthProgram, start: Floats, stop: Stop) -> Floats:
    """float64[D]: bandwidths that keep the time limit, from bandwidths that satisfy the rest.

    Raises:
        InfeasibleError: none do. LimitError: not found in time.
    """
    limit = plain.time_limit_ns or np.inf
    if plain.time_of(start) <= limit:
        return start
    fastest = minimise(replace(plain, time_limit_ns=None), start, stop, enough=limit, hopeless=limit)
    if fastest.objective <= limit:
        return fastest.bandwidth
    if fastest.bound > limit:
        raise TooSlowError(limit, fastest)
    raise LimitError(f"no bandwidths that keep the time limit {limit:.9g} ns were found")


class TooSlowError(InfeasibleError):
    """The time limit is below the least possible time, which `fastest` proves."""

    def __init__(self, limit: float, fastest: Optimum) -> None:
        super().__init__(f"time limit {limit:.9g} ns: no bandwidths take less than {fastest.bound:.9g} ns")
        self.fastest = fastest


# A first point.


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
        subset = infeasible_subset(widest_arrays(plain, plain.upper, loaded), SolverLimits(time_s=EXPLAIN_S))
        lines = "; ".join(subset.texts)
        raise InfeasibleError(
            f"the constraints on the bandwidths clash: {lines}" if lines else "the constraints on the bandwidths clash"
        )
    if result.x is None:
        raise LimitError(f"no bandwidths found in time: {result.message}")
    bandwidth = np.maximum(result.x[:-1], 0.0)
    without = [plain.names[j] for j in np.flatnonzero(loaded) if bandwidth[j] <= 1e-9 * max(bandwidth.max(), 1e-9)]
    if without:
        raise InfeasibleError(f"the constraints leave no bandwidth to {', '.join(without)}, which carries traffic")
    return bandwidth


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


# Lists of speeds.


SPEED_ACCURACY = 1e-7
"""Relative gap to close; branch and bound is right to about 1e-9 of the objective."""

SPEED_SEEDS = np.geomspace(1e-2, 1e2, 41)
"""First tangents, as multiples of the relaxed optimum."""

MAX_SPEED_ROUNDS = 60
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
    for rounds in range(1, MAX_SPEED_ROUNDS + 1):
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
        settled = _settled(data, plain, data.bandwidth_of(columns), result.raw_x[program.columns :], stop)
        seen = [columns]
        if settled is not None:
            seen.append(data.columns_of(settled))
            value = data.objective_of(settled)
            if best is None or value < best.objective:
                best = Optimum(settled, value, bound, None, rounds, StopReason.GAP)
        if best is not None and best.objective - bound <= SPEED_ACCURACY * best.objective:
            return replace(best, bound=min(bound, best.objective), stopped_by=StopReason.CONVERGED)
        before = sum(map(len, tangents)) + sum(map(len, paths))
        for point in seen:
            tangents = with_tangents(data, tangents, point, scale)
            paths = paths_at(data, data.bandwidth_of(point), paths)
        if before == sum(map(len, tangents)) + sum(map(len, paths)):
            break
    return _ended(best, bound, MAX_SPEED_ROUNDS, StopReason.GAP)


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
    scale = Scale(np.ones(len(plain.names)), 1.0, 1.0)
    bare = replace(plain, timelines=(), weights=np.zeros(0), time_limit_ns=None, worst_case=False)
    program, blocks = build_arrays(bare, [np.zeros(0)] * len(plain.names), [], scale)
    subset = infeasible_subset(with_catalogue(program, blocks, bare, scale), SolverLimits(time_s=5.0))
    if subset.texts:
        return f"{NONE_FITS}: {'; '.join(subset.texts)}"
    if data.time_limit_ns is not None:
        return f"{NONE_FITS} and keeps the time limit {data.time_limit_ns:.9g} ns"
    return NONE_FITS


# Designs.


DesignMultipliers = tuple[int, BandwidthProgram, Multipliers, bool]
"""Position of a design, its program, multipliers; True: these are of its least time, which is above the limit."""


@dataclass(frozen=True, eq=False)
class BestDesign:
    """The best design.

    Attributes:
        design: its position.
        optimum: its bandwidths.
        bound: lower bound over all designs.
        proofs: of every design whose bound is more than the formula.
        opened: how many programs were solved.
        stopped_by: why it ended.
    """

    design: int
    optimum: Optimum
    bound: float
    proofs: tuple[DesignMultipliers, ...]
    opened: int
    stopped_by: StopReason


def solve_program(
    plain: BandwidthProgram, stop: Stop, *, ratio: bool, hopeless: float = np.inf
) -> tuple[BandwidthProgram, Optimum]:
    """The optimum of one design, from its program without tau; for a catalogue after the relaxation without it.

    Raises:
        InputError: nothing limits a bandwidth, or cost may vanish. InfeasibleError: nothing satisfies the constraints.
        LimitError: no time for a first point.
    """
    start = starting_point(plain, stop.remaining_s(), endless=ratio)
    if ratio:
        refuse_vanishing(plain)
    if plain.time_limit_ns is not None:
        start = within_limit(plain, start, stop)
    data = with_ratio(plain) if ratio else plain
    optimum = minimise(data, start, stop, hopeless=hopeless)
    if any(plain.speeds) and optimum.bound <= hopeless:
        optimum = minimise_speeds(data, plain, optimum, stop)
    return data, optimum


def best_design(
    problem: HierarchicalProblem, stop: Stop, on_incumbent: Callable[[BestDesign], None] = lambda _: None
) -> BestDesign:
    """The best design of a problem with its bandwidths; `on_incumbent` is given each that is better than those before.

    Raises:
        InputError: nothing limits a bandwidth, or cost may vanish. InfeasibleError: nothing satisfies the constraints.
        LimitError: a limit came before there was anything.
    """
    ratio = problem.objective == "time-times-cost"
    plains = [plain_program(design, problem) for design in problem.designs]
    formulas = np.array([formula_bound(plain, ratio=ratio) for plain in plains])
    best: tuple[int, Optimum] | None = None
    bounds = formulas.copy()
    proofs: list[DesignMultipliers] = []
    failure: InfeasibleError | None = None
    opened, reason = 0, None
    for design in np.argsort(formulas, kind="stable").tolist():
        target = np.inf if best is None else best[1].objective
        if formulas[design] > target:
            break
        reason = stop.reason()
        if reason is not None and best is not None:
            break
        opened += 1
        try:
            data, solved = solve_program(plains[design], stop, ratio=ratio, hopeless=target)
        except TooSlowError as error:
            failure = failure or error
            bounds[design] = np.inf
            if error.fastest.multipliers is not None:
                proofs.append((design, plains[design], error.fastest.multipliers, True))
            continue
        except InfeasibleError as error:
            if len(plains) > 1:
                raise InfeasibleError(f"{problem.designs[design].name}: {error}") from None
            raise
        except LimitError:
            if best is None:
                raise
            reason = stop.reason() or StopReason.TIME
            break
        if solved.multipliers is not None and (solved.bound > formulas[design] or solved.objective < target):
            proofs.append((design, data, solved.multipliers, False))
        bounds[design] = max(bounds[design], solved.bound)
        if solved.objective < target:
            best = (design, solved)
            on_incumbent(BestDesign(*best, float(bounds.min()), tuple(proofs), opened, StopReason.TIME))
        if solved.stopped_by in (StopReason.TIME, StopReason.INTERRUPTED):
            reason = solved.stopped_by
            break
    if best is None:
        raise failure or InfeasibleError("no design satisfies the constraints")
    design, optimum = best
    return BestDesign(design, optimum, float(bounds.min()), tuple(proofs), opened, reason or optimum.stopped_by)


# The front of time and cost.


SLOWEST = 1.0
"""Largest time limit above the least time, as a part of that time, or ..."""

SLOWEST_COMMUNICATION = 5.0
"""... as a multiple of its communication, if that is less: where compute dominates, more time buys nothing."""

SAME = 1e-6
"""Relative slack of the first limit above the least time, where cost falls without bound."""


FrontPoint = tuple[float, BandwidthProgram, Optimum]
"""Limit of time, ns, program of that limit, and its cheapest network."""


def front(plain: BandwidthProgram, points: int, stop: Stop) -> Iterator[FrontPoint]:
    """Cheapest networks of up to `points` limits of time, fastest first, until time is up or cost falls no more.

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
    inside, least_cost = fastest.bandwidth, np.inf
    for limit in limits.tolist():
        if stop.reason() is not None:
            return
        data = replace(plain, time_limit_ns=limit)
        try:
            optimum = minimise(data, inside, stop, near=True)
            if any(plain.speeds):
                optimum = minimise_speeds(data, data, optimum, stop)
        except (InfeasibleError, LimitError):
            continue
        if optimum.objective >= least_cost * (1 - 1e-9):
            continue
        inside, least_cost = optimum.bandwidth, optimum.objective  # it keeps every later limit
        yield limit, data, optimum
