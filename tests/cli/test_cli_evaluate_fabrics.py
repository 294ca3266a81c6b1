"""`topoopt evaluate --fabric`: one configuration on networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES

CASE = INSTANCES / "llm-training" / "llama3-70b-64.yaml"
SIZES = ("--set", "tensor=8,pipeline=4,data=2")


def test_a_configuration_on_three_networks() -> None:
    """Two replicas of four stages on eight servers: by hand a hop has 1 of 8 links of 50 GB/s for 8 GPUs, rails all."""
    options = ["--fabrics", "direct-connect,torus-3d,rail-only"]
    found = run("llm", "evaluate", CASE, *SIZES, *options, "--json").json
    assert [one["fabric"] for one in found["fabrics"]] == ["direct-connect", "torus-3d", "rail-only"]
    rates = []
    for one in found["fabrics"]:
        assert one["iteration_time_s"] >= found["iteration_time_s"]
        rates.append({part["dimension"]: part["gbytes_per_s"] for part in one["dimensions"]}["pipeline"])
    # A link to each neighbour for eight GPUs; on a torus an axis has two links each way of eight interfaces, and
    # exchanges put the stages on neighbours.
    assert found["fabrics"][0]["degree_split"] == {"data": 6, "pipeline": 2}
    assert rates[0] == pytest.approx(rates[2] / 8)
    assert rates[1] == pytest.approx(rates[2] / 4)
    assert next(part["hops"] for part in found["fabrics"][1]["dimensions"] if part["dimension"] == "pipeline") == 1


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    """Unknown fabrics with those there are; one interface for many servers."""
    ((path, value, message),) = refusals(run("llm", "evaluate", CASE, *SIZES, "--fabrics", "torus", "--json").json)
    assert (path, value, message) == ("fabrics", "torus", "no such fabric")
    file = tmp_path / "one.yaml"
    file.write_text(CASE.read_text().replace("degree: 8", "degree: 1").replace("per-gpu", "per-server"))
    answer = run("llm", "evaluate", file, *SIZES, "--fabrics", "direct-connect")
    assert answer.code == 3
    assert "direct-connect: 1 interface of a server does not join all" in answer.stderr


def test_rails_among_the_fabrics() -> None:
    """The step is that of `switching`; without the section nothing says how long circuits take."""
    file = INSTANCES / "llm-training" / "rails-32.yaml"
    sizes = ("--set", "tensor=4,pipeline=2,data=4")
    found = run("llm", "evaluate", file, *sizes, "--fabrics", "photonic-rails,rail-only", "--json").json
    rails, only = found["fabrics"]
    assert rails["iteration_time_s"] == found["switching"]["step_s"]
    assert only["fabric"] == "rail-only"
    assert only["iteration_time_s"] >= found["switching"]["electrical_s"] * (1 - 1e-9)
    ((path, _, message),) = refusals(run("llm", "evaluate", CASE, *SIZES, "--fabrics", "photonic-rails", "--json").json)
    assert (path, message) == ("--fabrics", "how long circuits of the rails take to set is missing")
