"""`topoopt resilience`: single failures, several, repairs, re-wiring, files and refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import chain, job, refusals, run, write

HEAD = {"schema_version": 1, "name": "case"}
RING = {
    **HEAD,
    "kind": "routing",
    "topology": {"links": [[i, (i + 1) % 5] for i in range(5)], "directed": False},
    "demand": {"family": "uniform"},
}
SKEWED = {
    **HEAD,
    "kind": "topology",
    "servers": 6,
    "degree": 3,
    "links": "bidirectional",
    "demand": {"family": "uniform"},
}


def solved(folder: Path, document: dict[str, Any], *options: object) -> tuple[Path, Path]:
    """Instance and solution file."""
    path = write(folder, document)
    assert run("solve", path, "--output", folder / "out", *options).code == 0
    return path, folder / "out" / "solution.json"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small job with both sorts of traffic, and its plan."""
    return solved(tmp_path_factory.mktemp("plan"), job(6, 3, chain(6, 3, parts=[1, 2, 3, 6]), search={"budget": 40}))


def test_ring_of_five_by_the_closed_form(tmp_path: Path) -> None:
    """theta 3 whole, 6 without any link, 4 without any server (a path of four is left)."""
    _, solution = solved(tmp_path, RING)
    told = run("resilience", solution, "--json").json
    assert (told["objective"], told["nominal"]) == ("theta", pytest.approx(3.0))
    assert [each["value"] for each in told["links"]] == pytest.approx([6.0] * 5)
    assert [each["slowdown"] for each in told["links"]] == pytest.approx([2.0] * 5)
    assert [each["diameter"] for each in told["links"]] == [4] * 5
    assert [each["value"] for each in told["servers"]] == pytest.approx([4.0] * 5)
    assert told["switches"] == []
    assert [worst["proven"] for worst in told["worst"]] == [True, True]
    assert told["check"] == {"ok": True, "checked": 10, "violations": []}
    assert told["stopped_by"] == "converged"


def test_two_links_of_a_ring_cut_it(tmp_path: Path) -> None:
    """Two failed links part the ring: proven worst, and no sample is delivered."""
    _, solution = solved(tmp_path, RING)
    told = run("resilience", solution, "--set", "links_at_once=2", "--set", "samples=7", "--seed", 5, "--json").json
    worst = told["worst"][-1]
    assert (worst["count"], worst["proven"], worst["outcome"]["value"]) == (2, True, None)
    sampled = told["sampled"][0]
    assert (sampled["samples"], sampled["delivered"], sampled["mean_slowdown"]) == (7, 0, None)
    assert sampled["delivered_low"] == 0.0
    text = run("resilience", solution, "--set", "links_at_once=2", "--set", "samples=7")
    assert text.code == 0
    assert "nothing delivered" in text.stdout
    assert "proven" in text.stdout


def test_every_failure_of_a_job_is_simulated_and_checked(plan: tuple[Path, Path]) -> None:
    """All links, servers and switches; each value is the least of the strategies tried; the same bytes again."""
    _, solution = plan
    first = run("resilience", solution, "--json").json
    document = json.loads(solution.read_text())
    switches = document["plan"]["topology"]["switches"]
    pairs = {(a, b) for row in switches for a, b in enumerate(row) if a < b}
    assert {tuple(each["failure"]["links"][0]) for each in first["links"]} == pairs
    assert first["nominal"] == pytest.approx(document["objective"]["value"])
    assert len(first["servers"]) == 6
    for each in (*first["links"], *first["servers"], *first["switches"]):
        reached = [value for value in each["tried"].values() if value is not None]
        assert each["value"] == (min(reached) if reached else first["nominal"])
        assert each["slowdown"] == pytest.approx(each["value"] / first["nominal"])
    assert first["check"]["ok"] is True
    assert first["objective"] == "iteration_time"
    again = run("resilience", solution, "--json").json
    assert {**first, "wall_s": 0} == {**again, "wall_s": 0}


