"""Parquet files of unknown origin: what they claim is not believed, and nothing in them ends the process."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.parquet_by_hand import packed_matrix, table
from topoopt.core.errors import InputError
from topoopt.files.demand_files import read_demand


def test_parquet_pages_unpack_to_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    """122 kB that claim to be 16 bytes a column, with pages of 1.9 GB: refused, and never held."""
    path = tmp_path / "a.parquet"
    path.write_bytes(table(1, 16))
    assert read_demand(path).matrix.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    path.write_bytes(table(1900, 16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="too much once it is unpacked"):
        read_demand(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000  # kB


def test_parquet_statistics_that_do_not_fit(tmp_path: Path) -> None:
    """A histogram of two levels where there is one ended the process in a reader that was used before (pyarrow 26)."""
    path = tmp_path / "a.parquet"
    path.write_bytes(table(1, 16, histogram=(1, 1)))
    assert read_demand(path).matrix.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_parquet_files_with_names_that_mean_something(tmp_path: Path) -> None:
    """A name is no pattern, and no column comes from the folder."""
    folder = tmp_path / "c=1"
    folder.mkdir()
    for name in ("a*.parquet", "ab.parquet", "[x].parquet"):
        (folder / name).write_bytes(packed_matrix(np.eye(3) * len(name), "zstd"))
    for name in ("a*.parquet", "ab.parquet", "[x].parquet"):
        assert read_demand(folder / name).matrix.tolist() == (np.eye(3) * len(name)).tolist()


def test_parquet_cells(tmp_path: Path) -> None:
    """Missing cells are NaN; text, truth and times are refused; so is what is not square."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [0, None], "b": [1.5, 2.0]}), path)
    assert np.array_equal(read_demand(path).matrix, [[0.0, 1.5], [np.nan, 2.0]], equal_nan=True)
    for cells, words in ((["x", "y"], "not of numbers"), ([True, False], "not of numbers"), ([1, 2, 3], "wrong size")):
        pq.write_table(pa.table({"a": cells, "b": cells}), path)
        with pytest.raises(InputError, match=words):
            read_demand(path)
