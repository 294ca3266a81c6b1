"""Builders of sparse programs: by families of columns and rows in arrays, or one by one under keys and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.parts.arrays import LpArrays
from topoopt.core.arrays import Floats, Ints

Term = tuple[int, float]
Key = tuple[object, ...]
Shape = int | tuple[int, ...]


class Families:
    """Columns, rows and coefficients, collected by families; every family keeps the numbers it was given."""

    def __init__(self) -> None:
        self._column_parts: list[tuple[Floats, ...]] = []
        self._row_parts: list[tuple[Floats, ...]] = []
        self._terms: list[tuple[NDArray[np.generic], ...]] = []
        self._column_names: list[str] = []
        self._row_names: list[str] = []
        self.column_count = self.row_count = 0

    @classmethod
    def extending(cls, program: LpArrays) -> Families:
        """What holds a program already."""
        made = cls()
        made.columns(
            program.columns,
            lower=program.lower,
            upper=program.upper,
            cost=program.cost,
            integer=program.is_integer,
            names=program.column_names or (),
        )
        made.rows(program.rows, program.row_lower, program.row_upper, program.row_names or ())
        made.terms(program.index, np.repeat(np.arange(program.columns), np.diff(program.start)), program.value)
        return made

    def columns(
        self,
        shape: Shape,
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        cost: ArrayLike = 0.0,
        integer: ArrayLike = False,
        names: Iterable[str] = (),
    ) -> Ints:
        """Numbers of new variables, int64[shape]; the rest is broadcast to the shape, names are in its order."""
        first, self.column_count = self.column_count, self.column_count + int(np.prod(shape))
        self._column_parts.append(_spread(shape, cost, lower, upper, integer))
        self._column_names += names
        return np.arange(first, self.column_count).reshape(shape)

    def rows(self, shape: Shape, lower: ArrayLike, upper: ArrayLike, names: Iterable[str] = ()) -> Ints:
        """Numbers of new constraints, int64[shape]."""
        first, self.row_count = self.row_count, self.row_count + int(np.prod(shape))
        self._row_parts.append(_spread(shape, lower, upper))
        self._row_names += names
        return np.arange(first, self.row_count).reshape(shape)

    def terms(self, row: ArrayLike, column: ArrayLike, value: ArrayLike, where: ArrayLike = True) -> None:
        """Coefficients, broadcast against each other, where the mask says so; those of one place add up."""
        *parts, kept = np.broadcast_arrays(row, column, value, where)
        self._terms.append(tuple(part[kept] for part in parts))

    def arrays(self, *, as_given: bool = False) -> LpArrays:
        """The program; without names where no family has any.

        Args:
            as_given: coefficients of a column stay in the order of their families, which decides what a solver does in
                a tie; no place may have two then. Else they go by row.
        """
        from scipy.sparse import csc_array

        row, column, value = (np.concatenate(part) for part in zip(*self._terms, strict=True))
        matrix = csc_array((value.astype(np.float64), (row, column)), shape=(self.row_count, self.column_count))
        if as_given:
            order = np.argsort(column, kind="stable")
            matrix = csc_array((value[order], row[order], matrix.indptr), shape=matrix.shape)
        matrix.eliminate_zeros()
        cost, lower, upper, integer = (np.concatenate(part) for part in zip(*self._column_parts, strict=True))
        row_lower, row_upper = (np.concatenate(part) for part in zip(*self._row_parts, strict=True))
        return LpArrays(
            cost=cost,
            lower=lower,
            upper=upper,
            row_lower=row_lower,
            row_upper=row_upper,
            start=matrix.indptr.astype(np.int64),
            index=matrix.indices.astype(np.int64),
            value=np.asarray(matrix.data, dtype=np.float64),
            integer=integer > 0 if integer.any() else None,
            column_names=tuple(self._column_names) or None,
            row_names=tuple(self._row_names) or None,
        )


def _spread(shape: Shape, *values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.broadcast_to(np.asarray(value, dtype=np.float64), shape).ravel() for value in values)


class Rows:
    """Columns and rows collected one by one; a column is known by a key, a row by its name."""

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.columns: list[tuple[float, float, bool]] = []
        self.rows: dict[str, tuple[int, float, float]] = {}
        self.entries: list[tuple[int, int, float]] = []

    def column(self, *key: object, lower: float = 0.0, upper: float = np.inf, integer: bool = False) -> None:
        """A new variable."""
        self.numbers[key] = len(self.columns)
        self.columns.append((lower, upper, integer))

    def at(self, *key: object) -> int:
        """Number of a column."""
        return self.numbers[key]

    def row(self, name: str, lower: float, upper: float, terms: Iterable[Term]) -> None:
        """A new constraint; terms of one column add up."""
        self.rows[name] = len(self.rows), lower, upper
        self.extend(name, terms)

    def extend(self, name: str, terms: Iterable[Term]) -> None:
        """Add terms to a row that is there."""
        number = self.rows[name][0]
        self.entries += [(number, column, value) for column, value in terms]

    def program(self, objective: Mapping[Key, float]) -> LpArrays:
        """The arrays, minimising the objective given by columns."""
        made = Families()
        lower, upper, integer = zip(*self.columns, strict=True)
        cost = [objective.get(key, 0.0) for key in self.numbers]
        names = ("_".join(map(str, key)) for key in self.numbers)
        made.columns(len(cost), lower=lower, upper=upper, cost=cost, integer=integer, names=names)
        _, low, high = zip(*self.rows.values(), strict=True)
        made.rows(len(low), low, high, names=self.rows)
        made.terms(*zip(*self.entries, strict=True))
        return made.arrays()
