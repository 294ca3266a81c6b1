"""What differs between two programs whose rows and columns have names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.parts.arrays import LpArrays


@dataclass(frozen=True)
class Changes:
    """What a user changed in a model.

    Attributes:
        added: names of rows that are new or tighter, and of variables whose bounds are tighter.
        loosened: names of rows that are gone or looser, and of such variables.
        objective: whether the objective is another one.
    """

    added: tuple[str, ...]
    loosened: tuple[str, ...]
    objective: bool


def changes_of(given: LpArrays, now: LpArrays) -> Changes:
    """What differs between two programs, by the names of their rows and columns."""
    rows = (_rows_of(given), _rows_of(now))
    columns = (_bounds_of(given), _bounds_of(now))
    added = [name for name, row in rows[1].items() if name not in rows[0] or not _looser(row, rows[0][name])]
    gone = [name for name, row in rows[0].items() if name not in rows[1] or not _looser(row, rows[1][name])]
    for name, (low, high) in columns[1].items():
        old = columns[0].get(name)
        if old is None:
            continue
        if low > old[0] or high < old[1]:
            added.append(name)
        if low < old[0] or high > old[1]:
            gone.append(name)
    return Changes(tuple(added), tuple(gone), _cost_of(given) != _cost_of(now))


Row = tuple[tuple[tuple[str, float], ...], float, float]


def _looser(first: Row, second: Row) -> bool:
    """Whether what the second row admits the first one admits too, as far as that shows in the numbers."""
    return first[0] == second[0] and first[1] <= second[1] and first[2] >= second[2]


def _rows_of(program: LpArrays) -> dict[str, Row]:
    matrix = program.matrix().tocsr()
    found = {}
    for i in range(program.rows):
        at = slice(matrix.indptr[i], matrix.indptr[i + 1])
        terms = sorted(
            (program.column_name(int(j)), float(v))
            for j, v in zip(matrix.indices[at], matrix.data[at], strict=True)
            if v != 0.0
        )
        found[program.row_name(i)] = (tuple(terms), float(program.row_lower[i]), float(program.row_upper[i]))
    return found


def _bounds_of(program: LpArrays) -> dict[str, tuple[float, float]]:
    return {program.column_name(j): (float(program.lower[j]), float(program.upper[j])) for j in range(program.columns)}


def _cost_of(program: LpArrays) -> dict[str, float]:
    return {program.column_name(int(j)): float(program.cost[j]) for j in np.flatnonzero(program.cost)}
