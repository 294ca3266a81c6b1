"""`topoopt explain` on solution files: words, JSON, exit codes, refusals."""

from __future__ import annotations

import json
import os
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import chain, job, refusals, run, write
from tests.support.paths import INSTANCES

HEAD = {"schema_version": 1, "name": "case"}
PAIRS = [[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5], [2, 3]]
DUMBBELL = {
    **HEAD,
    "kind": "routing",
    "topology": {"links": PAIRS, "directed": False},
    "demand": {"family": "uniform"},
}
TOPOLOGY = {
    **HEAD, "kind": "topology", "servers": 5, "degree": 2, "links": "unidirectional", "demand": {"family": "uniform"}
}  # fmt: skip


def solved(folder: Path, document: dict[str, Any]) -> tuple[Path, Path]:
    """Instance and solution file."""
    path = write(folder, document)
    assert run("solve", path, "--output", folder / "out").code == 0
    return path, folder / "out" / "solution.json"


def test_dumbbell_in_words_and_in_json(tmp_path: Path) -> None:
    """Nine units cross one link each way; a second one halves theta, as predicted and checked."""
    _, solution = solved(tmp_path, DUMBBELL)
    result = run("explain", solution)
    assert result.code == 0
    assert "the cut from servers 0-2 to servers 3-5 (1 arc: 2 → 3), 9 of demand over a capacity of 1" in result.stdout
    assert "routed again 4.5 (50.00% less), checked" in result.stdout
    told = run("explain", solution, "--json").json
    assert (told["kind"], told["name"], told["stopped_by"]) == ("routing", "case", "converged")
    assert told["theta"] == pytest.approx(9.0)
    assert {tuple(cut["senders"]) for cut in told["bottleneck"]["cuts"]} == {(0, 1, 2), (3, 4, 5)}
    assert {(arc["tail"], arc["head"]) for arc in told["bottleneck"]["arcs"]} == {(2, 3), (3, 2)}
    assert sum(arc["price"] * arc["links"] for arc in told["bottleneck"]["arcs"]) == pytest.approx(1.0)
    assert told["bottleneck"]["pairs"] == 18
    best = told["one_more_link"]["positions"][0]
    assert told["one_more_link"]["best_proven"] is True
    assert (best["predicted_theta"], best["checked_theta"]) == (pytest.approx(4.5), pytest.approx(4.5))
    assert best["checked"] is True
    assert told["more_capacity"]["everywhere"]["checked_theta"] == pytest.approx(4.5)
    assert told["more_capacity"]["everywhere"]["added_gbps"] is None
    assert told["one_more_interface"] is None
    assert told["words"]


def test_gbps_where_the_rate_is_known(tmp_path: Path) -> None:
    """400 Gbit/s links: 100 Gbit/s are a quarter of a link; `more` takes links."""
    path, solution = solved(tmp_path, {**DUMBBELL, "link_gbps": 400})
    told = run("explain", solution, "--json", "--set", "checks=0").json
    added = told["more_capacity"]["everywhere"]
    assert (added["added_links"], added["added_gbps"]) == (0.25, 100.0)
    assert added["checked_theta"] == pytest.approx(9 / 1.25)
    assert told["link_gbps"] == 400
    more = run("explain", solution, "--json", "--set", "more=2", "--set", "checks=0").json
    # not 9 / 3: servers 0 and 1 send 4 units each to the others over the two links into 2
    assert more["more_capacity"]["everywhere"]["checked_theta"] == pytest.approx(4.0)
    assert more["notes"] == []
    assert run("check", path, solution).code == 0


def test_topology_tells_of_one_more_interface(tmp_path: Path) -> None:
    """n = 5, uniform: d = 2 has theta 3 (Moore), d = 3 has 1 / 0.6; the bound that binds is named."""
    _, solution = solved(tmp_path, TOPOLOGY)
    told = run("explain", solution, "--json", "--set", "checks=1").json
    assert told["theta"] == pytest.approx(3.0)
    more = told["one_more_interface"]
    assert (more["degree"], more["optimal"]) == (3, True)
    assert more["checked_theta"] == pytest.approx(1 / 0.6, rel=1e-5)
    assert more["bounds_now"][0]["value"] == pytest.approx(3.0)
    text = run("explain", solution).stdout
    assert "met, so no topology is better" in text
    assert "the optimum, 44.44% less), checked" in text


