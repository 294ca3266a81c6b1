"""`topoopt fabrics` and `baselines.fabrics`: rows, reasons, files, refusals, limits, Ctrl-C."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from solvers.job import fabrics as fabric_strategy
from solvers.job.starts import data_parallel
from tests.support.cli_cases import chain, job, refusals, run, write
from topoopt.kinds.files import read_instance
from topoopt.simulate.circuits import DYNAMIC_FABRICS, simulate_circuits
from topoopt.simulate.fabrics import FABRICS
from topoopt.simulate.network import build_task_graph

SEARCH = ("--budget", 40, "--json")


def case(servers: int = 8, degree: int = 4, **fields: Any) -> dict[str, Any]:
    """A chain of operators on a small cluster, with more sections."""
    return {**job(servers, degree, chain(servers, 5), search={"seed": 3}), **fields}


def rows_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows by name."""
    return {row["name"]: row for row in document["rows"]}


def test_all_fabrics_beside_a_plan(tmp_path: Path) -> None:
    """Every fabric of the table is a row; parts sum to the time; what cannot be built says why; files agree."""
    instance = write(tmp_path, case())
    assert run("solve", instance, "--output", tmp_path / "out", "--json").code == 0
    solution, table = tmp_path / "out" / "solution.json", tmp_path / "f.csv"
    words = ("compare", solution, "--fabrics", "all", "--output", table, *SEARCH)
    found = run(*words, "--output", tmp_path / "f.svg")
    assert found.code == 0
    rows = rows_of(found.json)
    assert list(rows) == ["plan", *FABRICS]
    assert (found.json["stopped_by"], found.json["missing"]) == ("converged", 0)
    for name, row in rows.items():
        if row["outcome"] == "left out":
            assert name in {"torus-3d", "twisted-torus-3d", "generalized-kautz"}
            assert row["iteration_time_ms"] is None
            continue
        parts = sum(row[part] for part in ("compute_ms", "model_parallel_ms", "allreduce_ms", "idle_ms"))
        assert parts == pytest.approx(row["iteration_time_ms"])
        assert row["links_per_byte"] is None or row["links_per_byte"] >= 1
    assert "two interfaces for each" in rows["torus-3d"]["description"]
    assert "patched apart" in rows["generalized-kautz"]["description"]
    assert rows["ideal-switch"]["iteration_time_ms"] <= rows["fat-tree"]["iteration_time_ms"]
    assert rows["full-fat-tree"]["iteration_time_ms"] <= rows["fat-tree"]["iteration_time_ms"] * (1 + 1e-9)
    with table.open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["name"] for line in lines] == list(rows)
    assert float(lines[0]["iteration_time_ms"]) == rows["plan"]["iteration_time_ms"]
    texts = [node.text for node in ElementTree.parse(tmp_path / "f.svg").iter() if node.text]
    assert "direct-connect plan" in texts
    assert "hypercube" in texts
    again = run(*words, "--output", tmp_path / "f.html", "--force")
    plain = [{key: value for key, value in row.items() if key != "wall_s"} for row in found.json["rows"]]
    assert [{k: v for k, v in row.items() if k != "wall_s"} for row in again.json["rows"]] == plain
    assert "hypercube" in (tmp_path / "f.html").read_text(encoding="utf-8")


def test_fabrics_of_the_instance_with_their_settings(tmp_path: Path) -> None:
    """`solve` compares with what the instance lists, labels and all; `fabrics` takes the same list and its labels."""
    listed = [
        "ideal-switch",
        {"fabric": "oversubscribed-fat-tree", "label": "4:1 above", "oversubscription": 4, "layer": "aggregation"},
        {"fabric": "ideal-switch", "label": "slow", "nic_gbps": 10},
        {"fabric": "torus-2d", "shape": [2, 4]},
        "torus-3d",
    ]
    instance = write(tmp_path, case(baselines={"fabrics": listed}))
    solved = run("solve", instance, "--output", tmp_path / "out", "--json")
    assert solved.code == 0
    times = solved.json["baselines_ms"]
    assert list(times) == ["ideal-switch", "4:1 above", "slow", "torus-2d", "torus-3d"]
    assert times["torus-3d"] is None
    assert times["ideal-switch"] < times["slow"]
    assert any("no torus-3d for this cluster" in note for note in solved.json["notes"])
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0
    rows = rows_of(run("compare", instance, "--fabrics", "all", *SEARCH).json)
    assert list(rows) == list(times)
    assert "4:1 above the aggregation switches" in rows["4:1 above"]["description"]
    assert "10 Gbit/s" in rows["slow"]["description"]
    assert rows["torus-2d"]["description"].startswith("2 x 4 torus")
    named = rows_of(run("compare", instance, "--fabrics", "slow,hypercube,slow", *SEARCH).json)
    assert list(named) == ["slow", "hypercube"]


