"""`topoopt show`, `report` and `convert`: a solution file alone is enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topoopt
from tests.support.cli_cases import run

OF_FORMAT_2 = Path(__file__).parents[1] / "files" / "format_2"
OTHER_TIMES = OF_FORMAT_2 / "llm-training.json"
FORMAT_2 = sorted(set(OF_FORMAT_2.glob("*.json")) - {OTHER_TIMES})
"""Solution files as the release before wrote them, one of a kind; one whose times come from another model."""


def solved(folder: Path) -> Path:
    """A solution of two transfers that share a link."""
    instance = topoopt.AllocationInstance(
        topology={"family": "ring", "servers": 4},
        link_gbps=100,
        transfers=[{"source": 0, "destination": 2}, {"source": 1, "destination": 2}],
    )
    topoopt.write_solution(topoopt.solve(instance), folder / "solution.json")
    return folder / "solution.json"


def test_show_computes_the_figures_again(tmp_path: Path) -> None:
    """In the terminal, and as JSON with every table."""
    solution = solved(tmp_path)
    text = run("show", solution)
    assert text.code == 0
    assert "2 transfers share" in text.stdout
    document = run("show", solution, "--json").json
    assert sorted(document["rates_gbps"].values()) == pytest.approx([200 / 3, 200 / 3])
    assert {row["name"] for row in document["transfer_rates"]} == set(document["rates_gbps"])
    assert document["solution"] == str(solution)


@pytest.mark.parametrize("command", ["show", "report", "explain"])
def test_what_the_checker_rejects_has_no_figures(tmp_path: Path, command: str) -> None:
    """Exit code 6, and nothing is written."""
    solution = solved(tmp_path)
    document = json.loads(solution.read_text())
    document["plan"]["route_gbps"][0] = 1e4
    solution.write_text(json.dumps(document))
    refused = run(command, solution, "--json")
    assert refused.code == 6
    assert "at most 100.0" in refused.json["error"]
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("path", FORMAT_2, ids=lambda path: path.stem)
def test_files_of_the_release_before(tmp_path: Path, path: Path) -> None:
    """They are not read, but converted: the same objective and bound, checked, and then a file like any other."""
    refused = run("check", path, "--json")
    assert refused.code == 2
    assert "topoopt convert" in refused.json["error"]
    out = tmp_path / "solution.json"
    converted = run("convert", path, "-o", out, "--json")
    assert converted.code in (0, 8), converted.stdout
    before, after = json.loads(path.read_text()), json.loads(out.read_text())
    assert after["schema_version"] == 3
    assert after["objective"] == before["objective"]
    assert after["bound"]["value"] == before["bound"]["value"]
    assert run("check", out).code in (0, 8)
    assert run("convert", out, "-o", tmp_path / "again.json").code == 2


def test_a_file_of_another_time_model(tmp_path: Path) -> None:
    """Nothing in it holds by the present times: its objective, bound and proof are not converted, and that is said."""
    out = tmp_path / "solution.json"
    text = run("convert", OTHER_TIMES, "-o", out)
    assert (text.code, text.stdout) == (2, "")
    assert "come from a new time model" in " ".join(text.stderr.split())
    (problem,) = run("convert", OTHER_TIMES, "-o", out, "--json").json["problems"]
    assert (problem["path"], problem["value"]) == ("kind", "llm-training")
    assert "topoopt solve" in problem["allowed"]
    assert not out.exists()


def test_a_wrong_file_of_the_release_before(tmp_path: Path) -> None:
    """What the checker rejects is not written; what is no such file is said."""
    document = json.loads(FORMAT_2[0].read_text())
    document["transfers"][0]["route_gbps"][0] = 95.0
    (tmp_path / "old.json").write_text(json.dumps(document))
    assert run("convert", tmp_path / "old.json", "-o", tmp_path / "new.json").code == 6
    del document["transfers"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    refused = run("convert", tmp_path / "old.json", "-o", tmp_path / "new.json", "--json")
    assert refused.code == 2
    assert "no solution of kind allocation" in refused.json["error"]
    assert not (tmp_path / "new.json").exists()
