"""Signals and limits of the long commands beside `solve`: the same words, the same ends."""

from __future__ import annotations

import importlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import chain, job, run, write
from tests.support.hanging import LIMIT_S, endless, time_passes
from topoopt.core.errors import LimitError

__all__ = ["time_passes"]

pytestmark = pytest.mark.usefixtures("time_passes")

WORK = {
    "compare --fabrics": "solvers.job.fabrics.search_strategy",
    "reconfigure": "topoopt.analyses.reconfiguration.run.reconfiguration_sweep",
    "resilience": "topoopt.analyses.resilience.run.study",
    "compare": "solvers.job.loop.anneal",
    "collective bound": "topoopt.analyses.collective.bounds.network_bounds",
    "collective find": "topoopt.analyses.collective.search.find_front",
}
"""What each command spends its time with."""

LEFT = [command for command in WORK if not command.startswith("collective")]
"""Commands that take a limit of memory too, and are left at the limits; the others end there by themselves."""


def words_of(command: str, folder: Path) -> list[object]:
    """A run of a small job or network."""
    if command == "collective bound":
        return ["collective", "bound", "preset: dgx-a100, boxes: 2"]
    if command == "collective find":
        return ["collective", "find", "--servers", 8, "--degree", 2]
    instance = write(folder, job(6, 2, chain(6)))
    if command == "resilience":
        assert run("solve", instance, "--output", folder / "out").code == 0
        return [command, folder / "out" / "solution.json"]
    more = {"compare": ["--methods", "alternating"], "compare --fabrics": ["--fabrics", "all"]}
    return [command.split(maxsplit=1)[0], instance, *more.get(command, [])]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """What the commands load late is loaded before anything is replaced in it: it would keep the replacement."""
    for command in ("fabrics", "reconfiguration", "resilience"):
        importlib.import_module(f"topoopt.analyses.{command}.run")
    for module in ("compare", "collective.bounds", "collective.search"):
        importlib.import_module(f"topoopt.{'cli' if module == 'compare' else 'analyses'}.{module}")


@pytest.mark.parametrize("command", WORK)
def test_two_signals(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first says at once what is being finished, the second ends what hangs: exit code 130."""
    words = words_of(command, tmp_path)
    said: list[str] = []
    heard = threading.Event()
    original = os.write

    def hears(number: int, data: bytes) -> int:
        if number != 2:
            return original(number, data)
        said.append(data.decode().strip())
        heard.set()
        return len(data)

    def hanging(*values: object, **named: object) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        heard.wait(60.0)
        os.kill(os.getpid(), signal.SIGINT)
        return endless()

    monkeypatch.setattr("topoopt.page.options.os.write", hears)
    monkeypatch.setattr(WORK[command], hanging)
    result = run(*words, "--json")
    assert result.code == 130, result.stderr
    assert "Traceback" not in result.stderr
    assert [line.split(":")[0] for line in said] == ["finishing", "stopping"]
    assert said[0].endswith("; Ctrl-C again to stop with what is there")


@pytest.mark.parametrize("command", ["resilience", "collective find"])
def test_a_signal_before_anything_was_found(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that ends by itself, empty-handed, after the first signal: interrupted, not out of time."""
    words = words_of(command, tmp_path)

    def empty_handed(*values: object, **named: object) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        raise LimitError("nothing by then")

    monkeypatch.setattr("topoopt.page.options.os.write", lambda number, data: len(data))
    monkeypatch.setattr(WORK[command], empty_handed)
    result = run(*words, "--json")
    assert result.code == 130, result.stderr
    assert '"stopped_by": "interrupted"' in result.stdout


@pytest.mark.parametrize("command", LEFT)
def test_work_that_looks_at_no_clock(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left at the limit: exit code 5 where there is nothing to show, a row of its own in a comparison."""
    words = words_of(command, tmp_path)
    monkeypatch.setattr(WORK[command], endless)
    result = run(*words, "--time-limit", LIMIT_S, "--json")
    if command == "compare":
        assert (result.code, result.json["runs"][0]["stopped_by"]) == (0, "time")
        return
    assert (result.code, result.json["error"]) == (5, "the time limit came before anything was found")


@pytest.mark.parametrize("command", LEFT)
def test_a_memory_limit_that_is_too_small(tmp_path: Path, command: str) -> None:
    """A megabyte is not enough for anything, and what is no size is refused."""
    words = words_of(command, tmp_path)
    result = run(*words, "--memory-limit", "1MB", "--json")
    reason = "the memory limit of 0.000931 GiB was reached before anything was found"
    told = result.json["runs"][0]["reason"] if command == "compare" else result.json["error"]
    assert told == reason
    wrong = run(*words, "--memory-limit", "much", "--json")
    assert (wrong.code, wrong.json["problems"][0]["path"]) == (2, "--memory-limit")
