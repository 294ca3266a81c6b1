"""`topoopt check`: takes what was solved, rejects what was changed, refuses what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import topoopt
from tests.support.cli_cases import JOB_CHECKED, chain, job, refusals, run, write
from tests.support.paths import INSTANCES

Document = dict[str, Any]


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an instance and its solution."""
    folder = tmp_path_factory.mktemp("solved")
    instance = write(folder, job(6, 2, chain(6)))
    assert run("solve", instance, "--output", folder).code == 0
    return folder


def test_solution_of_the_instance_passes(solved: Path) -> None:
    """Exit code 0, no violations, as JSON and in words."""
    words = ("check", solved / "case.json", solved / "solution.json")
    found = run(*words, "--json").json
    assert {name: found[name] for name in JOB_CHECKED} == JOB_CHECKED
    assert found["bound"]["verified"] is True
    assert found["instance"] == str(solved / "case.json")
    assert run(*words).stdout.endswith("check passed\n")


def test_a_solution_alone_is_checked_against_the_instance_it_carries(solved: Path) -> None:
    """The same verdict, and a sentence on what was shown."""
    found = run("check", solved / "solution.json", "--json")
    assert (found.code, found.json["ok"], found.json["instance"]) == (0, True, "in the solution")
    text = run("check", solved / "solution.json").stdout
    assert "follows from what is in the file" in text
    assert "is derived again" in text


def test_a_check_begins_with_what_it_has_shown(tmp_path: Path) -> None:
    """An optimum that is known: theta of 2.5, which its bound reaches; in the terminal and in the JSON object."""
    assert run("solve", INSTANCES / "networks" / "k4-4.yaml", "--output", tmp_path).code == 0
    words = ("check", tmp_path / "solution.json")
    said = run(*words, "--json").json["answer"]
    assert said.startswith("The solution holds: theta 2.5 link capacity follows from what is in the file; bound 2.5 is")
    assert " ".join(run(*words).stdout.split()).startswith(said)


def test_another_instance_in_a_solution_is_rejected(solved: Path, tmp_path: Path) -> None:
    """Faster links in the instance that the file carries: alone, and beside the true one."""
    document = json.loads((solved / "solution.json").read_text())
    document["instance"]["cluster"]["link_gbps"] *= 2
    altered = tmp_path / "solution.json"
    altered.write_text(json.dumps(document))
    assert run("check", altered).code == 6
    beside = run("check", solved / "case.json", altered, "--json")
    assert (beside.code, [each["code"] for each in beside.json["violations"]]) == (6, ["instance"])
    document["instance"] = {"kind": "co-optimisation"}
    altered.write_text(json.dumps(document))
    assert run("check", altered).code == 2
    assert run("check", solved / "case.json", altered).code == 2  # the file is refused as a whole


def test_files_that_are_too_large_stay_outside(solved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solution is checked with its instance, and says why not alone."""
    (tmp_path / "demand.csv").write_text("0,1,1\n1,0,1\n1,1,0\n")
    routing = {"schema_version": 1, "kind": "routing", "name": "case", "demand": {"file": "demand.csv"},
               "topology": {"family": "ring", "servers": 3}}  # fmt: skip
    monkeypatch.setattr("topoopt.files.results.MAX_BYTES", 5)
    instance = write(tmp_path, routing)
    assert run("solve", instance, "--output", tmp_path / "out").code == 0
    solution = tmp_path / "out" / "solution.json"
    assert "instance" not in json.loads(solution.read_text())
    assert run("check", instance, solution).code == 0
    alone = run("check", solution, "--json")
    assert alone.code == 2
    assert "carries no instance" in alone.json["error"]


def test_three_files_are_too_many(solved: Path) -> None:
    """Nothing is checked."""
    assert run("check", *[solved / "solution.json"] * 3).code == 2


def shorten(document: Document) -> None:
    """Claim a shorter iteration."""
    document["objective"]["value"] /= 2


def overstate(document: Document) -> None:
    """Claim a larger lower bound."""
    document["bound"]["value"] = document["objective"]["value"] * 0.9999


def unplug(document: Document) -> None:
    """Darken an interface of one switch."""
    document["plan"]["topology"]["switches"][0][0] = -1


@pytest.mark.parametrize("spoil", [shorten, overstate, unplug])
def test_changed_solution_is_rejected(solved: Path, tmp_path: Path, spoil: Callable[[Document], None]) -> None:
    """Exit code 6, and what is wrong is said."""
    document = json.loads((solved / "solution.json").read_text())
    spoil(document)
    result = run("check", solved / "case.json", write(tmp_path, document, "solution.json"), "--json")
    assert result.code == 6
    assert result.json["ok"] is False
    assert all(violation["code"] and violation["message"] for violation in result.json["violations"])
    assert result.json["violations"]
    count = len(result.json["violations"])
    said = f"The independent check rejects this result ({count} violation{'s' if count > 1 else ''}): its figures"
    assert result.json["answer"].startswith(f"{said} prove nothing.")
    text = " ".join(run("check", solved / "case.json", tmp_path / "solution.json").stdout.split())
    assert text.startswith(said)
    assert "check FAILED" in text


def test_solution_of_another_instance_is_rejected(solved: Path, tmp_path: Path) -> None:
    """A plan for slower links is not one for this cluster."""
    other = write(tmp_path, job(6, 2, chain(6), link_gbps=25.0))
    assert run("check", other, solved / "solution.json", "--json").code == 6


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"status": NaN}', "\x00\xff"])
def test_unreadable_solution_is_refused(solved: Path, tmp_path: Path, content: str) -> None:
    """Anything that is not a solution file: exit code 2 with the file's name."""
    file = tmp_path / "solution.json"
    file.write_bytes(content.encode("latin-1"))
    result = run("check", solved / "case.json", file, "--json")
    assert result.code == 2
    assert refusals(result.json)
    assert str(file) in result.json["error"]


@pytest.mark.parametrize("swap", [False, True])
def test_missing_files_and_folders_are_refused(solved: Path, swap: bool) -> None:
    """A folder for the solution, a missing file for the instance."""
    words = (solved / "none", solved / "solution.json") if swap else (solved / "case.json", solved)
    result = run("check", *words, "--json")
    assert result.code == 2
    assert len(refusals(result.json)) == 1


@pytest.mark.parametrize("name", ["networks/k4-4", "placement/branches-3", "collectives/ring-5"])
def test_the_library_writes_the_same_file(name: str, tmp_path: Path) -> None:
    """`solve` and `write_solution` carry the instance as the command line does, and the file is checked alone."""
    instance = INSTANCES / f"{name}.yaml"
    assert run("solve", instance, "--seed", 1, "--output", tmp_path).code == 0
    file = tmp_path / "library.json"
    topoopt.write_solution(topoopt.solve(topoopt.read_instance(instance), seed=1), file)
    assert file.read_bytes() == (tmp_path / "solution.json").read_bytes()
    assert run("check", file).code == 0


def test_a_problem_made_without_a_file_carries_its_document(tmp_path: Path) -> None:
    """One of plain data does; one whose numbers were changed afterwards has no file that states it."""
    document = {"schema_version": 1, "kind": "routing", "name": "x", "topology": {"family": "ring", "servers": 4},
                "demand": {"family": "uniform"}}  # fmt: skip
    problem = topoopt.instance_from_dict(document)
    assert topoopt.solve(problem).instance == document
    assert topoopt.solve(replace(problem, document=None)).instance is None
    assert topoopt.solve(replace(problem, sha256="")).instance is None
