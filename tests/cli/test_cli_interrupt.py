"""Ctrl-C at every stage of a solve: exit code 130, and from the start of the search on a valid plan on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from solvers.job import fabric_strategy
from tests.support.cli_cases import ROOT, chain, job, process, run, run_apart, searching, write
from topoopt.core.job_solution import JobSolution
from topoopt.kinds.job import report as html
from topoopt.kinds.job import solve as search

INSTANCE = job(8, 3, chain(8, 6), search={"budget": 10**12})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_in_the_middle_of_the_search(tmp_path: Path, number: signal.Signals) -> None:
    """An endless search is interrupted: exit code 130, solution and report are there, the checker takes the plan."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc to see when the search has begun")
    instance = write(tmp_path, INSTANCE)
    with process("solve", instance, "--out", tmp_path / "out", "--json") as child:
        while child.poll() is None and not searching(child.pid):
            time.sleep(0.02)
        time.sleep(0.3)
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=300)
    assert child.returncode == 130
    assert '"stopped_by": "interrupted"' in stdout
    assert "Traceback" not in stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "solution.json"]
    checked = run("check", instance, tmp_path / "out" / "solution.json", "--json")
    assert (checked.code, checked.json["ok"]) == (0, True)


@pytest.mark.parametrize(
    ("module", "step"), [(search, "compare_fabrics"), (JobSolution, "judged"), (html, "verdict_cards")]
)
def test_interrupt_after_the_search(tmp_path: Path, module: Any, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the baselines run, the plan is checked or the report is made: the plan is still written, exit code 130."""
    original = getattr(module, step)

    def interrupted(*values: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return original(*values)

    monkeypatch.setattr(module, step, interrupted)
    instance = write(tmp_path, job(6, 2, chain(6)))
    result = run("solve", instance, "--out", tmp_path / "out", "--json")
    assert result.code == 130
    assert result.json["check"]["ok"]
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


def test_interrupt_cuts_the_baselines_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C each fabric is timed with the strategy found only, not with every start."""
    timed: list[object] = []
    original = fabric_strategy.simulate

    def counted(*values: Any) -> Any:
        timed.append(values)
        return original(*values)

    monkeypatch.setattr(fabric_strategy, "simulate", counted)
    result = run("solve", write(tmp_path, INSTANCE), "--out", tmp_path / "out", "--time-limit", 0, "--json")
    assert result.code == 4
    assert len(timed) == len(result.json["baselines_ms"])


def test_interrupt_while_the_program_loads() -> None:
    """Ctrl-C during the imports: exit code 130, a word on standard error, one JSON object, no traceback."""
    script = (
        "import builtins, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background shell leaves it ignored
        "from topoopt.cli.main import main\n"
        "original = builtins.__import__\n"
        "def importing(name, *rest, **named):\n"
        "    if name == 'typer':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return original(name, *rest, **named)\n"
        "builtins.__import__ = importing\n"
        "sys.argv = ['topoopt', 'doctor', '--json']\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 130
    assert result.stdout == '{"status": "unknown", "stopped_by": "interrupted", "exit_code": 130}\n'
    assert result.stderr == "interrupted\n"


def test_interrupt_of_a_command_without_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while an instance is read: exit code 130 and one JSON object that says so."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("topoopt.kinds.instance_file.parse_document", interrupted)
    result = run("validate", write(tmp_path, INSTANCE), "--json")
    assert result.code == 130
    assert result.json == {"status": "unknown", "stopped_by": "interrupted", "exit_code": 130}


def test_standard_output_that_takes_nothing() -> None:
    """A full device and a closed pipe end without a traceback; the former is an error, exit code 7."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = run_apart("schema", "--json", stdout=full)
    assert result.code == 7
    assert "standard output cannot be written" in result.stderr
    assert "Traceback" not in result.stderr
    reader, writer = os.pipe()
    os.close(reader)
    result = run_apart("schema", "--json", stdout=writer)
    os.close(writer)
    assert (result.code, result.stderr) == (1, "")
