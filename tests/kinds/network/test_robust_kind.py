"""Kind `robust-network` at all commands: validate, schema, solve, check, report, compare; tampered files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from topoopt.cli.app import app
from topoopt.kinds.network.several_demands.solution_file import read_robust_solution, write_robust_solution

FOUND = """
schema_version: 1
kind: robust-network
name: case
servers: 5
degree: 2
links: unidirectional
step_ms: 2
demand: {family: hot-experts, steps: 3, seed: 1, law: dirichlet, skew: 0.3}
"""
RING = """
schema_version: 1
kind: robust-network
name: case
topology: {links: [[0, 1], [1, 2], [2, 0]]}
demand: {set: [[[0, 1, 0], [0, 0, 1], [1, 0, 0]], [[0, 0, 1], [1, 0, 0], [0, 1, 0]]]}
"""


def run(*words: object) -> tuple[int, Any]:
    """Exit code and JSON object of a command."""
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, json.loads(result.stdout)


def written(folder: Path, text: str, name: str = "case.yaml") -> Path:
    """A file of that text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("mode", ["common", "adapted"])
@pytest.mark.parametrize("text", [FOUND, RING])
def test_solved_checked_reported(tmp_path: Path, text: str, mode: str) -> None:
    """Both modes, links given or not: the file is read back to the same bytes, checked, and reported the same."""
    path = written(tmp_path, f"{text}routing: {mode}\n")
    assert run("validate", path)[1]["files"][0]["kind"] == "robust-network"
    code, document = run("solve", path, "--out", tmp_path / "out")
    assert (code, document["check"]) == (0, {"ok": True, "violations": []})
    assert document["objective"]["value"] == document["worst_theta"] == max(document["theta"])
    assert document["bound"]["value"] <= document["worst_theta"]
    stored = tmp_path / "out" / "solution.json"
    assert run("check", path, stored) == (0, {"ok": True, "violations": []})
    write_robust_solution(read_robust_solution(stored), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == stored.read_bytes()
    assert run("report", stored, "--out", tmp_path / "again.html")[0] == 0
    page = (tmp_path / "again.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "worst theta" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    code, alone = run("robust", path, "--out", tmp_path / "robust.json")
    assert (code, alone["theta"], alone["worst_theta"]) == (0, document["theta"], document["worst_theta"])
    assert run("check", path, tmp_path / "robust.json")[0] == 0


def test_the_theta_of_a_ring(tmp_path: Path) -> None:
    """Over a directed ring of 3, neighbours need 1 link, all others 2: theta 1 and 2, proven with the ring given."""
    code, document = run("solve", written(tmp_path, RING), "--out", tmp_path / "out")
    assert code == 0
    assert document["theta"] == pytest.approx([1.0, 2.0])
    assert document["bound"]["value"] == pytest.approx(2.0)
    assert document["status"] == "optimal"


def test_schema_and_compare(tmp_path: Path) -> None:
    """`schema` knows the kind, alone and among all; `compare` runs its one method."""
    code, document = run("schema", "robust-network")
    assert (code, document["properties"]["kind"]["const"]) == (0, "robust-network")
    assert "RobustFile" in json.dumps(run("schema")[1]["oneOf"])
    path = written(tmp_path, RING)
    code, document = run("compare", path, "--methods", "auto")
    assert code == 0
    assert "2.0" in json.dumps(document)
    assert run("solve", path, "--method", "mip", "--out", tmp_path / "out")[0] == 2
    assert not (tmp_path / "out").exists()
    bad = written(tmp_path, RING.replace("[0, 1, 0], [0", "[0, -1, 0], [0", 1), "bad.yaml")
    code, document = run("validate", bad)
    assert (code, document["files"][0]["ok"]) == (2, False)


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document[key] = value

    return change


def _less_theta(document: dict[str, Any]) -> None:
    document["theta"] = [value * 0.9 for value in document["theta"]]
    document["objective"]["value"] = max(document["theta"])


def _raised_bound(document: dict[str, Any]) -> None:
    document["bound"]["value"] = document["routing_bound"] = document["objective"]["value"] * 1.1


def _lost_traffic(document: dict[str, Any]) -> None:
    document["common"]["split"][0] = [[], []]


def _more_links(document: dict[str, Any]) -> None:
    document["topology"]["arcs"][0][2] += 1


def _no_prices(document: dict[str, Any]) -> None:
    document["common"]["prices"] = [[0.0 for _ in row] for row in document["common"]["prices"]]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_set("name", "other"), "identity"),
        (_set("instance_sha256", "0"), "instance-sha256"),
        (_set("step_ms", 3.0), "identity"),
        (_less_theta, "theta"),
        (_raised_bound, "bound"),
        (_lost_traffic, "routing"),
        (_more_links, ""),
        (_no_prices, "certificate"),
    ],
)
def test_changed_solutions_are_rejected(tmp_path: Path, change: Callable[[dict[str, Any]], None], code: str) -> None:
    """Whatever is changed in a solution, `check` ends with exit code 6 and says what is wrong."""
    path = written(tmp_path, FOUND)
    assert run("robust", path, "--out", tmp_path / "s.json")[0] == 0
    document = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    change(document)
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    exit_code, found = run("check", path, tmp_path / "s.json")
    assert exit_code == 6
    codes = {each["code"] for each in found["violations"]}
    assert codes
    assert not code or code in codes


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_set("adapted", {"flows": [], "lengths": []}), "adapted"),
        (_set("common", None), "common"),
        (_set("theta", [1.0]), "objective.value"),
        (_set("objective", {"name": "worst-theta", "value": 0.0, "unit": ""}), "objective.value"),
        (_set("surprise", 1), "surprise"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], where: str
) -> None:
    """Tables that do not fit together are input errors (exit code 2) at their place."""
    path = written(tmp_path, FOUND)
    assert run("robust", path, "--out", tmp_path / "s.json")[0] == 0
    document = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    change(document)
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    exit_code, found = run("check", path, tmp_path / "s.json")
    assert exit_code == 2
    assert where in {problem["path"] for problem in found["problems"]}


def test_shipped_files_are_valid() -> None:
    """Shipped files are valid instances of the kind."""
    for file in sorted(Path("instances/robust").glob("*.yaml")):
        assert run("validate", file)[0] == 0
