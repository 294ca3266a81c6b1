"""Collecting a program by named columns and rows, for small programs with many families of constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from scipy.sparse import csc_array

from formulations.parts.arrays import LpArrays

Term = tuple[int, float]
Key = tuple[object, ...]


class Rows:
    """Columns and rows collected one by one; a column is known by a key, a row by its name."""

    def __init__(self) -> None:
        self.columns: dict[Key, int] = {}
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.integer: list[bool] = []
        self.row_names: list[str] = []
        self.row_lower: list[float] = []
        self.row_upper: list[float] = []
        self.entries: list[tuple[int, int, float]] = []

    def column(self, *key: object, lower: float = 0.0, upper: float = np.inf, integer: bool = False) -> None:
        """A new variable."""
        self.columns[key] = len(self.lower)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)

    def at(self, *key: object) -> int:
        """Number of a column."""
        return self.columns[key]

    def row(self, name: str, lower: float, upper: float, terms: Iterable[Term]) -> None:
        """A new constraint; terms of one column add up."""
        number = len(self.row_names)
        self.row_names.append(name)
        self.row_lower.append(lower)
        self.row_upper.append(upper)
        self.entries += [(number, column, value) for column, value in terms if value != 0.0]

    def extend(self, name: str, terms: Iterable[Term]) -> None:
        """Add terms to a row that is there."""
        number = self.row_names.index(name)
        self.entries += [(number, column, value) for column, value in terms if value != 0.0]

    def program(self, objective: Mapping[Key, float]) -> LpArrays:
        """The arrays, minimising the objective given by columns."""
        row, column, value = zip(*self.entries, strict=True)
        shape = (len(self.row_names), len(self.lower))
        matrix = csc_array((np.array(value), (np.array(row), np.array(column))), shape=shape)
        matrix.sum_duplicates()
        cost = np.zeros(len(self.lower))
        for key, value_of in objective.items():
            cost[self.columns[key]] = value_of
        return LpArrays(
            cost=cost,
            lower=np.array(self.lower),
            upper=np.array(self.upper),
            row_lower=np.array(self.row_lower),
            row_upper=np.array(self.row_upper),
            start=matrix.indptr.astype(np.int64),
            index=matrix.indices.astype(np.int64),
            value=np.asarray(matrix.data, dtype=np.float64),
            integer=np.array(self.integer),
            column_names=tuple("_".join(map(str, key)) for key in self.columns),
            row_names=tuple(self.row_names),
        )
