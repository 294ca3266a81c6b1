"""The best of many designs: formula bounds first, then programs in the order of those, until the bounds pass the best.

Every design is either solved, given up once its own bound passes the best, or never opened since its formula bound
does; so the result is the best of all of them, not of those looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations.hierarchy.hierarchical_certificate import Multipliers
from formulations.hierarchy.hierarchical_formula import formula_bound
from formulations.hierarchy.hierarchical_program import BandwidthProgram, plain_program, with_ratio
from solvers.hierarchy.catalogue import minimise_speeds
from solvers.hierarchy.cuts import Optimum, minimise
from solvers.hierarchy.limit import TooSlowError, within_limit
from solvers.hierarchy.start import refuse_vanishing, starting_point
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.hierarchy import HierarchicalObjective, HierarchicalProblem
from topoopt.core.verdict import StopReason


@dataclass(frozen=True, eq=False)
class DesignMultipliers:
    """Multipliers of one design's program; `too_slow`: of its least time, which is above the limit."""

    design: int
    program: BandwidthProgram
    multipliers: Multipliers
    too_slow: bool = False


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
    found = minimise(data, start, stop, hopeless=hopeless)
    if any(plain.speeds) and found.bound <= hopeless:
        found = minimise_speeds(data, plain, found, stop)
    return data, found


def best_design(
    problem: HierarchicalProblem, stop: Stop, keep: Callable[[BestDesign], None] = lambda _: None
) -> BestDesign:
    """The best design of a problem with its bandwidths; `keep` is given each that is better than those before.

    Raises:
        InputError: nothing limits a bandwidth, or cost may vanish. InfeasibleError: nothing satisfies the constraints.
        LimitError: a limit came before anything was found.
    """
    ratio = problem.objective is HierarchicalObjective.TIME_TIMES_COST
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
            data, found = solve_program(plains[design], stop, ratio=ratio, hopeless=target)
        except TooSlowError as error:
            failure = failure or error
            bounds[design] = np.inf
            if error.fastest.multipliers is not None:
                proofs.append(DesignMultipliers(design, plains[design], error.fastest.multipliers, too_slow=True))
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
        if found.multipliers is not None and (found.bound > formulas[design] or found.objective < target):
            proofs.append(DesignMultipliers(design, data, found.multipliers))
        bounds[design] = max(bounds[design], found.bound)
        if found.objective < target:
            best = (design, found)
            keep(BestDesign(*best, float(bounds.min()), tuple(proofs), opened, StopReason.TIME))
        if found.stopped_by in (StopReason.TIME, StopReason.INTERRUPTED):
            reason = found.stopped_by
            break
    if best is None:
        raise failure or InfeasibleError("no design satisfies the constraints")
    design, optimum = best
    return BestDesign(design, optimum, float(bounds.min()), tuple(proofs), opened, reason or optimum.stopped_by)
