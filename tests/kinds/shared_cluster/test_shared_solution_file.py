"""Solution files of shared clusters, and the report made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.shared_cases import PARTITIONED, fat_tree, plain_class, shared_cluster
from topoopt.core.errors import InputError
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster.ranges import ranges_text, servers_of_text
from topoopt.kinds.shared_cluster.report import render_shared
from topoopt.kinds.shared_cluster.solution_file import SOLUTION_FILE
from topoopt.verify.shared_cluster.check import check_shared_cluster

PROBLEM = shared_cluster(
    [(0.0, 0, 5), (0.5, 1, 7), (1.0, 0, 2)],
    [plain_class("<b>two</b>", 2), plain_class("five", 5)],
    fabrics=(PARTITIONED, fat_tree()),
)


@pytest.fixture(scope="module")
def solution() -> SharedClusterSolution:
    """Three jobs on two fabrics."""
    return solve(PROBLEM)


@settings(derandomize=True, max_examples=50)
@given(st.sets(st.integers(0, 4095), min_size=1, max_size=60))
def test_ranges_of_servers(servers: set[int]) -> None:
    """Text and back."""
    ordered = sorted(servers)
    assert servers_of_text(ranges_text(np.array(ordered))) == ordered


def test_round_trip(solution: SharedClusterSolution, tmp_path: Path) -> None:
    """What is read back writes the same bytes, passes the check and gives the same report."""
    SOLUTION_FILE.write(solution, tmp_path / "a.json")
    again = SOLUTION_FILE.read(tmp_path / "a.json")
    SOLUTION_FILE.write(again, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert check_shared_cluster(PROBLEM, again).violations == ()
    assert render_shared(again) == render_shared(solution)


def test_names_are_escaped(solution: SharedClusterSolution) -> None:
    """A class named like a tag stays text."""
    page = render_shared(solution)
    assert "<b>two</b>" not in page
    assert "&lt;b&gt;two&lt;/b&gt;" in page


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("stays", 0, 6), "0-99999999999", "no such servers"),
        (("stays", 0, 6), "3,1", "servers out of order"),
        (("stays", 0, 6), "1--2", "characters"),
        (("stays", 0, 1), 7, "no such run or job"),
        (("stays", 0, 2), -1.0, "out of range"),
        (("jobs", 0, 2), 5, "no such class"),
        (("groups",), [0], "wrong number of groups"),
        (("runs", 0, "unfinished"), [9], "no such job"),
        (("stays",), [], "without job 0, which has no stay"),
        (("runs", 0, "metrics"), {}, "unknown key"),
        (("colour",), "red", "unknown key"),
    ],
)
def test_broken_files_are_refused(
    solution: SharedClusterSolution, tmp_path: Path, path: tuple[Any, ...], value: Any, message: str
) -> None:
    """Indices out of range and texts of other shapes, never a crash."""
    file = tmp_path / "broken.json"
    SOLUTION_FILE.write(solution, file)
    document = json.loads(file.read_text())
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        SOLUTION_FILE.read(file)
