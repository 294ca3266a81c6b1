"""Placement at the command line: solve, check, report, import, dump-model, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.paths import INSTANCES
from tests.support.settled import settled_document
from topoopt.cli.app import app

SMALL = INSTANCES / "placement" / "branches-3.yaml"
FILES = sorted((INSTANCES / "placement").glob("*.yaml"))

run = CliRunner()


def test_solve_check_and_report(tmp_path: Path) -> None:
    """The shipped example, worked by hand: embed on the CPU, 1.5 + 5.5 ms and 7 MB at 100 Gbit/s on one GPU."""
    result = run.invoke(app, ["solve", str(SMALL), "-o", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    # gpu: right1, left1, right2; in: embed 4 MB, out: left1 2 MB, right2 1 MB
    assert answer["max_load_ms"] == pytest.approx(7.0 + 7e6 * 8 / 100e9 * 1e3)
    assert settled_document(answer)
    assert answer["placement"]["embed"] == "cpu0"
    assert answer["placement"]["left1"] == answer["placement"]["right2"] == answer["placement"]["right1"]
    assert answer["check"] == {"ok": True, "violations": [], "not_recomputed": []}
    assert "embed" in (tmp_path / "report.html").read_text()
    checked = run.invoke(app, ["check", str(SMALL), answer["solution"]])
    assert checked.exit_code == 0
    again = run.invoke(app, ["report", answer["solution"], "-o", str(tmp_path / "again.html")])
    assert again.exit_code == 0
    assert (tmp_path / "again.html").read_text() == (tmp_path / "report.html").read_text()


def test_check_finds_a_forged_solution(tmp_path: Path) -> None:
    """A lower load than the placement has: exit code 6."""
    solved = run.invoke(app, ["solve", str(SMALL), "-o", str(tmp_path), "--method", "slices", "--json"])
    file = Path(json.loads(solved.stdout)["solution"])
    document = json.loads(file.read_text())
    document["objective"]["value"] = 1.0
    file.write_text(json.dumps(document))
    assert run.invoke(app, ["check", str(SMALL), str(file)]).exit_code == 6


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_shipped_instances(file: Path, tmp_path: Path) -> None:
    """Every shipped placement is valid, named as its file, and has a checked solution."""
    assert run.invoke(app, ["validate", str(file)]).exit_code == 0
    method = "slices" if "objective: throughput" in file.read_text() else "list"
    result = run.invoke(app, ["solve", str(file), "-o", str(tmp_path), "--method", method, "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["name"] == file.stem
    assert answer["check"]["ok"]


def test_no_time_at_all_still_gives_a_placement(tmp_path: Path) -> None:
    """Time limit 0: the best slices of one order, exit code 4."""
    result = run.invoke(app, ["solve", str(SMALL), "-o", str(tmp_path), "--time-limit", "0", "--json"])
    assert result.exit_code == 4
    answer = json.loads(result.stdout)
    assert answer["stopped_by"] == "time"
    assert answer["check"]["ok"]


def test_unknown_methods_are_refused(tmp_path: Path) -> None:
    """Exit code 2, with what is allowed."""
    method = run.invoke(app, ["solve", str(SMALL), "-o", str(tmp_path), "--method", "magic"])
    assert method.exit_code == 2
    assert "slices" in method.output


@pytest.mark.parametrize("budget", ["0", "1", "500"])
@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_a_budget_limits_the_search_and_makes_it_repeat(tmp_path: Path, objective: str, budget: str) -> None:
    """The same bytes twice without a time limit, and `budget` as the reason; none at all still gives a placement."""
    text = SMALL.read_text().replace("objective: throughput", f"objective: {objective}")
    file = tmp_path / "instance.yaml"
    file.write_text(text)
    method = "slices" if objective == "throughput" else "anneal"
    written = []
    for again in ("one", "two"):
        out = tmp_path / again
        options = ["-o", str(out), "--method", method, "--budget", budget, "--json"]
        result = run.invoke(app, ["solve", str(file), *options])
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert answer["check"]["ok"]
        assert answer["stopped_by"] in {"budget", "converged"}
        written.append((out / "solution.json").read_bytes())
    assert written[0] == written[1]


def test_a_budget_in_the_instance_counts(tmp_path: Path) -> None:
    """`search.budget` of the file is what the command line does not say."""
    file = tmp_path / "instance.yaml"
    text = SMALL.read_text().replace("objective: throughput", "objective: latency")
    file.write_text(text + "\nsearch: {method: anneal, budget: 3}\n")
    result = run.invoke(app, ["solve", str(file), "-o", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["stopped_by"] in {"budget", "converged"}


def test_crowded_devices_are_infeasible(tmp_path: Path) -> None:
    """Memory for two of three operators: exit code 3, nothing written."""
    text = """
schema_version: 1
kind: placement
name: crowded
objective: throughput
servers:
- {name: a, links: [{name: e, gbps: 1}], devices: [{name: a0, class: gpu, memory_bytes: 10}]}
- {name: b, links: [{name: e, gbps: 1}], devices: [{name: b0, class: gpu, memory_bytes: 10}]}
operators:
- {name: x, times_ms: {gpu: 1}, memory_bytes: 6}
- {name: y, times_ms: {gpu: 1}, memory_bytes: 6}
- {name: z, times_ms: {gpu: 1}, memory_bytes: 6}
"""
    file = tmp_path / "crowded.yaml"
    file.write_text(text)
    result = run.invoke(app, ["solve", str(file), "-o", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 3
    assert json.loads(result.stdout)["status"] == "infeasible"
    assert not (tmp_path / "out").exists()


def test_job_is_imported_and_solved(tmp_path: Path) -> None:
    """From a co-optimisation instance to a placement; options that make no sense are refused."""
    file = tmp_path / "job.yaml"
    common = ["import", "job", str(INSTANCES / "tiny-4.yaml"), "-o", str(file)]
    assert run.invoke(app, [*common, "--set", "objective=speed"]).exit_code == 2
    result = run.invoke(app, [*common, "--set", "objective=throughput", "--json"])
    assert result.exit_code == 0, result.output
    solved = run.invoke(app, ["solve", str(file), "-o", str(tmp_path / "out"), "--method", "slices", "--json"])
    assert json.loads(solved.stdout)["check"]["ok"]
    other = run.invoke(app, ["import", "job", str(SMALL), "--set", "objective=latency", "-o", str(tmp_path / "x.yaml")])
    assert other.exit_code == 2


def test_model_is_dumped(tmp_path: Path) -> None:
    """The stage-order program of the example, rows named."""
    out = tmp_path / "model.lp"
    result = run.invoke(app, ["export", str(SMALL), "--to", "lp", "--set", "formulation=stage_order", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "one_group_0:" in out.read_text()
