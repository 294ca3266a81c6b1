"""Demand matrices in files: CSV, NPY, Parquet. Sizes are known before memory is taken, and nothing is unpickled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any, BinaryIO

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.units import MIB
from topoopt.files.documents import read_text
from topoopt.files.faults import value_text
from topoopt.files.fields import MAX_SERVERS

MAX_TEXT = 256 * MIB


def _bad(
    message: str, file: str, *, line: int | None = None, value: object = None, allowed: str | None = None
) -> InputError:
    shown = None if value is None else value_text(value)
    return InputError([Problem(message, file=file, line=line, value=shown, allowed=allowed)])


def _fit_size(rows: int, columns: int, file: str) -> None:
    if rows != columns or not 2 <= rows <= MAX_SERVERS:
        allowed = f"a square matrix of 2 to {MAX_SERVERS} servers"
        raise _bad("wrong size of a demand matrix", file, value=f"{rows} x {columns}", allowed=allowed)


def read_csv_matrix(path: str | os.PathLike[str]) -> Floats:
    """n lines of n numbers, parted by commas (or semicolons, or blanks); # comments; NaN and infinity are refused.

    Raises:
        InputError: a cell that is not a finite number, lines of different length, not square, too large.
    """
    file = os.fspath(path)
    rows: list[list[float]] = []
    for number, raw in enumerate(read_text(path, MAX_TEXT).splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        mark = "," if "," in line else ";" if ";" in line else None
        cells = line.split(mark)
        if len(rows) >= MAX_SERVERS or len(cells) > MAX_SERVERS:
            raise _bad("too large", file, line=number, allowed=f"at most {MAX_SERVERS} servers")
        rows.append([_number(cell.strip(), file, number) for cell in cells])
        if len(cells) != len(rows[0]):
            raise _bad("lines of different length", file, line=number, value=len(cells), allowed=str(len(rows[0])))
    _fit_size(len(rows), len(rows[0]) if rows else 0, file)
    return np.array(rows, dtype=np.float64)


def _number(cell: str, file: str, line: int) -> float:
    try:
        value = float(cell) if "_" not in cell else float("nan")
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise _bad("not a finite number", file, line=line, value=cell)
    return value


def read_npy_matrix(path: str | os.PathLike[str]) -> Floats:
    """A NumPy array file; arrays of objects, which would have to be unpickled, are refused.

    Raises:
        InputError: not an NPY file, not a square matrix of numbers, shorter than its header says.
    """
    file = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            shape, dtype, column_order = npy_header(stream)
            if dtype.hasobject or dtype.kind not in "iuf":
                raise _bad("not an array of numbers", file, value=str(dtype), allowed="integers or floats")
            if len(shape) != 2:
                raise _bad("not a matrix", file, value=f"{len(shape)} axes", allowed="two axes")
            _fit_size(*shape, file)
            need = shape[0] * shape[1] * dtype.itemsize
            content = stream.read(need + 1)
    except OSError as error:
        raise _bad(f"cannot be read: {error.strerror}", file) from None
    except ValueError as error:
        raise _bad("not an NPY file", file, value=str(error)) from None
    if len(content) != need:
        raise _bad("content and header of the file disagree", file, value=f"{len(content)} bytes", allowed=f"{need}")
    values = np.frombuffer(content, dtype=dtype).astype(np.float64).reshape(shape)  # square, checked above
    return values.T.copy() if column_order else values


def npy_header(stream: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Shape, type and whether columns come first, of an NPY file of version 1 or 2.

    Raises:
        ValueError: another version, or no NPY file.
    """
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version}")
    shape, column_order, dtype = readers[version](stream)
    return shape, dtype, column_order


def read_parquet_matrix(path: str | os.PathLike[str]) -> Floats:
    """A Parquet table of n rows and n columns of numbers; needs pyarrow.

    Raises:
        InputError: pyarrow is not installed, not a Parquet file, not square, a cell missing or not a number.
    """
    file = os.fspath(path)
    try:
        pyarrow: Any = import_module("pyarrow")  # an extra, without types
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise _bad("Parquet files need pyarrow", file, allowed="pip install pyarrow, or a .csv file") from None
    try:
        with parquet.ParquetFile(path) as source:
            _fit_size(source.metadata.num_rows, source.metadata.num_columns, file)
            kinds = source.schema_arrow.types
            if not all(pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) for kind in kinds):
                raise _bad("a column that is not of numbers", file)
            table = source.read()
            return np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns])
    except (OSError, pyarrow.ArrowException) as error:
        raise _bad("not a Parquet file", file, value=str(error)) from None


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
        raise _bad("unknown kind of demand file", os.fspath(path), value=file.suffix, allowed=allowed)
    if not file.is_file():
        raise _bad("no such file" if not file.exists() else "not a regular file", os.fspath(path))
    return DEMAND_READERS[file.suffix.lower()](path)
