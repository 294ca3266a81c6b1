"""`topoopt solve`, `check` and `report` on hierarchical instances: output, files, refusals, limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import Run, run
from tests.support.hierarchical_cases import instance, job, network, random_instance
from topoopt.kinds.hierarchy import SOLUTION_FILE

COMMON = {
    "kind", "name", "status", "stopped_by", "objective", "bound", "gap", "check", "seed", "wall_s", "versions",
    "instance_sha256", "solution", "notes", "report",
}  # fmt: skip
OWN = {"bandwidth_gbytes_per_s", "time_ns", "cost_usd", "speedup_over_equal", "perf_per_cost_gain"}


def solve(folder: Path, document: dict[str, Any], *options: object) -> Run:
    """Solve an instance document; files go to `out`."""
    path = folder / "case.json"
    path.write_text(json.dumps(document))
    return run("solve", path, "--output", folder / "out", *options)


def test_json_has_all_keys_and_the_check_passes(tmp_path: Path) -> None:
    """Common keys and those of this kind; solution and report are there; the checker agrees."""
    found = solve(tmp_path, random_instance(2, pareto_points=3), "--json")
    assert found.code == 0
    document = found.json
    assert set(document) >= COMMON | OWN
    assert document["status"] == "optimal"
    assert document["check"] == {"ok": True, "violations": [], "not_recomputed": []}
    assert len(document["bandwidth_gbytes_per_s"]) == 3
    assert document["gap"] <= 1.1e-9
    assert run("check", tmp_path / "case.json", document["solution"]).code == 0
    assert Path(document["report"]).read_text().startswith("<!doctype html>")


def test_text_names_what_matters(tmp_path: Path) -> None:
    """Dimensions with bandwidths, what bounds the collectives, the gains over the equal split."""
    found = solve(tmp_path, random_instance(2), "--verbose")
    for text in ("d0", "GB/s per NPU", "held up by", "over the equal split", "performance per cost", "at the margin"):
        assert text in " ".join(found.stdout.split())


def test_files_are_the_same_bytes_again(tmp_path: Path) -> None:
    """Solving twice, and reading and writing, give the same bytes; the report is made again from the solution."""
    document = random_instance(4, objective="time-times-cost", pareto_points=3)
    solve(tmp_path, document)
    file = tmp_path / "out" / "solution.json"
    first, report = file.read_text(), (tmp_path / "out" / "report.html").read_text()
    solve(tmp_path, document)
    assert file.read_text() == first
    assert SOLUTION_FILE.text(SOLUTION_FILE.read(file)) == first
    assert run("report", file, "-o", tmp_path / "again.html").code == 0
    assert (tmp_path / "again.html").read_text() == report


def test_a_corrupted_file_fails_the_check(tmp_path: Path) -> None:
    """Another bandwidth in the file: exit code 6; a broken file: 2."""
    solve(tmp_path, random_instance(2))
    file = tmp_path / "out" / "solution.json"
    document = json.loads(file.read_text())
    document["plan"]["bandwidth_gbytes_per_s"][0] *= 1.5
    file.write_text(json.dumps(document))
    assert run("check", tmp_path / "case.json", file).code == 6
    document["plan"]["gain_ns"] = [1.0]
    file.write_text(json.dumps(document))
    assert run("check", tmp_path / "case.json", file).code == 2


def test_clashing_constraints_are_named(tmp_path: Path) -> None:
    """Exit code 3; the two that clash are named, the third is not."""
    rows = [
        {"name": "wide-inside", "terms": {"d0": 1.0}, "at_least": 80.0},
        {"name": "wide-outside", "terms": {"d1": 1.0}, "at_least": 30.0},
        {"name": "harmless", "terms": {"d0": 1.0, "d1": -1.0}, "at_least": 0.0},
    ]
    found = solve(tmp_path, instance(network([4, 8], [1.0, 2.0], total_gbytes_per_s=100.0, constraints=rows)), "--json")
    assert found.code == 3
    error = found.json["error"]
    assert all(name in error for name in ("total", "wide-inside", "wide-outside"))
    assert "harmless" not in error
    assert not (tmp_path / "out").exists()


def test_a_cost_cap_that_is_too_low_is_named(tmp_path: Path) -> None:
    """Cap against total."""
    found = solve(
        tmp_path, instance(network([4, 8], [1.0, 2.0], total_gbytes_per_s=100.0), cost_cap_usd=10.0), "--json"
    )
    assert found.code == 3
    assert "cost cap" in found.json["error"]
    assert "total" in found.json["error"]


def test_speeds_that_cannot_be_combined_are_named(tmp_path: Path) -> None:
    """No combination of speeds gives the total: integrality is to blame."""
    net = network([4, 8], [1.0, 2.0], total_gbytes_per_s=100.0)
    for dimension in net["dimensions"]:
        dimension["speeds_gbytes_per_s"] = [30.0, 60.0]
    found = solve(tmp_path, instance(net), "--json")
    assert found.code == 3
    assert "no choice of speeds" in found.json["error"]
    assert "total" in found.json["error"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"objective": "time"}, "nothing limits the bandwidth of d0, d1"),
        ({"objective": "time-times-cost"}, "nothing"),
    ],
)
def test_problems_without_end_are_refused(tmp_path: Path, fields: dict[str, Any], text: str) -> None:
    """No total: exit code 2, and what is missing; `validate` is about the file alone and lets it through."""
    found = solve(tmp_path, instance(network([4, 8], [1.0, 2.0]), **fields), "--json")
    assert found.code == 2
    assert text in found.json["error"]


def test_only_the_endless_dimensions_are_named(tmp_path: Path) -> None:
    """A ratio to a bounded dimension is a bound."""
    net = network([4, 8, 2], [1.0, 2.0, 3.0])
    net["dimensions"][0]["max_gbytes_per_s"] = 50.0
    net["constraints"] = [{"name": "ratio", "terms": {"d1": 1.0, "d0": -0.5}, "at_most": 0.0}]
    found = solve(tmp_path, instance(net), "--json")
    assert found.code == 2
    assert "bandwidth of d2," in found.json["error"]


def test_time_times_cost_without_a_floor_is_refused(tmp_path: Path) -> None:
    """A limit on the total from above only: the product falls as all bandwidths go to 0."""
    found = solve(
        tmp_path,
        instance(network([4, 8], [1.0, 2.0], total_at_most_gbytes_per_s=100.0), objective="time-times-cost"),
        "--json",
    )
    assert found.code == 2
    assert "nothing keeps the bandwidths from 0" in found.json["error"]


@pytest.mark.parametrize("limit", [1e5, 2e6])
def test_time_limits_out_of_reach(tmp_path: Path, limit: float) -> None:
    """Below compute alone, and below the least time of the total: exit code 3, and why."""
    document = instance(network([4, 8], [1.0, 2.0], total_gbytes_per_s=10.0), objective="cost", time_limit_ns=limit)
    found = solve(tmp_path, document, "--json")
    assert found.code == 3
    assert "time limit" in found.json["error"]


def test_no_time_at_all(tmp_path: Path) -> None:
    """A time limit of 0 ends without a solution: exit code 5, nothing written."""
    found = solve(tmp_path, random_instance(2), "--json", "--time-limit", 0)
    assert found.code == 5
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("option", "value"), [("--budget", 5), ("--method", "simplex")])
def test_options_of_other_kinds_are_refused(tmp_path: Path, option: str, value: object) -> None:
    """Exit code 2."""
    assert solve(tmp_path, random_instance(2), "--json", option, value).code == 2


def test_a_network_without_traffic(tmp_path: Path) -> None:
    """Compute alone: the time is that, any bandwidth will do, and the report says so."""
    own = job("job", {"name": "alone", "forward": {"compute_ns": 5e6}})
    found = solve(tmp_path, instance(network([4, 8], total_gbytes_per_s=10.0), own), "--json")
    assert found.json["time_ns"] == 5e6
    assert found.json["cost_usd"] is None
    assert found.json["perf_per_cost_gain"] is None
    assert found.json["status"] == "optimal"


def test_one_dimension_takes_it_all(tmp_path: Path) -> None:
    """n = 2 in one dimension, huge bytes: the total is its bandwidth."""
    own = job("job", {"name": "big", "forward": {"collectives": [{"collective": "all-reduce", "bytes": 1e17}]}})
    found = solve(tmp_path, instance(network([2], [1.0], total_gbytes_per_s=10.0), own), "--json")
    assert found.json["bandwidth_gbytes_per_s"] == pytest.approx([10.0])
    assert found.json["time_ns"] == pytest.approx(1e16)


def test_names_are_escaped_in_the_report(tmp_path: Path) -> None:
    """A job named like markup does not become markup."""
    own = job("<script>alert(1)</script>")
    solve(tmp_path, instance(network([4, 8], [1.0, 2.0], total_gbytes_per_s=10.0), own))
    assert "<script>alert" not in (tmp_path / "out" / "report.html").read_text()
