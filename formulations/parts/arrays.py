"""A linear or mixed-integer program in arrays, as formulations hand it to a backend: no solver object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csc_array


@dataclass(frozen=True, eq=False)
class LpArrays:
    """minimise cost.x subject to row_lower <= A x <= row_upper, lower <= x <= upper, some x integer.

    Attributes:
        cost, lower, upper: float64[columns]; infinite bounds are +-numpy.inf.
        row_lower, row_upper: float64[rows].
        start: int64[columns+1]; index: int64[nonzeros]; value: float64[nonzeros]: A by columns.
        integer: bool[columns], True where x must be a whole number; None: nowhere.
        column_names, row_names: what people call them; None: x0, x1, ... and row0, row1, ...
    """

    cost: Floats
    lower: Floats
    upper: Floats
    row_lower: Floats
    row_upper: Floats
    start: Ints
    index: Ints
    value: Floats
    integer: Bools | None = None
    column_names: tuple[str, ...] | None = None
    row_names: tuple[str, ...] | None = None

    @property
    def columns(self) -> int:
        """Number of variables."""
        return len(self.cost)

    @property
    def rows(self) -> int:
        """Number of constraints."""
        return len(self.row_lower)

    @property
    def nonzeros(self) -> int:
        """Number of coefficients stored."""
        return len(self.value)

    @property
    def is_integer(self) -> Bools:
        """bool[columns], True where x must be a whole number."""
        return np.zeros(self.columns, dtype=np.bool_) if self.integer is None else self.integer

    @property
    def has_integers(self) -> bool:
        """Whether any variable must be a whole number."""
        return self.integer is not None and bool(self.integer.any())

    def matrix(self) -> csc_array:
        """A as a sparse array of shape (rows, columns)."""
        from scipy.sparse import csc_array

        return csc_array((self.value, self.index, self.start), shape=(self.rows, self.columns))

    def column_name(self, column: int) -> str:
        """Name of a variable."""
        return self.column_names[column] if self.column_names is not None else f"x{column}"

    def row_name(self, row: int) -> str:
        """Name of a constraint."""
        return self.row_names[row] if self.row_names is not None else f"row{row}"


def with_names(program: LpArrays, columns: Iterable[str], rows: Iterable[str]) -> LpArrays:
    """The same program with names; apart from the builders, so that large programs do not pay for names unread.

    Raises:
        ValueError: not one name for each column and row.
    """
    named = replace(program, column_names=tuple(columns), row_names=tuple(rows))
    faults = shape_faults(named)
    if faults:
        raise ValueError("; ".join(faults))
    return named


def shape_faults(program: LpArrays) -> list[str]:
    """What makes the arrays no program at all (sizes, order, not-a-number); empty when they are sound.

    Crossed bounds are no fault here: such a program is infeasible, and a backend says so.
    """
    faults = []
    columns, rows = program.columns, program.rows
    sizes = {
        "lower": (len(program.lower), columns),
        "upper": (len(program.upper), columns),
        "row_upper": (len(program.row_upper), rows),
        "start": (len(program.start), columns + 1),
        "value": (len(program.value), len(program.index)),
    }
    if program.integer is not None:
        sizes["integer"] = (len(program.integer), columns)
    if program.column_names is not None:
        sizes["column_names"] = (len(program.column_names), columns)
    if program.row_names is not None:
        sizes["row_names"] = (len(program.row_names), rows)
    faults += [f"{name} has {got} entries, not {due}" for name, (got, due) in sizes.items() if got != due]
    if faults:
        return faults
    if program.start[0] != 0 or program.start[-1] != len(program.index) or (np.diff(program.start) < 0).any():
        faults.append("start does not run from 0 up to the number of coefficients")
    if len(program.index) and (program.index.min() < 0 or program.index.max() >= rows):
        faults.append("index names a row that does not exist")
    if not np.isfinite(program.cost).all() or not np.isfinite(program.value).all():
        faults.append("cost or value is not finite")
    bounds = (program.lower, program.upper, program.row_lower, program.row_upper)
    if any(np.isnan(bound).any() for bound in bounds):
        faults.append("a bound is not a number")
    if not faults and _repeats(program):
        faults.append("a coefficient stands twice")
    return faults


def _repeats(program: LpArrays) -> bool:
    """Whether a (row, column) pair is stored twice; solvers disagree about what that means."""
    column = np.repeat(np.arange(program.columns), np.diff(program.start))
    key = np.sort(column * max(program.rows, 1) + program.index)
    return bool((key[1:] == key[:-1]).any())
