"""`topoopt solve --jobs`: the same solution for any number of processes, and none of them left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.cli_cases import chain, job, refusals, run, searching, write

TOPOLOGY = {
    "schema_version": 1,
    "kind": "topology",
    "name": "n",
    "servers": 12,
    "degree": 3,
    "links": "unidirectional",
    "demand": {"family": "balanced-skew"},
    "search": {"method": "portfolio"},
}

INSTANCES = {
    "alternating": job(8, 3, chain(8, 6), search={"budget": 400, "method": "alternating"}),
    "best-allreduce": job(8, 3, chain(8, 6), search={"budget": 200, "method": "alternating", "allreduce": "best"}),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_the_solution_is_the_same_to_the_byte(tmp_path: Path, name: str) -> None:
    """One process, and two."""
    instance = write(tmp_path, INSTANCES[name])
    files = []
    for jobs in (1, 2):
        result = run("solve", instance, "--output", tmp_path / str(jobs), "--seed", 3, "--jobs", jobs, "--json")
        assert (result.code, result.json["check"]["ok"]) == (0, True)
        files.append((tmp_path / str(jobs) / "solution.json").read_bytes())
    assert files[0] == files[1]
    assert json.loads(files[0])["seed"] == 3


@pytest.mark.parametrize(("executor", "options"), [("dask", ()), ("slurm", ("--executor-option", "cluster=local"))])
def test_the_solution_is_the_same_from_other_machines(tmp_path: Path, executor: str, options: tuple[str, ...]) -> None:
    """Parts done by dask and by jobs of submitit, two at a time; nothing is left of them in the folder."""
    instance = write(tmp_path, job(6, 2, chain(6, 3), search={"budget": 60, "method": "alternating"}))
    assert run("solve", instance, "--output", tmp_path / "here").code == 0
    words = ("--output", tmp_path / "there", "--jobs", 2, "--executor", executor, *options, "--json")
    result = run("solve", instance, *words)
    assert result.code == 0, result.stderr
    files = {path.name for path in (tmp_path / "there").iterdir()}
    assert files == {path.name for path in (tmp_path / "here").iterdir()}
    assert (tmp_path / "there" / "solution.json").read_bytes() == (tmp_path / "here" / "solution.json").read_bytes()


def _options(*texts: str) -> tuple[str, ...]:
    return tuple(word for text in texts for word in ("--executor-option", text))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--executor", "abacus"), "no such executor (value: abacus); allowed: local, slurm, dask or MODULE:CALLABLE"),
        (("--executor-option", "scheduler=a"), "options of no executor (value: scheduler=a)"),
        (
            ("--executor", "dask", *_options("colour=red")),
            "--executor-option: unknown option of the executor (value: colour)",
        ),
        (("--executor", "dask", *_options("red")), "--executor-option: not a setting (value: red); allowed: KEY=VALUE"),
        (("--executor", "slurm", *_options("partition=")), "not a setting (value: partition=)"),
        (("--executor", "slurm", *_options("qos=a", "qos=b")), "--executor-option qos: set twice (value: b)"),
        (("--executor", "slurm", "--executor-option", "cluster=moon"), "no such cluster here"),
    ],
)
def test_executors_that_are_not_there(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """Exit code 2 and a message that names it; nothing is written, not even the folder."""
    instance = write(tmp_path, job(4, 2, chain(4, 2), search={"budget": 10, "method": "alternating"}))
    result = run("solve", instance, "--output", tmp_path / "out", *words, "--json")
    assert result.code == 2
    assert said in result.json["error"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("texts", [("red", "=b", "qos="), ("colour=red", "size=2")])
def test_options_that_are_wrong_are_listed_together(tmp_path: Path, texts: tuple[str, ...]) -> None:
    """Each is a problem of its own."""
    instance = write(tmp_path, job(4, 2, chain(4, 2), search={"budget": 10, "method": "alternating"}))
    words = ("--executor", "dask", *_options(*texts), "--json")
    result = run("solve", instance, "--output", tmp_path / "out", *words)
    assert result.code == 2
    assert [each["path"] for each in result.json["problems"]] == ["--executor-option"] * len(texts)


def test_other_kinds_refuse_an_executor(tmp_path: Path) -> None:
    """Their parts, where they have any, run on this machine."""
    result = run("solve", write(tmp_path, TOPOLOGY), "--output", tmp_path / "out", "--executor", "dask", "--json")
    assert result.code == 2
    assert [path for path, _, _ in refusals(result.json)] == ["--executor"]


def test_a_signal_ends_all_processes_and_keeps_the_best(tmp_path: Path) -> None:
    """An endless search by two processes is interrupted: exit code 130, a plan that the checker takes, no orphan."""
    instance = write(tmp_path, job(8, 3, chain(8, 6), search={"budget": 10**12}))
    with searching("solve", instance, "--output", tmp_path / "out", "--jobs", 2, "--json") as child:
        until = time.monotonic() + 120.0
        while len(members := _children(child.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(1.0)
        child.send_signal(signal.SIGTERM)
        stdout, stderr = child.communicate(timeout=300)
    assert (child.returncode, len(members)) == (130, 2)
    assert '"stopped_by": "interrupted"' in stdout
    assert "Traceback" not in stderr
    assert not [member for member in members if Path(f"/proc/{member}").exists()]
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


@pytest.mark.parametrize(("kind", "jobs", "code"), [("routing", 2, 2), ("routing", 1, 0), ("topology", 0, 2)])
def test_kinds_without_parts_refuse_processes(tmp_path: Path, kind: str, jobs: int, code: int) -> None:
    """A routing has no parts to share, and no search has less than one process."""
    routing = {
        "schema_version": 1,
        "kind": "routing",
        "name": "r",
        "topology": {"family": "torus", "dims": [2, 3]},
        "demand": {"family": "uniform"},
    }
    instance = write(tmp_path, routing if kind == "routing" else TOPOLOGY)
    result = run("solve", instance, "--output", tmp_path / "out", "--jobs", jobs, "--json")
    assert result.code == code
    if code:
        assert not os.path.exists(tmp_path / "out" / "solution.json")


def _children(parent: int) -> list[int]:
    """Processes of a process that work for its search."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            fields = (place / "stat").read_text().rsplit(")", 1)[1].split() if place.name.isdigit() else []
            words = (place / "cmdline").read_bytes() if fields and int(fields[1]) == parent else b""
        except OSError:
            continue
        if b"from solvers.processes" in words:
            found.append(int(place.name))
    return found
