"""The best so far of every kind, kept when its method has to be left in the middle."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import at_once_cases
from tests.support.cli_cases import run, write
from tests.support.hanging import LIMIT_S, endless, time_passes
from tests.support.sized_instances import job, placement, regional, routing, shipped, topology
from topoopt.kinds.kind import Effort

__all__ = ["time_passes"]


def two_routes() -> dict[str, Any]:
    """Three levels of fair rates, found by a linear program each: transfers of one and of two routes."""
    ends = [(0, 1), (0, 2), (0, 2), (1, 2), (3, 5), (4, 5)]
    transfers = [{"source": a, "destination": b} for a, b in ends]
    transfers[4] |= {"paths": [[3, 4, 5], [3, 2, 1, 0, 5]]}
    network = {"topology": {"family": "ring", "servers": 6}, "link_gbps": 100}
    return {"kind": "allocation", **network, "transfers": transfers, "search": {"method": "lp"}}


CASES: dict[str, dict[str, Any]] = {
    "job": job(4),
    "topology": topology(12),
    "routing": routing((3, 3)),
    "throughput": placement(3, "throughput"),
    "latency": shipped("placement/shared-fork-3.yaml"),
    "allocation": two_routes(),
    "designs": shipped("hierarchical/gpt3-strategies.yaml"),
    "arrivals": shipped("shared/trace-16.yaml"),
    "at once": at_once_cases.published(jobs={"repetitions": 2}),
    "circuits": shipped("dag-topology/two-stages.yaml"),
    "language model": shipped("llm-training/small-16.yaml"),
    "pods": shipped("llm-training/pods-16.yaml"),
    "regional circuits": regional(8, 4),
    "collective": shipped("collectives/ring-5.yaml"),
    "front": shipped("hierarchical/gpt3-3d.yaml", pareto_points=5),
}


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("name", CASES)
def test_what_was_found_is_kept(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that hangs as soon as it has found something is left at the limit, with what it had found."""
    original = Effort.keep

    def keep(effort: Effort, found: Any, rough: bool = False) -> None:
        original(effort, found, rough)
        if effort.timing is not None and effort.timing.stop.deadline is not None:
            endless()

    monkeypatch.setattr(Effort, "keep", keep)
    instance = write(tmp_path, {"schema_version": 1, "name": "case", **CASES[name]})
    result = run("solve", instance, "--output", tmp_path / "out", "--time-limit", LIMIT_S, "--json")
    assert (result.code, result.json["stopped_by"]) == (4, "time"), result.stderr
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


SIGNALLED = list(zip(CASES, itertools.cycle((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)), strict=False))
"""Each case with one of the signals that ask a run to end."""


@pytest.fixture
def heard(number: signal.Signals) -> Iterator[None]:
    """The signal is not ignored, as SIGHUP is below `nohup`."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
    yield
    signal.signal(number, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(("name", "number"), SIGNALLED)
def test_a_signal_keeps_what_was_found(
    tmp_path: Path, name: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them as soon as there is something: exit code 130, and a solution that the checker takes."""
    original = Effort.keep

    def keep(effort: Effort, found: Any, rough: bool = False) -> None:
        original(effort, found, rough)
        if not effort.stop.interrupted.is_set():
            os.kill(os.getpid(), number)
            effort.stop.interrupted.wait(60.0)

    monkeypatch.setattr(Effort, "keep", keep)
    instance = write(tmp_path, {"schema_version": 1, "name": "case", **CASES[name]})
    result = run("solve", instance, "--output", tmp_path / "out", "--json")
    assert result.code == 130, result.stderr
    monkeypatch.undo()
    stated = json.loads((tmp_path / "out" / "solution.json").read_text())
    assert stated["stopped_by"] == "interrupted"
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0
