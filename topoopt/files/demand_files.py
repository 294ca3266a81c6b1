"""Demand matrices in files: CSV, NPY, Parquet. Sizes are known before memory is taken, and nothing is unpickled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.extras import extra
from topoopt.core.units import MIB
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.numpy_files import START_BYTES, array_header, array_of
from topoopt.files.untrusted import opened, parsing, read_bytes, read_text, refusal

MAX_TEXT = 256 * MIB

DUCKDB_LIMITS: Mapping[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "512MiB",
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}
"""Of the reader of Parquet files."""

NUMBERS = {
    "FLOAT",
    "DOUBLE",
    *(sign + size for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")),
}
"""Types of columns as DuckDB names them."""


def _fit_size(rows: int, columns: int, file: str) -> None:
    if rows != columns or not 2 <= rows <= MAX_SERVERS:
        allowed = f"a square matrix of 2 to {MAX_SERVERS} servers"
        raise refusal("wrong size of a demand matrix", file, value=f"{rows} x {columns}", allowed=allowed)


def read_csv_matrix(path: str | os.PathLike[str]) -> Floats:
    """n lines of n numbers, parted by commas (or semicolons, or blanks); # comments; NaN and infinity are refused.

    A first line of names is left out, and a first column of them, where there is one: the same names in the same order,
    as spreadsheets and pandas write tables.

    Raises:
        InputError: a cell that is not a finite number, lines of different length, not square, too large, names of rows
            that are not those of the columns.
    """
    file = os.fspath(path)
    lines: list[tuple[int, list[str]]] = []
    for number, raw in enumerate(read_text(path, MAX_TEXT, "a text file of numbers").splitlines(), start=1):
        line = raw.partition("#")[0].strip(" \t\r\n\ufeff")
        if not line:
            continue
        mark = "," if "," in line else ";" if ";" in line else None
        cells = [cell.strip().strip('"') for cell in line.split(mark)]
        if len(lines) > MAX_SERVERS or len(cells) > MAX_SERVERS + 1:
            raise refusal("too large", file, line=number, allowed=f"at most {MAX_SERVERS} servers")
        lines.append((number, cells))
    rows = _without_names(lines, file)
    for number, cells in rows:
        if len(cells) != len(rows[0][1]):
            allowed = str(len(rows[0][1]))
            raise refusal("lines of different length", file, line=number, value=len(cells), allowed=allowed)
    _fit_size(len(rows), len(rows[0][1]) if rows else 0, file)
    return np.array([[_number(cell, file, number) for cell in cells] for number, cells in rows], dtype=np.float64)


def _without_names(lines: list[tuple[int, list[str]]], file: str) -> list[tuple[int, list[str]]]:
    """The lines of numbers, if the first line is none of them; and without the names before each.

    Raises:
        InputError: the names of the rows are not those of the columns.
    """
    if len(lines) < 2:
        return lines
    (_, head), rows = lines[0], lines[1:]
    if head[0] and any(_is_number(cell) for cell in head[1:] or head):
        return lines  # of numbers, or meant to be
    width = len(rows[0][1])
    if width == len(head) and len(rows) != width - 1:  # names of the columns alone
        return rows
    names = head[1:] if width == len(head) else head  # with something, or nothing, in the corner
    for name, (number, cells) in zip(names, rows, strict=False):
        if cells[0] != name:
            text = "the names of the rows are not those of the columns, in their order"
            raise refusal(text, file, line=number, value=cells[0], allowed=name)
    return [(number, cells[1:]) for number, cells in rows]


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


def read_npy_matrix(path: str | os.PathLike[str]) -> Floats:
    """A NumPy array file; arrays of objects, which would have to be unpickled, are refused.

    Raises:
        InputError: not an NPY file, not a square matrix of numbers, shorter than its header says.
    """
    file = os.fspath(path)
    content = read_bytes(file, MAX_TEXT, "an NPY file")
    header = array_header(content[:START_BYTES], file)
    if len(header.shape) != 2:
        raise refusal("not a matrix", file, value=f"{len(header.shape)} axes", allowed="two axes")
    _fit_size(header.shape[0], header.shape[1], file)
    return np.ascontiguousarray(array_of(content, header, file))


def read_parquet_matrix(path: str | os.PathLike[str]) -> Floats:
    """A Parquet table of n rows and n columns of numbers; a missing cell is NaN.

    DuckDB reads it: whatever a page of the file claims to unpack to, it takes no more memory than it is given.

    Raises:
        InputError: not a Parquet file, not square, a column that is not of numbers, too much once it is unpacked.
    """
    duckdb = extra("duckdb", "Parquet files")
    file = os.fspath(path)
    with (
        opened(file, MAX_TEXT, "a Parquet file") as stream,
        parsing(file, "a Parquet file"),
        duckdb.connect(":memory:", config=dict(DUCKDB_LIMITS)) as connection,
    ):
        # The open file by its number: its name could be a pattern, or an address, to DuckDB.
        table = "read_parquet(?, hive_partitioning = false)"
        source = [f"/dev/fd/{stream.fileno()}"]
        kinds = [row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}", source).fetchall()]
        claimed = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", source).fetchall()
        _fit_size(int(claimed[0][0] or 0), len(kinds), file)
        if not set(kinds) <= NUMBERS:
            raise refusal("a column that is not of numbers", file)
        try:
            columns = connection.execute(f"SELECT * FROM {table}", source).fetchnumpy()
        except duckdb.OutOfMemoryException:
            allowed = f"at most {DUCKDB_LIMITS['memory_limit']}"
            raise refusal("too much once it is unpacked", file, allowed=allowed) from None
        cells = [np.ma.filled(column.astype(np.float64), np.nan) for column in columns.values()]
        _fit_size(len(cells[0]), len(cells), file)
        return np.column_stack(cells)


DEMAND_READERS: Mapping[str, Callable[[Any], Floats]] = {
    ".csv": read_csv_matrix,
    ".txt": read_csv_matrix,
    ".npy": read_npy_matrix,
    ".parquet": read_parquet_matrix,
}


def read_demand(path: str | os.PathLike[str]) -> Floats:
    """A square matrix of finite or missing (NaN) numbers, by the ending of the file's name.

    Raises:
        InputError: unknown ending, no such file, and whatever the reader finds.
    """
    file = FilePath(os.fspath(path))
    if file.suffix.lower() not in DEMAND_READERS:
        allowed = ", ".join(DEMAND_READERS)
        raise refusal("unknown kind of demand file", os.fspath(path), value=file.suffix, allowed=allowed)
    return DEMAND_READERS[file.suffix.lower()](path)