def test_the_default_is_what_it_was(tmp_path: Path) -> None:
    """An instance without a list has the hash and the four fabrics it always had; an explicit list counts."""
    names = ["ideal-switch", "fat-tree", "full-fat-tree", "random-regular"]
    plain, listed = write(tmp_path, case(), "a.json"), write(tmp_path, case(baselines={"fabrics": names}), "b.json")
    one, two = (run("solve", path, "--output", tmp_path / path.stem, "--json").json for path in (plain, listed))
    assert list(one["baselines_ms"]) == names
    assert one["baselines_ms"] == two["baselines_ms"]
    assert one["instance_sha256"] != two["instance_sha256"]
    null = write(tmp_path, case(baselines={"fabrics": None}), "c.json")
    assert run("validate", null, "--json").json["files"][0]["sha256"] == one["instance_sha256"]
    none = run(
        "solve", write(tmp_path, case(baselines={"fabrics": []}), "d.json"), "--output", tmp_path / "d", "--json"
    )
    assert (none.code, none.json["baselines_ms"]) == (0, {})


def test_everything_wrong_with_a_list_at_once(tmp_path: Path) -> None:
    """Unknown fabrics, settings a fabric does not have and labels used twice, each with its place and line."""
    listed = ["clos", {"fabric": "hypercube", "layer": "rack"}, "fat-tree", {"fabric": "torus-2d", "label": "fat-tree"}]
    instance = write(tmp_path, case(baselines={"fabrics": listed}))
    for words in (
        ("validate", instance),
        ("solve", instance, "--output", tmp_path / "out"),
        ("compare", instance, "--fabrics", "all"),
    ):
        found = run(*words, "--json")
        assert found.code == 2
        problems = found.json["files"][0]["problems"] if words[0] == "validate" else found.json["problems"]
        assert [problem["path"] for problem in problems] == [
            "baselines.fabrics[0].fabric",
            "baselines.fabrics[1].layer",
            "baselines.fabrics[3].label",
        ]
        assert all(problem["line"] and problem["file"] for problem in problems)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"fabric": "torus-2d", "shape": []}, "baselines.fabrics[0].shape"),
        ({"fabric": "fat-tree", "oversubscription": 0.5}, "baselines.fabrics[0].oversubscription"),
        ({"fabric": "fat-tree", "ratio": 2}, "baselines.fabrics[0].ratio"),
        ({"fabric": "oversubscribed-fat-tree", "layer": "core"}, "baselines.fabrics[0].layer"),
        ({}, "baselines.fabrics[0].fabric"),
        (7, "baselines.fabrics[0]"),
    ],
)
def test_entries_of_the_wrong_shape(tmp_path: Path, entry: Any, path: str) -> None:
    """Each is refused at its place in the file."""
    found = run("compare", write(tmp_path, case(baselines={"fabrics": [entry]})), "--fabrics", "all", "--json")
    assert found.code == 2
    assert [where for where, _, _ in refusals(found.json)] == [path]


