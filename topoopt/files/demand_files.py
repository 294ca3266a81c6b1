"""Demand matrices in files: CSV, NPY, Parquet. Sizes are known before memory is taken, and nothing is unpickled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from topoopt.core.extras import extra
from topoopt.files.demand_tables import MAX_TEXT, DemandTable, fit_size, read_csv_matrix
from topoopt.files.numpy_files import START_BYTES, array_header, array_of
from topoopt.files.untrusted import opened, parsing, read_bytes, refusal

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
