"""Rows of integers that come one by one, or many at once as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from topoopt.core.arrays import Ints

Row = tuple[int, ...]


class RowStore:
    """Rows of one width, in the order in which they are added."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._tables: list[Ints] = []
        self._before = 0
        self._single: list[Row] = []

    def append(self, row: Row) -> None:
        """One more."""
        self._single.append(row)

    def extend(self, rows: Iterable[Row]) -> None:
        """Several, one by one."""
        self._single.extend(rows)

    def add(self, *columns: Ints | int) -> None:
        """Many, by their columns; a number stands for a column of it."""
        rows = np.column_stack(np.broadcast_arrays(*columns)).astype(np.int64, copy=False)
        self._tables = [self.table(), rows]
        self._before += len(self._single) + len(rows)
        self._single = []

    def __len__(self) -> int:
        return self._before + len(self._single)

    def __getitem__(self, number: int) -> Row:
        if number >= self._before:
            return self._single[number - self._before]
        return tuple(self.table()[number].tolist())

    def __iter__(self) -> Iterator[Row]:
        yield from map(tuple, self.table().tolist())

    def table(self) -> Ints:
        """int64[rows, width]."""
        single = np.array(self._single, dtype=np.int64).reshape(-1, self._width)
        return np.concatenate((*self._tables, single))
