"""Whether an array program and a Pyomo model are one program, column by column and row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formulations.programs import LpArrays
from solvers.backends.pyomo_backends import arrays_of

RENAMED = {"throughput": "lambda", "kept_link": "kept", "busiest": "load", "makespan": "span"}
"""Names that Pyomo or Python has taken."""

Terms = dict[str, float]


def readable(name: str) -> str:
    """`flow[0,1,2]` as `flow_0_1_2`; of two rules the reference states both ends, or the earlier one."""
    head, _, index = name.partition("[")
    parts = [part.strip("'") for part in index.rstrip("]").split(",") if part]
    if head == "row_order":
        parts = parts[:2]
    if head == "prefix":
        parts[1] = str(int(parts[1]) + 1)
    return "_".join([RENAMED.get(head, head).removesuffix("_rows"), *parts])


def entries(program: LpArrays, rename: Any = lambda name: name) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns as (cost, bounds, whole) and rows as (bounds, terms), by name; rows that say nothing left out.

    Pyomo knows columns that some row or the cost uses, and splits ranges: only used columns, only one-sided rows count.
    """
    table = program.matrix().tocsr()
    used = (abs(table).sum(axis=0) != 0) | (program.cost != 0)
    columns = {
        rename(program.column_name(j)): (
            program.cost[j], program.lower[j], program.upper[j], bool(program.is_integer[j])
        )
        for j in np.flatnonzero(used).tolist()
    }  # fmt: skip
    rows: dict[str, Any] = {}
    for i in range(program.rows):
        part = slice(table.indptr[i], table.indptr[i + 1])
        terms = {
            rename(program.column_name(int(j))): float(v)
            for j, v in zip(table.indices[part], table.data[part], strict=True)
            if v
        }
        if terms:
            rows[rename(program.row_name(i))] = (terms, program.row_lower[i], program.row_upper[i])
    return columns, rows


def flipped(row: tuple[Terms, float, float]) -> tuple[Terms, float, float]:
    """The same row with every sign changed."""
    terms, low, high = row
    return {name: -value for name, value in terms.items()}, -high, -low


def assert_same_row(name: str, mine: tuple[Terms, float, float], theirs: tuple[Terms, float, float]) -> None:
    """Equal, up to a change of all signs (Pyomo moves terms across), and up to a lower side that bounds imply."""
    candidates = (theirs, flipped(theirs))
    for terms, low, high in candidates:
        sides = (mine[1] == low or (mine[1] == 0.0 and low == -np.inf), mine[2] == high)
        if terms == pytest.approx(mine[0]) and all(sides):
            return
    raise AssertionError(f"{name}: {mine} is not {theirs}")


def assert_same(program: LpArrays, model: Any, arcs: dict[str, str] | None = None) -> None:
    """Column by column and row by row."""
    names = arcs or {}
    columns, rows = entries(program)
    other_columns, other_rows = entries(arrays_of(model), lambda name: names.get(readable(name), readable(name)))
    assert columns.keys() == other_columns.keys()
    for name, column in columns.items():
        assert other_columns[name] == pytest.approx(column), name
    assert rows.keys() == other_rows.keys()
    for name, row in rows.items():
        assert_same_row(name, row, other_rows[name])
