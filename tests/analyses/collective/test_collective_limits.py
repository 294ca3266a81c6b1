"""Limits and Ctrl-C: `topoopt collective` keeps the best so far, says so, and ends with the right exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from solvers.stop import Stop
from tests.support import written_schedules as written
from topoopt.cli.app import app

MESH = "family: mesh, dims: [4, 4], link_gbytes_per_s: 10"
FULL = "links: [[0, 1, 10], [1, 2, 10], [2, 0, 10]]"


def run(*arguments: str, code: int) -> dict[str, Any]:
    """The JSON object of a run with this exit code, which says in words for people that it ended early, or does not."""
    result = CliRunner().invoke(app, ["collective", *arguments, "--json"])
    assert result.exit_code == code, result.output
    plain = CliRunner().invoke(app, ["collective", *arguments])
    assert code == 6 or ("ended early by" in plain.output) is (code in (4, 130))
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C has been pressed by the time at which a search begins."""

    @contextmanager
    def early(time_limit_s: float | None, **_: Any) -> Iterator[Stop]:
        stop = Stop().within(time_limit_s)
        stop.interrupted.set()
        yield stop

    monkeypatch.setattr("topoopt.page.options.stop_on_signals", early)


def test_bounds_without_time_are_bounds() -> None:
    """On a 4 x 4 mesh: 10 GB/s times 1/16 a pair and 1.6 for AllReduce; stopped, no smaller than these; exit 4."""
    found = run("bound", MESH, "--time-limit", "0", code=4)
    assert found["stopped_by"] == "time"
    assert found["ratio"] == "3/4"
    assert found["all_to_all_lambda"] >= 10 / 16 * (1 - 1e-9)
    assert found["allreduce_rate"] >= 16 * (1 - 1e-9)
    whole = run("bound", MESH, code=0)
    assert whole["stopped_by"] == "converged"
    assert whole["all_to_all_lambda"] == pytest.approx(10 / 16)
    assert whole["allreduce_rate"] == pytest.approx(16)


@pytest.mark.usefixtures("pressed")
def test_an_interrupted_bound_keeps_the_cut() -> None:
    """The AllGather bound stands; what was not begun is not told; exit 130."""
    found = run("bound", MESH, code=130)
    assert (found["ratio"], found["stopped_by"]) == ("3/4", "interrupted")
    assert found["allreduce_rate"] is None
    assert found["all_to_all_lambda"] is None


def ring_of_three(folder: Path, *, demands: int = 3) -> Path:
    flows = ["0 of 0: 0>1 @0", "0 of 1: 1>2 @0", "0 of 2: 2>0 @0", "0 of 2: 0>1 @1", "0 of 0: 1>2 @1", "0 of 1: 2>0 @1"]
    return written.teccl(folder / "a.json", flows[: 2 * demands], written.everyone(range(3)), epochs=2, gbytes=3e-5)


@pytest.mark.usefixtures("pressed")
def test_an_interrupted_audit_has_its_verdict(tmp_path: Path) -> None:
    """What the schedule does is known, right or wrong; a wrong one ends with 6 whatever ended the search."""
    found = run("audit", str(ring_of_three(tmp_path)), "--format", "teccl", "--topology", FULL, code=130)
    assert (found["verdict"], found["stopped_by"]) == ("valid", "interrupted")
    assert found["bound"]["algbw_gbytes_per_s"] == pytest.approx(15)
    wrong = ring_of_three(tmp_path, demands=2)
    assert run("audit", str(wrong), "--format", "teccl", "--topology", FULL, code=6)["verdict"] == "invalid"


def test_an_audit_without_time_has_its_verdict(tmp_path: Path) -> None:
    more = ("--format", "teccl", "--topology", FULL, "--time-limit", "0")
    found = run("audit", str(ring_of_three(tmp_path)), *more, code=4)
    assert (found["verdict"], found["stopped_by"]) == ("valid", "time")


@pytest.mark.usefixtures("pressed")
def test_an_interrupted_find_keeps_its_front() -> None:
    """33 servers with 3 links are not in the atlas: what is known without a search, exit 130."""
    found = run("find", "--servers", "33", "--degree", "3", "--set", "visits=1000000000", code=130)
    assert found["stopped_by"] == "interrupted"
    assert found["front"]


def test_a_find_without_time_keeps_its_front() -> None:
    found = run("find", "--servers", "33", "--degree", "3", "--set", "visits=1000000000", "--time-limit", "0", code=4)
    assert (found["stopped_by"], bool(found["front"])) == ("time", True)


def test_bounds_by_size_as_nccl_tests_states_them() -> None:
    """DGX A100, by hand: 8/7 of 300 GB/s for an AllGather, half of it for an AllReduce; bus bandwidth 300 of both."""
    rows = run("bound", "dgx-a100", "--bytes", "1MB:4MB,7MB", code=0)["rows"]
    sizes = [row["bytes"] for row in rows if row["collective"] == "allreduce"]
    assert sizes == [1_000_000, 2_000_000, 4_000_000, 7_000_000]
    for row in rows:
        share = 2 * 7 / 8 if row["collective"] == "allreduce" else 7 / 8
        assert row["time_us"] == pytest.approx(row["bytes"] * share / 300e3)
        assert row["algbw_gbytes_per_s"] == pytest.approx(300 / share)
        assert row["busbw_gbytes_per_s"] == pytest.approx(300)
        assert "300 GB/s" in row["limited_by"]


@pytest.mark.parametrize("sizes", ["1MB:", "8MB:1MB", "1MB:8MB:1", "1MB:8MB:x", "1B:8TB:2:3", "many"])
def test_ranges_that_are_none_are_refused(sizes: str) -> None:
    result = CliRunner().invoke(app, ["collective", "bound", "dgx-a100", "--bytes", sizes])
    assert result.exit_code == 2
    assert "size" in result.output


def test_what_bounds_leave_out_of_an_instance_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "star.yaml"
    file.write_text(
        "{schema_version: 1, kind: collective, name: s, collective: allgather, bytes: 1GB, groups: [[0, 1], [2, 3]],\n"
        " latency_us: {message: 2}, topology: {nodes: 5, switches: [4], directed: false,\n"
        " links: [[0, 4, 1], [1, 4, 1], [2, 4, 1], [3, 4, 1]]}}"
    )
    result = CliRunner().invoke(app, ["collective", "bound", str(file)])
    assert result.exit_code == 0
    assert "groups, latency_us.message" in " ".join(result.output.split())
