"""The best links around one relay server by branch and bound, compiled.

max over sets I, J of at most d servers of  sum_I a_i + sum_J b_j + sum_{I x J} w_ij. Any u with 0 <= u <= w splits the
last sum: what row i takes is at most T_d(u_i.), the sum of its d largest, what column j takes at most T_d(w_.j - u_.j).
A few subgradient steps lower this bound; then rows are chosen one after another, what is charged to them exact.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel

_CLOSED = 1e-9
"""Part of the best value by which a bound may exceed it and is closed all the same."""

_ROUNDS = 20
_LENGTH = 0.7

_STARTS = 4
"""Rows that `good_block` starts from, each alone."""


@kernel
def largest(values: Floats, place: Ints) -> float:
    """Sum of the largest positive values, as many as `place` holds; their places, -1 for those that are not there."""
    d = len(place)
    top = np.zeros(d)
    place[:] = -1
    for i in range(len(values)):
        value = values[i]
        if value > top[d - 1]:
            at = d - 1
            while at > 0 and top[at - 1] < value:
                top[at], place[at] = top[at - 1], place[at - 1]
                at -= 1
            top[at], place[at] = value, i
    return float(top.sum())


@kernel
def _keep(top: Floats, value: float) -> None:
    """Insert a value into a descending row of the largest."""
    at = len(top) - 1
    if value > top[at]:
        while at > 0 and top[at - 1] < value:
            top[at] = top[at - 1]
            at -= 1
        top[at] = value


@kernel
def _alternate(a: Floats, b: Floats, w: Floats, rows: Ints, columns: Ints) -> float:
    """Best columns for the rows, best rows for the columns, and so on; `rows` is where it starts."""
    n = len(a)
    next_rows, next_columns = rows.copy(), columns.copy()
    worth = np.empty(n)
    best = -1.0
    for _ in range(_ROUNDS):
        worth[:] = b
        for i in next_rows:
            if i >= 0:
                worth += w[i]
        largest(worth, next_columns)
        worth[:] = a
        value = 0.0
        for j in next_columns:
            if j >= 0:
                value += b[j]
                worth += w[:, j]
        value += largest(worth, next_rows)
        if value <= best + 1e-12:
            break
        best = value
        rows[:], columns[:] = next_rows, next_columns
    return best


@kernel
def recall(a: Floats, b: Floats, w: Floats, known: Ints, rows: Ints, columns: Ints) -> float:
    """The most that the guess or any of the sets int64[places, 2, d] found before is worth; into `rows`, `columns`."""
    best, found = -np.inf, -1
    for place in range(-1, len(known)):
        before, after = (rows, columns) if place < 0 else (known[place, 0], known[place, 1])
        value = 0.0
        for i in before:
            if i >= 0:
                value += a[i]
                for j in after:
                    if j >= 0:
                        value += w[i, j]
        for j in after:
            if j >= 0:
                value += b[j]
        if value > best:
            best, found = value, place
    if found >= 0:
        rows[:], columns[:] = known[found, 0], known[found, 1]
    return best


@kernel
def good_block(a: Floats, b: Floats, w: Floats, rows: Ints, columns: Ints) -> float:
    """A good value with its sets, from the guess and from the rows of most worth, each alone: no more than the best.

    Args:
        a, b, w: as of `best_block`.
        rows, columns: int64[d], a guess; the sets on return.
    """
    n, d = len(a), len(rows)
    best = _alternate(a, b, w, rows, columns)
    worth, place = np.empty(n), np.empty(d, dtype=np.int64)
    for i in range(n):
        worth[i] = a[i] + largest(b / d + w[i], place)
    order = np.argsort(-worth, kind="mergesort")
    next_rows, next_columns = np.full(d, -1), np.full(d, -1)
    for start in range(min(_STARTS, n)):
        next_rows[:] = -1
        next_rows[0] = order[start]
        value = _alternate(a, b, w, next_rows, next_columns)
        if value > best:
            best = value
            rows[:], columns[:] = next_rows, next_columns
    return best


@kernel
def _split(
    a: Floats, b: Floats, w: Floats, u: Floats, d: int, best: float, steps: int, by_row: Floats, by_column: Floats
) -> float:
    """Lower the bound of a split by Polyak steps; what rows and columns are worth under it at most."""
    n = len(a)
    row_top, column_top = np.full((n, d), -1), np.full((n, d), -1)
    rows, columns = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    old_row, old_column = np.ones(n, dtype=np.bool_), np.ones(n, dtype=np.bool_)
    np.minimum(u, w, u)
    for step in range(steps + 1):
        for i in range(n):
            if old_row[i]:
                by_row[i] = a[i] + largest(u[i], row_top[i])
            if old_column[i]:
                by_column[i] = b[i] + largest(w[:, i] - u[:, i], column_top[i])
        bound = largest(by_row, rows) + largest(by_column, columns)
        if step == steps or bound <= best * (1.0 + _CLOSED):
            break
        length = _LENGTH * (bound - best) / (2 * d * d)
        old_row[:] = False
        old_column[:] = False
        for row in rows:
            if row >= 0:
                for other in row_top[row]:
                    if other >= 0:
                        u[row, other] = max(0.0, u[row, other] - length)
                        old_row[row], old_column[other] = True, True
        for column in columns:
            if column >= 0:
                for other in column_top[column]:
                    if other >= 0:
                        u[other, column] = min(w[other, column], u[other, column] + length)
                        old_row[other], old_column[column] = True, True
    return bound


@kernel
def best_block(a: Floats, b: Floats, w: Floats, u: Floats, rows: Ints, columns: Ints, steps: int) -> float:
    """The maximum, with its sets.

    Args:
        a, b: float64[n], worth of each row and column.
        w: float64[n, n], worth of each pair, not negative.
        u: float64[n, n], not negative: a split to start from; improved in place.
        rows, columns: int64[d], a guess; the best sets on return, -1 where a place is left.
        steps: that improve the split.
    """
    n, d = len(a), len(rows)
    best = _alternate(a, b, w, rows, columns)
    by_row, by_column = np.empty(n), np.empty(n)
    bound = _split(a, b, w, u, d, best, steps, by_row, by_column)
    if bound <= best * (1.0 + _CLOSED):
        return best
    top = np.empty(d, dtype=np.int64)
    largest(by_row, top)
    last_row = by_row[top[d - 1]] if top[d - 1] >= 0 else 0.0
    largest(by_column, top)
    last_column = by_column[top[d - 1]] if top[d - 1] >= 0 else 0.0
    order = np.argsort(-by_row, kind="mergesort")
    order = order[bound - last_row + np.minimum(by_row[order], last_row) > best]
    left = np.flatnonzero(bound - last_column + np.minimum(by_column, last_column) > best)
    count, q = len(order), len(left)
    # the r largest worths of rows from place s on, and of each column what r of these rows may add
    ahead, tail = np.zeros((count + 1, d + 1)), np.zeros((count + 1, d + 1, q))
    tops = np.zeros((q, d))
    for s in range(count - 1, -1, -1):
        i = order[s]
        for r in range(1, d + 1):
            ahead[s, r] = ahead[s, r - 1] + (max(0.0, by_row[order[s + r - 1]]) if s + r <= count else 0.0)
        for y in range(q):
            _keep(tops[y], w[i, left[y]] - u[i, left[y]])
            for r in range(1, d + 1):
                tail[s, r, y] = tail[s, r - 1, y] + tops[y, r - 1]
    base, fixed = np.zeros((d + 1, q)), np.zeros(d + 1)
    base[0] = b[left]
    place, chosen = np.zeros(d + 1, dtype=np.int64), np.full(d, -1)
    most = np.empty(d)
    depth = 0
    while depth >= 0:
        s, r = place[depth], d - depth
        value = -1.0
        if s < count:
            most[:] = 0.0
            for y in range(q):
                _keep(most, base[depth, y] + tail[s, r, y])
            value = fixed[depth] + ahead[s, r] + most.sum()
        if value <= best * (1.0 + _CLOSED):
            depth -= 1
            continue
        taken = order[s]
        place[depth], chosen[depth] = s + 1, taken
        fixed[depth + 1] = fixed[depth] + a[taken]
        most[:] = 0.0
        for y in range(q):
            base[depth + 1, y] = base[depth, y] + w[taken, left[y]]
            _keep(most, base[depth + 1, y])
        value = fixed[depth + 1] + most.sum()
        if value > best:
            best = value
            rows[:] = -1
            rows[: depth + 1] = chosen[: depth + 1]
            largest(base[depth + 1], columns)
            for x in range(d):
                if columns[x] >= 0:
                    columns[x] = left[columns[x]]
        if depth + 1 < d:
            depth += 1
            place[depth] = s + 1
    return best
