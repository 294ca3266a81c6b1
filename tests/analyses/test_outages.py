"""Days of servers that are down: the statistics of the published trace, copies counted twice, the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES
from topoopt.verify.failures import copies_up, servers_exchanged
from topoopt.workloads.cluster_draws import TRACE_DAYS, TRACE_SERVERS, server_outages

DAYS = ("resilience", "--days", 349)
CASE = """
schema_version: 1
kind: llm-training
name: outages
model: {hidden: 1024, layers: 8, heads: 16, ffn_hidden: 4096, vocabulary: 32000}
batch: {sequences: 64, length: 1024}
cluster: {servers: 8, gpus_per_server: 8, device: h100, intra_server_gbps: 3600, degree: 8, link_gbps: 100}
strategy: {tensor: 8, context: 1, pipeline: 2, data: 4, zero: 0, micro_batch: 1}
fabrics: [ideal-switch]
"""


@pytest.mark.parametrize("seed", range(5))
def test_statistics_of_the_trace(seed: int) -> None:
    """400 servers, 349 days: mean 2.31 %, 99th percentile 7.75 % to a server, 35 at most (arXiv:2502.03885)."""
    down = server_outages(TRACE_SERVERS, TRACE_DAYS, np.random.default_rng(seed))
    counts = down.sum(axis=1)
    assert counts.mean() / 400 == pytest.approx(0.0231, abs=1e-4)
    assert np.quantile(counts, 0.99) / 400 == pytest.approx(0.0775, abs=1 / 400)
    assert counts.max() == 35
    again = server_outages(TRACE_SERVERS, TRACE_DAYS, np.random.default_rng(seed))
    assert (down == again).all()


@pytest.mark.parametrize("servers", [1, 4, 8, 128])
def test_few_servers_are_down_as_often_as_many(servers: int) -> None:
    """2.31 % of all server-days, to half a day, where 8.75 % of the servers are less than one of them too."""
    down = server_outages(servers, 349, np.random.default_rng(0))
    assert down.sum() == pytest.approx(0.0231 * servers * 349, abs=0.6)


def test_servers_stay_down() -> None:
    """No more servers change than their number does."""
    down = server_outages(400, 349, np.random.default_rng(1))
    counts = down.sum(axis=1)
    assert ((down[1:] != down[:-1]).sum(axis=1) == np.abs(np.diff(counts))).all()


def test_copies_by_hand() -> None:
    """Two copies on two servers each and a spare one: the second server down, then the first and third."""
    down = np.array([[0, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 0, 1]], dtype=np.bool_)
    assert copies_up(down, 2, 2, circuits=False) == [1, 0, 2]
    assert copies_up(down, 2, 2, circuits=True) == [2, 1, 2]


def test_exchanged_servers_by_hand() -> None:
    """Two of three in use: the third comes for the second and stays; then one copy less, and one server back."""
    down = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], [1, 0, 0]], dtype=np.bool_)
    assert servers_exchanged(down, [2, 2, 2, 1, 2], 1) == 2


def test_at_the_command_line(tmp_path: Path) -> None:
    """Four copies on two servers each; more spare servers never hurt, and enough of them leave nothing to lose."""
    file = tmp_path / "case.yaml"
    file.write_text(CASE)
    assert run("solve", file, "--output", tmp_path).code == 0
    said = run(*DAYS, tmp_path / "solution.json", "--set", "spares=0,1,2,8", "--json").json
    assert (said["copies"], said["servers_each"]) == (4, 2)
    fixed, *others = said["rows"]
    assert not fixed["circuits"]
    assert fixed["mean"] <= others[0]["mean"] < 1.0
    assert [row["mean"] for row in others] == sorted(row["mean"] for row in others)
    assert others[-1]["worst"] == 1.0
    assert others[-1]["worst_step_s"] == pytest.approx(others[-1]["p99_step_s"])
    assert fixed["exchanged"] == 0.0
    assert others[-1]["exchanged"] > 0.0
    page, table = tmp_path / "outages.html", tmp_path / "outages.csv"
    told = run(*DAYS, tmp_path / "solution.json", "--set", "spares=0,1,2,8", "--output", page, "--output", table)
    assert told.code == 0
    assert page.read_text().count("<svg") >= 2
    assert "circuits, 8 spare" in page.read_text()
    assert len(table.read_text().splitlines()) == 6
    assert "…" not in told.stdout
    assert "exchanged" in told.stdout
    wrong = run(*DAYS, tmp_path / "solution.json", "--set", "spares=two")
    assert wrong.code == 2
    assert "--set spares" in wrong.stderr


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    """Days and single failures are two questions, and only copies of a language model are followed through days."""
    file = tmp_path / "case.yaml"
    file.write_text(CASE)
    assert run("solve", file, "--output", tmp_path).code == 0
    both = run(*DAYS, tmp_path / "solution.json", "--fail", "server:1", "--set", "rewire=2", "--json")
    assert {path for path, _, _ in refusals(both.json)} == {"--fail", "--set rewire"}
    alone = run("resilience", tmp_path / "solution.json", "--set", "spares=1", "--json")
    assert [path for path, _, _ in refusals(alone.json)] == ["--set spares"]
    assert run("solve", INSTANCES / "networks" / "uniform-5-2.yaml", "--output", tmp_path / "other").code == 0
    other = run(*DAYS, tmp_path / "other" / "solution.json", "--json")
    assert [path for path, _, _ in refusals(other.json)] == ["--days"]
