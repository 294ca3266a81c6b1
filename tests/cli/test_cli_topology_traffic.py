"""`topoopt topology traffic`: the published figures on the published job, and any plan of ours."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.cli_cases import chain, job, refusals, run, shared, write
from tests.support.paths import INSTANCES

HOPS = {
    4: (0.0315, 0.0945, 0.1890, 0.3150, 0.4724, 0.6378, 0.7795, 0.8898, 0.9685, 1.0),
    8: (0.0630, 0.2992, 0.7087, 0.9685, 1.0),
}
"""Cumulative path lengths on {1, 13} and {1, 5, 13, 39} at 128 servers."""


@pytest.mark.parametrize(
    ("batch", "elements", "share", "taxes"),
    [
        (32768, "flexnet", 0.025, (1.111, 1.047)),
        (32768, "actual", 0.0123, (1.056, 1.024)),
        (1048576, "flexnet", 0.790, (3.040, 1.865)),
        (1048576, "actual", 0.395, (2.309, 1.555)),
    ],
)
def test_bandwidth_tax_of_the_published_job(
    tmp_path: Path, batch: int, elements: str, share: float, taxes: tuple[float, float]
) -> None:
    """DLRM of 128 tables on 128 servers: tax, Q/A and path lengths as printed, A of 345.3 GB."""
    shipped = INSTANCES / "measured" / f"dlrm-128-batch-{batch // 512}.yaml"
    for degree, tax in zip((4, 8), taxes, strict=True):
        instance = tmp_path / f"{degree}.yaml"
        if elements == "flexnet":
            instance.write_text(shipped.read_text().replace("degree: 4,", f"degree: {degree},", 1))
        else:
            profile = shared(f"fig12/measure_{batch}_128.json")
            words = ("--set", f"model=dlrm,degree={degree},element_sizes={elements}")
            assert run("import", "flexnet", profile, *words, "-o", instance).code == 0
        found = run("report", instance, "--set", "selection=flexnet", "--json").json
        assert found["bandwidth_tax"] == pytest.approx(tax, abs=6e-4)
        assert found["model_parallel_to_allreduce"] == pytest.approx(share, abs=6e-4)
        assert found["demand_bytes"]["allreduce"] == pytest.approx(345.3e9, rel=2e-4)
        for lengths in (found["byte_hops"], found["pair_hops"]):
            assert [row["cumulative"] for row in lengths] == pytest.approx(HOPS[degree], abs=6e-5)
        assert found["mean_byte_hops"] == pytest.approx({4: 5.622, 8: 2.961}[degree], abs=6e-4)
        assert found["link_bytes"]["links"] == 128 * degree
        assert found["carried_bytes"] == pytest.approx(found["link_bytes"]["mean"] * 128 * degree)
        # Single random shortest paths load the worst link with 1.6 to 2.1 times the mean; balanced ones do not.
        assert 1.0 <= found["link_bytes"]["max_over_mean"] <= 1.1


def test_traffic_of_a_plan(tmp_path: Path) -> None:
    """Tax and link loads are those of the summary of the solve; CSV and pictures have the same distributions."""
    instance = write(tmp_path, job(8, 2, chain(8, 5)))
    solved = run("solve", instance, "--output", tmp_path / "out", "--json").json
    solution, table = tmp_path / "out" / "solution.json", tmp_path / "t.csv"
    found = run("report", solution, "--output", table, "--output", tmp_path / "t.svg", "--json").json
    assert found["bandwidth_tax"] == pytest.approx(solved["bandwidth_tax"])
    assert found["demand_bytes"] == pytest.approx(solved["demand_bytes"])
    assert sum(row["share"] for row in found["pair_hops"]) in (0, pytest.approx(1.0))
    with table.open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["distribution"] == "link_bytes"]
    loads = [float(row["value"]) for row in rows]
    assert len(loads) == found["link_bytes"]["links"]
    assert sum(loads) == pytest.approx(found["carried_bytes"])
    assert (loads[-1], float(rows[-1]["cumulative"])) == (found["link_bytes"]["max"], 1.0)
    assert ElementTree.parse(tmp_path / "t.svg").getroot().tag.endswith("svg")
    text = run("report", solution, "--output", tmp_path / "t.html", "--output", tmp_path / "u.csv")
    assert f"bandwidth tax: {found['bandwidth_tax']:.3f}" in text.stdout
    counted = "  ".join(f"{row['hops']}: {row['cumulative']:.4f}" for row in found["pair_hops"]) or "none has a route"
    assert f"pairs of servers in so many hops or fewer: {counted}\n" in text.stdout
    assert (tmp_path / "t.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run("report", solution, "--output", tmp_path / "t.html").code == 2


def test_the_starting_plan_of_small_clusters(tmp_path: Path) -> None:
    """Two servers, three, a prime and one-way links: data parallelism on direct rings pays no tax."""
    for servers, degree, links in ((2, 1, "bidirectional"), (3, 2, "bidirectional"), (7, 3, "unidirectional")):
        instance = write(tmp_path, job(servers, degree, chain(servers), links=links))
        found = run("report", instance, "--json")
        assert found.code == 0
        assert found.json["bandwidth_tax"] == pytest.approx(1.0)
        assert found.json["byte_hops"] == []


def test_strategies_of_an_instance(tmp_path: Path) -> None:
    """All weights on every server: 2 (k-1)/k of all of them around the ring, and no transfers. What is searched has the
    demand of the plan that solve finds. The bytes of the pairs are those demanded."""
    document = job(8, 2, chain(8, 5))
    instance = write(tmp_path, document)
    words = ("report", instance, "--set", "pairs=true", "--json", "--set")
    whole = run(*words, "strategy=replicated").json
    weights = 4 * sum(sum(one["weight_elements"]) for one in document["workload"]["operators"])
    assert weights > 0
    assert whole["demand_bytes"] == {"allreduce": pytest.approx(14 * weights), "model_parallel": 0.0}
    assert run(*words, "strategy=placed").json == run(*words[:-1]).json
    solved = run("solve", instance, "--output", tmp_path / "out", "--budget", 30, "--json").json
    searched = run(*words, "strategy=searched,budget=30").json
    assert searched["demand_bytes"] == pytest.approx(solved["demand_bytes"])
    for found in (whole, searched):
        pairs = [value for row in found["pair_bytes"].values() for value in row.values()]
        assert sum(pairs) == pytest.approx(sum(found["demand_bytes"].values()))
        assert found["largest_pair_bytes"] == max(pairs, default=0.0)
    assert "pair_bytes" not in run("report", instance, "--json").json


def test_refused_strategies(tmp_path: Path) -> None:
    """An unknown one; a budget where nothing is searched; ring distances where a plan has its own; with a solution."""
    instance = write(tmp_path, job(8, 2, chain(8)))
    run("solve", instance, "--output", tmp_path / "out", "--json")
    solution = tmp_path / "out" / "solution.json"
    for file, words, where in (
        (instance, ("--set", "strategy=x"), "--set strategy"),
        (instance, ("--set", "budget=5"), "--set budget"),
        (instance, ("--set", "strategy=placed,budget=5"), "--set budget"),
        (instance, ("--set", "strategy=searched,selection=best"), "--set selection"),
        (solution, ("--set", "strategy=placed"), "--set strategy"),
        (solution, ("--set", "budget=5"), "--set budget"),
    ):
        found = run("report", file, *words, "--json")
        assert (found.code, [each["path"] for each in found.json["problems"]]) == (2, [where]), words


def test_refusals(tmp_path: Path) -> None:
    """An unknown selection, a selection for a solution, another kind, no connected rings, a missing file."""
    instance = write(tmp_path, job(8, 2, chain(8)))
    assert [where for where, _, _ in refusals(run("report", instance, "--set", "selection=x", "--json").json)]
    run("solve", instance, "--output", tmp_path / "out", "--json")
    solution = tmp_path / "out" / "solution.json"
    found = run("report", solution, "--set", "selection=paper", "--json")
    assert (found.code, found.json["problems"][0]["path"]) == (2, "--set selection")
    ring = {"schema_version": 1, "name": "ring", "kind": "routing", "demand": {"family": "uniform"},
            "topology": {"family": "ring", "servers": 4}}  # fmt: skip
    assert run("report", write(tmp_path, ring, "r.json"), "--json").code == 2
    apart = write(tmp_path, job(8, 1, chain(8)), "apart.json")
    assert run("report", apart, "--json").code == 3
    assert run("report", tmp_path / "none.json", "--json").code == 2
    assert run("report", instance, "--output", tmp_path / "x.png", "--json").code == 2
