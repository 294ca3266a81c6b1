"""Names in demand tables are those of servers, in whatever order; pairs, Parquet tables, and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.chakra_files import shared
from tests.support.network_files import ROUTING, TOPOLOGY, load, refused, with_
from topoopt.kinds.files import read_instance

NAMED = "source,target\nA,B\nB,C\nC,A\n"
DEMAND = [[0, 5, 1], [0, 0, 0], [2, 0, 0]]


def named(folder: Path, demand: str, name: str = "d.csv") -> dict[str, Any]:
    """A ring of servers A, B and C, and a demand in a file."""
    (folder / "ring.csv").write_text(NAMED)
    (folder / name).write_text(demand)
    return with_(ROUTING, topology={"file": "ring.csv"}, demand={"file": name})


@pytest.mark.parametrize(
    "text",
    [
        ",A,B,C\nA,0,5,1\nB,0,0,0\nC,2,0,0\n",
        ",C,B,A\nC,0,0,2\nB,0,0,0\nA,1,5,0\n",
        ",C,B,A\nA,1,5,0\nB,0,0,0\nC,0,0,2\n",
        "C,B,A\n0,0,2\n0,0,0\n1,5,0\n",
        ",2,1,0\n2,0,0,2\n1,0,0,0\n0,1,5,0\n",
        "id,2,1,0\n0,1,5,0\n1,0,0,0\n2,0,0,2\n",
        "0,5,1\n0,0,0\n2,0,0\n",
        "source,target,demand\nA,B,5\nC,A,2\nA,C,1\n",
        "from;to;value\nC;A;2\nA;C;1\nA;B;5\n",
        "source,demand,target\n0,5,1\n2,2,0\n0,1,2\n",
    ],
)
def test_one_demand_in_any_order(tmp_path: Path, text: str) -> None:
    """By names, by numbers, by pairs, or in the order of the servers where there are no names."""
    problem = load(tmp_path, named(tmp_path, text))
    assert problem.demand.tolist() == DEMAND
    assert any("0 = 'A', 1 = 'B', 2 = 'C'" in note for note in problem.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            ",A,B,D\nA,0,5,1\nB,0,0,0\nD,2,0,0\n",
            ("of no server (value: 'D')", "without a row and a column (value: 'C')"),
        ),
        (",A,B\nA,0,5\nB,0,0\n", ("servers without a row and a column (value: 'C')",)),
        (",A,B,B\nA,0,5,1\nB,0,0,0\nB,2,0,0\n", ("the name of a column more than once",)),
        (",A,B,C\nA,0,5,1\nB,0,0,0\nB,2,0,0\n", ("the name of a row more than once",)),
        (",A,B,C\nA,0,5,1\nB,0,0,0\nD,2,0,0\n", ("names of the rows are not those of the columns",)),
        ("source,target,demand\nA,D,5\n", ("names that are of no server (value: 'D')",)),
        ("source,target,demand\nA,B,5\nA,B,6\n", ("a pair more than once",)),
        ("source,target,demand,hops\nA,B,5,1\n", ("a column that is not understood (value: 'hops')",)),
        ("source,target,kilobits\nA,B,5\n", ("no column of amounts",)),
        ("source,target,demand\nA,B\n", ("lines of different length",)),
    ],
)
def test_names_that_do_not_fit_are_refused(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    message = refused(tmp_path, named(tmp_path, text))
    assert all(word in message for word in words), message


def test_servers_of_numbers_take_the_names_of_a_table(tmp_path: Path) -> None:
    """In its order, and say so; a second table is then matched by them."""
    (tmp_path / "one.csv").write_text(",a,b,c,d\n" + "".join(f"{x},{y}\n" for x, y in zip("abcd", ROWS, strict=True)))
    (tmp_path / "two.csv").write_text(",d,c,b,a\nd,0,0,0,0\nc,0,0,0,0\nb,0,0,0,0\na,0,0,7,0\n")
    found = load(tmp_path, {**with_(TOPOLOGY), "demand": None, "demands": [{"file": "one.csv"}, {"file": "two.csv"}]})
    assert found.demand[0, 0].tolist() == [0, 1, 2, 3]
    assert np.argwhere(found.demand[1]).tolist() == [[0, 1]]
    assert found.notes == ("servers are numbered in the order of one.csv: 0 = 'a', 1 = 'b', 2 = 'c', 3 = 'd'",)
    (tmp_path / "bad.csv").write_text(",0,1,2,4\n" + "".join(f"{x},{y}\n" for x, y in zip("0124", ROWS, strict=True)))
    message = refused(tmp_path, with_(TOPOLOGY, demand={"file": "bad.csv"}))
    assert "of no server (value: '4')" in message
    assert "without a row and a column (value: '3')" in message


ROWS = ("0,1,2,3", "0,0,0,0", "0,0,0,0", "0,0,0,0")


@pytest.mark.parametrize("name", ["n5a", "n5b"])
def test_one_demand_in_two_orders(name: str) -> None:
    """Server A sends 5 to server B, whatever the order of the table."""
    problem = read_instance(shared(f"false_claims/readers/{name}.yaml"))
    assert problem.demand.tolist() == [[0, 5, 0], [0, 0, 0], [0, 0, 0]]


def test_a_table_of_pairs_names_servers_of_numbers(tmp_path: Path) -> None:
    """By sorted names, host-2 before host-10; servers that it does not name come last, without demand."""
    (tmp_path / "pairs.csv").write_text("source,target,demand\nhost-10,host-2,5\nhost-2,host-10,3\n")
    problem = load(tmp_path, with_(TOPOLOGY, demand={"file": "pairs.csv"}))
    assert problem.servers == 4
    assert np.argwhere(problem.demand).tolist() == [[0, 1], [1, 0]]
    assert problem.demand[0, 1] == 3
    assert problem.demand[1, 0] == 5
    assert problem.notes == ("servers are numbered by the sorted names of pairs.csv: 0 = 'host-2', 1 = 'host-10'",)


@pytest.mark.parametrize(
    ("text", "strange"),
    [("a,b,1\nb,c,1\nc,d,1\nd,e,1\n", "'a', 'b', 'c', 'd', 'e'"), ("0,b,1\n", "'b'"), ("0,7,1\n", "'7'")],
)
def test_pairs_of_too_many_names_or_of_mixed_ones_are_refused(tmp_path: Path, text: str, strange: str) -> None:
    (tmp_path / "pairs.csv").write_text(f"source,target,demand\n{text}")
    message = refused(tmp_path, with_(TOPOLOGY, demand={"file": "pairs.csv"}))
    assert f"names that are of no server (value: {strange})" in message
