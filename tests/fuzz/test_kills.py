"""SIGKILL at random moments: nothing half-written, no row lost or twice, and the same command goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.fuzz.killing import OUT, WRITING
from tests.support.cli_cases import write
from tests.support.paths import INSTANCES, ROOT
from tests.support.sized_instances import SMALL
from tests.support.study_cases import routing, study
from topoopt.studies.execute import read_rows
from topoopt.studies.results import TIMES

FEW = 3
MANY = 200
"""Kills in `make test`, and in the heavy tests."""

CALLS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.heavy)]
PATIENCE_S = 300.0


def command(*words: object) -> list[str]:
    """A command line in a process of its own."""
    return [sys.executable, "-m", "topoopt.cli.main", *map(str, words)]


def finished(*words: object) -> Any:
    """What a command that is left alone prints with --json."""
    done = subprocess.run(
        [*command(*words), "--json"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def drawn(kills: int, seed: int) -> list[float]:
    """Moments within the time that a command takes and a fifth more."""
    moments: list[float] = np.random.default_rng(seed).uniform(0.0, 1.2, kills).tolist()
    return moments


def killed_at(
    words: Sequence[object], calm: Path, out: Path, moments: Sequence[float], look: Callable[[], object]
) -> None:
    """Run a command to its end in one folder, kill it at these moments in the other, look there each time, and run it
    to its end there too."""
    driver = [sys.executable, "-m", "tests.fuzz.killing", json.dumps(moments), *map(str, (calm, out, *words))]
    with subprocess.Popen(driver, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018
        seen = 0
        for _ in process.stdout:
            look()
            seen += 1
            process.stdin.write("\n")
            process.stdin.flush()
    assert (process.returncode, seen) == (0, len(moments))


def leftovers(folder: Path) -> list[str]:
    """Files of writers that did not come to their end."""
    return [str(path) for path in folder.rglob("*") if path.name.endswith(".tmp")]


KINDS = [
    pytest.param("allocation", [0.2], id="at the start"),
    pytest.param("circuits", [0.6], id="in the middle"),
    pytest.param("dimensions", [WRITING], id="writing"),
    *(pytest.param(name, drawn(MANY // len(SMALL), 1), id=name, marks=pytest.mark.heavy) for name in SMALL),
]


@pytest.mark.parametrize(("kind", "moments"), KINDS)
def test_solve(kind: str, moments: list[float], tmp_path: Path) -> None:
    """A solution file is whole or not there; in the end it has the bytes of one that was never disturbed."""
    instance = write(tmp_path, {"schema_version": 1, "name": "case", **SMALL[kind]})
    words = ("solve", instance, "--seed", 1, "--force", "--output")
    calm, out = tmp_path / "calm", tmp_path / "out"

    def look() -> None:
        if (out / "solution.json").exists():
            assert (out / "solution.json").read_bytes() == (calm / "solution.json").read_bytes()
        if (out / "report.html").exists():
            assert (out / "report.html").read_bytes().endswith(b"</html>\n")

    killed_at((*words, OUT), calm, out, moments, look)
    assert json.loads((calm / "solution.json").read_bytes())["check"]["ok"] is True
    for name in ("solution.json", "report.html"):
        assert (out / name).read_bytes() == (calm / name).read_bytes()
    assert not leftovers(out)


RUNS = 4


def a_study(folder: Path) -> tuple[object, ...]:
    """Words that run a small study, but for its folder."""
    file = folder / "study.json"
    file.write_text(json.dumps(study({"instance": routing(), "seeds": {"count": RUNS}})))
    return ("study", "run", file, "--jobs", 2, "--output")


@pytest.mark.parametrize("kills", CALLS)
def test_study(kills: int, tmp_path: Path) -> None:
    """A study that is killed goes on, and its table is that of one that was not; what is complete begins anew."""
    words, calm, out = a_study(tmp_path), tmp_path / "calm", tmp_path / "out"
    completed = 0

    def whole() -> None:
        finished("study", "report", out)
        assert rows(out / "results.parquet") == rows(calm / "results.parquet")
        assert not list((out / "unfinished").iterdir())
        assert not leftovers(out)

    def look() -> None:
        nonlocal completed
        kept = read_rows(out)
        assert all(row.outcome == "done" for row in kept.values())
        if len(kept) == RUNS:
            if not (calm / "results.parquet").exists():
                finished("study", "report", calm)
            finished(*words, out)
            whole()
            shutil.rmtree(out)
            completed += 1

    killed_at((*words, OUT), calm, out, drawn(kills, 2), look)
    finished("study", "report", calm)
    whole()
    assert completed or kills < MANY


@pytest.mark.parametrize("kills", CALLS)
def test_table(kills: int, tmp_path: Path) -> None:
    """The table is the old one or the new one, never half of one."""
    words, out = a_study(tmp_path), tmp_path / "out"
    finished(*words, out)
    finished("study", "report", out)
    table = out / "results.parquet"
    true = rows(table)
    killed_at(("study", "report", OUT), out, out, drawn(kills, 3), lambda: same(rows(table), true))
    same(rows(table), true)
    assert not leftovers(out)


def same(found: object, due: object) -> None:
    """As an assertion."""
    assert found == due


def rows(table: Path) -> list[dict[str, Any]]:
    """Rows of a table without what the runs took."""
    return [
        {name: value for name, value in row.items() if name not in TIMES} for row in pq.read_table(table).to_pylist()
    ]


def test_a_child_that_ignores_sigterm(tmp_path: Path) -> None:
    """A run that does not end when its time is over is killed, and told as timed out; the study ends."""
    file = tmp_path / "study.json"
    stubborn = {"instance": routing("stubborn"), "limits": {"wall_s": 1.0, "memory_mib": 1500}}
    file.write_text(json.dumps(study(stubborn, {"instance": routing("good")})))
    program = (
        "import sys\nfrom topoopt.studies.expand import read_study\nfrom topoopt.studies.runner import run_study\n"
        "tally = run_study(read_study(sys.argv[1]), sys.argv[2], jobs=2, program='tests.support.misbehave:main')\n"
        "print(tally['failed'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(file), str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'timed-out': 1}"


def test_read_only_installation(tmp_path: Path) -> None:
    """Where nothing can be written but the folder asked for, an instance is solved all the same."""
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no mount namespaces here")
    out = tmp_path / "out"
    words = " ".join(command("solve", ROOT / "instances/networks/k4-4.yaml", "--output", out, "--json"))
    script = f"mount --bind {ROOT} {ROOT} && mount -o remount,bind,ro {ROOT} && cd {ROOT} && {words}"
    environment = {**os.environ, "XDG_CACHE_HOME": "/proc/nowhere", "HOME": "/proc"}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["check"]["ok"] is True


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system with room for a few files; skipped where none can be made."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no file system of a few kilobytes can be mounted here")
    return place


def test_full_disk_of_solve(small_disk: Path) -> None:
    """A plan that finds no room is not half there; with room the same command writes it."""
    try:
        words = ("solve", INSTANCES / "networks/k4-4.yaml", "--seed", 1, "--output", small_disk / "out")
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"\0" * 92 * 1024)
        done = subprocess.run(
            command(*words), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 7, done.stderr
        assert "No space left" in done.stderr
        assert "Traceback" not in done.stderr
        for path in small_disk.rglob("*.*"):
            assert path.name == "solution.json", path  # what there was room for is whole
            assert json.loads(path.read_bytes())["check"]["ok"] is True
        ballast.unlink()
        finished(*words, "--force")
        assert (small_disk / "out/solution.json").exists()
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=False, capture_output=True)


def test_full_disk_of_the_table(small_disk: Path, tmp_path: Path) -> None:
    """A table that finds no room leaves the old one, or none; with room the same command writes it."""
    ballast, out = small_disk / "ballast", small_disk / "out"
    try:
        subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
        words, calm = a_study(tmp_path), tmp_path / "calm"
        finished(*words, calm)
        finished("study", "report", calm)
        true = rows(calm / "results.parquet")
        shutil.copytree(calm, out, ignore=shutil.ignore_patterns("results.parquet", "report.*"))
        for old in (False, True):
            before = sorted(path.name for path in out.iterdir())
            fill(ballast)
            done = subprocess.run(
                command("study", "report", out, "--force"),
                cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            assert done.returncode == 7, done.stderr
            assert "No space left" in done.stderr
            assert "Traceback" not in done.stderr
            assert sorted(path.name for path in out.iterdir()) == before
            if old:
                same(rows(out / "results.parquet"), true)
            ballast.unlink()
            finished("study", "report", out, "--force")
            same(rows(out / "results.parquet"), true)
            assert not leftovers(out)
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=False, capture_output=True)


def fill(ballast: Path) -> None:
    """Write until the disk takes no more."""
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
