"""Solution files: exact round trips, the same bytes for the same solution, and no trust in what is read."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.same_value import assert_same
from topoopt.core.errors import InputError, TopooptError
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import Result
from topoopt.core.workload import PathTable
from topoopt.kinds.job import SOLUTION_FILE

JobResult = Result[Any, Any]


def test_a_solution_comes_back_bit_for_bit(tmp_path: Path, ring_solution: JobResult) -> None:
    """Every field, every array and its dtype survive the file."""
    path = tmp_path / "solution.json"
    SOLUTION_FILE.write(ring_solution, path)
    assert_same(SOLUTION_FILE.read(path), ring_solution)
    assert SOLUTION_FILE.text(SOLUTION_FILE.read(path)) == path.read_text(encoding="utf-8")


def test_a_plan_without_traffic_comes_back_too(tmp_path: Path, ring_solution: JobResult) -> None:
    """No routes, no rings: arrays of length zero keep their types."""
    none = np.zeros(0, dtype=np.int32)
    start = np.zeros(1, dtype=np.int64)
    routes = PathTable(4, none, none, start, np.zeros(0), start, none)
    plan = dataclasses.replace(ring_solution.plan, routes=routes, rings=())
    solution = dataclasses.replace(ring_solution, plan=plan)
    SOLUTION_FILE.write(solution, tmp_path / "a.json")
    assert_same(SOLUTION_FILE.read(tmp_path / "a.json"), solution)


def test_equal_solutions_give_equal_bytes(ring_solution: JobResult) -> None:
    """The text depends on values only: numpy scalars are written as numbers."""
    objective = dataclasses.replace(ring_solution.objective, value=np.float64(1 / 3))
    other = dataclasses.replace(ring_solution, objective=objective)
    assert SOLUTION_FILE.text(other) == SOLUTION_FILE.text(ring_solution)


def test_the_file_is_plain_json(ring_solution: JobResult) -> None:
    """Decisions can be found by anybody's JSON reader; what follows from them is not there."""
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    assert document["kind"] == "co-optimisation-solution"
    assert document["objective"] == {"name": "iteration time", "value": 1 / 3, "unit": "ms"}
    assert document["plan"]["topology"]["switches"] == [[1, 0, 3, 2], [3, 2, 1, 0]]
    assert document["plan"]["routes"] == [[0.1, [0, 1, 2]], [0.9, [0, 3, 2]], [1.0, [2, 1, 0]]]
    assert document["plan"]["rings"] == [[[1.0, [[0], [1], [2], [3]]]]]
    assert set(document["plan"]) == {
        "strategy", "topology", "routes", "rings", "schedules", "link_sharing", "comparison"
    }  # fmt: skip


def test_numbers_that_are_not_finite_are_never_written(tmp_path: Path, ring_solution: JobResult) -> None:
    """A bug upstream ends in an error, not in a file nobody can read."""
    objective = dataclasses.replace(ring_solution.objective, value=float("inf"))
    with pytest.raises(TopooptError, match="cannot be written"):
        SOLUTION_FILE.write(dataclasses.replace(ring_solution, objective=objective), tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("status", "stopped_by"), [*itertools.product(Status, StopReason)])
def test_every_state_comes_back(
    tmp_path: Path, ring_solution: JobResult, status: Status, stopped_by: StopReason
) -> None:
    """Every status and every reason to stop can stand in a file."""
    solution = dataclasses.replace(ring_solution, status=status, stopped_by=stopped_by)
    SOLUTION_FILE.write(solution, tmp_path / "a.json")
    back = SOLUTION_FILE.read(tmp_path / "a.json")
    assert (back.status, back.stopped_by) == (status, stopped_by)


def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """A change of the value at a path."""

    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for part in path[:-1]:
            target = target[part]
        target[path[-1]] = value

    return change


