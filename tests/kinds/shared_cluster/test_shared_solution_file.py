"""Solution files of shared clusters, and the report made of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kinds.shared_cluster.test_best_scheduling import DOCUMENT
from tests.support.shared_cases import PARTITIONED, fat_tree, plain_class, shared_cluster
from topoopt.core.errors import InputError
from topoopt.core.result import Result
from topoopt.core.shared_cluster import ranges_text, servers_of_text
from topoopt.files.documents import Document
from topoopt.kinds import kind_of
from topoopt.kinds.files import build_instance, converted
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster import SOLUTION_FILE
from topoopt.verify.checker import FULL

PROBLEM = shared_cluster(
    [(0.0, 0, 5), (0.5, 1, 7), (1.0, 0, 2)],
    [plain_class("<b>two</b>", 2), plain_class("five", 5)],
    fabrics=(PARTITIONED, fat_tree()),
)


@pytest.fixture(scope="module")
def solution() -> Result[Any, Any]:
    """Three jobs on two fabrics."""
    return solve(PROBLEM)


@settings(max_examples=50)
@given(st.sets(st.integers(0, 4095), min_size=1, max_size=60))
def test_ranges_of_servers(servers: set[int]) -> None:
    """Text and back."""
    ordered = sorted(servers)
    assert servers_of_text(ranges_text(np.array(ordered))) == ordered


def test_round_trip(solution: Result[Any, Any], tmp_path: Path) -> None:
    """What is read back writes the same bytes, passes the check and gives the same report."""
    SOLUTION_FILE.write(solution, tmp_path / "a.json")
    again = replace(SOLUTION_FILE.read(tmp_path / "a.json"), problem=PROBLEM)
    SOLUTION_FILE.write(again, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert kind_of(PROBLEM).check(PROBLEM, again, FULL).violations == ()
    assert kind_of(again).pages().report(again) == kind_of(solution).pages().report(solution)


def test_names_are_escaped(solution: Result[Any, Any]) -> None:
    """A class named like a tag stays text."""
    page = kind_of(solution).pages().report(solution)
    assert "<b>two</b>" not in page
    assert "&lt;b&gt;two&lt;/b&gt;" in page


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("servers", 0), "1--2", "characters"),
        (("servers", 0), 3, "servers"),
        (("job", 0), -1, "out of range"),
        (("job", 0), 0.5, "job"),
        (("start_s", 0), -1.0, "out of range"),
        (("start_s",), {}, "start_s"),
        (("metrics",), {}, "unknown key"),
    ],
)
def test_broken_files_are_refused(
    solution: Result[Any, Any], tmp_path: Path, path: tuple[Any, ...], value: Any, message: str
) -> None:
    """Numbers out of range and texts of other shapes, never a crash."""
    file = tmp_path / "broken.json"
    SOLUTION_FILE.write(solution, file)
    document = json.loads(file.read_text())
    inner = document["plan"]["schedules"][0]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        SOLUTION_FILE.read(file)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"servers": ("0-99999999999", "0-4", "2-3")}, "stays"),
        ({"servers": ("3,1", "0-4", "2-3")}, "stays"),
        ({"servers": ("0-1",)}, "stays"),
        ({"job": np.array([7, 1, 2])}, "stays"),
        ({"unfinished": np.array([9]), "cut_s": 20.0}, "stays"),
        ({"job": np.zeros(0, int), "start_s": np.zeros(0), "end_s": np.zeros(0), "servers": ()}, "runs"),
    ],
)
def test_broken_tables_are_rejected(solution: Result[Any, Any], changes: dict[str, Any], code: str) -> None:
    """Indices out of range and servers out of order, which the checker sees."""
    first, *others = solution.plan.schedules
    plan = replace(solution.plan, schedules=(replace(first, **changes), *others))
    findings = kind_of(PROBLEM).check(PROBLEM, replace(solution, plan=plan), FULL)
    assert code in {violation.code for violation in findings.violations}, findings.violations


def test_files_of_format_2_are_read_once_more(tmp_path: Path) -> None:
    """Their stays had all times, and their jobs stood beside them; what is decided is taken over, to the same value."""
    result = solve(build_instance(Document("", DOCUMENT, lambda _: {})))
    figures, head = result.figures, SOLUTION_FILE.document(result)
    stays = [
        [index, *(float(column[stay]) for column in (run.stays.job, run.stays.held_from_s, run.stays.work_from_s)),
         float(run.stays.work_to_s[stay]), float(run.stays.held_to_s[stay]), ranges_text(run.stays.servers_of(stay))]
        for index, run in enumerate(figures.runs)
        for stay in range(len(run.stays))
    ]  # fmt: skip
    old = {
        **head,
        "schema_version": 2,
        "bound": {"value": result.bound.value, "proved_by": result.bound.argument.value},
        "runs": [{"unfinished": np.flatnonzero(~run.finished).tolist()} for run in figures.runs],
        "stays": [[row[0], int(row[1]), *row[2:]] for row in stays],
    }
    old.pop("plan")
    (tmp_path / "old.json").write_text(json.dumps(old))
    again = converted(tmp_path / "old.json", None, FULL)
    assert again.check.ok, again.check.violations
    assert SOLUTION_FILE.document(again)["plan"] == head["plan"]
    assert again.figures.objective == result.objective
