"""Demand matrices and traces in files: CSV, NPY, NPZ, Parquet; sizes are known before memory is taken."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from topoopt.core.arrays import MIB, Floats
from topoopt.core.errors import Problem, extra, raise_any
from topoopt.files.codec import MAX_SERVERS
from topoopt.files.graph_files import SOURCES, TARGETS, Row, column_of, is_header, table_rows
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, used
from topoopt.files.untrusted import opened, opened_zip, parsing, read_bytes, refusal, unpacked

START_BYTES = 16_384
"""Beginning of a file that holds its header, which NumPy takes up to 10 000 bytes long."""

_HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class ArrayHeader:
    """What an array file says of itself.

    Attributes:
        shape: of the array, every axis of at least one entry.
        dtype: of its entries, whole numbers or floats.
        by_columns: whether the first axis changes fastest.
        begin: bytes before the entries.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    begin: int

    @property
    def bytes_in_file(self) -> int:
        return self.begin + math.prod(self.shape) * self.dtype.itemsize


def array_header(start: bytes, file: str, name: str = "the array") -> ArrayHeader:
    """Header of an array, from the first `START_BYTES` of it.

    Raises:
        InputError: no NPY file of version 1 or 2, not an array of numbers, an axis without entries.
    """
    stream = io.BytesIO(start)
    with parsing(file, "an NPY file"):
        version = np.lib.format.read_magic(stream)
        if version not in _HEADER_READERS:
            raise ValueError(f"version {version}")
        shape, by_columns, dtype = _HEADER_READERS[version](stream)
    if dtype.hasobject or dtype.kind not in "iuf":
        raise refusal(f"{name} is not an array of numbers", file, value=str(dtype), allowed="integers or floats")
    if not all(type(size) is int and size > 0 for size in shape):
        raise refusal(f"{name} has an axis without entries", file, value=shape, allowed="positive whole numbers")
    return ArrayHeader(shape, dtype, by_columns, stream.tell())


