"""Recompute what a solver claims: residuals, objective, dual bound. A claim that fails is not passed on."""

from __future__ import annotations

import numpy as np

from formulations.parts.arrays import LpArrays
from solvers.backends.result import Claim, LpResult, SolverLimits
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status, StopReason

Vector = Floats


def residual(program: LpArrays, x: Vector) -> float:
    """Largest violation by x: rows and bounds relative to 1 + |bound|, and integrality; inf if x is not finite."""
    if len(x) != program.columns or not np.isfinite(x).all():
        return float("inf")
    worst = 0.0
    for value, low, high in (
        (x, program.lower, program.upper),
        (program.matrix() @ x, program.row_lower, program.row_upper),
    ):
        for excess, bound in ((low - value, low), (value - high, high)):
            finite = np.isfinite(bound)
            if finite.any():
                worst = max(worst, float((excess[finite] / (1.0 + np.abs(bound[finite]))).max()))
    # An infinite bound on the wrong side (x >= inf) admits nothing.
    if any((bad).any() for bad in (np.isposinf(program.lower), np.isneginf(program.upper))):
        return float("inf")
    if any((bad).any() for bad in (np.isposinf(program.row_lower), np.isneginf(program.row_upper))):
        return float("inf")
    whole = program.is_integer
    if whole.any():
        worst = max(worst, float(np.abs(x[whole] - np.rint(x[whole])).max()))
    return worst


def polished(program: LpArrays, x: Vector, tolerance: float) -> Vector:
    """x with bounds respected and integers rounded, where that does not break a row; else x."""
    tidy = np.clip(x, program.lower, program.upper) if bool((program.lower <= program.upper).all()) else x.copy()
    whole = program.is_integer
    tidy[whole] = np.rint(tidy[whole])
    return tidy if residual(program, tidy) <= tolerance else x


def dual_bound(
    program: LpArrays, row_dual: Vector, x: Vector | None = None, *, tolerance: float = 1e-9
) -> tuple[float, Vector]:
    """Value of the Lagrangian with these row prices, and the reduced costs cost - row_dual A (float64[columns]).

    By weak duality it is a lower bound on the linear relaxation for any prices at all, and -inf when a reduced cost
    asks for a bound that does not exist. A reduced cost below `tolerance` (relative to 1 + the largest cost) that does
    so counts for |reduced cost * x| instead of for minus infinity: solvers leave such dust on columns without bounds.
    """
    scale = 1.0 + float(np.abs(program.cost).max(initial=0.0))
    prices = row_dual.copy()
    prices[(prices > 0) & np.isneginf(program.row_lower)] = 0.0
    prices[(prices < 0) & np.isposinf(program.row_upper)] = 0.0
    reduced = program.cost - program.matrix().T @ prices
    total = 0.0
    for price, low, high in ((prices, program.row_lower, program.row_upper), (reduced, program.lower, program.upper)):
        side = np.where(price > 0, low, high)
        dust = (np.abs(price) <= tolerance * scale) & ~np.isfinite(side)
        used = (price != 0) & ~dust
        total += float((price[used] * side[used]).sum())
        if x is not None and price is reduced:
            total -= float(np.abs(price[dust] * x[dust]).sum())
    return (total if np.isfinite(total) else float("-inf")), reduced


def judged(program: LpArrays, limits: SolverLimits, claim: Claim, start: Vector | None) -> LpResult:
    """The result that a claim and a start support once both are checked."""
    notes = [claim.message] if claim.message else []
    candidates: list[tuple[float, bool, Vector, float]] = []  # objective, is start, point, residual
    for point, is_start in ((claim.x, False), (start, True)):
        if point is None or (claim.unbounded and not is_start):  # an unbounded program's point means nothing
            continue
        if len(point) == program.columns and np.isfinite(point).all():
            tidy = polished(program, np.asarray(point, dtype=np.float64), limits.feasibility)
        else:
            tidy = point
        broken = residual(program, tidy)
        if broken <= limits.feasibility:
            candidates.append((float(program.cost @ tidy), is_start, tidy, broken))
        elif is_start:
            notes.append(f"the start is not feasible (residual {broken:.2g})")
        elif claim.status in (Status.OPTIMAL, Status.FEASIBLE):
            notes.append(f"claimed solution violates the program (residual {broken:.2g}): not accepted")

    bound, column_dual = claim.bound, None
    if claim.row_dual is not None and not program.has_integers:
        bound, column_dual = dual_bound(
            program, claim.row_dual, candidates[0][2] if candidates else None, tolerance=limits.optimality
        )
    if bound is not None and not np.isfinite(bound):
        bound = None
    if not candidates:
        status = Status.INFEASIBLE if claim.status is Status.INFEASIBLE else Status.UNKNOWN
        stop = claim.stopped_by
        if claim.status in (Status.OPTIMAL, Status.FEASIBLE) and stop is StopReason.CONVERGED:
            stop = StopReason.ERROR
        return LpResult(
            status, stop, None, None, "; ".join(notes), bound, claim.row_dual, column_dual,
            raw_x=claim.x, unbounded=claim.unbounded, algorithm=claim.algorithm,
        )  # fmt: skip

    objective, from_start, x, broken = min(candidates, key=lambda entry: (entry[0], entry[1]))
    slack = limits.optimality * (1.0 + abs(objective))
    status, stop = Status.FEASIBLE, claim.stopped_by
    if claim.status is Status.INFEASIBLE:
        notes.append("a feasible point is known, so the claim of infeasibility is wrong: not accepted")
        stop = StopReason.ERROR
    if bound is not None and bound > objective + slack:
        notes.append(f"claimed bound {bound:.9g} exceeds the objective {objective:.9g} of a feasible point: dropped")
        bound, stop = None, StopReason.ERROR
    elif claim.status is Status.OPTIMAL or stop in (StopReason.TIME, StopReason.BUDGET, StopReason.GAP):
        if bound is not None and objective - bound <= slack:
            status = Status.OPTIMAL
        elif claim.status is Status.OPTIMAL:
            if bound is None:
                notes.append("claimed optimal without a bound that proves it")
            else:
                notes.append(f"claimed optimal, but the bound recomputed is {bound:.9g} against {objective:.9g}")
                stop = StopReason.GAP if stop is StopReason.CONVERGED else stop
    return LpResult(
        status, stop, x, objective, "; ".join(notes), bound, claim.row_dual, column_dual, broken,
        raw_x=claim.x, unbounded=claim.unbounded, algorithm=claim.algorithm, from_start=from_start,
    )  # fmt: skip
