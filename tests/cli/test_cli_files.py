"""`topoopt validate`, `schema` and `report`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import topoopt
from tests.support.cli_cases import chain, job, refusals, run, write
from topoopt.kinds.files import read_instance


def test_validate_several_files(tmp_path: Path) -> None:
    """Good and bad files in one run: each is judged, every problem is listed, exit code 2."""
    good = write(tmp_path, job(4, 2, chain(4)), "good.json")
    wrong = job(4, 2, chain(4))
    wrong["cluster"]["degree"] = 0
    wrong["colour"] = "red"
    bad = write(tmp_path, wrong, "bad.json")
    result = run("validate", good, bad, tmp_path / "none.yaml", "--json")
    assert result.code == 2
    assert result.json["ok"] is False
    first, second, third = result.json["files"]
    assert first == {"file": str(good), "ok": True, "kind": "co-optimisation", "sha256": read_instance(good).sha256}
    assert {problem["path"] for problem in second["problems"]} == {"cluster.degree", "colour"}
    assert all(problem["line"] and problem["allowed"] for problem in second["problems"])
    assert [problem["message"] for problem in third["problems"]] == ["no such file"]
    text = run("validate", good, bad).stdout
    assert f"{good}: ok" in text
    assert f"{bad}: INVALID" in text
    assert run("validate", good).code == 0


def test_validate_file_name_that_is_not_text(tmp_path: Path) -> None:
    """A name of bytes that are not UTF-8 does not break the message."""
    name = os.fsdecode(b"caf\xe9.json")
    path = write(tmp_path, job(4, 2, chain(4)), name)
    result = run("validate", path, "--json")
    assert result.code == 0
    assert result.json["files"][0]["file"] == str(path)


def test_schema() -> None:
    """The schema of one kind requires its sections; without a kind all are offered; another kind is refused."""
    one = run("describe", "co-optimisation", "--schema", "--json")
    assert one.code == 0
    assert {"schema_version", "kind", "name", "cluster", "workload"} <= set(one.json["required"])
    assert "oneOf" in run("describe", "--schema", "--json").json
    assert '"oneOf"' in run("describe", "--schema").stdout
    other = run("describe", "nonsense", "--schema", "--json")
    assert other.code == 2
    assert [(path, value) for path, value, _ in refusals(other.json)] == [("kind", "'nonsense'")]


def _titles(page: Path) -> set[str]:
    """The titles of the sections of a page."""
    return set(re.findall(r"<h2>(.*?)</h2>", page.read_text(encoding="utf-8")))


def test_report_of_a_solution(tmp_path: Path) -> None:
    """The report made again from the file has all that follows from it: all but the search, names escaped."""
    document = job(4, 2, chain(4))
    document["workload"]["name"] = "<script>alert(1)</script>"
    out = tmp_path / "out"
    assert run("solve", write(tmp_path, document), "--output", out).code == 0
    again = tmp_path / "again.html"
    result = run("report", out / "solution.json", "-o", again, "--json")
    assert (result.code, result.json) == (0, {"report": str(again)})
    assert again.read_text(encoding="utf-8") == topoopt.report(topoopt.read_solution(out / "solution.json"))
    assert _titles(again) <= _titles(out / "report.html")
    assert "<script>alert" not in again.read_text(encoding="utf-8")


def test_report_refusals(tmp_path: Path) -> None:
    """No such solution, a folder for it, a place that does not exist: exit code 2, nothing written."""
    assert run("report", tmp_path / "none.json", "-o", tmp_path / "r.html", "--json").code == 2
    assert run("report", tmp_path, "-o", tmp_path / "r.html", "--json").code == 2
    out = tmp_path / "out"
    assert run("solve", write(tmp_path, job(4, 2, chain(4))), "--output", out).code == 0
    result = run("report", out / "solution.json", "-o", tmp_path / "none" / "r.html", "--json")
    assert result.code == 2
    assert "cannot be written" in result.json["error"]
    assert run("report", out / "solution.json", "-o", out, "--json").code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case.json", "out"]
