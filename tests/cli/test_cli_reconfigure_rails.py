"""`topoopt reconfigure` on training jobs: figures, files, refusals."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.support.cli_cases import run
from tests.support.paths import INSTANCES

INSTANCE = """schema_version: 1
kind: llm-training
name: rails
model: {{layers: 8, hidden: 2048, ffn_hidden: 8192, heads: 16, kv_heads: 4, vocabulary: 32000}}
batch: {{sequences: 32, length: 2048}}
cluster: {{servers: {servers}, gpus_per_server: 4, device: a100, gpu_memory_gib: null, intra_server_gbps: 2400,
  degree: 4, interfaces: per-gpu, link_gbps: 100}}
strategy: {{tensor: {tensor}, context: 1, pipeline: 2, zero: 0, schedule: 1f1b, micro_batch: 1, recompute: none}}
fabrics: [ideal-switch]
switching: {switching}
search: {{top: 1}}
"""


def written(folder: Path, switching: str = "{delay: 10ms}", tensor: int = 4, servers: int = 8) -> Path:
    """An instance file."""
    file = folder / "rails.yaml"
    file.write_text(INSTANCE.format(switching=switching, tensor=tensor, servers=servers))
    return file


def test_a_sweep_of_delays(tmp_path: Path) -> None:
    """On demand two switches are exposed; provisioned never takes longer; no delay, no loss; files agree."""
    table, page = tmp_path / "s.csv", tmp_path / "s.html"
    file = written(tmp_path)
    result = run(
        "reconfigure",
        file,
        "--delays",
        "0s,10ms,1s",
        "--json",
        "--output",
        table,
        "--output",
        page,
        "--set",
        "straggler=2",
    )
    assert result.code == 0, result.stderr
    document = result.json
    rails = document["rails"]
    assert rails["slowdown"] == 2.0
    assert [one["rank"] for one in rails["stragglers"]] == [0, 1]
    assert all(one["step_s"] >= one["electrical_s"] > rails["electrical_s"] for one in rails["stragglers"])
    assert "2 times as slow" in page.read_text()
    electrical = rails["electrical_s"]
    steps = {(one["mode"], one["delay_s"]): one for one in rails["steps"]}
    for delay_s in (0.0, 0.01, 1.0):
        on_demand, provisioned = (steps[mode, delay_s] for mode in ("on-demand", "provisioned"))
        assert on_demand["step_s"] == pytest.approx(electrical + 2 * delay_s, rel=1e-9)
        assert electrical * (1 - 1e-12) <= provisioned["step_s"] <= on_demand["step_s"]
        assert provisioned["bound_s"] == pytest.approx(provisioned["step_s"], rel=1e-9)
        assert on_demand["switches"] == 4
    names = {one["boundary"] for one in rails["boundaries"]}
    assert names == {"data-to-pipeline", "pipeline-to-data"}
    assert all(one["action"] == "switch all" and one["switches"] == 2 for one in rails["boundaries"])
    ports = [one for one in rails["shown"]["events"] if one["what"] == "switch"]
    assert {(one["rank"], one["before"]["data"], one["after"]["data"]) for one in ports} == {
        (0, 2, 0), (0, 0, 2), (1, 2, 0), (1, 0, 2),
    }  # fmt: skip
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {row["scheme"] for row in rows} == {"one-shot", "electrical", "on-demand", "provisioned"}
    drawn = page.read_text()
    assert all(text in drawn for text in ("being set: dark", "ports serve pipeline", "ports serve data"))
    assert "ports serve expert" not in drawn


def test_two_servers_a_stage_are_never_switched(tmp_path: Path) -> None:
    result = run("reconfigure", written(tmp_path, servers=4), "--delays", "1s", "--json")
    rails = result.json["rails"]
    assert [one["switches"] for one in rails["steps"]] == [0, 0]
    assert rails["static_s"] == pytest.approx(rails["electrical_s"])
    assert rails["boundaries"] == []


@pytest.mark.parametrize(
    ("switching", "tensor", "words"),
    [
        ("{delay: -10ms}", 4, ("switching.delay", "-10ms", "neither a duration")),
        ("{delay: 10ms, ports: 1}", 4, ("switching.ports", "circuits for data exceed the ports", "at least 2")),
        ("{delay: 10ms}", 8, ("strategy.tensor", "pods split a tensor group", "rails.yaml:8")),
    ],
)
def test_refusals_name_file_line_and_value(tmp_path: Path, switching: str, tensor: int, words: tuple[str, ...]) -> None:
    result = run("reconfigure", written(tmp_path, switching, tensor), "--delays", "1ms")
    assert result.code == 2
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in " ".join(result.stderr.split()), result.stderr


def test_evaluate_says_what_a_step_takes(tmp_path: Path) -> None:
    """The step of `reconfigure` at the delay and in the mode of the instance."""
    file = written(tmp_path, "{delay: 10ms, provisioned: false}")
    one = run("llm", "evaluate", file, "--json").json["switching"]
    assert (one["mode"], one["switches"]) == ("on-demand", 4)
    assert one["step_s"] == pytest.approx(one["electrical_s"] + 0.02, rel=1e-9)
    assert "ports are set 4 times" in " ".join(run("llm", "evaluate", file).stdout.split())


def test_an_unknown_scheme_is_refused(tmp_path: Path) -> None:
    result = run("reconfigure", written(tmp_path), "--delays", "1ms", "--fabrics", "sip-ml")
    assert result.code == 2
    assert "on-demand, provisioned" in result.stderr


def test_a_slow_stage_needs_a_training_job() -> None:
    result = run("reconfigure", INSTANCES / "tiny-4.yaml", "--set", "straggler=2", "--json")
    assert result.code == 2
    assert result.json["problems"][0]["path"] == "--set straggler"