def test_one_failure_and_its_rewiring(plan: tuple[Path, Path]) -> None:
    """Only the failure named is evaluated; what is given up keeps to the limit and the failed link stays away."""
    _, solution = plan
    switches = json.loads(solution.read_text())["plan"]["topology"]["switches"]
    tail, head = next((a, b) for row in switches for a, b in enumerate(row) if a < b)
    told = run("resilience", solution, "--fail", f"{head}-{tail}", "--set", "rewire=1", "--json").json
    assert [each["failure"]["links"] for each in told["links"]] == [[[tail, head]]]
    assert told["servers"] == told["worst"] == []
    (made,) = told["rewirings"]
    assert len(made["removed"]) <= 1
    assert [tail, head] not in made["added"]
    assert made["after"] <= made["before"]
    assert made["violations"] == []
    none = run("resilience", solution, "--fail", f"{tail}-{head}", "--set", "rewire=0", "--json").json
    assert none["rewirings"][0]["removed"] == []


def test_rewiring_by_the_joint_program_is_proven(tmp_path: Path) -> None:
    """Six servers: theta after re-wiring meets the bound of the program with kept links, and is not below nominal."""
    _, solution = solved(tmp_path, SKEWED)
    told = run("resilience", solution, "--set", "rewire=1", "--json").json
    (made,) = told["rewirings"]
    assert told["nominal"] * (1 - 1e-6) <= made["after"] <= made["before"] * (1 + 1e-9)
    if made["removed"]:
        assert made["bound"] == pytest.approx(made["after"], rel=1e-5)
    assert told["check"]["ok"] is True


def test_table_and_report(plan: tuple[Path, Path], tmp_path: Path) -> None:
    """The CSV has a row for each failure, the page names the worst ones and needs nothing else."""
    _, solution = plan
    table, page = tmp_path / "f.csv", tmp_path / "f.html"
    words = ("resilience", solution, "--set", "links_at_once=2", "--set", "samples=5,rewire=1")
    told = run(*words, "--output", table, "--output", page, "--json").json
    rows = list(csv.DictReader(table.read_text().splitlines()))
    singles = len(told["links"]) + len(told["servers"]) + len(told["switches"])
    assert len(rows) == singles + 1
    assert {row["part"] for row in rows} == {"link", "server", "switch", "worst 2 links"}
    by_label = {row["failure"]: row for row in rows}
    for each in told["links"]:
        assert float(by_label[each["failure"]["label"]]["value"]) == each["value"]
    text = page.read_text()
    worst = max(told["links"], key=lambda each: each["value"])
    assert worst["failure"]["label"] in text
    assert "<svg" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "Re-wiring" in text
    assert "of 5 delivered" in text


def test_bad_failures_are_refused_all_at_once(plan: tuple[Path, Path]) -> None:
    """Links and servers that do not exist, words that are no link, more failures than parts: exit code 2."""
    solution = plan[1]
    refused = run("resilience", solution, "--fail", "0-99", "--fail", "server:77", "--json")
    assert refused.code == 2
    assert sorted(value or "" for _, value, _ in refusals(refused.json)) == ["0-99", "77"]
    for words, message in (
        (("--fail", "zero-one"), "not a link"),
        (("--set", "links_at_once=1000"), "more failures than links"),
        (("--set", "servers_at_once=6"), "more failures than servers"),
        (("--fail", "switch:40"), "unknown optical switch"),
        (("--fail", "server:1", "--set", "rewire=1"), "re-wiring mends failed links"),
    ):
        result = run("resilience", solution, *words, "--json")
        assert result.code == 2
        assert message in [text for _, _, text in refusals(result.json)]
    assert run("resilience", solution, "--set", "links_at_once=0").code == 2


def test_other_files_are_refused(tmp_path: Path, plan: tuple[Path, Path]) -> None:
    """No solution, an instance, a solution with the instance of another job in it."""
    path, solution = plan
    assert run("resilience", tmp_path / "none.json").code == 2
    assert run("resilience", path).code == 2
    document = json.loads(solution.read_text())
    document["instance"] = job(6, 3, chain(6, 2))
    foreign = write(tmp_path, document, "foreign.json")
    assert run("resilience", foreign).code == 6


def test_time_limit_of_zero(plan: tuple[Path, Path]) -> None:
    """Nothing could be evaluated: exit code 5 and no half results."""
    result = run("resilience", plan[1], "--time-limit", 0, "--json")
    assert result.code == 5
    assert "links" not in result.json