def array_of(content: bytes, header: ArrayHeader, file: str) -> Floats:
    """The array of a whole file, as float64.

    Raises:
        InputError: the file is shorter or longer than its header says.
    """
    need = header.bytes_in_file
    if len(content) != need:
        raise refusal("content and header of the file disagree", file, value=f"{len(content)} bytes", allowed=str(need))
    entries = np.frombuffer(content, dtype=header.dtype, offset=header.begin)
    with np.errstate(all="ignore"):  # what is beyond the range of float64 becomes infinite, and is refused as such
        values = entries.astype(np.float64)
    return values.reshape(header.shape, order="F" if header.by_columns else "C")


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

    def placed(self, server_names: ServerNames, file: str) -> Floats:
        """The matrix in the order of the servers.

        Names are those of the servers, or their numbers. Servers that have numbers alone take the names of a full
        table in its order, and those of a table of pairs sorted, which is noted; others of a table of pairs have no
        demand.

        Raises:
            InputError: names that are of no server, servers that have no row and column.
        """
        if not self.names:
            return self.matrix
        servers, names = server_names.servers, server_names.names
        numbers = tuple(str(number) for number in range(servers))
        digits = all(name.isdecimal() for name in self.names)
        valid = numbers if not names or (digits and not set(self.names) & set(names)) else names
        enough = len(self.names) == servers if self.every else len(self.names) <= servers
        if not (names or digits) and enough and (self.every or not set(self.names) & set(numbers)):
            taken = self.names if self.every else tuple(sorted(self.names, key=_natural))
            shown = ", ".join(f"{number} = {value_text(name)}" for number, name in enumerate(taken[:8]))
            more = ", ..." if len(taken) > 8 else ""
            order = "in the order of" if self.every else "by the sorted names of"
            server_names.note(f"servers are numbered {order} {FilePath(file).name}: {shown}{more}")
            valid = server_names.names = (*taken, *numbers[len(taken) :])
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
        raise_any(problems)
        at = [number[name] for name in self.names]
        whole = np.zeros((servers, servers))
        whole[np.ix_(at, at)] = self.matrix
        return whole


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sorts server-2 before server-10."""
    parts = re.split(r"([0-9]+)", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


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
        column_of = {name: at for at, name in enumerate(named)}
        matrix = matrix[[column_of[name] for name in columns]]
    return DemandTable(matrix, columns)


def _names(rows: list[Row], file: str) -> tuple[tuple[str, ...], tuple[str, ...], list[Row]]:
    """Names of columns and of rows, empty where the first line is one of numbers; and the lines of numbers."""
    if len(rows) < 2:
        return (), (), rows
    head, below = rows[0].cells, rows[1:]
    has_corner = not _is_number(head[0]) and {row.cells[0] for row in below} == set(head[1:])
    if head[0] and any(_is_number(cell) for cell in head[1:] or head) and not has_corner:
        return (), (), rows  # of numbers, or meant to be
    width = len(below[0].cells)
    if width == len(head) and len(below) != width - 1:  # names of the columns alone
        _refuse_other_names(head, head, below, file)
        return head, head, below
    columns = head[1:] if width == len(head) else head  # with something, or nothing, in the corner
    named = tuple(row.cells[0] for row in below)
    _refuse_other_names(columns, named, below, file)
    return columns, named, [Row(row.line, row.cells[1:]) for row in below]


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
    """A table of pairs with their amounts."""
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
    index_of = {name: at for at, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)))
    for (source, sink), value in entries.items():
        matrix[index_of[source], index_of[sink]] = value
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


MOST_BYTES = 256 * MIB
"""Of a file, and of all its matrices as float64."""

MOST_ARRAYS = 1000


def read_trace(path: str | os.PathLike[str]) -> Floats:
    """float64[k, n, n]: the matrices of an .npy or .npz file, arrays of the latter in the order of their names.

    Raises:
        InputError: another ending, no such file, no NumPy file, arrays that are no square matrices of one size.
    """
    file = os.fspath(path)
    ending = FilePath(file).suffix.lower()
    if ending not in _TRACE_READERS:
        raise refusal("unknown kind of trace", file, value=ending, allowed=", ".join(_TRACE_READERS))
    return _TRACE_READERS[ending](file)


def _one_array(file: str) -> Floats:
    content = read_bytes(file, MOST_BYTES, "an NPY file")
    header = array_header(content[:START_BYTES], file)
    _fit({"the array": header}, file)
    return _stack(array_of(content, header, file))


def _archive(file: str) -> Floats:
    with opened_zip(file, MOST_BYTES, "an NPZ file") as archive:
        names = sorted((name for name in dict.fromkeys(archive.namelist()) if name.endswith(".npy")), key=_order)
        if not 0 < len(names) <= MOST_ARRAYS:
            allowed = f"1 to {MOST_ARRAYS} arrays (*.npy) in the archive"
            raise refusal("wrong number of arrays", file, value=len(names), allowed=allowed)
        headers = {name: array_header(unpacked(archive, name, START_BYTES), file, name) for name in names}
        _fit(headers, file)
        for name, header in headers.items():
            size = archive.getinfo(name).file_size
            if header.bytes_in_file != size:
                value = f"{name}: {size} bytes"
                raise refusal("content and header disagree", file, value=value, allowed=str(header.bytes_in_file))
        parts = [
            _stack(array_of(unpacked(archive, name, header.bytes_in_file), header, file))
            for name, header in headers.items()
        ]
    return np.concatenate(parts)


_TRACE_READERS: Mapping[str, Callable[[str], Floats]] = {".npy": _one_array, ".npz": _archive}

TRACE_ENDINGS = tuple(_TRACE_READERS)


def _order(name: str) -> tuple[int, str]:
    return len(name), name


def _fit(headers: Mapping[str, ArrayHeader], file: str) -> None:
    """Refuse arrays that are no square matrices of one size, or that take too much memory."""
    for name, header in headers.items():
        shape = header.shape
        if len(shape) not in (2, 3) or shape[-1] != shape[-2] or shape[-1] > MAX_SERVERS:
            text = " x ".join(map(str, shape))
            allowed = f"n x n, or k x n x n, n at most {MAX_SERVERS}"
            raise refusal(f"{name} is no square matrix and no stack of them", file, value=text, allowed=allowed)
    sizes = sorted({header.shape[-1] for header in headers.values()})
    if len(sizes) > 1:
        raise refusal("matrices of different size", file, value=sizes, allowed="one number of servers")
    total = sum((math.prod(header.shape) * 8) for header in headers.values())
    if total > MOST_BYTES:
        raise refusal("too many matrices", file, value=f"{total} bytes", allowed=f"at most {MOST_BYTES} as float64")


def _stack(array: Floats) -> Floats:
    return array.reshape(-1, *array.shape[-2:])


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


def read_npy_matrix(path: str | os.PathLike[str]) -> DemandTable:
    """A NumPy array file; arrays of objects, which would have to be unpickled, are refused.

    Raises:
        InputError: not an NPY file, not a square matrix of numbers, shorter than its header says.
    """
    file = os.fspath(path)
    content = read_bytes(file, MAX_TEXT, "an NPY file")
    header = array_header(content[:START_BYTES], file)
    if len(header.shape) != 2:
        raise refusal("not a matrix", file, value=f"{len(header.shape)} axes", allowed="two axes")
    fit_size(header.shape[0], header.shape[1], file)
    return DemandTable(np.ascontiguousarray(array_of(content, header, file)))


def read_parquet_matrix(path: str | os.PathLike[str]) -> DemandTable:
    """A Parquet table of n rows and n columns of numbers; a missing cell is NaN. Rows are in the order of the columns.

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
        fit_size(int(claimed[0][0] or 0), len(kinds), file)
        if not set(kinds) <= NUMBERS:
            raise refusal("a column that is not of numbers", file)
        try:
            columns = connection.execute(f"SELECT * FROM {table}", source).fetchnumpy()
        except duckdb.OutOfMemoryException:
            allowed = f"at most {DUCKDB_LIMITS['memory_limit']}"
            raise refusal("too much once it is unpacked", file, allowed=allowed) from None
        cells = [np.ma.filled(column.astype(np.float64), np.nan) for column in columns.values()]
        fit_size(len(cells[0]), len(cells), file)
        return DemandTable(np.column_stack(cells), tuple(columns))


DEMAND_READERS: Mapping[str, Callable[[Any], DemandTable]] = {
    ".csv": read_csv_matrix,
    ".txt": read_csv_matrix,
    ".npy": read_npy_matrix,
    ".parquet": read_parquet_matrix,
}


def read_demand(path: str | os.PathLike[str]) -> DemandTable:
    """A square matrix of finite or missing (NaN) numbers, by the ending of the file's name.

    Raises:
        InputError: unknown ending, no such file, and whatever the reader finds.
    """
    file = FilePath(os.fspath(path))
    if file.suffix.lower() not in DEMAND_READERS:
        allowed = ", ".join(DEMAND_READERS)
        raise refusal("unknown kind of demand file", os.fspath(path), value=file.suffix, allowed=allowed)
    return DEMAND_READERS[file.suffix.lower()](path)