def test_refusals_of_the_command(tmp_path: Path) -> None:
    """Unknown names, another kind, a solution with another instance in it, files that cannot be written."""
    instance = write(tmp_path, case())
    assert "hypercube" in run("compare", instance, "--fabrics", "cube", "--json").json["error"]
    assert run("compare", instance, "--fabrics", "", "--json").code == 2
    ring = {"schema_version": 1, "name": "ring", "kind": "routing", "demand": {"family": "uniform"},
            "topology": {"family": "ring", "servers": 4}}  # fmt: skip
    assert "only jobs" in run("compare", write(tmp_path, ring, "ring.json"), "--fabrics", "all", "--json").json["error"]
    run("solve", instance, "--output", tmp_path / "out", "--json")
    document = json.loads((tmp_path / "out" / "solution.json").read_text())
    document["instance"]["cluster"]["degree"] = 5
    assert run("compare", write(tmp_path, document, "other.json"), "--fabrics", "all", "--json").code == 6
    found = run(
        "compare",
        instance,
        "--fabrics",
        "all",
        "--output",
        tmp_path / "no" / "f.csv",
        "--output",
        tmp_path / "f.png",
        "--json",
    )
    assert [where for where, _, _ in refusals(found.json)] == ["--output", "--output"]


def test_two_and_three_servers(tmp_path: Path) -> None:
    """The smallest clusters: the fabrics that exist for them are searched, the others named with the reason."""
    for servers, degree in ((2, 1), (3, 1), (3, 4)):
        found = run("compare", write(tmp_path, case(servers, degree)), "--fabrics", "all", *SEARCH)
        assert found.code == 0
        rows = rows_of(found.json)
        assert rows["ideal-switch"]["outcome"] == rows["fat-tree"]["outcome"] == "found"
        assert rows["torus-2d"]["outcome"] == "left out"
        assert rows["hypercube"]["outcome"] == ("found" if servers == 2 else "left out")


def test_no_time_at_all(tmp_path: Path) -> None:
    """With a limit of 0 s every fabric has the time of a starting strategy: exit code 4."""
    found = run("compare", write(tmp_path, case()), "--fabrics", "all", "--time-limit", 0, "--budget", 10**6, "--json")
    assert (found.code, found.json["stopped_by"]) == (4, "time")
    assert all(row["iteration_time_ms"] for row in found.json["rows"] if row["outcome"] != "left out")


