"""Demand matrices in CSV files: with names of rows and columns or without, as spreadsheets and pandas write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import topoopt
from topoopt.files.demand_files import read_csv_matrix

MATRIX = np.array([[0.0, 1.5, 2.0], [3.0, 0.0, 4.0], [5.0, 6.0, 0.0]])

PLAIN = "0,1.5,2\n3,0,4\n5,6,0\n"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "a,b,c\n" + PLAIN,
        ",a,b,c\na,0,1.5,2\nb,3,0,4\nc,5,6,0\n",
        "from/to,a,b,c\na,0,1.5,2\nb,3,0,4\nc,5,6,0\n",
        '"","a","b","c"\n"a",0,1.5,2\n"b",3,0,4\n"c",5,6,0\n',
        "a b c\na 0 1.5 2\nb 3 0 4\nc 5 6 0\n",
        "# Gbit/s\n;0;1;2\n0;0;1.5;2\n1;3;0;4\n2;5;6;0\n",
        "\ufeff,a,b,c\r\na,0,1.5,2\r\nb,3,0,4\r\nc,5,6,0\r\n",
    ],
)
def test_names_are_left_out(text: str, tmp_path: Path) -> None:
    """Of columns, of both, quoted, with something in the corner or nothing, with other marks."""
    file = tmp_path / "d.csv"
    file.write_text(text)
    assert np.array_equal(read_csv_matrix(file).matrix, MATRIX)


@pytest.mark.parametrize("names", [["a", "b", "c"], [0, 1, 2], ["10", "20", "30"]])
@pytest.mark.parametrize("index", [True, False])
def test_tables_of_pandas(names: list[object], index: bool, tmp_path: Path) -> None:
    """As they are written, where names of rows are numbers as well; columns alone only by names that are none."""
    file = tmp_path / "d.csv"
    pd.DataFrame(MATRIX, index=names, columns=names).to_csv(file, index=index)
    if index or names == ["a", "b", "c"]:
        assert np.array_equal(read_csv_matrix(file).matrix, MATRIX)
    else:
        with pytest.raises(topoopt.InputError):  # four lines of three numbers
            read_csv_matrix(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (",a,b\na,0,1\nc,2,0\n", "names of the rows are not those of the columns"),
        (",a,b\na,0,1\nb,2,x\n", "not a finite number"),
        ("0,x\n1,0\n", "names|not a finite number"),
        ("0,1,x\n1,0,2\n3,4,0\n", "not a finite number"),
        (",a,b\na,0,1\nb,2\n", "lines of different length"),
        ("a,b\n0,1\n", "names|square"),
        ("a,b,c\n0,nan,1\n1,0,1\n1,1,0\n", "not a finite number"),
    ],
)
def test_what_is_wrong_is_refused(text: str, words: str, tmp_path: Path) -> None:
    """Rows of other names than the columns; a cell of the first line that is no number is no name."""
    file = tmp_path / "d.csv"
    file.write_text(text)
    with pytest.raises(topoopt.InputError, match=words):
        read_csv_matrix(file)
