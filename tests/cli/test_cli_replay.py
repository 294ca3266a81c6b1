"""`topoopt replay`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli_cases import refusals, run, shared
from tests.support.paths import INSTANCES


@pytest.mark.parametrize("time_model", ["rounds", "hop", "flexnet", "fluid"])
def test_replay_on_the_ideal_switch(time_model: str) -> None:
    """BERT on 16 servers at 100 Gbit/s: within 5 % of the 63.969 ms of the packet simulation."""
    graph = shared("taskgraphs/100transformer_16.fbuf")
    words = ("--fabric", "ideal-switch", "--link-gbps", 100, "--time-model", time_model)
    result = run("replay", graph, *words, "--json")
    assert result.code == 0
    assert result.json["iteration_time_ms"] == pytest.approx(63.969, rel=0.05)
    assert (result.json["fabric"], result.json["time_model"]) == ("ideal-switch", time_model)
    assert (result.json["servers"], result.json["link_gbps"]) == (16, 100.0)
    said = re.fullmatch(r"One iteration takes ([0-9.]+) ms on 16 servers, (.*)", result.json["answer"])
    assert said is not None
    assert float(said[1]) == pytest.approx(63.969, rel=0.05)
    assert said[2] == f"fabric ideal-switch at 100 Gbit/s, by time model {time_model}."


def test_replay_on_the_links_of_the_file() -> None:
    """The 12-server graph brings its topology and its 50 Gbit/s; slower links take longer."""
    graph = shared("taskgraphs/topoopt_12.fbuf")
    result = run("replay", graph, "--fabric", "direct-connect", "--json")
    assert result.code == 0
    assert (result.json["servers"], result.json["link_gbps"]) == (12, 50.0)
    slower = run("replay", graph, "--fabric", "direct-connect", "--link-gbps", 5, "--json")
    assert slower.json["iteration_time_ms"] > result.json["iteration_time_ms"]
    text = run("replay", graph, "--fabric", "direct-connect").stdout
    assert " ".join(text.split()).startswith(result.json["answer"])
    assert text.splitlines()[-1].startswith(f"{result.json['iteration_time_ms']:.4f} ms, ")


def test_order_of_arrival_is_an_option() -> None:
    """CANDLE's transfers wait for whole rounds of AllReduces then, and arrive later; packets took 512.88 ms."""
    instance = INSTANCES / "measured" / "candle-16-fixed-100gbps.yaml"
    times = {}
    for sharing in ("transfers-first", "fair", "fifo"):
        result = run("replay", instance, "--fabric", "ideal-switch", "--link-sharing", sharing, "--json")
        times[sharing] = result.json["iteration_time_ms"]
        if sharing != "transfers-first":  # nor do the packets have two classes
            assert times[sharing] == pytest.approx(512.88, rel=0.05)
    assert times["transfers-first"] < times["fair"] < times["fifo"]
    wrong = run("replay", instance, "--fabric", "ideal-switch", "--link-sharing", "lottery", "--json")
    assert refusals(wrong.json)[0][2] == "unknown link sharing"
    for model in ("fluid", "flexnet"):  # which share in a way of their own, so the option would say nothing
        words = ("--fabric", "ideal-switch", "--time-model", model, "--link-sharing", "fifo", "--json")
        refused = run("replay", instance, *words)
        assert (refused.code, refusals(refused.json)[0][0]) == (2, "link_sharing")
        assert "rounds, hop" in refused.stdout


@pytest.mark.parametrize("link_gbps", ["0", "-1", "nan", "inf"])
def test_wrong_values_are_listed_together(tmp_path: Path, link_gbps: str) -> None:
    """Fabric, time model and rate wrong at once: three problems, exit code 2."""
    words = ("--fabric", "tokenring", "--time-model", "guess", "--link-gbps", link_gbps)
    result = run("replay", tmp_path / "none.fbuf", *words, "--json")
    assert result.code == 2
    assert [message for _, _, message in refusals(result.json)] == [
        "unknown fabric",
        "unknown time model",
        "link rate must be positive",
    ]


@pytest.mark.parametrize("content", [None, b"", b"\x00" * 64, b"\xff" * 64])
def test_unreadable_task_graph(tmp_path: Path, content: bytes | None) -> None:
    """Missing, empty or broken files: exit code 2 with the name of the file."""
    file = tmp_path / "graph.fbuf"
    if content is not None:
        file.write_bytes(content)
    result = run("replay", file, "--fabric", "ideal-switch", "--json")
    assert result.code == 2
    assert refusals(result.json)
    assert str(file) in result.json["error"]


def test_switched_graph_has_no_links_to_run_on() -> None:
    """The graphs of the switch cannot be replayed on direct links: exit code 2."""
    graph = shared("taskgraphs/100vgg_16.fbuf")
    result = run("replay", graph, "--fabric", "direct-connect", "--json")
    assert result.code == 2
    assert "no direct-connect topology" in result.json["error"]
