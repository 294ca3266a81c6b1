"""Objective latency at the command line: JSON, report, checker, Ctrl-C, and the published graphs."""

import json

import pytest
from typer.testing import CliRunner

from tests.support.interrupting import interrupted_search
from tests.support.paths import INSTANCES
from tests.support.settled import settled
from topoopt.cli.app import app
from topoopt.core.proofs import StopReason
from topoopt.kinds.files import read_instance, write_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve


def document(sharing="static", layers=2, branches=4, **more):
    """Two servers of two links, three devices, a generated mixture of experts."""
    two = [{"name": f"a{i}", "class": "gpu"} for i in (0, 1)]
    links = [{"name": "eth0", "gbps": 10}, {"name": "eth1", "gbps": 10}]
    return {
        "schema_version": 1,
        "kind": "placement",
        "name": "small-moe",
        "objective": "latency",
        "latency": {"sharing": sharing},
        "servers": [
            {
                "name": "a",
                "links": links,
                "intra_gbps": 100,
                "devices": two,
            },
            {"name": "b", "links": links, "devices": [{"name": "b0", "class": "gpu"}]},
        ],
        "generator": {"family": "moe", "layers": layers, "branches": branches},
        **more,
    }


def run(*words):
    """A command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


def written(folder, content):
    """The instance as a file."""
    path = folder / "instance.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("sharing", ["fair", "static"])
def test_solve_check_and_report(sharing, tmp_path):
    """JSON has makespan_ms and the placement; the file passes `check`; the page has the schedule and the rates."""
    instance, out = written(tmp_path, document(sharing)), tmp_path / "out"
    found = run("solve", instance, "-o", out, "--method", "list", "--json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert result["objective"]["name"] == "makespan"
    assert result["makespan_ms"] == result["objective"]["value"] >= result["bound"]["value"] > 0
    assert set(result["placement"].values()) <= {"a0", "a1", "b0"}
    assert result["check"]["ok"]
    assert run("check", instance, out / "solution.json").exit_code == 0
    page = (out / "report.html").read_text()
    assert "Schedule of one step" in page
    stored = json.loads((out / "solution.json").read_text())
    plan = stored["plan"]
    assert ("Rates between servers" in page) == bool(plan["link_shares"])
    assert not plan["link_shares"] or sharing == "static"
    assert len(plan["start_ms"]) == len(plan["device"])


def test_check_finds_a_changed_schedule(tmp_path):
    """An operator that starts too early is named, exit code 6."""
    instance, out = written(tmp_path, document("fifo")), tmp_path / "out"
    assert run("solve", instance, "-o", out, "--method", "list").exit_code == 0
    path = out / "solution.json"
    stored = json.loads(path.read_text())
    stored["plan"]["start_ms"][-1] -= 1.0
    path.write_text(json.dumps(stored))
    found = run("check", instance, path)
    assert found.exit_code == 6
    assert "overlap" in found.output or "precedence" in found.output


def test_time_limit_keeps_the_best_exit_code_4(tmp_path):
    """No time to search: the best first placement is written."""
    instance, out = written(tmp_path, document("fair", layers=6, branches=8)), tmp_path / "out"
    found = run("solve", instance, "-o", out, "--time-limit", "0.01", "--json")
    assert found.exit_code == 4, found.output
    assert json.loads(found.stdout)["stopped_by"] == "time"
    assert (out / "solution.json").exists()


@pytest.mark.parametrize("method", ["anneal", "exact", "windows"])
def test_ctrl_c_keeps_the_best(method, tmp_path):
    """SIGINT in the middle of a long search: a checked solution, stopped by the interrupt."""
    path = tmp_path / "instance.json"
    write_instance(document("fair", layers=8, branches=12), path)
    problem = read_instance(path)
    with interrupted_search():
        solution = solve(problem, SolveOptions(method=method, time_limit_s=900))
    assert solution.stopped_by is StopReason.INTERRUPTED
    assert solution.check.ok


def test_servers_without_links_are_refused(tmp_path):
    """Devices of two servers, one of which has no link: exit code 2 or 3, and its name."""
    content = document("fair")
    content["servers"][1]["links"] = []
    found = run("solve", written(tmp_path, content), "-o", tmp_path / "out")
    assert found.exit_code in (2, 3)
    assert "servers[1].links" in found.output
    assert "Traceback" not in found.output


def test_an_unknown_sharing_is_refused(tmp_path):
    """By the import, before anything is read, and by the instance file."""
    found = run("import", "dnn-partitioning", "x.json", "--set", "objective=latency,sharing=magic", "-o", "y.json")
    assert found.exit_code == 2
    assert "none, fair, fifo, static" in found.output
    found = run("solve", written(tmp_path, document("magic")), "-o", tmp_path / "out")
    assert found.exit_code == 2
    assert "sharing" in found.output


TARGETS = {
    ("latency-bert24-inference", 5): 96.312250,
    ("latency-gnmt-inference", 6): 200.747,
    ("latency-bert-3-inference", 4): 223.65,
}
"""Best known makespans, ms (Tarnawski et al., NeurIPS 2020, and exhaustive search), by shipped instance."""


def published(name):
    return read_instance(INSTANCES / "published" / f"{name}.json")


@pytest.mark.parametrize(("graph", "devices"), list(TARGETS))
def test_published_graphs_are_proven(graph, devices):
    """The best known values or better, proven with times rounded down, without CPUs."""
    problem = published(graph)
    assert len(problem.devices) == devices
    solution = solve(problem, SolveOptions(time_limit_s=900))
    assert solution.check.ok, solution.check.violations
    assert solution.objective.value <= TARGETS[graph, devices] + 5e-4
    assert settled(solution)


@pytest.mark.heavy
def test_training_graph_stays_below_the_known_value():
    """BERT-3 training on three devices at 2 GiB/s: at most 121.0 ms, a bound below it, in 25 s of a free machine."""
    solution = solve(published("latency-bert-3-training"), SolveOptions(budget=1000, time_limit_s=25))
    assert solution.check.ok
    assert 113.4 < solution.bound.value < solution.objective.value <= 121.0
