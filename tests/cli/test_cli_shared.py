"""Shared clusters at the command line: solve, check, report, compare, study."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.support.paths import INSTANCES
from topoopt.cli.app import app

SHIPPED = INSTANCES / "shared"
TRACE = str(SHIPPED / "trace-16.yaml")


def run(*words: str) -> tuple[int, str]:
    """Exit code and standard output."""
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a solution of the trace."""
    out = tmp_path_factory.mktemp("shared")
    assert run("solve", TRACE, "--output", str(out))[0] == 0
    return out


def test_solve_prints_figures_of_all_fabrics(tmp_path: Path) -> None:
    """One JSON object with a mapping for each fabric."""
    code, text = run("solve", TRACE, "--output", str(tmp_path), "--json", "--method", "backfill")
    document = json.loads(text)
    assert code == 0
    assert document["check"]["ok"]
    assert document["method"] == "backfill"
    assert set(document["fabrics"]) == {"partitioned", "fat-tree", "oversubscribed-fat-tree", "ideal-switch"}
    assert document["objective"]["value"] == document["fabrics"]["partitioned"]["completion_s"]["mean"]


def test_check_and_report(solved: Path, tmp_path: Path) -> None:
    """The checker takes what solve wrote, and the report can be made again to the same bytes."""
    assert run("check", TRACE, str(solved / "solution.json"))[0] == 0
    assert run("report", str(solved / "solution.json"), "--output", str(tmp_path / "again.html"))[0] == 0
    assert (tmp_path / "again.html").read_bytes() == (solved / "report.html").read_bytes()


def test_a_changed_solution_fails_the_check(solved: Path, tmp_path: Path) -> None:
    """Exit code 6."""
    document = json.loads((solved / "solution.json").read_text())
    document["plan"]["schedules"][0]["end_s"][0] -= 1.0
    (tmp_path / "solution.json").write_text(json.dumps(document))
    assert run("check", TRACE, str(tmp_path / "solution.json"))[0] == 6


def test_no_time(tmp_path: Path) -> None:
    """A limit that ends before any job: exit code 5, nothing written."""
    code, _ = run("solve", TRACE, "--output", str(tmp_path / "out"), "--time-limit", "0")
    assert code == 5
    assert not (tmp_path / "out").exists()


def test_bad_trace(tmp_path: Path) -> None:
    """Exit code 2, with the line."""
    (tmp_path / "case.yaml").write_text(Path(TRACE).read_text())
    (tmp_path / "trace-16.csv").write_text("job,arrival_s,class\nx,5,large\ny,4,large\n")
    code, text = run("validate", str(tmp_path / "case.yaml"), "--json")
    assert code == 2
    assert "out of order" in text


def test_compare_runs_all_methods() -> None:
    """The queues are the methods of this kind."""
    code, text = run("compare", TRACE, "--json", "--methods", "fifo,reserve-defragment")
    rows = json.loads(text)["runs"]
    assert code == 0
    assert [row["method"] for row in rows] == ["fifo", "reserve-defragment"]
    assert all(row["checked"] for row in rows)
    assert rows[1]["value"] < rows[0]["value"]


def test_a_study_sees_the_metrics(tmp_path: Path) -> None:
    """Figures of each fabric become columns."""
    study = tmp_path / "study.yaml"
    study.write_text(
        "schema_version: 1\nkind: study\nname: queues\n"
        f"instances: [{{file: '{TRACE}'}}]\nmethods: [fifo, backfill]\nseeds: [0]\n"
    )
    assert run("study", "run", str(study), "--output", str(tmp_path / "out"))[0] == 0
    rows = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    assert [row["method"] for row in rows] == ["fifo", "backfill"]
    assert all(row["fabrics.oversubscribed-fat-tree.iteration_ms.p99"] > 250.0 for row in rows)
    assert all(0 < row["fabrics.partitioned.utilisation"] <= 1 for row in rows)
