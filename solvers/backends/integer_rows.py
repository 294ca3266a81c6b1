"""Integer programs in whole numbers: exact scaling of rows and objective, and bounds implied by rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from formulations.parts.arrays import LpArrays
from topoopt.core.arrays import Floats, Ints

MOST_DENOMINATOR = 10**6
MOST_COEFFICIENT = 2**50
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class WholeRow:
    """low <= sum(coefficient * x[column]) <= high in integers; None: no bound. `scale` times the row it came from."""

    column: Ints
    coefficient: tuple[int, ...]
    low: int | None
    high: int | None
    scale: int


def whole_numbers(values: Floats) -> tuple[tuple[int, ...], int] | None:
    """Integers and the scale that makes them of the values; None if no small scale does (to rounding)."""
    if (values == np.rint(values)).all():
        return (tuple(int(v) for v in values), 1) if np.abs(values).max(initial=0.0) < MOST_COEFFICIENT else None
    scale, fractions = 1, []
    for v in values.tolist():
        fraction = Fraction(v).limit_denominator(MOST_DENOMINATOR)
        if abs(float(fraction) - v) > 1e-15 * max(1.0, abs(v)):
            return None
        scale = lcm(scale, fraction.denominator)
        fractions.append(fraction)
    scaled = tuple(int(fraction * scale) for fraction in fractions)
    return (scaled, scale) if max(map(abs, scaled), default=0) < MOST_COEFFICIENT else None


def _whole_side(bound: float, rounding: np.ufunc, slack: float) -> int:
    """A side of a row as an integer: itself if it is whole, else rounded, forgiving what scaling may have added."""
    return int(bound) if bound.is_integer() else int(rounding(bound + slack * (1 + abs(bound))))


def whole_rows(program: LpArrays) -> tuple[list[WholeRow], list[str]]:
    """All rows in integers, and the names of those that cannot be written so."""
    matrix = program.matrix().tocsr()
    rows, impossible = [], []
    for i in range(program.rows):
        entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
        scaled = whole_numbers(matrix.data[entries])
        if scaled is None:
            impossible.append(program.row_name(i))
            continue
        coefficient, scale = scaled
        low, high = float(program.row_lower[i]) * scale, float(program.row_upper[i]) * scale
        rows.append(
            WholeRow(
                matrix.indices[entries].astype(np.int64),
                coefficient,
                _whole_side(low, np.ceil, -_SLACK) if np.isfinite(low) else None,
                _whole_side(high, np.floor, _SLACK) if np.isfinite(high) else None,
                scale,
            )
        )
    return rows, impossible


def implied_bounds(program: LpArrays, *, objective_at_most: float = np.inf, passes: int = 10) -> tuple[Floats, Floats]:
    """Bounds (lower, upper) of float64[columns] that hold for every integer point of the program.

    Each row, and the objective cut if one is given, bounds each of its variables once the others are at their best;
    repeated a few times.
    """
    lower, upper = np.ceil(program.lower - _SLACK), np.floor(program.upper + _SLACK)
    matrix = program.matrix().tocoo()
    row, column, value = matrix.row, matrix.col, matrix.data
    row_lower, row_upper = program.row_lower, program.row_upper
    if np.isfinite(objective_at_most):
        used = np.flatnonzero(program.cost)
        row = np.concatenate((row, np.full(len(used), program.rows)))
        column, value = np.concatenate((column, used)), np.concatenate((value, program.cost[used]))
        row_lower = np.append(row_lower, -np.inf)
        row_upper = np.append(row_upper, objective_at_most)
    keep = value != 0
    row, column, value = row[keep], column[keep], value[keep]
    for _ in range(passes):
        before = (lower.copy(), upper.copy())
        for sign, high in ((1.0, row_upper), (-1.0, -row_lower)):
            factor = sign * value
            least = np.where(factor > 0, factor * lower[column], factor * upper[column])
            endless = ~np.isfinite(least)
            total = np.bincount(row, weights=np.where(endless, 0.0, least), minlength=len(high))
            count = np.bincount(row, weights=endless, minlength=len(high))
            others = total[row] - np.where(endless, 0.0, least)
            others[(count[row] - endless) > 0] = -np.inf
            known = np.isfinite(others) & np.isfinite(high[row])
            limit = (high[row][known] - others[known]) / factor[known]
            up = factor[known] > 0
            limit = np.where(up, np.floor(limit + _SLACK * (1 + np.abs(limit))), limit)
            limit = np.where(up, limit, np.ceil(limit - _SLACK * (1 + np.abs(limit))))
            np.minimum.at(upper, column[known][up], limit[up])
            np.maximum.at(lower, column[known][~up], limit[~up])
        if (before[0] == lower).all() and (before[1] == upper).all():
            break
    return lower, upper
