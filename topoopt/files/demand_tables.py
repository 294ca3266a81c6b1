"""Demand matrices in tables of text: with names of servers or without, or pair by pair."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as FilePath

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.units import MIB
from topoopt.files.faults import value_text
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.known_fields import used
from topoopt.files.link_tables import SOURCES, TARGETS, Row, column_of, is_header, table_rows
from topoopt.files.reader_fields import FieldTable
from topoopt.files.untrusted import refusal

MAX_TEXT = 256 * MIB
MAX_PAIRS = 1_000_000
"""Lines of a table of pairs."""

AMOUNTS = ("demand", "value", "amount", "traffic", "volume")
"""Names of the column of amounts in a table of pairs."""

FIELDS: FieldTable = {
    **dict.fromkeys(SOURCES, used("server that sends")),
    **dict.fromkeys(TARGETS, used("server that receives")),
    **dict.fromkeys(AMOUNTS, used("demand of the pair")),
}
"""Columns of a table of pairs: one of each."""


@dataclass
class ServerNames:
    """The servers that a demand is between.

    Attributes:
        servers: n.
        note: takes what is worth telling.
        names: of the servers; empty as long as they have numbers alone.
    """

    servers: int
    note: Callable[[str], None]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class DemandTable:
    """A demand matrix as a file states it.

    Attributes:
        matrix: float64[k, k].
        names: of the servers of its rows and columns; empty where the file has none.
        every: whether every server must be there; else those that are not have no demand.
    """

    matrix: Floats
    names: tuple[str, ...] = ()
    every: bool = True

    def placed(self, known: ServerNames, file: str) -> Floats:
        """The matrix in the order of the servers.

        Names are those of the servers, or their numbers. Servers that have numbers alone take the names of a full
        table in its order, which is noted.

        Raises:
            InputError: names that are of no server, servers that have no row and column.
        """
        if not self.names:
            return self.matrix
        servers, names = known.servers, known.names
        numbers = tuple(str(number) for number in range(servers))
        digits = all(name.isdecimal() for name in self.names)
        valid = numbers if not names or (digits and not set(self.names) & set(names)) else names
        if not names and not digits and self.every and len(self.names) == servers:
            shown = ", ".join(f"{number} = {value_text(name)}" for number, name in enumerate(self.names[:8]))
            more = ", ..." if len(self.names) > 8 else ""
            known.note(f"servers are numbered in the order of {FilePath(file).name}: {shown}{more}")
            known.names = self.names
            return self.matrix
        number = {name: at for at, name in enumerate(valid)}
        strange = [name for name in self.names if name not in number]
        missing = [name for name in valid if name not in self.names] if self.every else []
        problems = [
            Problem(text, file=file, value=", ".join(map(value_text, which[:8])), allowed=allowed)
            for text, which, allowed in (
                ("names that are of no server", strange, ", ".join(valid[:20])),
                ("servers without a row and a column", missing, "every server of the topology"),
            )
            if which
        ]
        if problems:
            raise InputError(problems)
        at = [number[name] for name in self.names]
        whole = np.zeros((servers, servers))
        whole[np.ix_(at, at)] = self.matrix
        return whole


def fit_size(rows: int, columns: int, file: str) -> None:
    if rows != columns or not 2 <= rows <= MAX_SERVERS:
        allowed = f"a square matrix of 2 to {MAX_SERVERS} servers"
        raise refusal("wrong size of a demand matrix", file, value=f"{rows} x {columns}", allowed=allowed)


def read_csv_matrix(path: str | os.PathLike[str]) -> DemandTable:
    """n lines of n numbers, parted by commas (or semicolons, or blanks); # comments; NaN and infinity are refused.

    A first line of names, and a first column of them, say which servers columns and rows are of, as spreadsheets and
    pandas write tables; names of columns alone are those of the rows as well. Or a table of pairs: a first line that
    names a column of sources, one of targets, and one of amounts; pairs that it does not list have no demand.

    Raises:
        InputError: a cell that is not a finite number, lines of different length, not square, too large, names of rows
            that are not those of the columns.
    """
    file = os.fspath(path)
    rows: list[Row] = []
    for row in table_rows(path, MAX_TEXT, "a text file of numbers"):
        rows.append(row)
        most = MAX_PAIRS if is_header(rows[0]) else MAX_SERVERS + 1
        if len(rows) > most or len(row.cells) > MAX_SERVERS + 1:
            allowed = f"at most {MAX_SERVERS} servers, or {MAX_PAIRS} pairs"
            raise refusal("too large", file, line=row.line, allowed=allowed)
    if rows and is_header(rows[0]):
        return _pairs(rows, file)
    columns, named, rows = _names(rows, file)
    for row in rows:
        if len(row.cells) != len(rows[0].cells):
            allowed = str(len(rows[0].cells))
            raise refusal("lines of different length", file, line=row.line, value=len(row.cells), allowed=allowed)
    fit_size(len(rows), len(rows[0].cells) if rows else 0, file)
    numbers = [[_number(cell, file, row.line) for cell in row.cells] for row in rows]
    matrix = np.array(numbers, dtype=np.float64)
    if named != columns:
        place = {name: at for at, name in enumerate(named)}
        matrix = matrix[[place[name] for name in columns]]
    return DemandTable(matrix, columns)


def _names(rows: list[Row], file: str) -> tuple[tuple[str, ...], tuple[str, ...], list[Row]]:
    """Names of columns and of rows, empty where the first line is one of numbers; and the lines of numbers.

    Raises:
        InputError: a name twice, names of rows that are not those of the columns.
    """
    if len(rows) < 2:
        return (), (), rows
    head, below = rows[0].cells, rows[1:]
    if head[0] and any(_is_number(cell) for cell in head[1:] or head) and not _has_corner(head, below):
        return (), (), rows  # of numbers, or meant to be
    width = len(below[0].cells)
    if width == len(head) and len(below) != width - 1:  # names of the columns alone
        _refuse_other_names(head, head, below, file)
        return head, head, below
    columns = head[1:] if width == len(head) else head  # with something, or nothing, in the corner
    named = tuple(row.cells[0] for row in below)
    _refuse_other_names(columns, named, below, file)
    return columns, named, [Row(row.line, row.cells[1:]) for row in below]


def _has_corner(head: tuple[str, ...], below: list[Row]) -> bool:
    """Whether a word stands over names of rows, beside names of columns that may be numbers."""
    return not _is_number(head[0]) and {row.cells[0] for row in below} == set(head[1:])


def _refuse_other_names(columns: tuple[str, ...], named: tuple[str, ...], rows: list[Row], file: str) -> None:
    for names, word in ((columns, "column"), (named, "row")):
        again = next((name for name in names if names.count(name) > 1), None)
        if again is not None:
            raise refusal(f"the name of a {word} more than once", file, value=again)
    for name, row in zip(named, rows, strict=False):
        if name not in columns:
            text = "the names of the rows are not those of the columns"
            raise refusal(text, file, line=row.line, value=name, allowed=", ".join(columns[:20]))
    missing = [name for name in columns if name not in named]
    if missing:
        text = "the names of the rows are not those of the columns: a row is missing"
        raise refusal(text, file, value=missing[0], allowed="a row for every column")


def _pairs(rows: list[Row], file: str) -> DemandTable:
    """A table of pairs with their amounts.

    Raises:
        InputError: no column of amounts, columns that are not understood, a pair twice.
    """
    head = rows[0]
    tail, target, amount = (column_of(head.cells, names) for names in (SOURCES, TARGETS, AMOUNTS))
    other = [name for at, name in enumerate(head.cells) if at not in (tail, target, amount)]
    if amount is None or tail is None or target is None or other:
        text = "a column that is not understood" if amount is not None else "no column of amounts"
        allowed = f"source, target and {AMOUNTS[0]} (or {', '.join(AMOUNTS[1:])}), no other columns"
        raise refusal(text, file, line=head.line, value=", ".join(other or head.cells), allowed=allowed)
    entries: dict[tuple[str, str], float] = {}
    for row in rows[1:]:
        if len(row.cells) != len(head.cells):
            raise refusal("lines of different length", file, line=row.line, value=len(row.cells), allowed="3")
        pair = row.cells[tail], row.cells[target]
        if pair in entries:
            raise refusal("a pair more than once", file, line=row.line, value=" -> ".join(pair))
        entries[pair] = _number(row.cells[amount], file, row.line)
    names = tuple(dict.fromkeys(end for pair in entries for end in pair))
    if not 2 <= len(names) <= MAX_SERVERS:
        raise refusal("wrong number of servers", file, value=len(names), allowed=f"2 to {MAX_SERVERS}")
    place = {name: at for at, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)))
    for (source, sink), value in entries.items():
        matrix[place[source], place[sink]] = value
    return DemandTable(matrix, names, every=False)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str, file: str, line: int) -> float:
    try:
        value = float(cell) if "_" not in cell else float("nan")
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise refusal("not a finite number", file, line=line, value=cell)
    return value
