"""Ctrl-C at every stage of a solve: exit code 130, and from the start of the search on a valid plan on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from solvers.network.routing import ROUTING_METHODS
from tests.support.cli_cases import ROOT, chain, job, run, run_apart, searching, write
from tests.support.hanging import LIMIT_S, endless, time_passes
from topoopt.core.result import Result
from topoopt.kinds.job import methods as search
from topoopt.page import render

__all__ = ["time_passes"]

pytestmark = pytest.mark.usefixtures("time_passes")

INSTANCE = job(8, 3, chain(8, 6), search={"budget": 10**12})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_in_the_middle_of_the_search(tmp_path: Path, number: signal.Signals) -> None:
    """An endless search is interrupted: exit code 130, solution and report are there, the checker takes the plan."""
    instance = write(tmp_path, INSTANCE)
    with searching("solve", instance, "--output", tmp_path / "out", "--json") as child:
        time.sleep(0.3)
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=300)
    assert child.returncode == 130
    assert '"stopped_by": "interrupted"' in stdout
    assert "Traceback" not in stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "solution.json"]
    checked = run("check", instance, tmp_path / "out" / "solution.json", "--json")
    assert (checked.code, checked.json["ok"]) == (0, True)


@pytest.mark.parametrize(("module", "step"), [(search, "compare_fabrics"), (Result, "judged"), (render, "render_page")])
def test_interrupt_after_the_search(tmp_path: Path, module: Any, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the baselines run, the plan is checked or the report is made: the plan is still written, exit code 130."""
    original = getattr(module, step)

    def interrupted(*values: Any, **fields: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return original(*values, **fields)

    monkeypatch.setattr(module, step, interrupted)
    instance = write(tmp_path, job(6, 2, chain(6)))
    result = run("solve", instance, "--output", tmp_path / "out", "--json")
    assert result.code == 130
    assert result.json["check"]["ok"]
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


@pytest.mark.parametrize(
    ("module", "step", "left_out"),
    [
        ("solvers.job.fabrics.search_strategy", "baselines_ms", "baseline ideal-switch"),
        ("topoopt.kinds.job.methods.prove_bound", "bound", "bound of the strategy program"),
        ("topoopt.kinds.job.methods.instance_bounds", "bound", "bound on traffic"),
    ],
)
def test_what_has_no_time_is_left_out_and_named(
    tmp_path: Path, module: str, step: str, left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps after the search that look at no clock are left at the limit: the plan stands, the notes say what lacks."""
    monkeypatch.setattr(module, endless)
    instance = write(tmp_path, {**INSTANCE, "search": {"budget": 100}})
    result = run("solve", instance, "--output", tmp_path / "out", "--time-limit", LIMIT_S, "--json")
    assert result.code in (0, 4, 8)
    assert left_out in " ".join(result.json["notes"])
    assert "left out (time limit)" in " ".join(result.json["notes"])
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


def test_a_search_that_looks_at_no_clock_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best plan that the loop had is written when its annealing never ends."""
    monkeypatch.setattr("solvers.job.loop.anneal", endless)
    instance = write(tmp_path, INSTANCE)
    result = run("solve", instance, "--output", tmp_path / "out", "--time-limit", LIMIT_S, "--json")
    assert (result.code, result.json["stopped_by"]) == (4, "time")
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


def test_a_topology_search_that_looks_at_no_clock_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best seed is written when the annealing never ends."""
    monkeypatch.setattr("solvers.network.annealing.anneal", endless)
    shape = {"servers": 12, "degree": 3, "links": "unidirectional", "demand": {"family": "balanced-skew"}}
    instance = write(tmp_path, {"schema_version": 1, "kind": "topology", "name": "n", **shape})
    options = ("--method", "portfolio", "--time-limit", LIMIT_S, "--json")
    result = run("solve", instance, "--output", tmp_path / "out", *options)
    assert (result.code, result.json["stopped_by"]) == (4, "time")
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


def test_a_routing_that_looks_at_no_clock_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortest paths were offered before the method hung: they are the result, with the bound of their lengths."""

    def hanging(proof: Any) -> int:
        proof.offer_shortest()
        return endless()

    monkeypatch.setitem(ROUTING_METHODS, "simplex", hanging)
    shape = {"topology": {"family": "torus", "dims": [4, 4]}, "demand": {"family": "balanced-skew"}}
    instance = write(tmp_path, {"schema_version": 1, "kind": "routing", "name": "n", **shape})
    options = ("--method", "simplex", "--time-limit", LIMIT_S, "--json")
    result = run("solve", instance, "--output", tmp_path / "out", *options)
    assert (result.code, result.json["stopped_by"]) == (4, "time")
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


@pytest.mark.parametrize("step", ["topoopt.kinds.files.parse_document", "topoopt.cli.solve.kind_named"])
def test_reading_counts_against_the_limit(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that is read for ever, solvers that load for ever: exit code 5 at the limit, nothing written."""
    monkeypatch.setattr(step, endless)
    words = ("solve", write(tmp_path, INSTANCE), "--output", tmp_path / "out", "--time-limit", LIMIT_S, "--json")
    result = run(*words)
    assert (result.code, result.json["error"]) == (5, "the time limit came before anything was found")
    assert not (tmp_path / "out").exists()


def test_a_report_that_has_no_time_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solution is written without its page, which is named; the page of an older solution is gone."""
    instance, out = write(tmp_path, {**INSTANCE, "search": {"budget": 100}}), tmp_path / "out"
    assert run("solve", instance, "--output", out).code == 0
    monkeypatch.setattr("topoopt.page.render.render_page", endless)
    result = run("solve", "--force", instance, "--output", out, "--time-limit", LIMIT_S, "--json")
    assert (result.code, result.json["report"]) == (0, None)
    assert "left out (no time): report.html" in result.stderr
    assert [path.name for path in out.iterdir()] == ["solution.json"]
    monkeypatch.undo()
    assert run("report", out / "solution.json", "-o", tmp_path / "r.html").code == 0


def test_a_check_that_was_cut_off_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan whose check has no time is written, says so, and is never called optimal."""
    monkeypatch.setattr("topoopt.kinds.pipeline.BRIEF", None)
    monkeypatch.setattr("topoopt.kinds.pipeline.replace", _endless_for(None))
    instance = write(tmp_path, {**INSTANCE, "search": {"budget": 100}})
    result = run("solve", instance, "--output", tmp_path / "out", "--time-limit", LIMIT_S, "--json")
    assert result.code in (4, 8)
    assert result.json["check"]["not_recomputed"][0]["figure"] == "all figures"
    assert result.json["status"] == "feasible"
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


def _endless_for(subject: object) -> Any:
    """`dataclasses.replace`, which never ends for one subject."""
    return lambda one, **changes: endless() if one is subject else replace(one, **changes)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["co-optimisation", "topology"])
def test_a_memory_limit_that_is_too_small(tmp_path: Path, kind: str) -> None:
    """A megabyte is not enough for anything: exit code 5, one clear line, no traceback, nothing written."""
    network = {
        "schema_version": 1,
        "kind": kind,
        "name": "n",
        "servers": 8,
        "degree": 2,
        "demand": {"family": "uniform"},
    }
    instance = write(tmp_path, INSTANCE if kind == "co-optimisation" else network)
    result = run("solve", instance, "--output", tmp_path / "out", "--memory-limit", "1MB", "--json")
    assert result.code == 5
    assert result.json["error"] == "the memory limit of 0.000931 GiB was reached before anything was found"
    assert not (tmp_path / "out").exists()
    wrong = run("solve", "--force", instance, "--output", tmp_path / "out", "--memory-limit", "much", "--json")
    assert (wrong.code, wrong.json["problems"][0]["path"]) == (2, "--memory-limit")


def test_memory_that_is_refused_keeps_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses a step of the search its memory: the best so far is written, and says why it is no better."""

    def hungry(*values: object, **named: object) -> Any:
        raise MemoryError

    monkeypatch.setattr("solvers.job.loop.anneal", hungry)
    instance = write(tmp_path, INSTANCE)
    result = run("solve", instance, "--output", tmp_path / "out", "--memory-limit", "100GiB", "--json")
    assert (result.code, result.json["stopped_by"]) == (4, "memory")
    assert "left out (memory limit)" in " ".join(result.json["notes"])
    monkeypatch.undo()
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


HANGING = """
import os, signal, sys, time
from topoopt.cli.main import main
import {module} as module
original = module.{name}
signals = list({signals})
def hanging(*values, **named):
    while signals:
        os.kill(os.getpid(), signals.pop(0))
        time.sleep(0.5)
    if {hangs}:
        while True:
            pass
    return original(*values, **named)
module.{name} = hanging
sys.argv = ["topoopt", "solve", {instance!r}, "--output", {out!r}, "--json"]
main()
"""


@pytest.mark.parametrize("numbers", [("SIGINT", "SIGINT"), ("SIGTERM", "SIGHUP")], ids="-".join)
@pytest.mark.parametrize(
    ("module", "name", "hangs", "doing"),
    [
        ("solvers.job.loop", "anneal", True, "start"),
        ("solvers.job.alternate", "plan_of", False, "routes"),
        ("solvers.job.fabrics", "search_strategy", True, "baseline ideal-switch"),
        ("topoopt.kinds.job.methods", "instance_bounds", True, "bound on traffic"),
        ("topoopt.page.render", "render_page", False, "files"),
    ],
)
def test_the_second_signal_leaves_what_hangs(
    tmp_path: Path, module: str, name: str, hangs: bool, doing: str, numbers: tuple[str, ...]
) -> None:
    """Two signals in any phase: the first says at once what goes on, the second writes a plan that passes the check."""
    document = {**INSTANCE, "search": {"budget": 200}}
    instance, out = write(tmp_path, document), tmp_path / "out"
    signals = "(" + ", ".join(f"signal.{each}" for each in numbers) + ")"
    words = {"module": module, "name": name, "hangs": hangs, "signals": signals}
    script = HANGING.format(**words, instance=str(instance), out=str(out))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert f"finishing: {doing}; Ctrl-C again to stop with what is there" in done.stderr
    assert run("check", instance, out / "solution.json").code == 0


@pytest.mark.parametrize(
    ("module", "name"), [("topoopt.kinds.files", "parse_document"), ("topoopt.cli.solve", "kind_named")]
)
def test_one_signal_ends_what_comes_first(tmp_path: Path, module: str, name: str) -> None:
    """While files are read and solvers load there is nothing to keep: one Ctrl-C, exit code 130, no traceback."""
    words = {"module": module, "name": name, "hangs": True, "signals": "(signal.SIGINT,)"}
    script = HANGING.format(**words, instance=str(write(tmp_path, INSTANCE)), out=str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert '"stopped_by": "interrupted"' in done.stdout


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


def test_no_interrupt_is_raised_inside_an_import(tmp_path: Path) -> None:
    """There it might surface as any other error: it comes once the module is loaded."""
    (tmp_path / "interrupted_module.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(0.1)\n"
        "except BaseException:\n"
        "    raise TypeError('expected a message argument') from None\n"
    )
    script = (
        "import signal, sys, time\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from topoopt.core.process import hold_interrupts, leave_on_interrupt, raise_on_interrupt\n"
        "leave_on_interrupt()\n"
        "raise_on_interrupt()\n"
        "try:\n"
        "    import interrupted_module\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    hold_interrupts()\n"
        "    print('loaded', 'interrupted_module' in sys.modules)\n"
    )
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "loaded True\n", "")


def test_interrupt_of_a_command_without_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while an instance is read: exit code 130 and one JSON object that says so."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("topoopt.kinds.files.parse_document", interrupted)
    result = run("validate", write(tmp_path, INSTANCE), "--json")
    assert result.code == 130
    assert result.json == {"status": "unknown", "stopped_by": "interrupted", "exit_code": 130}


@pytest.mark.parametrize(
    "words", [("describe", "topology", "--schema", "--json"), ("schema", "--json"), ("--help",), ("--version",)]
)
def test_standard_output_that_takes_nothing(words: tuple[str, ...]) -> None:
    """A full device and a closed pipe end without a traceback; the former is an error, exit code 7."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = run_apart(*words, stdout=full)
    assert result.code == 7
    assert "standard output cannot be written" in result.stderr
    assert "Traceback" not in result.stderr
    reader, writer = os.pipe()
    os.close(reader)
    result = run_apart(*words, stdout=writer)
    os.close(writer)
    assert (result.code, result.stderr) == (1, "")
