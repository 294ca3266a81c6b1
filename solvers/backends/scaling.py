"""Programs in units of their own: rows and columns multiplied by powers of two, which round nothing.

Solvers meet rows, bounds and reduced costs to absolute tolerances, and drop coefficients below 1e-9: what a program of
numbers near 1 is solved to says nothing for one of 1e-9, or of small numbers beside large ones. So every program whose
numbers are not near 1 is equilibrated first (geometric means of rows and continuous columns in turn: Curtis and Reid,
1972, simplified), then solved, checked and translated back. Integer columns keep their unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from formulations.parts.arrays import LpArrays
from solvers.backends.result import LpResult, OnIncumbent
from topoopt.core.arrays import Floats, Ints

NEAR = 2.0**20
"""Programs whose numbers lie between 1/NEAR and NEAR are solved as they are."""

LARGEST = 500
"""Power of two by which a row or column is multiplied at most."""

TINY = 2.0**-100
"""Part of the largest number of its sort up to which another one counts as 0: no sum of doubles would show it."""

SWEEPS = 8
"""Rows and columns in turn; a few suffice."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """What a program was multiplied by: rows, columns (x = column * x of the scaled program) and the objective."""

    row: Floats
    column: Floats
    cost: float

    def applied(self, program: LpArrays) -> LpArrays:
        """The scaled program."""
        value = program.value * self.row[program.index] * np.repeat(self.column, np.diff(program.start))
        return replace(
            program,
            value=value,
            cost=program.cost * self.column * self.cost,
            lower=program.lower / self.column,
            upper=program.upper / self.column,
            row_lower=program.row_lower * self.row,
            row_upper=program.row_upper * self.row,
        )

    def point(self, x: Floats) -> Floats:
        """A point of the program as one of the scaled program."""
        return x / self.column

    def telling(self, on_incumbent: OnIncumbent) -> OnIncumbent:
        """What hands points of the scaled program on as points of the program."""
        return lambda x: on_incumbent(x * self.column)

    def back(self, result: LpResult) -> LpResult:
        """The result of the scaled program as one of the program."""

        def times(values: Floats | None, factor: Floats) -> Floats | None:
            return None if values is None else values * factor

        return replace(
            result,
            x=times(result.x, self.column),
            raw_x=times(result.raw_x, self.column),
            objective=None if result.objective is None else result.objective / self.cost,
            bound=None if result.bound is None else result.bound / self.cost,
            row_dual=times(result.row_dual, self.row / self.cost),
            column_dual=times(result.column_dual, 1.0 / (self.column * self.cost)),
            message=f"{result.message} (numbers of the scaled program)" if result.message else "",
        )


def scaling_of(program: LpArrays) -> Scaling | None:
    """How to scale a program; None: its numbers are near 1 already."""
    sides = np.concatenate((program.row_lower, program.row_upper))
    bounds = np.concatenate((program.lower, program.upper, sides))
    if _near(program.value, least=True) and _near(sides, least=True) and _near(bounds) and _near(program.cost):
        return None
    return _equilibrated(program)


def _near(values: Floats, *, least: bool = False) -> bool:
    """Whether the largest of the finite numbers that are not 0 (and the least, if asked) is near 1."""
    sizes = _counting(values[np.isfinite(values)])
    if not len(sizes):
        return True
    return bool((sizes.min() if least else sizes.max()) >= 1 / NEAR and sizes.max() <= NEAR)


def _counting(values: Floats) -> Floats:
    """Sizes of the numbers that do not count as 0."""
    sizes = np.abs(values)
    return np.asarray(sizes[sizes > TINY * sizes.max(initial=0.0)])


def _equilibrated(program: LpArrays) -> Scaling:
    matrix = program.matrix().copy()
    matrix.data[np.abs(matrix.data) <= TINY * np.abs(matrix.data).max(initial=0.0)] = 0.0
    matrix.eliminate_zeros()
    size = np.log2(np.abs(matrix.data))
    rows, columns = matrix.indices, np.repeat(np.arange(program.columns), np.diff(matrix.indptr))
    sides = np.stack((program.row_lower, program.row_upper))
    known = np.isfinite(sides)
    known &= np.abs(sides) > TINY * np.abs(sides[known]).max(initial=0.0)
    with_sides = np.concatenate((rows, np.nonzero(known)[1]))
    free = ~program.is_integer
    row, column = np.zeros(program.rows), np.zeros(program.columns)
    for _ in range(SWEEPS):
        row = -_middle(np.concatenate((size + column[columns], np.log2(np.abs(sides[known])))), with_sides, len(row))
        column = np.where(free, -_middle(size + row[rows], columns, len(column)), 0.0)
    row, column = 2.0 ** _whole(row), 2.0 ** _whole(column)
    largest = float((np.abs(program.cost) * column).max(initial=0.0))
    return Scaling(row, column, float(2.0 ** -_whole(np.log2(largest))) if largest > 0 else 1.0)


def _whole(powers: ArrayLike) -> Floats:
    """Whole powers of two, none so large that a product of two would be infinite."""
    return np.asarray(np.clip(np.rint(powers), -LARGEST, LARGEST), dtype=np.float64)


def _middle(values: Floats, place: Ints, count: int) -> Floats:
    """float64[count]: half way between the least and the largest value at each place; 0 where there is none."""
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, place, values)
    np.maximum.at(most, place, values)
    some = np.isfinite(least)
    return np.where(some, 0.5 * (np.where(some, least, 0.0) + np.where(some, most, 0.0)), 0.0)