SWITCHES = ("plan", "topology", "switches")
ROUTES = ("plan", "routes")
RING = ("plan", "rings", 0, 0)
SPOILT: list[tuple[Callable[[dict[str, Any]], None], str, str]] = [
    (put("schema_version", value=1), "schema_version", "out of range"),
    (put("status", value="optimum"), "status", "did you mean optimal"),
    (put("extra", value=1), "extra", "unknown key"),
    (put("objective", "value", value="fast"), "objective.value", "wrong type"),
    (put("objective", "value", value=float("nan")), "objective.value", "not a finite number"),
    (put("name", value="\x1b[2J"), "name", "control characters"),
    (put("plan", "strategy", 0, value=[-1, 0]), "plan.strategy[0][0]", "out of range"),
    (put("plan", "strategy", 0, value=[0, 4]), "plan", "an operator on server 4"),
    (put("plan", "link_sharing", value="lifo"), "plan.link_sharing", "did you mean fifo"),
    (put(*SWITCHES, 0, value=[1, 0, 3]), "plan.topology", "different numbers of servers"),
    (put(*SWITCHES, 0, 0, value=4), "plan.topology", "joins server 4"),
    (put(*SWITCHES, 0, 0, value=-2), "plan.topology.switches[0][0]", "out of range"),
    (put(*SWITCHES, value=[[-1] * 4] * 2), "plan.topology", "join no servers"),
    (put(*ROUTES, 0, value=[1.0, [2, 1, 0]]), "plan.routes", "do not ascend"),
    (put(*ROUTES, 0, 1, 1, value=7), "plan", "a route on server 7"),
    (put(*ROUTES, 0, 1, value=[0]), "plan.routes[0][1]", "wrong length"),
    (put(*ROUTES, 0, 0, value=-0.5), "plan.routes[0][0]", "out of range"),
    (put(*RING, 1, 0, 0, value=6), "plan", "a ring on server 6"),
    (put(*RING, 1, 0, value=[]), "plan.rings[0][0][1][0]", "wrong length"),
    (put(*RING, 0, value=0), "plan.rings[0][0][0]", "out of range"),
    (put("plan", "comparison", "strategies", 0, "strategy", 0, value=[0]), "", "missing"),
    (put("certificates", 0, "arrays", "weight", value=["x"]), "", "wrong type"),
    (put("versions", value=["1"]), "versions", "wrong type"),
]


@pytest.mark.parametrize(("change", "where", "words"), SPOILT)
def test_spoilt_solutions_are_refused_in_place(
    tmp_path: Path, ring_solution: JobResult, change: Callable[[dict[str, Any]], None], where: str, words: str
) -> None:
    """An index out of range, a table that does not fit, a wrong type: refused with path and line, exit code 2."""
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    change(document)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document, indent=1))
    with pytest.raises(InputError) as caught:
        SOLUTION_FILE.read(path)
    assert caught.value.exit_code == 2
    problems = [problem for problem in caught.value.problems if not where or problem.path == where]
    assert any(words in str(problem) for problem in problems), caught.value.problems
    assert all(problem.line is not None and problem.file == str(path) for problem in problems)


def test_a_file_of_format_2_names_the_conversion(tmp_path: Path, ring_solution: JobResult) -> None:
    """Format 2 held figures that follow from others; the message says what makes a file of today of it."""
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    document |= {"schema_version": 2, "initial_ms": 0.5}
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        SOLUTION_FILE.read(tmp_path / "a.json")
    (problem,) = caught.value.problems
    assert (problem.path, problem.value) == ("schema_version", "2")
    assert "topoopt convert" in str(problem)


def test_a_missing_section_is_named(tmp_path: Path, ring_solution: JobResult) -> None:
    """All missing sections are listed together."""
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    del document["plan"]["rings"], document["objective"], document["seed"]
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        SOLUTION_FILE.read(tmp_path / "a.json")
    found = {(problem.path, problem.message) for problem in caught.value.problems}
    assert found == {("plan.rings", "missing"), ("objective", "missing"), ("seed", "missing")}


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", "PK\x03\x04", '{"plan": ' * 100])
def test_files_that_are_no_solutions_are_refused(tmp_path: Path, content: str) -> None:
    """Empty, cut off, of another kind, nested without end."""
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError):
        SOLUTION_FILE.read(tmp_path / "a.json")