def test_interrupt_keeps_the_rows_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the third fabric is searched: three rows are written, exit code 130."""
    original, calls = fabric_strategy.anneal, []

    def counted(*values: Any, **named: Any) -> Any:
        calls.append(0)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*values, **named)

    monkeypatch.setattr(fabric_strategy, "anneal", counted)
    found = run(
        "compare",
        write(tmp_path, case()),
        "--fabrics",
        "all",
        "--output",
        tmp_path / "f.csv",
        "--budget",
        500,
        "--json",
    )
    assert (found.code, found.json["stopped_by"]) == (130, "interrupted")
    assert [row["name"] for row in found.json["rows"]] == list(FABRICS)[:3]
    assert found.json["missing"] == len(FABRICS) - 3
    assert len((tmp_path / "f.csv").read_text(encoding="utf-8").splitlines()) == 4


def test_circuits_that_follow_demand_beside_fabrics_that_stay(tmp_path: Path) -> None:
    """Each in the given order, with its model; the best of the strategies counts, no worse than data parallelism.

    The flow-level times of the others are there to compare with, and no network beats the switch that has every rate.
    """
    instance, table = write(tmp_path, case(8, 4)), tmp_path / "f.csv"
    assert run("solve", instance, "--output", tmp_path / "out", "--json").code == 0
    words = ("compare", tmp_path / "out" / "solution.json", "--output", table, *SEARCH)
    names = "ocs-reconfig,ideal-switch,sip-ml"
    found = run(*words, "--fabrics", names, "--output", tmp_path / "f.svg")
    assert (found.code, found.json["reconfiguration_delay_ms"], found.json["missing"]) == (0, 10.0, 0)
    rows = rows_of(found.json)
    assert list(rows) == ["plan", *names.split(",")]
    assert [row["time_model"] for row in rows.values()] == ["rounds", "flow-level", "rounds", "flow-level"]
    assert all(row["flow_level_ms"] > 0 for row in rows.values())
    assert "flow-level" in found.json["notes"][0]
    read: Any = read_instance(instance)
    graph = build_task_graph(read.cluster, read.workload, data_parallel(8, read.workload))
    for name, policy in DYNAMIC_FABRICS.items():
        row = rows[name]
        assert row["iteration_time_ms"] == row["flow_level_ms"] >= rows["ideal-switch"]["flow_level_ms"]
        alone = simulate_circuits(graph, read.cluster, policy, 10.0, seed=3).iteration_time_ms
        assert row["iteration_time_ms"] <= alone
        assert f"{alone:.5g} ms" in row["description"]
        assert "strategy of the plan" in row["description"]
        assert "10 ms to reconfigure; flow-level model" in row["description"]
        assert row["links_per_byte"] >= 1
    texts = [node.text for node in ElementTree.parse(tmp_path / "f.svg").iter() if node.text]
    assert {"ocs-reconfig", "sip-ml", "not split (flow-level model)"} <= set(texts)
    with table.open(encoding="utf-8") as stream:
        assert [line["time_model"] for line in csv.DictReader(stream)] == [row["time_model"] for row in rows.values()]
    assert run("compare", instance, "--fabrics", "sip-ml", *SEARCH).json["rows"][0]["proposals"] == 40
    faster = run(*words, "--force", "--fabrics", "sip-ml", "--delays", "silicon-photonics").json
    assert faster["reconfiguration_delay_ms"] == pytest.approx(900e-6)
    assert rows_of(faster)["sip-ml"]["iteration_time_ms"] < rows["sip-ml"]["iteration_time_ms"]
    plain = run("compare", instance, "--fabrics", "ideal-switch", *SEARCH).json
    assert plain["rows"][0]["iteration_time_ms"] > 0
    assert (plain["rows"][0]["flow_level_ms"], plain["notes"]) == (None, [])


def test_where_circuits_cannot_be(tmp_path: Path) -> None:
    """One interface a server cannot connect three; an instance's list, unknown delays, delays for nothing: refused."""
    rows = rows_of(run("compare", write(tmp_path, case(3, 1)), "--fabrics", "ocs-reconfig,sip-ml", *SEARCH).json)
    assert rows["ocs-reconfig"]["outcome"] == "left out"
    assert "one interface per server" in rows["ocs-reconfig"]["description"]
    assert rows["sip-ml"]["outcome"] == "found"
    listed = write(tmp_path, case(baselines={"fabrics": ["sip-ml"]}), "listed.json")
    for words in (("validate", listed), ("compare", listed, "--fabrics", "hypercube")):
        found = run(*words, "--json")
        assert found.code == 2
        problem = (found.json["files"][0] if words[0] == "validate" else found.json)["problems"][0]
        assert problem["path"] == "baselines.fabrics[0].fabric"
        assert "topoopt compare --fabrics" in problem["message"]
    instance = write(tmp_path, case())
    unknown = run("compare", instance, "--fabrics", "ocs", "--json")
    assert all(name in unknown.json["error"] for name in ("ocs-reconfig", "sip-ml", "ideal-switch"))
    bad = run("compare", instance, "--fabrics", "sip-ml", "--delays", "soon", "--json")
    unused = run("compare", instance, "--fabrics", "torus-2d", "--delays", "1ms", "--json")
    for found in (bad, unused):
        assert found.code == 2
        assert [where for where, _, _ in refusals(found.json)] == ["--delays"]


def test_circuits_without_time(tmp_path: Path) -> None:
    """With a limit of 0 s the first strategy alone is simulated, and the row says why."""
    found = run("compare", write(tmp_path, case()), "--fabrics", "sip-ml", "--time-limit", 0, "--json")
    assert (found.code, found.json["stopped_by"]) == (4, "time")
    row = found.json["rows"][0]
    assert (row["outcome"], row["proposals"]) == ("time", 0)
    assert row["description"].count(" ms,") == 0


def test_fabrics_are_compared_for_one_job(tmp_path: Path) -> None:
    """Two files are one too many."""
    file = write(tmp_path, case())
    found = run("compare", file, file, "--fabrics", "all", "--json")
    assert found.code == 2
    assert [value for _, value, message in refusals(found.json) if message.startswith("too many files")] == ["2"]
