"""`topoopt explain` of allocations: what is full, and gains that a second solve confirms, against hand-made cases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from solvers.stop import Stop
from topoopt.cli.app import app
from topoopt.core.allocation import AllocationProblem
from topoopt.core.errors import InputError
from topoopt.kinds.allocation.methods import Bottlenecks, explain, find_bottlenecks
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import Question, solve


def explained(problem: AllocationProblem, added_links: float = 1.0) -> Bottlenecks:
    """The bottlenecks of a solution."""
    return find_bottlenecks(problem, solve(problem), added_links, Question())


PARKING = Path("instances/networks/parking-lot-5.yaml")


def problem_of(folder: Path, **fields: Any) -> tuple[Path, AllocationProblem]:
    """An instance over a path 0 - 1 - 2 of 100 Gbit/s links."""
    document = {
        "schema_version": 1, "kind": "allocation", "name": "case", "link_gbps": 100,
        "topology": {"links": [[0, 1], [1, 2]], "directed": False}, **fields,
    }  # fmt: skip
    path = folder / "case.json"
    path.write_text(json.dumps(document))
    problem = read_instance(path)
    assert isinstance(problem, AllocationProblem)
    return path, problem


def test_one_full_link(tmp_path: Path) -> None:
    """Two transfers share a link and have 50 each; another link there gives them 100 each, and they are those named."""
    transfers = [{"name": "a", "source": 0, "destination": 1}, {"name": "b", "source": 0, "destination": 1},
                 {"name": "c", "source": 1, "destination": 2}]  # fmt: skip
    _, problem = problem_of(tmp_path, transfers=transfers)
    found = explained(problem)
    assert list(found.critical) == [0, 1]
    assert found.full == [("link 0 → 1", 2)]
    assert [gain[:2] for gain in found.gains] == [(["link 0 → 1"], [100.0])]
    assert found.gains[0][2] == pytest.approx(100.0)


def test_parking_lot() -> None:
    """No single link helps the smallest rate of 50, as another one stays full; all four together double it."""
    problem = read_instance(PARKING)
    assert isinstance(problem, AllocationProblem)
    found = explained(problem)
    assert [value for _, _, value in found.gains] == pytest.approx([50.0] * 4 + [100.0])
    assert "all transfers count for it" in explain(solve(problem), Question()).words


def test_own_limits_and_servers(tmp_path: Path) -> None:
    """A transfer at its own largest rate is named as such; a server's egress counts like a link."""
    transfers = [{"name": "a", "source": 0, "destination": 1, "max_gbps": 10}]
    _, problem = problem_of(tmp_path, transfers=transfers)
    found = explained(problem)
    assert (found.at_limit, found.full, found.gains) == ([0], [], [])
    _, problem = problem_of(tmp_path, transfers=[{"source": 0, "destination": 1}], egress_gbps=[30, 100, 100])
    found = explained(problem, 0.5)
    assert found.full == [("egress of server 0", 1)]
    assert found.gains[0][2] == pytest.approx(80.0)


def test_completion_time(tmp_path: Path) -> None:
    """The transfer that ends last is named; twice the link halves its time."""
    transfers = [{"name": "big", "source": 0, "destination": 1, "bytes": 1_250_000_000},
                 {"name": "small", "source": 1, "destination": 2, "bytes": 125_000_000}]  # fmt: skip
    _, problem = problem_of(tmp_path, transfers=transfers, objective="completion-time")
    found = explained(problem)
    assert list(found.critical) == [0]
    assert solve(problem).objective.value == pytest.approx(0.1)
    assert found.gains[0][2] == pytest.approx(0.05)


def test_no_time_is_said(tmp_path: Path) -> None:
    """With no seconds nothing is solved again, and nothing is claimed."""
    _, problem = problem_of(tmp_path, transfers=[{"source": 0, "destination": 1}])
    found = explain(solve(problem), Question(stop=Stop().within(0.0)))
    assert found.late
    assert [gain["checked_value"] for gain in found.figures["more_capacity"]] == [None]
    assert any("not solved again" in line for line in found.words)


def test_another_instance_is_refused(tmp_path: Path) -> None:
    """A solution of other transfers explains nothing."""
    _, one = problem_of(tmp_path, transfers=[{"source": 0, "destination": 1}])
    _, other = problem_of(tmp_path, transfers=[{"source": 0, "destination": 2}])
    with pytest.raises(InputError, match="not a solution of this instance"):
        explain(replace(solve(one), problem=other), Question())


def test_command(tmp_path: Path) -> None:
    """The command takes the solution alone, and prints words or one JSON object."""
    path, _ = problem_of(tmp_path, transfers=[{"source": 0, "destination": 1}])
    runner = CliRunner()
    assert runner.invoke(app, ["solve", str(path), "--output", str(tmp_path / "out"), "--json"]).exit_code == 0
    solution = str(tmp_path / "out" / "solution.json")
    assert runner.invoke(app, ["explain", solution, "--json"]).exit_code == 0
    result = runner.invoke(app, ["explain", solution, "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["more_capacity"] == [{"names": ["link 0 → 1"], "added_gbps": [100.0], "checked_value": 200.0}]
    shown = runner.invoke(app, ["explain", solution])
    assert "100 Gbit/s more on link 0 → 1: 200 Gbit/s, +100 Gbit/s (checked)" in shown.stdout