def test_job_in_words(tmp_path: Path) -> None:
    """The terms sum to the iteration time, no link is busy longer than it lasts, and faster links are simulated."""
    _, solution = solved(tmp_path, job(4, 2, chain(4, weights=4_000_000)))
    alone = run("explain", solution, "--json").json
    assert alone["kind"] == "co-optimisation"
    assert sum(alone["critical_path_ms"].values()) == pytest.approx(alone["iteration_time_ms"])
    assert (alone["faster_links"]["link_gbps"], alone["faster_links"]["checked"]) == (200.0, True)
    # 4 operators of 1 ms forward and 2 ms backward on 4 servers: 12 ms of work in all, 3 ms a server at least
    assert 3.0 <= alone["busiest_server_compute_ms"] <= alone["iteration_time_ms"]
    assert all(0 <= link["utilisation"] <= 1 + 1e-9 for link in alone["busiest_links"])
    told = run("explain", solution, "--json", "--set", "more=3").json
    assert told["faster_links"]["link_gbps"] == 400.0
    assert told["busiest_server_compute_ms"] <= told["faster_links"]["iteration_time_ms"] < told["iteration_time_ms"]
    least = f"No network brings this strategy below {told['busiest_server_compute_ms']:.6g} ms, "
    assert any(line.startswith(least) for line in told["words"])
    words = run("explain", solution).stdout
    assert "simulated again" in words
    assert "anything else" not in words  # a few times 1e-16 ms of rounding are no part of the iteration


def test_time_limit_leaves_predictions(tmp_path: Path) -> None:
    """Limit 0: exit code 4, nothing checked, predictions shown."""
    _, solution = solved(tmp_path, DUMBBELL)
    result = run("explain", solution, "--time-limit", 0, "--json")
    assert result.code == 4
    assert result.json["stopped_by"] == "time"
    assert result.json["more_capacity"]["everywhere"]["checked"] is False
    assert result.json["one_more_link"]["positions"][0]["predicted_theta"] == pytest.approx(4.5)


def test_same_solution_same_words(tmp_path: Path) -> None:
    """Twice the same output."""
    _, solution = solved(tmp_path, TOPOLOGY)
    assert run("explain", solution).stdout == run("explain", solution).stdout


def test_refusals(tmp_path: Path) -> None:
    """No solution, a wrong setting: exit code 2, the place named."""
    path, solution = solved(tmp_path, DUMBBELL)
    none = run("explain", path, "--json")
    assert none.code == 2
    assert refusals(none.json) == [("kind", "'routing'", "not a solution")]
    more = run("explain", solution, "--set", "more=-1", "--json")
    assert more.code == 2
    assert refusals(more.json) == [("--set more", "-1", "wrong value")]
    assert run("explain", tmp_path / "absent.json").code == 2


def test_a_spoilt_solution_is_not_explained(tmp_path: Path) -> None:
    """Theta halved, or the instance in it another one: exit code 6, and no explanation."""
    _, solution = solved(tmp_path, DUMBBELL)
    document = json.loads(solution.read_text())
    solution.write_text(json.dumps({**document, "instance": {**document["instance"], "demand": {"family": "hotspot"}}}))
    assert run("explain", solution).code == 6
    document["objective"]["value"] /= 2
    solution.write_text(json.dumps(document))
    result = run("explain", solution)
    assert result.code == 6
    assert not result.stdout


@pytest.mark.parametrize(
    ("name", "module", "step"),
    [
        ("networks/uniform-5-2.yaml", "topoopt.kinds.network.explain", "solve"),
        ("dag-topology/two-stages.yaml", "topoopt.kinds.pipeline", "solve"),
        ("llm-training/small-16.yaml", "topoopt.kinds.llm_training.methods", "search"),
        ("collectives/ring-5.yaml", "topoopt.kinds.collective.explain", "limiting"),
    ],
)
def test_a_signal_ends_it_with_what_is_known(
    tmp_path: Path, name: str, module: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While something is solved again: said at once, the words so far, exit code 130."""
    words = ("explain", tmp_path / "out" / "solution.json", "--json")
    assert run("solve", INSTANCES / name, "--output", tmp_path / "out").code == 0
    whole = run(*words).json
    original = getattr(import_module(module), step)

    def interrupted(*values: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return original(*values, **named)

    monkeypatch.setattr(f"{module}.{step}", interrupted)
    result = run(*words)
    assert (result.code, result.json["stopped_by"]) == (130, "interrupted"), result.stderr
    assert result.json["words"][0] == whole["words"][0]
    assert set(result.json) == set(whole)
