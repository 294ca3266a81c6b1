"""`topoopt import flexnet`, then `compare --fabrics`: what `topoopt.replay` finds for a task graph on a fabric."""

from __future__ import annotations

from pathlib import Path

import pytest

import topoopt
from tests.support.cli_cases import refusals, run, shared
from tests.support.paths import INSTANCES


def test_an_imported_graph_takes_as_long_as_its_replay(tmp_path: Path) -> None:
    """The strategy of a task graph is fixed, so a comparison of fabrics evaluates it alone."""
    graph = shared("taskgraphs/100transformer_16.fbuf")
    file = tmp_path / "job.yaml"
    assert run("import", "flexnet", graph, "-o", file).code == 0
    (row,) = run("compare", file, "--fabrics", "ideal-switch", "--budget", 0, "--json").json["rows"]
    replayed = topoopt.replay(file, fabric="ideal-switch", link_gbps=400.0)
    assert row["iteration_time_ms"] == pytest.approx(replayed.iteration_time_ms, rel=1e-6)


@pytest.mark.parametrize("time_model", ["rounds", "hop", "flexnet", "fluid"])
def test_replay_on_the_ideal_switch(time_model: str) -> None:
    """BERT on 16 servers at 100 Gbit/s: within 5 % of the 63.969 ms of the packet simulation."""
    graph = shared("taskgraphs/100transformer_16.fbuf")
    result = topoopt.replay(graph, fabric="ideal-switch", link_gbps=100, time_model=time_model)
    assert result.iteration_time_ms == pytest.approx(63.969, rel=0.05)
    assert (result.fabric, result.time_model) == ("ideal-switch", time_model)
    assert (result.graph.servers, result.link_gbps) == (16, 100.0)


def test_replay_on_the_links_of_the_file() -> None:
    """The 12-server graph brings its topology and its 50 Gbit/s; slower links take longer."""
    graph = shared("taskgraphs/topoopt_12.fbuf")
    result = topoopt.replay(graph, fabric="direct-connect")
    assert (result.graph.servers, result.link_gbps) == (12, 50.0)
    slower = topoopt.replay(graph, fabric="direct-connect", link_gbps=5)
    assert slower.iteration_time_ms > result.iteration_time_ms


def test_order_of_arrival_is_an_option() -> None:
    """CANDLE's transfers wait for whole rounds of AllReduces then, and arrive later; packets took 512.88 ms."""
    instance = INSTANCES / "measured" / "candle-16-fixed-100gbps.yaml"
    times = {}
    for sharing in ("transfers-first", "fair", "fifo"):
        times[sharing] = topoopt.replay(instance, fabric="ideal-switch", link_sharing=sharing).iteration_time_ms
        if sharing != "transfers-first":  # nor do the packets have two classes
            assert times[sharing] == pytest.approx(512.88, rel=0.05)
    assert times["transfers-first"] < times["fair"] < times["fifo"]
    with pytest.raises(topoopt.InputError, match="unknown link sharing"):
        topoopt.replay(instance, fabric="ideal-switch", link_sharing="lottery")
    for model in ("fluid", "flexnet"):  # which share in a way of their own, so the option would say nothing
        with pytest.raises(topoopt.InputError, match=r"link_sharing.*rounds, hop"):
            topoopt.replay(instance, fabric="ideal-switch", time_model=model, link_sharing="fifo")


@pytest.mark.parametrize("link_gbps", [0.0, -1.0, float("nan"), float("inf")])
def test_wrong_values_are_listed_together(tmp_path: Path, link_gbps: float) -> None:
    """Fabric, time model and rate wrong at once: three problems."""
    with pytest.raises(topoopt.InputError) as caught:
        topoopt.replay(tmp_path / "none.fbuf", fabric="tokenring", time_model="guess", link_gbps=link_gbps)
    assert [problem.message for problem in caught.value.problems] == [
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
    result = run("import", "flexnet", file, "--json")
    assert result.code == 2
    assert refusals(result.json)
    assert str(file) in result.json["error"]


def test_switched_graph_has_no_links_to_run_on() -> None:
    """The graphs of the switch cannot be replayed on direct links."""
    with pytest.raises(topoopt.InputError, match="no direct-connect topology"):
        topoopt.replay(shared("taskgraphs/100vgg_16.fbuf"), fabric="direct-connect")
